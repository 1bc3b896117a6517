"""The states of jobs, launches, steps and deployments, and the groups they fall into. PURE.

queued -> running -> succeeded | failed | errored | cancelled
             |  ^
             v  |  (a person answers)
          waiting -> rejected | expired | cancelled
running -> unknown -> running        (contact lost after something was done)
"""

from __future__ import annotations

from enum import StrEnum


class JobState(StrEnum):
    """What a job is doing, or how it ended."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    UNKNOWN = "unknown"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ERRORED = "errored"
    CANCELLED = "cancelled"
    REJECTED = "rejected"
    EXPIRED = "expired"


CLAIMABLE = (JobState.QUEUED, JobState.RUNNING, JobState.UNKNOWN)
ASK_AGAIN = "Ask again when somebody can approve."
"""What to do after an approval that nobody gave."""
ACTIVE = (*CLAIMABLE, JobState.WAITING)
ENDED = tuple(state for state in JobState if state not in ACTIVE)


class StepState(StrEnum):
    """Progress of one step of a job."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


class LaunchState(StrEnum):
    """Life of one start of one server."""

    INTENDED = "intended"
    STARTING = "starting"
    SERVING = "serving"
    ENDED = "ended"
    FAILED = "failed"
    ABANDONED = "abandoned"
    UNKNOWN = "unknown"


LIVE_LAUNCH = (LaunchState.INTENDED, LaunchState.STARTING, LaunchState.SERVING, LaunchState.UNKNOWN)


class ServiceState(StrEnum):
    """What a deployment's server is doing now, as the monitor sees it."""

    SERVING = "serving"
    NOT_ANSWERING = "not answering"
    CRASHED = "crashed"
    STOPPED = "stopped"
    UNKNOWN = "unknown"
    RELEASED = "released"
    """The panel has let go of it, and looks no more."""


DOWN = (ServiceState.STOPPED, ServiceState.CRASHED)
"""No server is there."""


class JobKind(StrEnum):
    """What a job is asked to do."""

    RESTART = "restart"
    START = "start"
    STOP = "stop"
    BENCHMARK = "benchmark"
    PUT_BACK = "put back"
    REPLACE = "replace"

    @property
    def noun(self) -> str:
        """The work itself, at the beginning of a sentence: "Replacement failed"."""
        return _NOUNS.get(self, self.value.capitalize())


_NOUNS = {JobKind.PUT_BACK: "Putting back", JobKind.REPLACE: "Replacement"}


GO_BACK = (JobKind.RESTART, JobKind.REPLACE)
"""They stop what serves and launch something else: after a failure what served can be started again."""
LEAVE_THE_SERVER = (JobKind.BENCHMARK, JobKind.PUT_BACK)
"""They neither stop nor start it."""


class StandingKind(StrEnum):
    """What a standing approval is for."""

    AFTER_CRASH = "after a crash"
    TUNING = "tuning"
    WHEN_IDLE = "when idle"


class StepName(StrEnum):
    """What a job does, step by step (steps/recipes.py: in which order)."""

    PLAN = "plan"
    DRAIN = "drain"
    STOP = "stop"
    VERIFY = "verify"
    LAUNCH = "launch"
    CHECK = "check"
    BENCHMARK = "benchmark"
    PUT_BACK = "put back"


class GateKind(StrEnum):
    """What a person is asked about."""

    PLAN = "plan"
    WHEN_IDLE = "when idle"
    ROUTER = "router"
    MANAGER = "manager"
    KILL = "kill"
    NODE_KILL = "kill from the node"
    NOT_FREE = "not free"
    NOT_READY = "not ready"
    WAY_BACK = "way back"
    CONTACT = "contact"
    TRAFFIC = "traffic"


AT_ITS_PLAN = (GateKind.PLAN, GateKind.WHEN_IDLE)
"""A job that has touched nothing and waits with one of these leaves its deployment's state to the monitor."""


ANSWERS: dict[GateKind, frozenset[str]] = {
    GateKind.PLAN: frozenset({"approve", "discard"}),
    GateKind.WHEN_IDLE: frozenset({"ask", "discard"}),
    GateKind.ROUTER: frozenset({"again", "without", "discard"}),
    GateKind.MANAGER: frozenset({"again", "stop", "leave"}),
    GateKind.KILL: frozenset({"kill", "wait", "leave"}),
    GateKind.NODE_KILL: frozenset({"kill", "wait", "leave"}),
    GateKind.NOT_FREE: frozenset({"again", "accept", "kill", "kill_left", "leave", "anyway"}),
    GateKind.NOT_READY: frozenset({"longer", "stop", "leave"}),
    GateKind.WAY_BACK: frozenset({"back", "as it is"}),
    GateKind.CONTACT: frozenset({"go_on", "end"}),
    GateKind.TRAFFIC: frozenset({"again", "anyway", "leave"}),
}
"""The keys of the choices that such a question may offer, and no others."""


class EffectKind(StrEnum):
    """What was done on a host, as it is shown and looked for."""

    WATCH = "watch"
    TAKE_CARDS = "take cards"
    SIGNAL_TERM = "signal TERM"
    SIGNAL_KILL = "signal KILL"
    NODE_KILL = "signal KILL from the node"
    MANAGER_STOP = "stop by its manager"
    KILL_STRANGERS = "kill strangers"
    LAUNCH = "launch"
    LOOK_FOR_LAUNCH = "look for launch"
    GIVE_UP_LAUNCH = "give up launch"
    TAKE_OUT = "take out of the router"
    PUT_BACK = "put back into the router"


BESIDE_THE_SERVER = (EffectKind.TAKE_OUT, EffectKind.PUT_BACK)
"""They do nothing to a server."""
ENDS_SERVER = (EffectKind.SIGNAL_TERM, EffectKind.SIGNAL_KILL, EffectKind.NODE_KILL, EffectKind.MANAGER_STOP)
NEVER_LATE = (*ENDS_SERVER, EffectKind.KILL_STRANGERS, EffectKind.LAUNCH)
"""Must not reach a host that keeps no fence any more: they start or end something there."""


class CheckStatus(StrEnum):
    """The verdict on one measured fact. UNKNOWN means it could not be measured; it never counts as OK."""

    OK = "ok"
    NOT_OK = "not ok"
    UNKNOWN = "unknown"


def choices(states: type[StrEnum]) -> list[tuple[str, str]]:
    """Choices of a model field for the members of ``states``."""
    return [(state.value, state.value.capitalize()) for state in states]
