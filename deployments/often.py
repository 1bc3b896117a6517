"""How often jobs on each host had to ask a person on the way, and what to fix where that is often."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Count, Q
from django.utils import timezone

from deployments.lifecycle import GateKind
from deployments.models import Gate
from hosts.models import Host

OFTEN = 3
WITHIN = timedelta(days=7)


@dataclass(frozen=True)
class Trouble:
    """A kind of question: what it says of the host, and what to fix where it comes again and again."""

    words: str
    fix: str


TROUBLES: dict[str, Trouble] = {
    GateKind.NOT_FREE: Trouble(
        "cards were not free or could not be measured",
        "Find out who leaves memory on the cards: the jobs name the holders. Give others cards of their own, name them "
        "as co-tenants under Edit, or raise the times for memory if it is only released late.",
    ),
    GateKind.KILL: Trouble(
        "the server did not end when it was asked to",
        "Raise “For the server to end” under Edit of the deployment, or tick that its own processes are killed without "
        "asking.",
    ),
    GateKind.NODE_KILL: Trouble(
        "a kill inside the container did not help",
        "Look at the node's kernel log and driver; then tick that they are killed from the node without asking.",
    ),
    GateKind.MANAGER: Trouble(
        "something else may start the server again",
        "End the loop or unit that starts it, or set under Edit how the server is started, so that both are one.",
    ),
    GateKind.NOT_READY: Trouble(
        "the server was not ready in time",
        "Raise “For the server to be ready” under Edit, or look at the log for what takes so long: a model on a slow "
        "disk or network, say.",
    ),
    GateKind.CONTACT: Trouble("contact was lost for long", "Look at the network and the load of the host."),
}
"""By kind of gate. Approvals of plans, and questions that only follow from a failure, are no trouble of the host."""


@dataclass(frozen=True)
class Asked:
    """Of one host: in how many jobs each kind of trouble came up within the time, the most frequent first."""

    host_name: str
    host: Host | None
    counts: tuple[tuple[str, int], ...]
    anyway: int

    @property
    def total(self) -> int:
        """Questions in all, each counted once a job: who looks again and again is not asked more often for it."""
        return sum(count for _, count in self.counts)

    @property
    def is_often(self) -> bool:
        """So often that somebody should mend it."""
        return self.total >= OFTEN

    @property
    def words(self) -> str:
        """What came up, and how often, in a sentence."""
        found = [f"{TROUBLES[kind].words} ({count})" for kind, count in self.counts]
        anyway = f" It was launched anyway {_times(self.anyway)}." if self.anyway else ""
        return f"{'; '.join(found).capitalize()}.{anyway}"

    @property
    def fix(self) -> str:
        """What helps against the most frequent."""
        return TROUBLES[self.counts[0][0]].fix

    @property
    def times(self) -> str:
        """The total in words."""
        return _times(self.total)


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def asked_lately(host: Host | None = None) -> list[Asked]:
    """Each host on which jobs had to ask within the last seven days; ``host``: only that one."""
    gates = Gate.objects.filter(kind__in=TROUBLES, opened_at__gt=timezone.now() - WITHIN)
    if host is not None:
        gates = gates.filter(job__host_name=host.name)
    jobs, forced = Count("job", distinct=True), Count("job", distinct=True, filter=Q(answer="anyway"))
    counted = gates.order_by().values_list("job__host_name", "kind").annotate(jobs=jobs, forced=forced)
    found: dict[str, list[tuple[str, int, int]]] = {}
    for name, kind, count, anyway in counted:
        found.setdefault(name, []).append((kind, count, anyway))
    hosts = {row.name: row for row in Host.objects.filter(name__in=found)} if found else {}
    return [_asked(name, rows, hosts.get(name)) for name, rows in sorted(found.items())]


def _asked(name: str, rows: list[tuple[str, int, int]], host: Host | None) -> Asked:
    counts = sorted(((kind, count) for kind, count, _ in rows), key=lambda row: (-row[1], row[0]))
    return Asked(name, host, tuple(counts), sum(anyway for _, _, anyway in rows))
