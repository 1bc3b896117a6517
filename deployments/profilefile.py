"""A profile as a YAML file that people can read, keep beside their code, and bring back.

Every value is read as text and nothing in the file can make an object: no tags, no anchors, no depth. Commands stand in
it as one types them, and are read as pasted ones are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from deployments.commandline import Command, parse, write
from deployments.engines.registry import ENGINES
from deployments.engines.versions import stated
from deployments.models import Profile, Revision

FORMAT = "1"
LARGEST = 200_000
"""Characters; some two hundred revisions."""
MOST_REVISIONS = 200
MOST_NODES = 4_000
"""Names and values: a revision has eleven."""
DEEPEST = 6
NAMES = {
    "": {"relaunch", "profile", "engine", "description", "revisions"},
    "revision": {"revision", "notes", "command", "port", "ready", "versions"},
}
OTHER_BREAKS = re.compile("[\r\x85\u2028\u2029]")
"""YAML reads each as a line's end, and writes them as themselves only between double quotes."""
HEAD = "# A profile of the panel Relaunch. Bring it back under Profiles, Import.\n"


@dataclass(frozen=True)
class FiledRevision:
    """One revision of a file. ``number`` is the one it had where it was written, 0 where it says none."""

    number: int
    command: Command
    port: int
    ready_pattern: str = ""
    notes: str = ""
    engine_versions: str = ""

    @property
    def launch(self) -> dict[str, Any]:
        """As the services take it."""
        return {
            "argv": self.command.argv, "env": self.command.env, "workdir": self.command.workdir,
            "container": dict(self.command.container), "port": self.port, "ready_pattern": self.ready_pattern,
            "engine_versions": self.engine_versions, "notes": self.notes,
        }  # fmt: skip


@dataclass(frozen=True)
class ProfileFile:
    """A profile of a file, its oldest revision first."""

    name: str
    engine: str
    description: str
    revisions: tuple[FiledRevision, ...]


# --- Writing --------------------------------------------------------------------------------------------------------


class _Dumper(yaml.SafeDumper):
    """Texts of several lines stand as they are."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text else None
    if OTHER_BREAKS.search(text):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def write_file(profile: Profile, revisions: Iterable[Revision]) -> str:
    """The YAML of a profile with these of its revisions."""
    rows = [_row(revision) for revision in sorted(revisions, key=lambda revision: revision.number)]
    head = {"relaunch": int(FORMAT), "profile": profile.name, "engine": profile.engine}
    told = {"description": profile.description} if profile.description else {}
    text: str = yaml.dump(
        {**head, **told, "revisions": rows}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000
    )
    return HEAD + text


def _row(revision: Revision) -> dict[str, Any]:
    row = {
        "revision": revision.number, "notes": revision.notes, "command": write(revision.command),
        "port": revision.port, "ready": revision.ready_pattern,
        "versions": revision.engine_versions,
    }  # fmt: skip
    return {name: value for name, value in row.items() if value != ""}


# --- Reading --------------------------------------------------------------------------------------------------------


class _Loader(yaml.BaseLoader):
    """Texts, lists and mappings only. Refuses what makes a small file large, and what says a thing twice."""

    depth = 0
    nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise ValueError(f"{_line(event.start_mark)} uses & or * for a text that stands elsewhere. Write it out.")
        self.depth += 1
        self.nodes += 1
        if self.nodes > MOST_NODES:
            raise ValueError(
                f"{_line(event.start_mark)}: the file has more in it than {MOST_REVISIONS} revisions have."
            )
        if self.depth > DEEPEST:
            raise ValueError(f"{_line(event.start_mark)} is nested deeper than a profile can be.")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        if twice := [name for name, count in names.items() if count > 1]:
            raise ValueError(f"{twice[0]!r} stands twice in the same place. Keep one of them.")
        return super().construct_mapping(node, deep=deep)


def read_file(text: str) -> ProfileFile:
    """Read a profile. Raises ValueError with a sentence that names the field and says what to change."""
    found = _loaded(text)
    _check_names(found, "", "The file")
    if _of(found, "relaunch", "The file") != FORMAT:
        raise ValueError(f"This file is of another version of Relaunch. Its first line must be relaunch: {FORMAT}.")
    engine = _of(found, "engine", "The file")
    if engine not in ENGINES:
        raise ValueError(f"There is no engine {engine!r}. Write one of: {', '.join(ENGINES)}.")
    name = _of(found, "profile", "The file")
    if len(name) > 64 or not name.isprintable():
        raise ValueError("The profile's name must be at most 64 letters that can be seen.")
    rows = found.get("revisions")
    if not isinstance(rows, list) or not rows:
        raise ValueError("“revisions” must be a list with one revision at least, each beginning with “- ”.")
    if len(rows) > MOST_REVISIONS:
        raise ValueError(f"A file holds at most {MOST_REVISIONS} revisions; this one has {len(rows)}. Divide it.")
    revisions = [_revision(row, place) for place, row in enumerate(rows, start=1)]
    return ProfileFile(name, engine, _of(found, "description", "The file", must=False, longest=2000), tuple(revisions))


def _loaded(text: str) -> Mapping[str, Any]:
    if len(text) > LARGEST:
        raise ValueError(f"The file is too large: {len(text):,} characters, and at most {LARGEST:,} are read.")
    try:
        found = yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        where = _line(error.problem_mark) if error.problem_mark else "The file"
        raise ValueError(f"{where} is not YAML: {error.problem}. Check its indentation, quotes and colons.") from error
    except yaml.reader.ReaderError as error:
        raise ValueError(f"The file holds a character that YAML does not allow, at place {error.position}.") from error
    if not isinstance(found, dict):
        raise ValueError("The file is not a profile. It begins with “relaunch: 1” and goes on with “profile: NAME”.")
    return found


def _line(mark: yaml.Mark) -> str:
    return f"Line {mark.line + 1}"


def _revision(row: Any, place: int) -> FiledRevision:
    where = f"Revision {place} of the file"
    if not isinstance(row, dict):
        raise ValueError(f"{where} is no mapping: write “- command: ...” and its other fields below it.")
    _check_names(row, "revision", where)
    try:
        command = parse(_of(row, "command", where, longest=LARGEST))
    except ValueError as refused:
        raise ValueError(f"{where}: {refused}") from refused
    return FiledRevision(
        _number(row, "revision", where) or 0,
        command,
        _number(row, "port", where, must=True),
        _of(row, "ready", where, must=False, longest=200),
        _of(row, "notes", where, must=False, longest=5000),
        _versions(row, where),
    )


def _versions(row: Mapping[str, Any], where: str) -> str:
    text = _of(row, "versions", where, must=False, longest=200)
    try:
        stated(text)
    except ValueError as problem:
        raise ValueError(f"{where}: {problem}") from problem
    return text


def _check_names(found: Mapping[str, Any], kind: str, where: str) -> None:
    for name in found:
        if name not in NAMES[kind]:
            raise ValueError(
                f"{where} has a field {name!r}, which is none. There are: {', '.join(sorted(NAMES[kind]))}."
            )


def _of(found: Mapping[str, Any], name: str, where: str, *, must: bool = True, longest: int = 200) -> str:
    """One field as text; empty where it is not there and need not be."""
    value = found.get(name, "")
    if not isinstance(value, str):
        raise ValueError(f"{where}: “{name}” must be text, not a list or a mapping.")
    if must and not value.strip():
        raise ValueError(f"{where}: “{name}” is missing.")
    if len(value) > longest:
        raise ValueError(f"{where}: “{name}” is longer than {longest:,} letters.")
    if "\0" in value:
        raise ValueError(f"{where}: “{name}” holds a NUL character. Remove it.")
    return value


def _number(found: Mapping[str, Any], name: str, where: str, *, must: bool = False) -> int:
    """One field as a number; 0 where it is not there and need not be."""
    text = _of(found, name, where, must=must).strip()
    if not text and not must:
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise ValueError(f"{where}: “{name}” must be a number, not {text[:40]!r}.")
    return int(text)
