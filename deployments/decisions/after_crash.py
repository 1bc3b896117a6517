"""A server was found ended and nobody had ended it: start it again, wait, or leave it down? PURE.

Started again is only what has served, under an approval that stands, as often an hour as that allows. A person who has
taken the matter in hand since is left alone with it.
"""

from __future__ import annotations

from dataclasses import dataclass

SETTLE_SECONDS = 3.0
"""What looks after a server, or a person, may start it at once: nobody comes between."""
AGAIN_SECONDS = 60.0
"""Between two tries after the same crash: a host that has just booted may not have its cards yet."""


@dataclass(frozen=True)
class Crash:
    """What is known of it. Times in seconds."""

    since: float
    """How long ago it was found."""
    was_ready: bool
    allowed: int
    """Starts an hour: the lesser of what the policy and what the approval says."""
    why_not_approved: str
    """Why no approval stands, as the end of a sentence; empty when one does."""
    within_hour: int
    """Tries within the last hour, also after earlier crashes."""
    tries: int = 0
    """After this crash."""
    last_try: float = 0.0
    """How long ago the last of them ended."""
    last_acted: bool = False
    """It got as far as acting on the host, and no server came of it."""
    taken_over: str = ""
    """Who has asked for a job since, or cancelled a try of ours; in a sentence."""


@dataclass(frozen=True)
class Start:
    """Ask for a start of the same revision now."""


@dataclass(frozen=True)
class Wait:
    """It may be started later by itself."""


@dataclass(frozen=True)
class LeaveDown:
    """A person decides. ``why``: a sentence."""

    why: str


Decision = Start | Wait | LeaveDown


def decide(crash: Crash) -> Decision:
    """What to do now; asked again and again for as long as the server is down."""
    if why := _why_left(crash):
        return LeaveDown(why)
    if crash.within_hour >= crash.allowed:
        times = "once" if crash.within_hour == 1 else f"{crash.within_hour} times"
        return LeaveDown(f"Not started again for now: it was tried {times} within an hour, as often as is allowed.")
    if crash.since < SETTLE_SECONDS or (crash.tries and crash.last_try < AGAIN_SECONDS):
        return Wait()
    return Start()


def _why_left(crash: Crash) -> str:
    """What only a person changes."""
    if crash.taken_over:
        return crash.taken_over
    if not crash.was_ready:
        return "Not started again: this start had never become ready."
    if crash.why_not_approved:
        return f"Not started again: {crash.why_not_approved}."
    if crash.last_acted:
        return "Not started again: the last try got as far as a launch, and it did not come up."
    if crash.tries >= crash.allowed:
        times = "once" if crash.tries == 1 else f"{crash.tries} times"
        return f"Not started again: it was tried {times}, and the host or its cards were not as they should be."
    return ""
