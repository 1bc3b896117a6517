"""Card locks on the machine that has the cards: from stop to ready no other panel or user takes them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from controlpanel.identity import panel_id
from deployments.joblog import LeaseLost
from deployments.lifecycle import ACTIVE
from deployments.models import Deployment, Job, Placement
from deployments.remote.run import run, script_for
from deployments.remote.script import Said
from hosts.models import Host
from hosts.transport.base import Transport, TransportError

Links = Callable[[Host], contextlib.AbstractContextManager[Transport]]
TIMEOUT_SECONDS = 30.0


class LocksRefused(TransportError):
    """The machine answers, but cannot write a lock."""


@dataclass(frozen=True)
class LockedByOther:
    """Somebody else works on a card: who, with what, since when."""

    uuid: str
    panel: str
    deployment: str
    job: str
    person: str
    since: str

    def __str__(self) -> str:
        return (
            f"Card {self.uuid} is locked by {self.person or 'somebody'} since {self.since or 'an unknown time'} "
            f"(panel {self.panel or '?'}, deployment {self.deployment or '?'}, job {self.job or '?'})."
        )


def lock_values(job: Job, placement: Placement) -> dict[str, Any]:
    """What the lock part of a script needs to know.

    Whoever calls it has the cards' claims in the database: of this panel no other job that lives can have their locks,
    and what one that has ended could not give back is taken over.
    """
    assert job.deployment is not None
    live = Job.objects.filter(state__in=ACTIVE).values_list("pk", flat=True)
    when = timezone.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    person = "".join(letter for letter in job.requested_by_name if letter.isprintable() and letter != "|")
    return {
        "cards": placement.gpu_uuids,
        "live": " ".join(map(str, live)),
        "holder": f"{panel_id()}|{job.deployment.pk}|{job.pk}|{person}|{when}",
    }


def locked_by(said: Said) -> LockedByOther:
    """Read a ``locked`` line: the card's uuid and the text in the lock."""
    uuid, _, held = said.text.partition(" ")
    panel, deployment, job, person, since, *_ = [*held.split("|"), "", "", "", "", ""]
    return LockedByOther(uuid, panel, deployment, job, person, since)


def take_cards(job: Job, on: Deployment, *, fence: int, links: Links, tick: Callable[[], None]) -> LockedByOther | None:
    """Lock the cards of ``on`` on the machine; returns who has one of them if somebody else does.

    Raises LeaseLost when a newer worker is there, LocksRefused when the machine cannot do it, TransportError.
    """
    said = _run(job, on, "take", fence=fence, links=links, tick=tick)
    return next((locked_by(line) for line in said if line.word == "locked"), None)


def release_cards(job: Job, *, fence: int, links: Links, tick: Callable[[], None]) -> None:
    """Give the locks back; those of others are left alone, and so are all of them where newer work has been seen."""
    for deployment in job.subjects:
        _run(job, deployment, "release", fence=fence, links=links, tick=tick)


def _run(job: Job, on: Deployment, mode: str, *, fence: int, links: Links, tick: Callable[[], None]) -> list[Said]:
    placement = on.placement
    script = script_for(on, "locks", fence=fence, boot_id="", mode=mode, **lock_values(job, placement))
    machine = placement.host.machine
    with links(machine) as transport:
        said = run(transport, script, timeout=TIMEOUT_SECONDS, tick=tick)
    for line in said:
        if line.word == "fenced" and mode == "take":
            raise LeaseLost
        if line.word == "refused":
            raise LocksRefused(f"The card locks on {machine} could not be changed: {line.text}.")
    return said
