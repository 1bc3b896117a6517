"""The form over all flags of the engine on a host: find one, read what it does, set it in the command or take it out.

It changes the command line in the form and saves nothing, as the check beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict

from deployments.catalogue.matching import Given
from deployments.catalogue.model import Catalogue, Flag
from deployments.catalogue.program import Program
from deployments.catalogue.setting import drop_flag, given, search, set_flag
from deployments.commandline import Command, write, write_env
from deployments.revision_forms import RevisionForm

FIND, ALL, SET, DROP = "find", "all", "set", "drop"
QUERY, VALUE = "flag_find", "value:"
MOST = 40
"""Rows of an answer, unless all are asked for."""
KINDS = {"int": "whole number", "float": "number", "json": "JSON", "str": "text", "human_readable_int": "whole number"}


@dataclass(frozen=True)
class Row:
    """One flag. ``now``: its value in the command, None when it is not there; ``written``: by which of its names.
    ``typed``: as sent with the form.
    """

    flag: Flag
    now: str | None
    written: str
    typed: str

    @property
    def default(self) -> str:
        """As text; empty where there is none, or none that says something."""
        return default_of(self.flag)

    @property
    def value(self) -> str:
        """What it takes, in a few words."""
        return kind_of(self.flag)

    @property
    def field(self) -> str:
        """The name of its input."""
        return VALUE + self.flag.name

    @property
    def choices(self) -> list[str]:
        """To choose from, for a flag of one value."""
        return [str(choice) for choice in self.flag.choices or ()] if self.flag.takes in ("1", "?") else []

    @property
    def switches(self) -> list[str]:
        """The spellings of a flag without a value: one of them may mean the opposite. Not what is there already."""
        if self.flag.takes != "0":
            return []
        long = [name for name in self.flag.names if name.startswith("--")]
        names = long if any(map(_negates, long)) else [self.flag.name]
        return [name for name in names if self.now is None or _negates(name) != _negates(self.written)]

    @property
    def is_switch(self) -> bool:
        """It takes no value."""
        return self.flag.takes == "0"


@dataclass(frozen=True)
class Picked:
    """What is shown. ``more``: how many rows were left out. ``problem``: why the flag could not be set."""

    rows: Sequence[Row] = ()
    text: str = ""
    more: int = 0
    is_open: bool = False
    problem: str = ""
    said: str = ""
    all: bool = False


def _negates(name: str) -> bool:
    return name.startswith("--no-")


def default_of(flag: Flag) -> str:
    """As text; empty where there is none, or none that says something."""
    return "" if not flag.has_default or flag.default is None else str(flag.default)


def kind_of(flag: Flag) -> str:
    """What it takes, in a few words."""
    if flag.takes == "0":
        return "takes no value"
    kind = "one of the choices" if flag.choices else KINDS.get(flag.type, "a value")
    return f"{kind}, several" if flag.takes in ("*", "+") else kind


def asks_of_flags(do: str) -> bool:
    """Is a button of this part meant?"""
    return do in (FIND, ALL) or do.partition(":")[0] in (SET, DROP)


def apply(
    data: QueryDict, form: RevisionForm, launch: Mapping[str, Any], program: Program, known: Catalogue
) -> tuple[str, dict[str, Any]]:
    """Do to the command in the form what a button asks for: what was done in words, and the launch that comes of it.

    Both are empty and as before where no button was meant. Raises CannotSet.
    """
    deed, _, name = data.get("do", "").partition(":")
    if deed not in (SET, DROP):
        return "", dict(launch)
    args, argv = list(program.args), list(launch["argv"])
    if deed == SET:
        flag = known.by_name.get(name)
        new = set_flag(args, known, name, data.get(VALUE + (flag.name if flag else name), ""))
        said = f"{name} is in the command line now. Nothing is saved yet."
    else:
        new = drop_flag(args, known, name)
        said = f"{name} is no longer in the command line. Nothing is saved yet."
    argv[len(argv) - len(args) :] = new
    _fill(form, argv, launch, port_changes=name == "--port")
    return said, {**launch, "argv": argv}


def _fill(form: RevisionForm, argv: list[str], launch: Mapping[str, Any], *, port_changes: bool) -> None:
    """The form as if this command had been written into it."""
    filled = {
        "command": write(Command(argv, {}, "", launch["container"])),
        "env": write_env(launch["env"]),
        "workdir": launch["workdir"],
    }
    form.data = dict(form.data.items()) | filled | ({"port": ""} if port_changes else {})


def picked(data: QueryDict, args: Sequence[str], known: Catalogue, *, said: str = "", problem: str = "") -> Picked:
    """The flags that are asked for: those found, all, or, when nobody asks, those that the command has."""
    text, do = data.get(QUERY, "").strip()[:100], data.get("do", "")
    has = given(args, known)
    everything = [flag for flag in known.flags if not flag.is_positional]
    if do == ALL:
        found, text = everything, ""
    else:
        found = search(known, text) if text else [each.flag for each in has.values()]
    shown = found if do == ALL else found[:MOST]
    rows = [_row(flag, has.get(flag.name), data.get(VALUE + flag.name, "")) for flag in shown]
    is_open = bool(text or asks_of_flags(do))
    return Picked(rows, text, len(found) - len(shown), is_open=is_open, problem=problem, said=said, all=do == ALL)


def _row(flag: Flag, there: Given | None, typed: str) -> Row:
    return Row(flag, " ".join(there.values) if there else None, there.name if there else "", typed)
