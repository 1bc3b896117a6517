"""The script that reads an engine's flags on a host, and what its answer says. PURE.

A script goes to ``sh`` on stdin, values quoted into assignments at its top, as those of ``remote/script.py``; behind
them the reader (``onhost/``) stands as one Python program.
"""

from __future__ import annotations

import json
import re
import secrets
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from deployments.catalogue.model import clean
from deployments.catalogue.program import Program

HERE = Path(__file__).parent
PARTS = ("values", "package", "evaluate", "fields", "record", "arguments", "main")
"""Of the reader, each before those that use it."""
OWN_IMPORT = re.compile(r"^from deployments\.catalogue\.onhost[^\n(]*(?:\([^)]*\)|[^\n]*)\n", re.M)
FUTURE = "from __future__ import annotations\n"
SECONDS_FOR_HELP = 60
LARGEST_ANSWER = 4_000_000
"""Bytes that an honest answer never reaches."""


@dataclass(frozen=True)
class ReadScript:
    """A script to be sent to ``sh -s``, with the token that its answers carry."""

    stdin: bytes
    token: str


@dataclass(frozen=True)
class Told:
    """What the host answered: data of the reader, the text of a help page, or why there is neither."""

    data: Mapping[str, Any] | None = None
    help: str = ""
    reason: str = ""


@cache
def reader() -> str:
    """The reader as one program."""
    parts = [OWN_IMPORT.sub("", (HERE / f"onhost/{name}.py").read_text().replace(FUTURE, "")) for name in PARTS]
    return FUTURE + "\n".join(parts)


def build(program: Program, *, known: str = "", mode: str = "read") -> ReadScript:
    """The script for one command's program. ``known``: the stamp of what is known already. ``mode``: read or help."""
    token = secrets.token_hex(8)
    values = {
        "TOKEN": token,
        "MODE": mode,
        "ENGINE": program.engine,
        "FORM": program.form,
        "KIND": program.kind,
        "PROGRAM": program.word,
        "OPTIONS": " ".join(program.options),
        "HELP": " ".join(program.help),
        "WORKDIR": program.workdir,
        "KNOWN": known,
        "SECONDS_FOR_HELP": str(SECONDS_FOR_HELP),
    }
    lines = [f"{name}={shlex.quote(value)}" for name, value in values.items()]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in program.surroundings]
    body = (HERE / "read.sh").read_text().replace("@READER@\n", reader())
    return ReadScript("\n".join([*lines, body]).encode(), token)


def read_answer(script: ReadScript, stdout: bytes) -> Told:
    """What a host's answer says. It is taken for what anybody on the host may have written."""
    if len(stdout) > LARGEST_ANSWER:
        return Told(reason="The host's answer is far larger than a list of flags.")
    text = stdout.decode(errors="replace")
    mark = f"@{script.token} "
    if not text.rstrip().endswith(f"{mark}end"):
        return Told(reason="The host's answer was cut.")
    for line in text.splitlines():
        if line.startswith(f"{mark}none "):
            return Told(reason=clean(line.removeprefix(f"{mark}none "), 300))
        if line.startswith(f"{mark}help"):
            return Told(help=text.partition(line)[2].rpartition(f"{mark}end")[0])
        if line.startswith(f"{mark}{{"):
            return _data(line.removeprefix(mark))
    return Told(reason="The host's answer says nothing.")


def _data(text: str) -> Told:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    return Told(data=data) if isinstance(data, dict) else Told(reason="The host's answer cannot be read.")
