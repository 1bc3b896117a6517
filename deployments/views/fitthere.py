"""Would a revision fit on these cards? From what was read of its model last; no host is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from deployments.engines.base import Engine
from deployments.fit.files import ModelFiles
from deployments.fit.whatif import cards_needed
from deployments.fit.where import draft_place, model_place
from deployments.models import FlagCatalogue, ModelOnHost, Revision
from deployments.plan.fit_page import fit_table
from deployments.plan.fitting import Fit, Room, ToFit
from deployments.starts import last_served
from hosts.models import Gpu, Host
from hosts.probe.frames import Unknown


@dataclass(frozen=True)
class Place:
    """Where it is tried: the cards of a deployment, or those of a host."""

    key: str
    label: str
    host: Host
    uuids: Sequence[str]


@dataclass(frozen=True)
class Tried:
    """What came of it. ``fit`` None: nothing can be said, for ``reason``."""

    fit: dict[str, Any] | None = None
    cautions: Sequence[Any] = ()
    row: ModelOnHost | None = None
    path: str = ""
    host: Host | None = None
    flags: Sequence[str] = ()
    notes: list[str] = field(default_factory=list)
    reason: str = ""


def tried(engine: Engine, shown: Revision, place: Place, *, flags: Sequence[str] = (), version: str = "") -> Tried:
    """Whether a revision would fit there. ``flags``: added to its command. ``version``: of the engine there, where it
    was asked just now. Reads the database alone.
    """
    found = model_place(engine, shown.argv, shown.container)
    if isinstance(found, Unknown):
        return Tried(reason=found.reason)
    row = ModelOnHost.at(place.host, found, shown.workdir)
    files = row.found if row is not None else None
    if files is None:
        return Tried(row=row, path=found, host=place.host)
    argv = (*shown.argv, *flags)
    there = list(Gpu.objects.filter(host=place.host, present=True).order_by("index"))
    rooms, notes = _rooms(place, there, cards_needed(engine, argv))
    served = last_served(shown, place.uuids) if not flags else None
    known = ToFit(
        files,
        draft=_draft(engine, shown, place.host),
        served=served,
        version=version or _version(place.host, engine),
    )
    fit = Fit(engine, argv, known, rooms, len(there))
    table = fit_table(fit)
    return Tried(table, fit.cautions, row, found, place.host, flags, notes)


def _draft(engine: Engine, shown: Revision, host: Host) -> ModelFiles | None:
    path = draft_place(engine, shown.argv, shown.container)
    row = ModelOnHost.at(host, path, shown.workdir) if path is not None else None
    return row.found if row is not None else None


def _version(host: Host, engine: Engine) -> str:
    """Of the engine on the host, where all of its installations that were seen are of one version."""
    seen = FlagCatalogue.objects.filter(host=host, engine=engine.key).exclude(version="")
    versions = set(seen.values_list("version", flat=True))
    return versions.pop() if len(versions) == 1 else ""


def _rooms(place: Place, cards: Sequence[Gpu], needed: int | None) -> tuple[tuple[Room, ...] | Unknown, list[str]]:
    """The cards, each as empty as it can be, and what must be said of them. More than there are count as alike."""
    own = [card for card in cards if card.uuid in place.uuids]
    others = [card for card in cards if card not in own]
    count = needed or len(own or cards)
    chosen = [*own, *others][:count]
    unread = next((card for card in chosen if card.total_mib is None), None)
    if unread is not None or not chosen:
        who = f"GPU {unread.index}" if unread is not None else "its cards"
        return Unknown(f"How much memory {who} of {place.host} has is not known: test the host."), []
    notes = [_more_than_own(place, own, count, len(cards))]
    rooms = [_room(card) for card in chosen]
    rooms += [rooms[-1]] * (count - len(rooms))
    return tuple(rooms), list(filter(None, notes))


def _more_than_own(place: Place, own: Sequence[Gpu], count: int, there: int) -> str:
    if count > there:
        return f"{place.host} has {there} cards. Worked out as if it had {count} of the same kind."
    if own and count > len(own):
        return f"Worked out with {count - len(own)} more cards of {place.host} than the deployment has."
    return ""


def _room(card: Gpu) -> Room:
    total = card.total_mib or 0
    return Room(card.uuid, f"GPU {card.index}", total, total - (card.baseline_mib or 0), "as long as nobody holds it")
