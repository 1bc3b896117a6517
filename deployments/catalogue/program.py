"""Which installation of an engine a command starts, and which of its words are the engine's. PURE."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

PYTHON = re.compile(r"python[\d.]*")
ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.S)
MODULES = {
    "sglang": ("sglang.launch_server", "sglang.srt.entrypoints.http_server"),
    "vllm": ("vllm.entrypoints.openai.api_server",),
}
SEARCH_OPTIONS = ("-I", "-E", "-s", "-S", "-P")
"""Options of Python that change where it looks for packages."""
VALUED_OPTIONS = ("-X", "-W")
ELSEWHERE = frozenset(
    ["docker", "podman", "nerdctl", "apptainer", "singularity", "enroot", "kubectl", "ssh", "srun", "sudo", "su",
     "chroot", "nsenter", "uv", "uvx", "pipx", "conda", "mamba", "micromamba", "pixi", "poetry", "ray", "mpirun",
     "torchrun", "sh", "bash", "dash"]
)  # fmt: skip
"""Programs behind which other files, another user or another Python are."""
SEARCHED = ("PATH", "LD_LIBRARY_PATH", "HOME")


@dataclass(frozen=True)
class Program:
    """How an engine's own program is found on a host.

    ``word``: the command's word for it. ``kind``: python, script or binary. ``options``: of Python, which change where
    it looks. ``form``: ``serve`` for the engine's own command. ``help``: the words that print its help.
    ``args``: the engine's own words.
    """

    engine: str
    kind: str
    word: str
    args: tuple[str, ...]
    help: tuple[str, ...]
    options: tuple[str, ...] = ()
    form: str = ""
    workdir: str = ""
    surroundings: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> str:
        """The same for commands that start the same installation; for people, too."""
        place = f" in {self.workdir}" if self.workdir else ""
        more = "".join(f" {name}={value}" for name, value in self.surroundings)
        words = " ".join(word for word in (self.word, *self.options, self.form) if word)
        return f"{words}{place}{more}"

    @property
    def digest(self) -> str:
        """The key in a fixed length."""
        return hashlib.sha256(self.key.encode()).hexdigest()

    def plain(self) -> dict[str, Any]:
        """As it is stored, without the command's own words."""
        return asdict(self) | {"args": ()}


def program_from(plain: Mapping[str, Any]) -> Program:
    """The program that was stored."""
    surroundings = tuple((name, value) for name, value in plain["surroundings"])
    tuples = {"args": (), "help": tuple(plain["help"]), "options": tuple(plain["options"])}
    return Program(**{**plain, **tuples, "surroundings": surroundings})


@dataclass(frozen=True)
class NoProgram:
    """Why the command does not show which installation it starts."""

    reason: str


def program_of(
    engine: str, argv: Sequence[str], *, env: Mapping[str, str], workdir: str, container: object = None
) -> Program | NoProgram:
    """The engine's program in a command, as it is launched with ``env`` in ``workdir``; ``container``: around it."""
    if container:
        return NoProgram("The engine is inside a container image, whose files cannot be read from here.")
    if engine not in (*MODULES, "llama_server"):
        return NoProgram("Flags are known of SGLang, vLLM and llama-server only.")
    for position, word in enumerate(argv):
        name = word.rpartition("/")[2]
        if name in ELSEWHERE:
            return NoProgram(
                f"The engine is started through {name}; which installation that is cannot be seen from here."
            )
        found = _at(engine, argv, position)
        if found is not None:
            before = {match[1]: match[2] for word in argv[:position] if (match := ASSIGNMENT.fullmatch(word))}
            return _placed(found, {**env, **before}, workdir)
    return NoProgram("The command does not show which program of the engine it starts.")


def _at(engine: str, argv: Sequence[str], position: int) -> Program | None:
    """The engine's program, if it begins at ``position``."""
    word, rest = argv[position], list(argv[position + 1 :])
    name = word.rpartition("/")[2]
    if engine == "llama_server":
        return Program(engine, "binary", word, tuple(rest), ("--help",)) if name.startswith("llama-server") else None
    if name == engine and rest[:1] == ["serve"]:
        return Program(engine, "script", word, tuple(rest[1:]), _help(engine, "serve"), form="serve")
    return _of_python(engine, word, rest) if PYTHON.fullmatch(name) else None


def _of_python(engine: str, word: str, rest: list[str]) -> Program | None:
    """``python -m engine.module``, or ``python /path/engine serve``."""
    options = []
    while rest and rest[0].startswith("-") and rest[0] != "-m":
        options += [rest[0]] if rest[0] in SEARCH_OPTIONS else []
        rest = rest[2:] if rest[0] in VALUED_OPTIONS else rest[1:]
    kept = tuple(options)
    if rest[:1] == ["-m"] and rest[1:2] and rest[1] in MODULES[engine]:
        return Program(engine, "python", word, tuple(rest[2:]), _help(engine, "-m", rest[1]), kept)
    if rest[1:2] == ["serve"] and rest[0].rpartition("/")[2] == engine:
        return Program(engine, "python", word, tuple(rest[2:]), _help(engine, rest[0], "serve"), kept, form="serve")
    return None


def _help(engine: str, *words: str) -> tuple[str, ...]:
    return (*words, "--help=all" if engine == "vllm" else "--help")


def _placed(found: Program, env: Mapping[str, str], workdir: str) -> Program:
    """With what decides where its files are: the working directory does for ``-m``, and for a relative path."""
    by_place = found.kind == "python" or not found.word.startswith("/")
    around = {name: value for name, value in env.items() if name in SEARCHED or name.startswith("PYTHON")}
    return Program(
        found.engine, found.kind, found.word, found.args, found.help, found.options, found.form,
        workdir=workdir if by_place else "", surroundings=tuple(sorted(around.items())),
    )  # fmt: skip
