"""What a job came to: the diagnosis of a failure, or what the server runs with after a success."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.urls import reverse

from deployments.lifecycle import DOWN, LEAVE_THE_SERVER, GateKind, JobKind, JobState, StepName, StepState
from deployments.models import Benchmark, Deployment, Job, Launch
from deployments.plan.warnings import Cure
from deployments.views.measured import beside_proven
from deployments.views.starting import starting
from deployments.views.words import was_left
from hosts.models import Gpu, Host

FAILED = (JobState.FAILED, JobState.ERRORED)
NOT_BY_PROVEN = (*LEAVE_THE_SERVER, JobKind.REPLACE)
"""A proven revision mends no failure of these: a replacement's cards are in the hands of the other one."""
LAUNCHES = (StepName.LAUNCH, StepName.CHECK)  # the steps in which the flags show whether they are right


def outcome(job: Job) -> dict[str, Any]:
    """Context of the outcome part; of an active job only what is known already."""
    launch = job.launches.select_related("revision__profile").first()
    left = was_left(job)
    failed = job.state in FAILED and not left
    deployment = job.deployment
    proven = deployment.proven_revision if deployment else None
    cure, cure_of = _cure(job) if failed else ("", "")
    return {
        "launch": launch,
        "starting": starting(job, launch),
        "failed": failed,
        "shows_why": failed or _asks_whether_to_go_back(job),
        "left": left,
        "succeeded": job.state == JobState.SUCCEEDED,
        "diagnosis_link": _line_link(job),
        "proven": proven,
        "cure": cure,
        "cure_of": cure_of,
        "look_first": _host_to_look_at(job) if failed and cure in ("", Cure.HOST) else None,
        "plan_again": _plan_again(job),
        "missed": not job.is_active and job.state != JobState.SUCCEEDED,
        "retry_proven": failed and proven is not None and job.kind not in NOT_BY_PROVEN,
        "left_down": _left_down(job),
        "in_effect": in_effect(launch.effective if launch else {}),
        "memory": _memory(job, launch) if launch else [],
        "measured": _measured(job),
        "is_proven": bool(launch and proven and launch.revision_id == proven.pk),
    }


def _left_down(job: Job) -> Deployment | None:
    """What a replacement has stopped, where it did not come up again and neither did the other: users have nothing."""
    if job.is_active or job.state == JobState.SUCCEEDED or not job.touched or job.replaces is None:
        return None
    return job.replaces if all(one.state in DOWN for one in job.subjects) else None


def _asks_whether_to_go_back(job: Job) -> bool:
    """The start has failed already, and a person decides what follows."""
    return any(gate.kind == GateKind.WAY_BACK and gate.answered_at is None for gate in job.gates.all())


def _cure(job: Job) -> tuple[str, str]:
    """On which page that is mended which stood in the way of the plan (plan/warnings.py), and of which deployment where
    it is not the job's own; empty where no link helps.
    """
    step = next((step for step in job.steps.all() if step.state == StepState.FAILED), None)
    data = step.data if step is not None else {}
    return str(data.get("cure", "")), str(data.get("of", ""))


def _host_to_look_at(job: Job) -> Host | None:
    """The host, where the job failed before anything was launched: no flag is to blame for what stands in its way."""
    step = next((step for step in job.steps.all() if step.state == StepState.FAILED), None)
    if step is None or step.name in LAUNCHES:
        return None
    return Host.objects.filter(name=job.host_name).first()


def _plan_again(job: Job) -> str:
    """The address of the form that asks for the same once more."""
    if job.deployment_id is None or job.kind == JobKind.PUT_BACK:
        return ""
    if job.kind == JobKind.REPLACE:
        replaced = job.replaces_id
        return f"{reverse('deployments:replace', args=[replaced])}?by={job.deployment_id}" if replaced else ""
    number = f"?revision={job.revision.number}" if job.revision else ""
    return reverse(f"deployments:plan_{job.kind}", args=[job.deployment_id]) + number


def in_effect(told: Mapping[str, Any]) -> dict[str, Any]:
    """What the engine made of its flags, as it was stored; empty when it told nothing."""
    rows = told.get("rows", [])
    if not told:
        return {}
    return {
        **{name: told.get(name, []) for name in ("facts", "notes")},
        "rows": rows,
        "version": told.get("version", ""),
        "changed": [row for row in rows if row["changed"]],
        "told": sum(row["effective"] is not None for row in rows),
        "all": sorted((told.get("told") or {}).items()),
    }


def _measured(job: Job) -> dict[str, Any]:
    """What a benchmark has found, beside the proven figures."""
    found = Benchmark.objects.filter(job=job).select_related("revision__profile").first()
    return beside_proven(found, job.deployment) if found is not None else {}


def _memory(job: Job, launch: Launch) -> list[dict[str, Any]]:
    """Memory of the launch's cards, before the start and now."""
    cards = Gpu.objects.filter(host=launch.host_id, uuid__in=list(launch.memory_before)).order_by("index")
    return [{"gpu": gpu, "before": launch.memory_before[gpu.uuid], **_now(job, launch, gpu)} for gpu in cards]


def _now(job: Job, launch: Launch, gpu: Gpu) -> dict[str, Any]:
    """The newer of the host's reading and the job's; not known where both are from before the server was ready."""
    own = job.readings.filter(gpu_uuid=gpu.uuid).order_by("-at").first()
    seen = [(gpu.read_at, gpu.used_mib), *([(own.at, own.used_mib)] if own is not None else [])]
    at, used = max(((at, used) for at, used in seen if at is not None), default=(None, None), key=lambda one: one[0])
    if at is None or (launch.ready_at is not None and at < launch.ready_at):
        return {"now": None, "at": None}
    return {"now": used, "at": at}


def _line_link(job: Job) -> str:
    """The address of the line that names the cause, as the log viewer numbers lines; empty when it is not known."""
    diagnosis = job.diagnosis or {}
    seq, line = diagnosis.get("log_seq"), diagnosis.get("log_line")
    return "" if seq is None or line is None else f"#L-{seq}-{line}"
