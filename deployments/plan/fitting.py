"""Does what is to be launched fit on the cards, as they will be when the server that runs now is stopped? PURE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from deployments.engines.base import Engine
from deployments.fit.asked import Asked, CardMemory, Measured
from deployments.fit.cautions import Caution, cautions, too_short
from deployments.fit.changes import Change, changes_that_fit
from deployments.fit.estimate import Estimate, Verdict, estimate
from deployments.fit.files import ModelFiles
from deployments.fit.outcome import KV
from deployments.fit.served import Served
from deployments.fit.span import MIB
from hosts.probe.frames import Unknown


@dataclass(frozen=True)
class Room:
    """One card, in MiB. ``why``: how the free memory comes about, in words."""

    uuid: str
    label: str
    total_mib: int
    free_mib: int
    why: str


@dataclass(frozen=True)
class ToFit:
    """What is known beside the cards. ``draft``: of a draft model with files of its own."""

    files: ModelFiles | Unknown
    draft: ModelFiles | None = None
    served: Served | None = None
    """When this revision served on these cards last."""
    version: str = ""
    """Of the engine on the host; empty where it is not known."""


@dataclass(frozen=True)
class Fit:
    """The answer for one command on some cards, with what it was worked out from."""

    engine: Engine
    argv: tuple[str, ...]
    known: ToFit
    rooms: tuple[Room, ...] | Unknown
    there: int | None = None
    """Cards that the host has; None where nobody knows."""

    @cached_property
    def asked(self) -> Asked | Unknown:
        """What the estimator gets."""
        if isinstance(self.known.files, Unknown):
            return self.known.files
        if isinstance(self.rooms, Unknown):
            return self.rooms
        measured = self.known.served.measured if self.known.served is not None else Measured()
        if not self.room_as_then:
            measured = replace(measured, kv_pool=None)
        return Asked(
            self.engine,
            self.argv,
            self.known.files,
            tuple(CardMemory(room.total_mib * MIB, room.free_mib * MIB) for room in self.rooms),
            version=self.known.version,
            draft=self.known.draft,
            measured=measured,
        )

    @property
    def room_as_then(self) -> bool:
        """Will as much be free on each card as this revision took there when it served?"""
        served = self.known.served
        if served is None or isinstance(self.rooms, Unknown):
            return False
        return all(room.free_mib >= served.used.get(room.uuid, room.total_mib) for room in self.rooms)

    @cached_property
    def found(self) -> Estimate:
        """By the formulas, with what was measured in their place where it was."""
        if isinstance(self.asked, Unknown):
            return Estimate(Verdict.UNKNOWN, self.asked.reason)
        return estimate(self.asked)

    @property
    def verdict(self) -> Verdict:
        """That it has served there beats every formula, while there is as much room as then."""
        return Verdict.FITS if self.room_as_then else self.found.verdict

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """What alone would make it fit on this host, the least first."""
        return tuple(change for change in self._all_changes if not self._is_beyond(change))

    @property
    def elsewhere(self) -> Change | None:
        """What would make it fit on a host with more cards."""
        return next((change for change in self._all_changes if self._is_beyond(change)), None)

    @cached_property
    def _all_changes(self) -> tuple[Change, ...]:
        if isinstance(self.asked, Unknown) or self.verdict is Verdict.FITS:
            return ()
        return changes_that_fit(self.asked)

    def _is_beyond(self, change: Change) -> bool:
        return self.there is not None and (change.cards or 0) > self.there

    @property
    def is_only_too_long(self) -> bool:
        """Is it short of nothing but its longest request? SGLang starts all the same, and refuses such requests."""
        outcome = self.found.outcome
        if outcome is None or self.engine.key != "sglang":
            return False
        short = [margin.name for margin in outcome.margins if margin.left.high < 0]
        return short == [KV] and outcome.pools.kv.high > 0

    @property
    def starts_too_short(self) -> bool:
        """It starts, as it has before; and not one request of its whole context goes into the KV cache."""
        outcome = self.found.outcome
        if self.verdict is not Verdict.FITS or outcome is None:
            return False
        return outcome.pools.limits(outcome.context)[KV].likely < 1

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """What its flags and its checkpoint cost, also where it is not known whether it fits."""
        if isinstance(self.known.files, Unknown):
            return ()
        bare = Asked(self.engine, self.argv, self.known.files, (), version=self.known.version)
        found = cautions(bare, self.found.outcome)
        return (too_short(self.found.outcome), *found) if self.starts_too_short and self.found.outcome else found


def refusal(fit: Fit, *, name: str) -> str:
    """Why it is sure that it cannot start in the memory that is free, in a sentence; empty where that is not sure."""
    if fit.verdict is not Verdict.DOES_NOT_FIT or fit.is_only_too_long:
        return ""
    return f"{name} does not fit in the memory that is free: {fit.found.reason}"


def held_beyond(rooms: Sequence[Room], used: Mapping[str, int]) -> list[str]:
    """The cards on which less is free than was used there, in words."""
    return [
        f"{room.label}: {room.free_mib:,} MiB free, {used[room.uuid]:,} MiB used then"
        for room in rooms
        if room.uuid in used and room.free_mib < used[room.uuid]
    ]
