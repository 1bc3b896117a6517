"""A server that ended before it was ready: why, from its log, its exit code and the memory before its start."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, NoReturn

from django.utils import timezone

from deployments.engines.diagnosis import Diagnosis, diagnose
from deployments.lifecycle import CheckStatus, LaunchState, ServiceState
from deployments.models import Deployment, Launch
from deployments.plan.collect import cards_of
from deployments.plan.fit_page import fit_after_failure
from deployments.steps.base import StepContext, StepFailed
from deployments.steps.cards_in_use import verified_needs
from deployments.steps.following import Start, stored

FALSE_READY = (
    "It says that it is ready all the same: its first request to itself was answered by the other server on its port."
)


def fail_ended(start: Start, code: int | None) -> NoReturn:
    """Say why, on the launch, the deployment and the job."""
    ctx, row = start.ctx, start.row
    found = _diagnosed(start, code)
    with ctx.writing():
        Launch.objects.filter(pk=row.pk).update(
            state=LaunchState.FAILED, ended_at=timezone.now(), exit_code=code, end_reason=found.cause
        )
        Deployment.objects.filter(pk=ctx.deployment.pk).update(
            state=ServiceState.STOPPED, state_since=timezone.now(), state_detail=found.cause
        )
    exit_code = "unknown" if code is None else code
    ctx.check(
        "alive", "Server process", CheckStatus.NOT_OK, value=f"ended with exit code {exit_code}", source="launch record"
    )
    raise StepFailed(
        f"The server ended before it was ready (exit code {exit_code}). {found.cause}",
        hint=found.fix,
        diagnosis={**_as_data(found), "fit": _fit(ctx, found, clean=_were_clean(ctx, row))},
    )


def _diagnosed(start: Start, code: int | None) -> Diagnosis:
    ctx, row = start.ctx, start.row
    found = diagnose(
        stored(ctx, row),
        engine=ctx.engine,
        cards_were_clean=_were_clean(ctx, row),
        shared=bool(verified_needs(ctx)),
        exit_code=code,
    )
    return replace(found, notes=(FALSE_READY, *found.notes)) if start.readiness.lied else found


def _were_clean(ctx: StepContext, row: Launch) -> bool | None:
    """Was every card at its baseline just before this start? Measured by the launch script itself.

    On a shared card it has found as much memory free as was needed.
    """
    cards = cards_of(ctx)
    if not cards or any(card.uuid not in row.memory_before for card in cards):
        return None
    shared = verified_needs(ctx)
    return all(row.memory_before[card.uuid] <= card.limit_mib for card in cards if card.uuid not in shared)


def _fit(ctx: StepContext, found: Diagnosis, *, clean: bool | None) -> dict[str, Any] | None:
    """What the plan had said of it, and what would make it fit; not where others held memory, nor on the way back."""
    if not found.about_memory or not clean or ctx.step.way_back:
        return None
    return fit_after_failure((ctx.job.plan or {}).get("fit"))


def _as_data(found: Diagnosis) -> dict[str, Any]:
    """As it is kept with the job: where its line stands by chunk of the job's log and line in it."""
    data = asdict(found)
    place = data.pop("place") or {"seq": None, "line": None}
    return {**data, "log_seq": place["seq"], "log_line": place["line"]}
