"""Is there room beside those who may hold the same card? Exactly the co-tenants of the plan, and memory enough."""

from __future__ import annotations

from deployments.models import Deployment
from lab.bystanders import Bystander
from tests.verdicts.looks import AT_ONCE
from tests.verdicts.scene import Scene
from tests.verdicts.situation import ASKS, FREE, NOT_FREE, STOPPED, UNMEASURED, Outcome, Table
from tests.verdicts.stops import SOON, TERM

SHARING = {**AT_ONCE, "co_tenants": ["root:embedder"], "shared_need_mib": 20000}
"""A stranger of that name may hold the card; what is launched needs so much of it."""
STAYS = r"open file|\((?!leak)"
"""What the lab finds of a co-tenant; it is beside the point of a *free*."""
TABLE = Table(policy=SHARING)
row = TABLE.row


def embedder(s: Scene, mib: int = 9000) -> Bystander:
    """A co-tenant, by user and name."""
    return s.stranger(0, mib, comm="embedder")


@row("one may share the card and does, as the plan says; there is room", FREE, harmless=STAYS)
def shared_planned(s: Scene) -> Outcome:
    embedder(s)
    return s.before_launch()


@row("one may share the card, and nobody does", FREE)
def shared_nobody(s: Scene) -> Outcome:
    return s.before_launch()


@row("one more of that name came after the approval", NOT_FREE, "holds GPU")
def shared_one_more(s: Scene) -> Outcome:
    embedder(s)
    return s.before_launch(lambda: embedder(s, 1000))


@row("a stranger of another name came after the approval", NOT_FREE, "holds GPU")
def shared_stranger(s: Scene) -> Outcome:
    embedder(s)
    return s.before_launch(lambda: s.stranger(0, 1000))


@row("the co-tenant of the plan has gone", NOT_FREE, "does so no more")
def shared_one_less(s: Scene) -> Outcome:
    gone = embedder(s)
    return s.before_launch(lambda: leave(s, gone))


@row("another of that name holds the card in its place", NOT_FREE, "holds GPU")
def shared_another(s: Scene) -> Outcome:
    gone = embedder(s)

    def change() -> None:
        leave(s, gone)
        embedder(s)

    return s.before_launch(change)


@row("the co-tenant has gone before anything was stopped", ASKS, "out of date.*Co-tenants")
def shared_stale(s: Scene) -> Outcome:
    s.expected.append((s.serve(), []))
    gone = embedder(s)
    job = s.planned()
    leave(s, gone)
    return s.answer(job, "approve")


@row("memory without an owner leaves too little beside the co-tenant", NOT_FREE, "MiB are needed")
def shared_too_little(s: Scene) -> Outcome:
    embedder(s)
    return s.before_launch(lambda: s.leak(0, 20000))


@row("how much is needed beside the co-tenant is not known", UNMEASURED, "is not known")
def shared_unknown_need(s: Scene) -> Outcome:
    embedder(s)
    Deployment.objects.filter(pk=s.deployment.pk).update(shared_need_mib=None)
    s.deployment.refresh_from_db()
    return s.before_launch()


@row("a server is stopped beside its co-tenant", STOPPED, policy={**SOON, "stuck_seconds": 2})
def shared_stop(s: Scene) -> Outcome:
    embedder(s)
    s.expected.append((s.serve(), [TERM]))
    return s.stop()


def leave(s: Scene, who: Bystander) -> None:
    """It ends, by no signal of the panel."""
    s.bystanders.remove(who)
    s.kill(who)
