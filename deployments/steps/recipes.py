"""What each kind of job does, in order. PURE."""

from __future__ import annotations

from deployments.lifecycle import JobKind

RECIPES: dict[JobKind, tuple[str, ...]] = {
    JobKind.RESTART: ("plan", "drain", "stop", "verify", "launch", "check"),
    JobKind.START: ("plan", "verify", "launch", "check"),
    JobKind.STOP: ("plan", "drain", "stop", "verify"),
    JobKind.BENCHMARK: ("benchmark",),
    JobKind.REPLACE: ("plan", "drain", "stop", "verify", "launch", "check"),
    JobKind.PUT_BACK: ("put back",),
}
"""What neither stops nor starts a server has no plan to approve."""

ENDS = ("drain", "stop")
"""Of a replacement: the steps that are about the server that goes; on the way back that is the new one."""

STOP_AGAIN = ("stop",)
"""Appended when a person has decided to stop what was launched, and there is nothing to start again."""

WAY_BACK = ("stop", "verify", "launch", "check")
"""Appended when a restart fails after the stop and the plan said: start again what was serving."""
