"""Find an installed engine without importing it, and say which flags its source gives. PURE.

Runs on the host (see ``values.py``): started by ``read.sh``, which gives ENGINE, FORM, KNOWN and TOKEN in the
environment.
"""

from __future__ import annotations

import gc
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

from deployments.catalogue.onhost.arguments import ArgumentReader
from deployments.catalogue.onhost.evaluate import TooMuch
from deployments.catalogue.onhost.package import Package
from deployments.catalogue.onhost.record import argument
from deployments.catalogue.onhost.values import PARSER, ClassRef, FuncRef

READER = 1
"""Of the way to read; a catalogue that an older one has read is read anew."""
ENTRIES = {
    "sglang": [("sglang.srt.server_args", "ServerArgs.add_cli_args")],
    "vllm": [("vllm.entrypoints.openai.cli_args", "make_arg_parser")],
    "vllm serve": [
        ("vllm.entrypoints.cli.serve", "ServeSubcommand.subparser_init"),
        ("vllm.entrypoints.openai.cli_args", "make_arg_parser"),
    ],
}
STAMPED = {
    "sglang": ["srt/server_args.py", "srt/arg_groups/**/*.py", "srt/parser/reasoning_parser*.py",
               "srt/function_call/*parser*.py"],
    "vllm": ["engine/arg_utils.py", "entrypoints/openai/cli_args.py", "entrypoints/cli/serve.py", "config/*.py"],
}  # fmt: skip
"""The files whose change means another catalogue."""
MOST_MEMORY = 1024**3
MOST_CPU_SECONDS = 20


def find(engine: str) -> Path | None:
    """The directory of an engine's package, as this interpreter would import it."""
    try:
        spec = importlib.util.find_spec(engine)
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or []) if spec is not None else []
    return Path(places[0]) if places else None


def version_of(engine: str) -> str:
    """The version of an installed distribution; empty when it is not told."""
    try:
        return importlib.metadata.version(engine)
    except importlib.metadata.PackageNotFoundError:
        return ""


def stamp_of(engine: str, root: Path, version: str) -> str:
    """Changes when the engine is installed anew or its argument source is edited."""
    facts = [str(READER), version, str(root), sys.executable]
    for pattern in STAMPED[engine]:
        for path in sorted(root.glob(pattern)):
            status = path.stat()
            facts.append(f"{path.relative_to(root)} {status.st_size} {status.st_mtime_ns}")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def read(engine: str, root: Path, *, form: str = "") -> dict[str, Any]:
    """The arguments that the source of the package below ``root`` gives, and what could not be followed."""
    package = Package(engine, root)
    reader = ArgumentReader(package)
    try:
        for module, name in ENTRIES.get(f"{engine} {form}".strip(), ENTRIES[engine]):
            function = _entry(reader, module, name)
            if function is not None:
                reader.run(function, [PARSER])
                break
        else:
            reader.gaps.append("its arguments are not where they are known to be")
    except (TooMuch, RecursionError):
        reader.gaps.append("its source is too involved")
    if f"{engine} {form}" == "sglang serve":
        reader.found += _of_serve(package)
    return {"arguments": reader.found, "gaps": sorted(set(reader.gaps))[:20], "files": len(package.files)}


def _of_serve(package: Package) -> list[dict[str, Any]]:
    """What `sglang serve` takes beside the server's own arguments; it takes them out of the words by hand."""
    module = package.module("sglang.cli.serve")
    names = module.names if module is not None else {}
    found = []
    if "_extract_model_type_override" in names:
        found.append(argument(["--model-type"], {"help": "Which kind of server to start, instead of by the model."}))
    if "_normalize_positional_model_path" in names:
        found.append(argument(["model"], {"nargs": "?", "help": "The model, in front of all flags."}))
    return found


def _entry(reader: ArgumentReader, module_name: str, name: str) -> FuncRef | None:
    module = reader.package.module(module_name)
    if module is None:
        return None
    found: Any = None
    for part in name.split("."):
        found = reader.attribute(found, part) if isinstance(found, ClassRef) else reader.package.lookup(part, module)
    return found if isinstance(found, FuncRef) else None


def _peak_kib() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0


def main() -> None:
    """Say it in one line of JSON behind the token."""
    begun = time.monotonic()
    gc.disable()
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_SECONDS, MOST_CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    told = {name: os.environ.get(f"RELAUNCH_{name}", "") for name in ("ENGINE", "FORM", "KNOWN", "TOKEN", "SCRIPT")}
    # As the interpreter would search: for a script in the script's directory, for -m in the working directory.
    if sys.path[:1] == [""]:
        sys.path[0] = str(Path(told["SCRIPT"]).resolve().parent) if told["SCRIPT"] else str(Path.cwd())
    engine, root = told["ENGINE"], find(told["ENGINE"])
    answer: dict[str, Any] = {"interpreter": sys.executable, "python": ".".join(map(str, sys.version_info[:3]))}
    if root is not None:
        version = version_of(engine)
        stamp = stamp_of(engine, root, version)
        answer.update({"package": str(root), "version": version, "stamp": stamp, "same": stamp == told["KNOWN"]})
        if not answer["same"]:
            answer.update(read(engine, root, form=told["FORM"]))
    answer.update({"seconds": round(time.monotonic() - begun, 3), "peak_kib": _peak_kib()})
    sys.stdout.write(f"@{told['TOKEN']} {json.dumps(answer)}\n")


if __name__ == "__main__":
    main()
