"""What a step gets to work with, and the ways in which a step ends other than well.

StepFailed      the host said no, or a limit passed: a sentence, what to do, perhaps a diagnosis
GateOpened      a person is needed; the job waits and the worker goes home
JobCancelled    a person cancelled; the step stops at a safe point
HandBack        this worker was told to stop: another goes on
LeaseLost       the job is not ours any more (joblog.py)
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from datetime import timedelta
from enum import StrEnum
from functools import cached_property, partial
from typing import Any

from django.db.models import F
from django.utils import timezone

from controlpanel.live import hints
from deployments.engines.base import Engine
from deployments.engines.registry import ENGINES
from deployments.joblog import JobLog, LeaseLost
from deployments.lifecycle import ANSWERS, CheckStatus, EffectKind, GateKind, StepName, StepState
from deployments.models import (
    Check,
    Deployment,
    Effect,
    Gate,
    Job,
    JobReading,
    JobStep,
    Launch,
    Placement,
    Revision,
)
from deployments.models.job import Claim
from deployments.steps.recipes import ENDS
from hosts.models import Gpu, Host
from hosts.transport.base import Transport

RENEW_SECONDS = 1.0
EXACT = frozenset({"through"})
"""Of a step's facts: a command that is carried out as it stands, of names and paths."""
CHECK_FIELDS = ("label", "status", "value", "limit", "detail", "source", "measured_at")
JOB_RELATED = ("deployment__profile", "replaces__profile", "revision__profile", "previous_revision__profile")


class Afterwards(StrEnum):
    """What the job still does when a step has failed."""

    WAY_BACK = "way back"
    """Start again what was serving, if the plan says so."""
    STOP = "stop"
    """That, and where there is nothing to start again, end what was launched."""
    NOTHING = "nothing"


def _subject_of(job: Job, step: JobStep) -> Deployment:
    """What a step is about: of a replacement first the server that goes, then the one that comes."""
    assert job.deployment is not None
    if job.replaces is None:
        return job.deployment
    return job.replaces if (step.name in ENDS) != step.way_back else job.deployment


class StepFailed(Exception):
    """The step did not reach its goal. ``message`` says why, ``hint`` what a person can do."""

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        diagnosis: Mapping[str, Any] | None = None,
        afterwards: Afterwards = Afterwards.WAY_BACK,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.diagnosis = diagnosis
        self.afterwards = afterwards


class GateOpened(Exception):
    """A question for a person. Its row is written when the job begins to wait, not before: nobody can answer early.

    ``job_fields`` are set in the same transaction: what is asked about and the question are never apart.
    """

    def __init__(self, gate: Gate, **job_fields: Any) -> None:
        super().__init__(gate.title)
        unknown = {choice["key"] for choice in gate.choices} - ANSWERS[GateKind(gate.kind)]
        assert not unknown, f"lifecycle.ANSWERS does not know {unknown} of “{gate.kind}”"
        self.gate = gate
        self.job_fields = job_fields


class JobCancelled(Exception):
    """A person cancelled the job."""


class HandBack(Exception):
    """This worker was told to stop."""


class EffectRecord:
    """One act on a host: the intent is stored when this is made, the result when ``done`` is called."""

    def __init__(self, effect: Effect, log: JobLog) -> None:
        self._effect = effect
        self._log = log

    def done(self, outcome: str, **result: Any) -> None:
        """What came of it, stored with the next write: what follows from it, or the end of the work on the job."""
        told = {"outcome": self._log.hide(outcome)[:200], "result": self._log.hide_in(result) or None}
        finished = Effect.objects.filter(pk=self._effect.pk)
        self._log.write_soon(partial(finished.update, finished_at=timezone.now(), **told))


class StepContext:
    """One step of one claimed job. Every write fails with LeaseLost once the claim is gone.

    ``closing``: the job is being ended; a cancel or the worker's stop do not interrupt that. ``before``: the step
    that this worker has done just before; what the job is about does not change.
    """

    def __init__(
        self,
        *,
        claim: Claim,
        step: JobStep,
        log: JobLog,
        links: Callable[[Host], contextlib.AbstractContextManager[Transport]],
        told_to_stop: Callable[[], bool],
        closing: bool = False,
        before: StepContext | None = None,
    ) -> None:
        self.claim = claim
        self.step = step
        self.log = log
        self.job: Job = before.job if before else Job.objects.select_related(*JOB_RELATED).get(pk=claim.job_id)
        self.deployment: Deployment = _subject_of(self.job, step)
        known = before is not None and before.deployment == self.deployment
        self.placement: Placement = before.placement if before and known else self.deployment.placement
        self.host: Host = self.placement.host
        self.links = links
        self._told_to_stop = told_to_stop
        self._closing = closing
        self._renewed = time.monotonic()
        self._end: dict[str, Any] = {}

    # --- What it is about

    @property
    def revision(self) -> Revision:
        """What this round launches: the job's revision, or what was serving before on the way back."""
        # A round that only stops what did not come up has nothing to go back to.
        revision = (self.job.previous_revision if self.step.way_back else None) or self.job.revision
        assert revision is not None
        return revision

    def about(self, deployment: Deployment) -> StepContext:
        """The same step, seen from another deployment that the job changes."""
        if deployment == self.deployment:
            return self
        other = copy(self)
        other.__dict__.pop("gpus", None)
        other.deployment, other.placement = deployment, deployment.placement
        other.host = other.placement.host
        return other

    @property
    def stopped(self) -> StepContext:
        """The step seen from the deployment whose server this round has stopped: of a replacement the other one."""
        if self.job.replaces is None or self.job.deployment is None:
            return self
        return self.about(self.job.deployment if self.step.way_back else self.job.replaces)

    @cached_property
    def gpus(self) -> list[Gpu]:
        """The rows of the deployment's cards, in index order, as they were when the step first asked."""
        return self.placement.gpus

    @cached_property
    def verified(self) -> JobStep:
        """The verify step of this round, as it was when this step first asked."""
        return self.job.steps.filter(name=StepName.VERIFY, way_back=self.step.way_back).order_by("-position")[0]

    @property
    def engine(self) -> Engine:
        """The engine of the deployment's profile."""
        return ENGINES[self.deployment.profile.engine]

    def link(self) -> contextlib.AbstractContextManager[Transport]:
        """The link to the host, for a ``with``."""
        return self.links(self.host)

    def machine_link(self) -> contextlib.AbstractContextManager[Transport]:
        """The link to the machine that has the cards: the node of a container, else the host itself."""
        return self.links(self.host.machine)

    # --- Staying alive

    def tick(self) -> None:
        """Call at least once a second: renews the lease and looks for cancel and for the worker's own stop."""
        if time.monotonic() - self._renewed < RENEW_SECONDS:
            return
        self.checkpoint()

    def checkpoint(self) -> None:
        """As ``tick``, at once."""
        with self.log.transaction(lease_until=Job.lease_from_now()):
            pass
        self._renewed = time.monotonic()
        self.heed()

    def heed(self) -> None:
        """Raises HandBack when this worker was told to stop, JobCancelled when a person cancelled."""
        if self._closing:
            return
        if self._told_to_stop():
            raise HandBack
        if Job.objects.filter(pk=self.job.pk).exclude(cancel_requested_by="").exists():
            raise JobCancelled

    # --- Saying and remembering

    def say(self, text: str) -> None:
        """A line in the job's log, stored with the next write or within a second."""
        self.log.say_soon(text, step=self.step.name)

    def measured(
        self,
        key: str,
        label: str,
        status: CheckStatus,
        *,
        value: str = "",
        limit: str = "",
        detail: str = "",
        source: str = "",
    ) -> Check:
        """A measured fact with its limit, to be given to ``show``."""
        return Check(
            step=self.step,
            key=key,
            label=label,
            status=status,
            value=self.log.hide(value)[:200],
            limit=limit[:200],
            detail=self.log.hide(detail),
            source=source,
            measured_at=timezone.now(),
        )

    def show(self, checks: Sequence[Check], *, used_mib: Mapping[str, int | None] | None = None) -> None:
        """Show measured facts, all of them at once; the same ``key`` again replaces what was shown.

        ``used_mib``: a point of the memory curve, as of ``readings``, stored with them.
        """
        with self.writing():
            self._store_checks(checks)
            if used_mib:
                self._store_readings(used_mib)
        if used_mib:
            hints.hint(f"readings:{self.job.pk}")

    def show_soon(self, checks: Sequence[Check]) -> None:
        """As ``show``, with the next write: for facts from which the step goes on at once."""
        self.log.write_soon(partial(self._store_checks, checks))

    def _store_checks(self, checks: Sequence[Check]) -> None:
        Check.objects.bulk_create(
            checks, update_conflicts=True, unique_fields=["step", "key"], update_fields=CHECK_FIELDS
        )

    def check(self, key: str, label: str, status: CheckStatus, **facts: str) -> None:
        """Show one measured fact; ``facts`` as of ``measured``."""
        self.show([self.measured(key, label, status, **facts)])

    def remember(self, **facts: Any) -> None:
        """Keep facts with the step, for when it is run again by another worker; secrets in them are masked."""
        with self.writing():
            self.keep(**facts)

    def keep(self, **facts: Any) -> None:
        """As ``remember``, for use inside ``writing``."""
        self.step.data = self._with(facts)
        JobStep.objects.filter(pk=self.step.pk).update(data=self.step.data)

    def _with(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """The step's facts and these: what a process was started with may hold secrets."""
        exact = {name: value for name, value in facts.items() if name in EXACT}
        return {**self.step.data, **self.log.hide_in(facts), **exact}

    def remember_soon(self, **facts: Any) -> None:
        """As ``remember``, with the next write."""
        self.step.data = self._with(facts)
        self.log.write_soon(partial(JobStep.objects.filter(pk=self.step.pk).update, data=self.step.data))

    def readings(self, used_mib: Mapping[str, int | None]) -> None:
        """A point of the memory curve: MiB by card uuid, None where it could not be measured."""
        with self.log.transaction():
            self._store_readings(used_mib)
        hints.hint(f"readings:{self.job.pk}")

    def _store_readings(self, used_mib: Mapping[str, int | None]) -> None:
        now = timezone.now()
        JobReading.objects.bulk_create(
            JobReading(job=self.job, gpu_uuid=uuid, at=now, used_mib=used) for uuid, used in used_mib.items()
        )

    def reading_said(self, words: Sequence[str]) -> None:
        """A point of the curve from a script's line: uuid and MiB. Cards of others are not ours to show."""
        if len(words) == 2 and words[0] in self.placement.gpu_uuids:
            self.readings({words[0]: int(words[1]) if words[1].isdigit() else None})

    @contextlib.contextmanager
    def writing(self, **fields: Any) -> Iterator[None]:
        """A transaction that holds only while the job is ours, and that makes its page draw itself anew.

        ``fields`` of the job are set in the same statement.
        """
        with self.log.transaction(version=F("version") + 1, **fields):
            yield
        hints.hint(f"job:{self.job.pk}")

    # --- Acting

    def effect(
        self, kind: EffectKind, *, command: str, target: Mapping[str, Any], on: Host | None = None
    ) -> EffectRecord:
        """Store the intent of an act ``on`` a machine, the job's host when left out: it counts as touched from here on.

        Raises StepFailed where only to look.
        """
        where = on or self.host
        with self.writing(touched=True, lease_until=Job.lease_from_now()):
            self.heed()
            if Host.objects.filter(pk=where.pk, look_only=True).exists():
                raise StepFailed(f"{where} has been made look-only meanwhile.", hint="Nothing more is done there.")
            effect = Effect.objects.create(
                job=self.job,
                step=self.step,
                fence=self.claim.fence,
                kind=kind,
                command=self.log.hide(command),
                target=dict(target),
            )
        self._renewed = time.monotonic()
        self.job.touched = True
        return EffectRecord(effect, self.log)

    def fenced(self, said: Sequence[str]) -> Exception:
        """The host refused our fence; ``raise`` what this returns. ``said``: the fence that the host has seen.

        Usually a newer worker is at work. A host that is ahead of the database means that the database was set back:
        the fence is raised to the host's, so that a job which is asked for anew, by a person who knows, can work.
        """
        seen = int(said[0]) if said and said[0].isdigit() else 0
        behind = Deployment.objects.filter(pk=self.deployment.pk, fence__lt=seen)
        if not behind.update(fence=seen):
            return LeaseLost()
        return StepFailed(
            f"{self.host} has seen newer work on {self.deployment} than this panel knows (fence {seen}).",
            hint="Was an older database restored? Look at what runs on the host, then ask for the job again.",
        )

    def live_launch(self) -> Launch | None:
        """The deployment's launch that serves or may serve."""
        return self.deployment.live_launch

    # --- Asking

    def ask(
        self,
        kind: GateKind,
        *,
        title: str,
        text: str,
        choices: Sequence[Mapping[str, Any]],
        evidence: Sequence[Mapping[str, Any]] = (),
        plan_hash: str = "",
        expires_in: timedelta | None = None,
        **job_fields: Any,
    ) -> GateOpened:
        """Ask a person; ``raise`` what this returns. ``job_fields`` are stored together with the question."""
        return GateOpened(
            Gate(
                job=self.job,
                step=self.step,
                kind=kind,
                title=self.log.hide(title)[:200],
                text=self.log.hide(text),
                evidence=self.log.hide_in(list(evidence)),
                choices=[self._shown(choice) for choice in choices],
                plan_hash=plan_hash,
                expires_at=timezone.now() + expires_in if expires_in else None,
            ),
            **job_fields,
        )

    def _shown(self, choice: Mapping[str, Any]) -> dict[str, Any]:
        words = {name: self.log.hide(choice.get(name, "")) for name in ("label", "detail")}
        return {"danger": False, "needs_reason": False, **choice, **words}

    def answer(self, kind: GateKind) -> Gate | None:
        """The answer to this step's newest gate of this kind, used up by this call; None when there is none."""
        gate = self.answered(kind)
        if gate is None:
            return None
        with self.writing():
            used = Gate.objects.filter(pk=gate.pk, used_at=None).update(used_at=timezone.now())
        return gate if used else None

    def answered(self, kind: GateKind) -> Gate | None:
        """The newest answer to a gate of this kind, used up or not."""
        return self.step.gates.filter(kind=kind).exclude(answered_at=None).order_by("-id").first()

    def finish(self, summary: str, **facts: Any) -> None:
        """The step has reached its goal. ``facts`` are kept with it. Stored when the runner goes on to the next."""
        summary = self.log.hide(summary)
        self.say(summary)
        self._end = {"state": StepState.DONE, "summary": summary, "ended_at": timezone.now()}
        if facts:
            self._end["data"] = self._with(facts)

    def store_end(self) -> None:
        """Store that the step has reached its goal, if it has; in the transaction in which the next one begins."""
        if self._end:
            JobStep.objects.filter(pk=self.step.pk).update(**self._end)
