"""How a job and a deployment are named on a page: one word that says what is going on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from deployments.lifecycle import (
    ENDED,
    LEAVE_THE_SERVER,
    GateKind,
    JobKind,
    JobState,
    ServiceState,
    StepName,
    StepState,
)
from deployments.models import Deployment, Gate, Job, JobStep

DOING = {
    JobKind.RESTART: "Restarting",
    JobKind.START: "Starting",
    JobKind.STOP: "Stopping",
    JobKind.BENCHMARK: "Measuring",
    JobKind.REPLACE: "Replacing",
    JobKind.PUT_BACK: "Putting back",
}
STEP_TITLES: dict[str, str] = {
    StepName.PLAN: "look, change nothing",
    StepName.DRAIN: "let running requests finish",
    StepName.STOP: "end the server's processes",
    StepName.VERIFY: "cards and port measured free",
    StepName.LAUNCH: "start the server",
    StepName.CHECK: "ready, and really answers",
    StepName.BENCHMARK: "tokens per second",
    StepName.PUT_BACK: "into its router",
}
ZERO = timedelta()
UNDONE = (StepState.PENDING, StepState.RUNNING)


@dataclass(frozen=True)
class Word:
    """A state ready for the ``state`` tag: kind and value give icon and tone, the word says it."""

    kind: str
    value: str
    text: str


def job_word(job: Job) -> Word:
    """What the job is doing now, or how it ended. Reads ``job.steps`` and ``job.gates`` (prefetch them for lists)."""
    if job.state == JobState.RUNNING:
        steps = list(job.steps.all())
        return Word("job", job.state, f"{DOING[JobKind(job.kind)]}{_progress(steps)}")
    if job.state == JobState.WAITING:
        if waits_for_idle(job):
            return Word("job", job.state, "Waits until no request runs")
        gate = next((gate for gate in job.gates.all() if gate.answered_at is None), None)
        approval = gate is None or gate.kind == GateKind.PLAN
        return Word("job", job.state, "Waiting for approval" if approval else "Waiting for a decision")
    if was_left(job):
        return Word("job", JobState.CANCELLED, "Ended by a decision")
    if job.state == JobState.FAILED:
        return Word("job", job.state, f"{JobKind(job.kind).noun} failed")
    return Word("job", job.state, "")


def waits_for_idle(job: Job) -> bool:
    """It waits for a moment without requests, and nobody need do anything."""
    return any(gate.kind == GateKind.WHEN_IDLE and gate.answered_at is None for gate in job.gates.all())


def was_left(job: Job) -> bool:
    """It ended because a person chose to leave things as they were: no failure that anybody must look at."""
    if job.state != JobState.FAILED:
        return False
    answered = [gate for gate in job.gates.all() if gate.answered_at is not None]
    return bool(answered) and answered[-1].answer == "leave"


def step_word(step: JobStep, job: Job) -> Word:
    """What a step of ``job`` does or came to. One that was at work as its job ended says how the job did."""
    if job.state == JobState.WAITING and step.state == StepState.RUNNING:
        return Word("job", job.state, "Waits")
    if step.state == StepState.FAILED and was_left(job):
        return Word("job", JobState.CANCELLED, "Ended here by a decision")
    if step.state == StepState.SKIPPED and step.started_at is not None:
        closed = job.state in (JobState.REJECTED, JobState.CANCELLED, JobState.EXPIRED)
        return Word("job", job.state, "") if closed else Word("step", step.state, "Broken off")
    return Word("step", step.state, "")


def _progress(steps: list[JobStep]) -> str:
    """`` 3/6`` for the step at work; of a way back only its own steps count."""
    on_way_back = any(step.way_back and step.state != StepState.PENDING for step in steps)
    round_steps = [step for step in steps if step.way_back == on_way_back]
    if on_way_back and not any(step.name == StepName.LAUNCH for step in round_steps):
        return ": stopping it"
    done = sum(step.state not in UNDONE for step in round_steps)
    if len(round_steps) < 2:
        return ""
    number = min(done + 1, len(round_steps))
    return f"{' the previous one' if on_way_back else ''} {number}/{len(round_steps)}"


def changes_server(job: Job) -> bool:
    """It has done something to a server: one that was only planned, or that left the server alone, has not."""
    return job.touched and job.kind not in LEAVE_THE_SERVER


def change_words(job: Job, deployment: Deployment) -> str:
    """What ``job`` did to ``deployment``, and how that ended unless it went well: ``restart by olga``."""
    what = str(job.kind)
    if job.kind == JobKind.REPLACE:
        is_new = job.deployment_id == deployment.pk
        other = (job.replaces.name if job.replaces else "another") if is_new else job.deployment_name
        what = f"put in the place of {other}" if is_new else f"replaced with {other}"
    badly = job.state in ENDED and job.state != JobState.SUCCEEDED
    return f"{what} by {job.requested_by_name}{f', which {_badly(job)}' if badly else ''}"


def _badly(job: Job) -> str:
    return _BADLY.get(job.state, f"was {job.state}")


_BADLY = {JobState.FAILED.value: "failed", JobState.ERRORED.value: "broke off", JobState.EXPIRED.value: "expired"}


def deployment_word(deployment: Deployment, *, active: Job | None, is_new: bool = False) -> Word:
    """A deployment's state: its job's while one is at work on it, else what the monitor saw. Reads
    ``placements__host`` (prefetch it for lists).

    ``is_new``: it was never launched, so that there is nothing that could be stopped or unknown.
    """
    if active is not None and active.state != JobState.WAITING and active.kind not in LEAVE_THE_SERVER:
        return job_word(active)
    if is_new:
        return Word("service", ServiceState.STOPPED, "Not launched yet")
    return Word("service", deployment.shown_state, "")


BY_ITSELF = {
    "ended": "not answered: the job ended",
    "cancelled": "not answered: the job was cancelled",
    "expired": "not answered in time",
    "when idle": "approved for a moment without requests",
    "idle": "no request ran",
    "revoked": "the approval was revoked",
}
"""How a question is closed that nobody answered."""


def answer_words(gate: Gate) -> str:
    """The answer as its button said it."""
    label = next((choice["label"] for choice in gate.choices if choice["key"] == gate.answer), "")
    return label or BY_ITSELF.get(gate.answer, gate.answer)


@dataclass(frozen=True)
class Spent:
    """How long a job or a step took: the work, and apart from it the waiting for a person."""

    work: timedelta
    waited: timedelta
    is_over: bool
    waits: bool


def spent(of: Job | JobStep, *, now: datetime) -> Spent | None:
    """The time ``of`` took so far, or in all. Reads ``of.gates`` (prefetch it for lists). None: not known."""
    over = of.state in ENDED if isinstance(of, Job) else of.state != StepState.RUNNING
    if of.started_at is None or (over and of.ended_at is None):
        return None
    end = of.ended_at or now
    gates = list(of.gates.all())
    waited = _waited(gates, of.started_at, end)
    waits = not over and any(gate.answered_at is None for gate in gates)
    return Spent(max(end - of.started_at - waited, ZERO), waited, over, waits)


def _waited(gates: Iterable[Gate], start: datetime, end: datetime) -> timedelta:
    """For how long of that time a question was open. One is open at a time, so they add up."""
    open_for = (min(gate.answered_at or end, end) - max(gate.opened_at, start) for gate in gates)
    return sum((max(length, ZERO) for length in open_for), ZERO)
