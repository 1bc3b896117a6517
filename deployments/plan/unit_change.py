"""What has to be written on a host so that a unit starts the server with other flags. PURE.

Best a line of an environment file that the unit reads at each start anyway. Else a drop-in, which systemd takes note
of only after a daemon-reload, and that can take the cards away from running containers (NVIDIA/nvidia-docker#1730):
where containers run, it is refused.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from deployments.plan.passing import SETTINGS_FLAG
from deployments.plan.unit_file import (
    WHOLE,
    UnitFile,
    as_value,
    environment_line,
    expand,
    quoted_assignment,
    quoted_word,
    read_environment,
)
from hosts.probe.frames import Unknown

HEAD = ("# Written by Relaunch; removed, the unit is as it was.", "[Service]")
READABLE = ("journal", "kmsg", "syslog", "inherit", "append:", "truncate:")
"""Where a unit may write its output so that the log of one start can be followed."""
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash"})


@dataclass(frozen=True)
class Wanted:
    """What is to run."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""
    variables: tuple[str, ...] = ()
    """Secrets that its environment is given. A unit reads them from a file of root's (``secrets_file_of``)."""
    settings: bool = False
    """Is it given the engine's own file, with its key?"""


def secrets_file_of(unit: str) -> str:
    """Beside the drop-in that names it; systemd takes no notice of it by itself."""
    return f"/etc/systemd/system/{unit}.d/relaunch.secrets"


def settings_file_of(unit: str) -> str:
    """Beside it, for the user of the unit alone: the engine itself reads it."""
    return f"/etc/systemd/system/{unit}.d/relaunch.settings.yaml"


@dataclass(frozen=True)
class UnitTold:
    """What systemd and the files say of a unit (remote/starter.sh)."""

    name: str
    file: UnitFile | Unknown
    environment_files: Mapping[str, str | Unknown] = field(default_factory=dict)
    """path -> text."""
    shown: Mapping[str, str] = field(default_factory=dict)
    """Properties of ``systemctl show``."""
    containers: bool = False
    """Do containers run on this machine?"""
    own_drop_in: str = ""
    """The text of the drop-in that we have written before."""
    of_login: bool = False
    """A unit of a login's own systemd."""

    @property
    def drop_in(self) -> str:
        """Where ours stands."""
        return f"/etc/systemd/system/{self.name}.d/relaunch.conf"

    @property
    def output_unread(self) -> str:
        """Why the log of one start could not be followed (remote/run_unit.sh); empty where it can be."""
        output = self.shown.get("StandardOutput", "")
        if output.startswith(READABLE) or not output:
            return ""
        path = output.removeprefix("file:")
        append = f"StandardOutput=append:{path}" if path != output else "StandardOutput=journal"
        return (
            f"It writes its output to {output} (StandardOutput), where the panel cannot follow the log of one start: a "
            f"start would never be seen to be ready. Let it write with {append}"
            f"{' or to the journal' if path != output else ''}."
        )

    @property
    def secrets_file(self) -> str:
        """What is in there is never read back."""
        return secrets_file_of(self.name)


@dataclass(frozen=True)
class Change:
    """``lines``: NAME -> the whole line in the environment file ``path``; else ``text``: all of the drop-in there."""

    path: str
    lines: Mapping[str, str] = field(default_factory=dict)
    text: str = ""

    @property
    def shown(self) -> str:
        """What will be written, for the plan."""
        return self.text or "\n".join(self.lines.values())


class CannotChange(Exception):
    """The unit cannot be made to start that; the message says why, as sentences."""


def change_for(told: UnitTold, wanted: Wanted) -> Change | None:
    """What must be written first; None when the unit starts exactly that already. Raises CannotChange."""
    unit = told.file
    if isinstance(unit, Unknown):
        raise CannotChange(f"What {told.name} runs could not be read: {unit.reason}")
    if told.shown.get("NeedDaemonReload") == "yes":
        raise CannotChange(
            f"The files of {told.name} have been changed since systemd read them. Whoever did that has to run "
            "systemctl daemon-reload."
        )
    if wanted.settings:
        wanted = _with_settings(told, wanted)
    asks = bool(wanted.variables) and told.secrets_file not in unit.files
    unit = replace(unit, files=tuple(path for path in unit.files if path != told.secrets_file))
    environment = _environment(told, unit)
    try:
        runs = expand(unit.words, environment)
    except ValueError as problem:
        raise CannotChange(f"What {told.name} runs could not be read: {problem}") from problem
    wanted = replace(wanted, argv=(_program(runs[:1], wanted.argv), *wanted.argv[1:]))
    differing = {name: value for name, value in wanted.env.items() if environment.get(name) != value}
    moved = bool(wanted.workdir) and wanted.workdir != unit.workdir
    if tuple(runs) == wanted.argv and not differing and not moved:
        return _with_secrets(told) if asks else None
    lines = None if moved or asks else _lines(told, unit, environment, wanted, differing)
    return lines or _drop_in(told, runs, wanted)


def _environment(told: UnitTold, unit: UnitFile) -> dict[str, str]:
    """Files win over Environment=, the later over the earlier."""
    found = dict(unit.environment)
    for path in unit.files:
        text = told.environment_files.get(path, "")
        values = text if isinstance(text, Unknown) else read_environment(text)
        if isinstance(values, Unknown):
            raise CannotChange(f"{path}, which {told.name} reads, could not be read: {values.reason}")
        found |= values
    return found


def _program(runs: Sequence[str], argv: Sequence[str]) -> str:
    """The unit's own program where only its directory is not said."""
    if runs and "/" not in argv[0] and posixpath.basename(runs[0]) == argv[0]:
        return runs[0]
    return argv[0]


def _lines(
    told: UnitTold, unit: UnitFile, environment: Mapping[str, str], wanted: Wanted, differing: Mapping[str, str]
) -> Change | None:
    """By the last environment file, if what differs is in what it gives."""
    if not unit.files or any(character in unit.files[-1] for character in "%*?["):
        return None
    path = unit.files[-1]
    values = dict(differing)
    if tuple(expand(unit.words, environment)) != wanted.argv:
        found = _variable(unit, environment, wanted.argv)
        if found is None:
            return None
        values[found[0]] = found[1]
    try:
        return Change(path, {name: environment_line(name, value) for name, value in values.items()})
    except ValueError as problem:
        raise CannotChange(str(problem)) from problem


def _variable(unit: UnitFile, environment: Mapping[str, str], argv: Sequence[str]) -> tuple[str, str] | None:
    """The one `$NAME` of the command, and the value with which the command becomes ``argv``."""
    places = [position for position, word in enumerate(unit.words) if WHOLE.fullmatch(word)]
    if len(places) != 1:
        return None
    before = expand(unit.words[: places[0]], environment)
    after = expand(unit.words[places[0] + 1 :], environment)
    middle = argv[len(before) : len(argv) - len(after)]
    if [*before, *middle, *after] != [*argv]:
        return None
    return unit.words[places[0]][1:], as_value(middle)


def _drop_in(told: UnitTold, runs: Sequence[str], wanted: Wanted) -> Change:
    if is_script(runs[:1]):
        raise CannotChange(
            f"{told.name} starts the server by a script ({runs[0]}), and the flags are in there. Change them in the "
            "script, so that they are those of the revision."
        )
    if told.of_login:
        raise CannotChange(
            f"{told.name} is a unit of a login's own systemd and reads no environment file with its flags."
        )
    if not wanted.argv[0].startswith("/"):
        raise CannotChange(f"A unit needs the whole path of its program, and the revision says only {wanted.argv[0]}.")
    text = _text(told, wanted)
    if told.containers:
        raise CannotChange(
            f"{told.name} has its flags in the unit itself. To change them, systemd must read its files again "
            "(daemon-reload), and containers run on this machine, which can lose their cards by that. Give the unit an "
            f"EnvironmentFile= and write its command as “{runs[0]} $ARGS” at a time when that harms nobody; from then "
            "on only that file is written."
        )
    return Change(told.drop_in, text=text)


def _with_secrets(told: UnitTold) -> Change:
    """Our drop-in as it is, or a new one, that has the unit read its secrets."""
    if told.of_login:
        raise CannotChange(f"{told.name} is a unit of a login's own systemd, and the panel gives no secrets to those.")
    if told.containers:
        raise CannotChange(
            f"{told.name} does not read the file by which it is given secrets. To make it do so, systemd must read its "
            "files again (daemon-reload), and containers run on this machine, which can lose their cards by that. Give "
            f"the unit EnvironmentFile=-{told.secrets_file} at a time when that harms nobody; from then on only that "
            "file is written."
        )
    before = told.own_drop_in.strip("\n") or "\n".join(HEAD)
    return Change(told.drop_in, text=f"{before}\nEnvironmentFile={told.secrets_file}\n")


def _with_settings(told: UnitTold, wanted: Wanted) -> Wanted:
    """With the words that name the engine's own file."""
    if told.of_login:
        raise CannotChange(f"{told.name} is a unit of a login's own systemd, and the panel gives no secrets to those.")
    if told.shown.get("DynamicUser") == "yes":
        raise CannotChange(
            f"{told.name} runs as a user that is made up at each start (DynamicUser=yes), so no file with its API key "
            "can be for that user alone. Give it a User= of its own."
        )
    return replace(wanted, argv=(*wanted.argv, SETTINGS_FLAG, settings_file_of(told.name)))


def is_script(runs: Sequence[str]) -> bool:
    """Does a command that begins so start the server by a script, which may make any flags of it?"""
    return bool(runs) and (posixpath.basename(runs[0]) in SHELLS or runs[0].endswith(".sh"))


def _text(told: UnitTold, wanted: Wanted) -> str:
    lines = [*HEAD, *([f"EnvironmentFile={told.secrets_file}"] if wanted.variables else [])]
    lines += [f"Environment={quoted_assignment(name, value)}" for name, value in wanted.env.items()]
    lines += [f"WorkingDirectory={wanted.workdir}"] if wanted.workdir else []
    lines += ["ExecStart=", f"ExecStart={' '.join(map(quoted_word, wanted.argv))}"]
    return "\n".join(lines) + "\n"
