"""What differs between the host of a deployment and another one that it is to run on. PURE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from deployments.engines.versions import is_among
from deployments.plan.cards import CARDS_VARIABLE
from hosts.probe.facts import DiskSpace
from hosts.probe.frames import Unknown

OK, NOT_OK, UNKNOWN, INFO = "ok", "not ok", "unknown", "info"
LEAST_DISK_MIB = 512
"""Room for logs and for what an engine compiles."""
NOT_KNOWN = "not known"
BY_IMAGE = "decided by the image"


@dataclass(frozen=True)
class CardThere:
    """A card by its name, with its memory in MiB; None where it was not read."""

    label: str
    name: str
    total_mib: int | None
    used_mib: int | None = None
    limit_mib: int = 0
    """With so much in use it counts as free."""
    driver: str = ""


@dataclass(frozen=True)
class Here:
    """What is known of the host that it runs on now, which may be gone."""

    host: str
    cards: Sequence[CardThere]
    version: str = ""
    keeper: str = ""
    """The unit or container that starts it there; empty: the panel does."""


@dataclass(frozen=True)
class There:
    """What was seen on the other host."""

    host: str
    cards: Sequence[CardThere]
    version: str | Unknown | None
    """None: nobody can ask, for the image of a container decides."""
    paths: Mapping[str, bool] | Unknown
    closed: frozenset[str]
    disks: Mapping[str, DiskSpace | Unknown]
    port_free: bool | None
    port_text: str = ""
    others: Sequence[str] = ()
    """Deployments that have the port or one of the cards."""


@dataclass(frozen=True)
class Wanted:
    """What the revision needs."""

    port: int
    paths: Mapping[str, str]
    """path -> what it is, in words."""
    home: str
    """The path by which the room for logs was asked."""
    engine: str
    engine_versions: str = ""
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """One fact on both hosts, and what it means."""

    label: str
    here: str
    there: str
    status: str
    detail: str = ""

    @property
    def as_data(self) -> dict[str, Any]:
        """For a JSON field."""
        return asdict(self)


def compare(wanted: Wanted, here: Here, there: There) -> list[Row]:
    """The rows of the table, the cards first."""
    return [
        _count(here, there),
        _memory(here, there),
        *_held(there),
        _driver(here, there),
        _chosen(wanted, there),
        _version(wanted, here, there),
        *_paths(wanted, there),
        _room(wanted, there),
        _port(wanted, there),
        *_keeper(here),
        *_others(there),
    ]


def _count(here: Here, there: There) -> Row:
    left, right = named([card.name for card in here.cards]), named([card.name for card in there.cards])
    if len(here.cards) == len(there.cards):
        same = sorted(card.name for card in here.cards) == sorted(card.name for card in there.cards)
        detail = "" if same else "Another kind of card: measured figures and limits of the old one do not hold there."
        return Row("Cards", left, right, OK if same else INFO, detail)
    detail = "The command may say how many cards it uses (--tp-size and its like): make a revision with that number."
    return Row("Cards", left, right, NOT_OK, detail)


def named(names: Sequence[str]) -> str:
    """`2 x NVIDIA L40S`"""
    return ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names)) or "none"


def version_label(engine: str) -> str:
    """Of the row that compares the versions of the engine."""
    return f"{engine} version"


def version_there(rows: Sequence[Mapping[str, Any]], engine: str) -> str:
    """The version that was seen on the other host; empty where it is not known."""
    row = next((row for row in rows if row["label"] == version_label(engine)), None)
    return str(row["there"]) if row is not None and row["there"] not in (NOT_KNOWN, BY_IMAGE) else ""


def _memory(here: Here, there: There) -> Row:
    left, right = _least(here.cards), _least(there.cards)
    words = (_size(left), _size(right))
    if left is None or right is None:
        return Row("Memory of the smallest card", *words, UNKNOWN if here.cards or there.cards else INFO)
    if right < left:
        return Row("Memory of the smallest card", *words, NOT_OK, "Less than before: the same flags may not fit.")
    return Row("Memory of the smallest card", *words, OK)


def _least(cards: Sequence[CardThere]) -> int | None:
    known = [card.total_mib for card in cards]
    return min((mib for mib in known if mib is not None), default=None) if None not in known else None


def _size(mib: int | None) -> str:
    return NOT_KNOWN if mib is None else f"{mib:,} MiB"


def _held(there: There) -> list[Row]:
    rows = []
    for card in there.cards:
        if card.used_mib is None:
            rows.append(Row(f"{card.label} free now", "", NOT_KNOWN, UNKNOWN, "It could not be read."))
        elif card.used_mib > card.limit_mib:
            detail = "Somebody holds it now. A start waits or asks until it is free."
            rows.append(Row(f"{card.label} free now", "", f"{card.used_mib:,} MiB in use", NOT_OK, detail))
    return rows


def _driver(here: Here, there: There) -> Row:
    left, right = (
        ", ".join(sorted({card.driver for card in side.cards} - {""})) or NOT_KNOWN for side in (here, there)
    )
    return Row("Driver", left, right, OK if left == right else INFO)


def _chosen(wanted: Wanted, there: There) -> Row:
    """Cards that the revision itself names are numbers of the old host."""
    named = wanted.env.get(CARDS_VARIABLE)
    if named is None:
        return Row("Which cards it sees", "those of the deployment", "those of the deployment", OK)
    labels = ",".join(card.label.removeprefix("GPU ") for card in there.cards)
    if named == labels:
        return Row("Which cards it sees", named, named, OK)
    detail = f"The revision sets {CARDS_VARIABLE}={named}, which may be other cards there. Make a revision without it."
    return Row("Which cards it sees", named, labels or "none", NOT_OK, detail)


def _version(wanted: Wanted, here: Here, there: There) -> Row:
    label, left = version_label(wanted.engine), here.version or NOT_KNOWN
    if there.version is None:
        return Row(label, left, BY_IMAGE, INFO)
    if isinstance(there.version, Unknown):
        return Row(label, left, NOT_KNOWN, UNKNOWN, f"Not known: {there.version.reason}")
    if wanted.engine_versions:
        among = is_among(there.version, wanted.engine_versions)
        status = {True: OK, False: NOT_OK, None: UNKNOWN}[among]
        return Row(label, left, there.version, status, f"Known to be good with: {wanted.engine_versions}.")
    if not here.version:
        return Row(label, left, there.version, INFO)
    same = here.version == there.version
    return Row(label, left, there.version, OK if same else NOT_OK, "" if same else "Another version than it ran with.")


def _paths(wanted: Wanted, there: There) -> list[Row]:
    if isinstance(there.paths, Unknown):
        return [Row("Its files", "", NOT_KNOWN, UNKNOWN, there.paths.reason)]
    rows = []
    for path, what in wanted.paths.items():
        found = there.paths.get(path)
        if found and path in there.closed:
            rows.append(Row(what, path, "closed to the login", NOT_OK, "The panel's login may not read it."))
        else:
            words = {True: "there", False: "missing", None: NOT_KNOWN}[found]
            detail = "" if found else "Copy or mount it there, or make a revision with another path."
            rows.append(Row(what, path, words, OK if found else UNKNOWN if found is None else NOT_OK, detail))
    return rows


def _room(wanted: Wanted, there: There) -> Row:
    space = there.disks.get(wanted.home)
    if space is None or isinstance(space, Unknown):
        reason = space.reason if isinstance(space, Unknown) else "It was not measured."
        return Row("Room for logs", "", NOT_KNOWN, UNKNOWN, reason)
    status = OK if space.free >= LEAST_DISK_MIB else NOT_OK
    return Row("Room for logs", "", f"{space.free:,} MiB free on {space.mount}", status)


def _port(wanted: Wanted, there: There) -> Row:
    words = {True: "free", False: "taken", None: NOT_KNOWN}[there.port_free]
    status = {True: OK, False: NOT_OK, None: UNKNOWN}[there.port_free]
    return Row(f"Port {wanted.port}", "in use by it", words, status, there.port_text)


def _keeper(here: Here) -> list[Row]:
    if not here.keeper:
        return []
    detail = "Environment and directory that stand there are not in the revision. Make a revision that has them."
    return [Row("Started by", here.keeper, "the panel", NOT_OK, detail)]


def _others(there: There) -> list[Row]:
    if not there.others:
        return []
    detail = "Its cards or its port. One of the two must be stopped before the other starts."
    return [Row("Other deployments there", "", ", ".join(there.others), NOT_OK, detail)]
