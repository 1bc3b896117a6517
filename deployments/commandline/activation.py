"""Environments that a shell would activate: resolved to the full path of the program in them. PURE.

Where it cannot be known which program is meant, a sentence says what to write.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from deployments.commandline.prefixes import name_of, split_prefix

IN_IT = re.compile(r"python[0-9.]*|vllm|sglang|torchrun|accelerate|uvicorn")
"""Programs that an environment for a server has of its own."""
CONDA = ("conda", "mamba", "micromamba")
CONDA_HOOK = re.compile(r"\$\((?:(?P<base>/\S+)/(?:bin|condabin)/)?(?:conda|mamba|micromamba) shell")
CONDA_RUN_ALONE = ("--no-capture-output", "--live-stream", "-v", "--verbose", "--debug-wrapper-scripts")
NOT_ACTIVATED = (
    "The environment is not activated: {} is started by its full path. What the server itself looks for by name (nvcc, "
    "ninja) is looked for where the login of the host looks."
)
WHOLE = "Write the full path of its python in place of the activation, for example {}."


@dataclass(frozen=True)
class Environment:
    """What was activated so far: ``bin`` is the folder of its programs, ``base`` where conda is installed."""

    bin: str = ""
    base: str = ""


def activated(words: Sequence[str], known: Environment, *, workdir: str) -> Environment | None:
    """The environment after a statement such as ``source X/bin/activate``; None where the statement is none.

    Raises ValueError with a sentence where it cannot be said which environment is meant.
    """
    first, rest = words[0], words[1:]
    if first in ("source", ".") and rest:
        return _sourced(rest, known, workdir=workdir)
    if name_of(first) in CONDA and rest[:1] == ["activate"] and len(rest) == 2:
        base = _base_of(first) or known.base
        return Environment(_bin_of(rest[1], base=base), base)
    if first == "eval" and len(rest) == 1 and (hook := CONDA_HOOK.match(rest[0])):
        return Environment(known.bin, hook["base"] or known.base)
    return None


def _sourced(rest: Sequence[str], known: Environment, *, workdir: str) -> Environment:
    script, names = rest[0], rest[1:]
    if script.endswith("/etc/profile.d/conda.sh") and script.startswith("/") and not names:
        return Environment(known.bin, script.removesuffix("/etc/profile.d/conda.sh"))
    if script != "activate" and not script.endswith("/activate"):
        raise ValueError(
            f"{script!r} would be run by a shell, which the panel does not use. Leave it out; what it sets belongs "
            "into Environment, and an environment's python is written with its full path."
        )
    folder = script.rpartition("/")[0]
    if not script.startswith("/"):
        if not workdir.startswith("/"):
            raise ValueError(f"Where {script} lies is not known. " + WHOLE.format("/srv/venv/bin/python"))
        folder = f"{workdir.rstrip('/')}/{folder.removeprefix('./')}"
    if ".." in folder.split("/"):
        raise ValueError(f"{script!r} goes up a folder. " + WHOLE.format("/srv/venv/bin/python"))
    base = folder.removesuffix("/bin")
    return Environment(_bin_of(names[0], base=base), base) if names else Environment(folder, known.base)


def _bin_of(name: str, *, base: str) -> str:
    """The folder of the programs of a conda environment, given by name or by its folder."""
    if name.startswith("/"):
        return f"{name.rstrip('/')}/bin"
    if "/" in name or not base:
        raise ValueError(
            f"In which folder the conda environment {name!r} lies is not known. "
            + WHOLE.format(f"/opt/conda/envs/{name_of(name)}/bin/python")
            + f" “conda run -n {name} which python” shows it."
        )
    return f"{base}/bin" if name == "base" else f"{base}/envs/{name}/bin"


def _base_of(program: str) -> str:
    """Where conda is installed, from the full path of its program; empty where only its name is given."""
    found = re.fullmatch(r"(/.+)/(?:bin|condabin)/\w+", program)
    return found[1] if found else ""


def located(words: list[str], environment: Environment) -> list[str]:
    """The command with its program's full path in the environment. Raises ValueError where that is not known."""
    prefix, rest = split_prefix(words)
    if not environment.bin or not rest or "/" in rest[0]:
        return words
    if not IN_IT.fullmatch(rest[0]):
        raise ValueError(
            f"Whether {rest[0]!r} lies in the activated environment is not known. Write its full path, for example "
            f"{environment.bin}/{rest[0]}."
        )
    return [*prefix, f"{environment.bin}/{rest[0]}", *rest[1:]]


def after_conda_run(words: Sequence[str], known: Environment) -> tuple[Environment, list[str]]:
    """``conda run -n X python ...`` as the environment and the command in it. Raises ValueError with a sentence."""
    base = _base_of(words[0]) or known.base
    found, at = Environment(base=base), 2
    while at < len(words) and words[at].startswith("-"):
        option, equals, value = words[at].partition("=")
        at += 1
        if option in CONDA_RUN_ALONE and not equals:
            continue
        if not equals:
            value, at = (words[at] if at < len(words) else ""), at + 1
        if option not in ("-n", "--name", "-p", "--prefix") or not value:
            raise ValueError(f"conda run {option} is not understood. " + WHOLE.format("/opt/conda/envs/x/bin/python"))
        if option in ("-p", "--prefix") and not value.startswith("/"):
            raise ValueError(f"{value!r} is not a full path. Write the environment's folder from / on.")
        found = Environment(_bin_of(value, base=base), base)
    if not found.bin:
        raise ValueError("conda run without -n or -p names no environment. " + WHOLE.format("/opt/conda/bin/python"))
    return found, list(words[at:])
