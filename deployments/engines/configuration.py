"""What an engine made of the flags it was given: asked for, in effect, and why. PURE.

Each engine reads its own pages and log (``<engine>/effective.py``) and puts the table together with ``Table``. "Not
told" is a value: a setting that the engine says nothing about is shown as that, never as taken over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from deployments.engines.printed import LONGEST_VALUE, Scalar
from deployments.flags import SET, flags_of

LOG_CHARACTERS = 4 * 1024 * 1024
"""Of the beginning of a log: all that an engine says about its settings stands in its start."""
LONGEST_LINE = 256 * 1024
MOST_NOTES = 30
UNITS = {"k": 1000, "K": 1000, "Ki": 1024, "m": 10**6, "M": 10**6, "Mi": 1024**2, "g": 10**9, "G": 10**9, "Gi": 1024**3}
AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)([kKmMgG]i?)", re.ASCII)


@dataclass(frozen=True)
class Seen:
    """All that there is to read: the command as it was started, the log from its beginning, the answers by path.

    An answer is what its JSON holds; a page that did not answer is not there. ``log`` is empty for a server whose
    log is not ours to read.
    """

    argv: Sequence[str]
    log: str = ""
    pages: Mapping[str, object] = field(default_factory=dict)

    def page(self, path: str) -> Mapping[str, Any]:
        """The answer as a mapping; empty when it is none."""
        told = self.pages.get(path)
        return told if isinstance(told, dict) else {}

    def lines(self) -> Iterator[str]:
        """The log's lines, the states of a progress bar each on its own."""
        for line in re.split(r"[\r\n]+", self.log[:LOG_CHARACTERS]):
            yield line[:LONGEST_LINE]


@dataclass(frozen=True)
class Row:
    """One setting. ``asked``: as in the command, None when it is not there. ``effective``: None when it is not told.

    ``changed``: the engine runs with something else than was asked for, or has switched off what it usually has on.
    """

    name: str
    asked: str | None
    effective: str | None
    changed: bool = False
    why: str = ""
    source: str = ""


@dataclass(frozen=True)
class Fact:
    """What the engine has measured or worked out while it started, with its unit."""

    label: str
    value: str
    source: str = "its log"


@dataclass(frozen=True)
class Configuration:
    """The whole answer. ``version`` is empty when the engine does not tell it, ``told`` all that it does tell."""

    version: str = ""
    rows: tuple[Row, ...] = ()
    facts: tuple[Fact, ...] = ()
    notes: tuple[str, ...] = ()
    """Lines of its log in which the engine speaks of a change that it made."""
    told: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def changed(self) -> tuple[Row, ...]:
        """The rows that nobody asked for in this way."""
        return tuple(row for row in self.rows if row.changed)

    def as_data(self) -> dict[str, Any]:
        """To be stored, after secrets in it were masked."""
        return asdict(self)


NOTHING = Configuration()


class Table:
    """The rows, put together: what was asked for first, then what the engine chose, each with what is known of it."""

    def __init__(self, argv: Sequence[str], told: Mapping[str, Scalar], *, aliases: Mapping[str, str], source: str):
        self._told = told
        self._source = source
        self._rows: dict[str, Row] = {}
        for name, value in flags_of(argv).items():
            if name != "command":
                key = key_of(name, told, aliases)
                effective = shown(told[key], asked=value) if key in told else None
                changed = effective is not None and not is_same(value, effective)
                self._rows[key] = Row(name, value, effective, changed, source=source if effective is not None else "")

    def asked(self, key: str) -> str | None:
        """What the command says of a setting."""
        row = self._rows.get(key)
        return row.asked if row is not None else None

    def put(self, key: str, value: Scalar, *, why: str = "", source: str = "", changed: bool | None = None) -> None:
        """A better source than the page says what is in effect. ``changed``: None where the two values decide."""
        row = self._rows.get(key)
        asked = row.asked if row is not None else None
        effective = shown(value, asked=asked)
        differs = asked is not None and not is_same(asked, effective)
        name = row.name if row is not None else flag_name(key)
        known = self._source if key in self._told else ""
        self._rows[key] = Row(name, asked, effective, differs if changed is None else changed, why, source or known)

    def explain(self, key: str, why: str) -> None:
        """Why a row that has changed has."""
        row = self._rows.get(key)
        if row is not None and row.changed and not row.why:
            self._rows[key] = Row(row.name, row.asked, row.effective, True, why, row.source)

    @property
    def rows(self) -> tuple[Row, ...]:
        """What has changed first, then as in the command."""
        return tuple(sorted(self._rows.values(), key=lambda row: not row.changed))


def key_of(flag: str, told: Iterable[str], aliases: Mapping[str, str]) -> str:
    """The engine's own name of a flag: another spelling, or a beginning that only one name has."""
    key = flag.lstrip("-").replace("-", "_")
    if key in aliases:
        return aliases[key]
    known = list(told)
    longer = [name for name in known if name.startswith(key)]
    return longer[0] if key not in known and len(longer) == 1 else key


def flag_name(key: str) -> str:
    """A setting as its flag is written."""
    return f"--{key.replace('_', '-')}"


def shown(value: Scalar, *, asked: str | None = None) -> str:
    """The engine's value in the words of a command line, so that the same reads the same."""
    if isinstance(value, bool):
        return SET if value else "off"
    text = "none" if value is None else str(value)[:LONGEST_VALUE]
    return asked if asked is not None and is_same(asked, text) else text


def is_same(asked: str, told: str) -> bool:
    """The same value in other words: 0.90 and 0.9, 256k and 256000, ``1 2 4`` and ``[1, 2, 4]``, bf16 and bfloat16."""
    return asked == told or _plain(asked) == _plain(told)


def _plain(text: str) -> object:
    amount = AMOUNT.fullmatch(text)
    if amount is not None:
        return float(amount[1]) * UNITS[amount[2]]
    try:
        return float(text)
    except ValueError:
        words = " ".join(text.strip("[]()").replace(",", " ").replace("'", "").split())
        return DTYPES.get(words.removeprefix("torch."), words)


DTYPES = {
    "bf16": "bfloat16",
    "half": "float16",
    "fp16": "float16",
    "float": "float32",
    "float8_e4m3fn": "fp8_e4m3",
    "float8_e5m2": "fp8_e5m2",
    "fp8": "fp8_e4m3",
}
"""Other spellings of a number format, torch's own included."""


def dtype_name(text: str) -> str:
    """torch's name of a number format as a flag names it: ``torch.float8_e4m3fn`` is fp8_e4m3."""
    name = text.strip().removeprefix("torch.")
    return DTYPES.get(name, name)


def scalars(told: Mapping[str, Any]) -> dict[str, Scalar]:
    """What is a single value; lists of plain values are kept as text, the rest is left out."""
    found: dict[str, Scalar] = {}
    for name, value in told.items():
        if value is None or isinstance(value, bool | int | float):
            found[name] = value
        elif isinstance(value, str):
            found[name] = value[:LONGEST_VALUE]
        elif isinstance(value, list) and value and all(isinstance(item, str | int | float) for item in value):
            found[name] = str(value)[:LONGEST_VALUE]
    return found
