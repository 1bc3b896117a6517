"""Step names to the functions that do them. To add a step: a module beside this one, a line here, recipes.py."""

from __future__ import annotations

from collections.abc import Callable

from deployments.lifecycle import StepName
from deployments.steps.base import StepContext
from deployments.steps.benchmark import benchmark
from deployments.steps.check import check
from deployments.steps.drain import drain
from deployments.steps.launch import launch
from deployments.steps.plan import plan
from deployments.steps.stop import stop
from deployments.steps.traffic import put_back
from deployments.steps.verify import verify

STEPS: dict[str, Callable[[StepContext], None]] = {
    StepName.PLAN: plan,
    StepName.DRAIN: drain,
    StepName.STOP: stop,
    StepName.VERIFY: verify,
    StepName.LAUNCH: launch,
    StepName.CHECK: check,
    StepName.BENCHMARK: benchmark,
    StepName.PUT_BACK: put_back,
}
