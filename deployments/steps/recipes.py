"""What each kind of job does, in order. PURE."""

from __future__ import annotations

from deployments.lifecycle import JobKind, StepName

RECIPES: dict[JobKind, tuple[StepName, ...]] = {
    JobKind.RESTART: (StepName.PLAN, StepName.DRAIN, StepName.STOP, StepName.VERIFY, StepName.LAUNCH, StepName.CHECK),
    JobKind.START: (StepName.PLAN, StepName.VERIFY, StepName.LAUNCH, StepName.CHECK),
    JobKind.STOP: (StepName.PLAN, StepName.DRAIN, StepName.STOP, StepName.VERIFY),
    JobKind.BENCHMARK: (StepName.BENCHMARK,),
    JobKind.REPLACE: (StepName.PLAN, StepName.DRAIN, StepName.STOP, StepName.VERIFY, StepName.LAUNCH, StepName.CHECK),
    JobKind.PUT_BACK: (StepName.PUT_BACK,),
}
"""What neither stops nor starts a server has no plan to approve."""

ENDS = (StepName.DRAIN, StepName.STOP)
"""Of a replacement: the steps that are about the server that goes; on the way back that is the new one."""

STOP_AGAIN = (StepName.STOP,)
"""Appended when a person has decided to stop what was launched, and there is nothing to start again."""

WAY_BACK = (StepName.STOP, StepName.VERIFY, StepName.LAUNCH, StepName.CHECK)
"""Appended when a restart fails after the stop and the plan said: start again what was serving."""
