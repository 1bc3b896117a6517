"""What people may do with profiles, deployments and jobs: the only doors for views and commands.

Each is one transaction that changes the rows and writes the audit entry; workers are rung after the commit.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from controlpanel import audit
from controlpanel.access import Action, may, require
from controlpanel.live import hints
from controlpanel.refusal import Refused
from deployments import commandline, tasks
from deployments.engines.registry import ENGINES
from deployments.lifecycle import ACTIVE, JobKind, JobState, LaunchState, StepState
from deployments.models import (
    CardClaim,
    Deployment,
    Gate,
    Job,
    JobStep,
    Launch,
    Placement,
    PortClaim,
    Profile,
    Revision,
)
from deployments.steps.recipes import RECIPES
from hosts.models import Gpu, Host

__all__ = [
    "Refused",
    "add_revision",
    "answer_gate",
    "cancel_job",
    "create_deployment",
    "create_profile",
    "mark_proven",
    "request_job",
    "update_deployment",
]


# --- Profiles -------------------------------------------------------------------------------------------------------


def create_profile(
    *,
    name: str,
    engine: str,
    description: str,
    argv: list[str],
    env: dict[str, str],
    workdir: str,
    port: int,
    ready_pattern: str,
    notes: str,
    actor: User,
    address: str,
) -> Profile:
    """Make a profile with its first revision."""
    require(actor, Action.EDIT_PROFILE)
    if engine not in ENGINES:
        raise Refused(f"There is no engine named {engine!r}.", hint=f"Choose one of: {', '.join(ENGINES)}.")
    if Profile.objects.filter(name=name).exists():
        raise Refused(f"There is already a profile named {name}.", hint="Choose another name, or add a revision to it.")
    with transaction.atomic():
        profile = Profile.objects.create(name=name, engine=engine, description=description, created_by=actor)
        audit.record("add profile", actor=actor, target=profile, detail={"engine": engine}, address=address)
        add_revision(
            profile,
            argv=argv,
            env=env,
            workdir=workdir,
            port=port,
            ready_pattern=ready_pattern,
            notes=notes,
            actor=actor,
            address=address,
        )
    return profile


def add_revision(
    profile: Profile,
    *,
    argv: list[str],
    env: dict[str, str],
    workdir: str,
    port: int,
    ready_pattern: str,
    notes: str,
    actor: User,
    address: str,
) -> Revision:
    """Make the next revision of a profile. Raises Refused for a command that cannot be right."""
    require(actor, Action.EDIT_PROFILE)
    engine = ENGINES[profile.engine]
    try:
        commandline.check_argv(argv)
        commandline.check_env(env)
    except ValueError as error:
        raise Refused(str(error)) from error
    if engine.flag(argv, engine.port_flags) is not None and engine.port(argv) != port:
        raise Refused(
            f"The command says port {engine.port(argv)}, the profile says {port}.", hint="Make both the same."
        )
    if not engine.ready and not ready_pattern:
        raise Refused(
            "How to tell that this server is ready is not known.",
            hint="Give a text that its log shows when it is ready to answer.",
        )
    with transaction.atomic():
        Profile.objects.filter(pk=profile.pk).update(engine=profile.engine)  # holds the row: numbers have no gap
        newest = profile.revisions.order_by("-number").first()
        revision = Revision.objects.create(
            profile=profile,
            number=newest.number + 1 if newest else 1,
            argv=argv,
            env=env,
            workdir=workdir,
            port=port,
            ready_pattern=ready_pattern,
            notes=notes,
            created_by=actor,
        )
        audit.record(
            "add revision",
            actor=actor,
            target=revision,
            detail={"command": revision.command_line},
            address=address,
        )
    return revision


# --- Deployments ----------------------------------------------------------------------------------------------------


def create_deployment(
    deployment: Deployment, *, host: Host, gpu_uuids: list[str], actor: User, address: str
) -> Deployment:
    """Make a deployment of ``deployment.revision`` on ``host`` and these cards."""
    require(actor, Action.EDIT_DEPLOYMENT)
    if Deployment.objects.filter(name=deployment.name).exists():
        raise Refused(f"There is already a deployment named {deployment.name}.", hint="Choose another name.")
    _check_cards(host, gpu_uuids)
    deployment.profile = deployment.revision.profile
    deployment.port = deployment.revision.port
    deployment.created_by = actor
    with transaction.atomic():
        deployment.save()
        Placement.objects.create(deployment=deployment, host=host, gpu_uuids=gpu_uuids)
        audit.record(
            "add deployment",
            actor=actor,
            target=deployment,
            detail={
                "host": host.name,
                "cards": gpu_uuids,
                "revision": str(deployment.revision),
                **_policy(deployment),
            },
            address=address,
        )
    hints.hint("overview")
    return deployment


def update_deployment(
    deployment: Deployment, *, host: Host, gpu_uuids: list[str], actor: User, address: str
) -> Deployment:
    """Change a deployment's recipe, place or policy. What runs stays as it is until the next restart."""
    require(actor, Action.EDIT_DEPLOYMENT)
    _check_cards(host, gpu_uuids)
    placement = deployment.placement
    moved = placement.host_id != host.pk
    if deployment.active_job is not None:
        raise Refused(f"A job is at work on {deployment}.", hint="Wait until it has ended.")
    if moved and deployment.live_launch is not None:
        raise Refused(f"{deployment} still runs on {placement.host}.", hint="Stop it first, then move it.")
    if deployment.revision.port != deployment.port and deployment.live_launch is not None:
        raise Refused(
            f"{deployment} still runs on port {deployment.port}; {deployment.revision} uses port "
            f"{deployment.revision.port}.",
            hint="Stop it first, then change its port.",
        )
    deployment.profile = deployment.revision.profile
    deployment.port = deployment.revision.port
    with transaction.atomic():
        deployment.save()
        Placement.objects.filter(pk=placement.pk).update(host=host, gpu_uuids=gpu_uuids)
        audit.record(
            "change deployment",
            actor=actor,
            target=deployment,
            detail={
                "host": host.name,
                "cards": gpu_uuids,
                "revision": str(deployment.revision),
                **_policy(deployment),
            },
            address=address,
        )
    hints.hint("overview")
    return deployment


def _check_cards(host: Host, gpu_uuids: list[str]) -> None:
    if host.look_only:
        raise Refused(f"{host} is look-only: nothing is started or stopped there.", hint="Change that on its page.")
    known = set(Gpu.objects.filter(host=host).values_list("uuid", flat=True))
    unknown = [uuid for uuid in gpu_uuids if uuid not in known]
    if unknown:
        raise Refused(f"{host} has no card {unknown[0]}.", hint="Test the host again to read its cards.")


def _policy(deployment: Deployment) -> dict[str, object]:
    return {
        "requester_may_approve": deployment.requester_may_approve,
        "kill_own_by_itself": deployment.kill_own_by_itself,
        "co_tenants": deployment.co_tenants,
        "production": deployment.production,
    }


def mark_proven(launch: Launch, *, actor: User, address: str) -> None:
    """Say that this launch was good: its revision becomes the deployment's proven one."""
    require(actor, Action.APPROVE)
    if launch.revision is None or launch.ready_at is None:
        raise Refused("Only a launch that has served can be marked as proven.")
    with transaction.atomic():
        Deployment.objects.filter(pk=launch.deployment_id).update(proven_revision=launch.revision)
        audit.record(
            "mark proven",
            actor=actor,
            target=launch.deployment,
            detail={"revision": str(launch.revision), "launch": str(launch.pk)},
            address=address,
        )
    hints.hint("overview")


# --- Jobs -----------------------------------------------------------------------------------------------------------


def request_job(
    deployment: Deployment,
    *,
    kind: JobKind,
    revision: Revision | None,
    reason: str,
    way_back: bool,
    request_key: UUID,
    actor: User,
    address: str,
) -> Job:
    """Make a job; its first step is the plan, and nothing is touched before an approval.

    The same ``request_key`` gives the same job. Raises Refused when the deployment, one of its cards or its port
    is in the hands of another job.
    """
    require(actor, Action.ASK)
    same_click = Job.objects.filter(requested_by=actor, request_key=request_key).first()
    if same_click is not None:
        return same_click
    placement = deployment.placement
    if placement.host.look_only:
        raise Refused(f"{placement.host} is look-only.", hint="Jobs cannot run there.")
    target = None if kind == JobKind.STOP else (revision or deployment.revision)
    if target is not None and target.port != deployment.port:
        raise Refused(
            f"{target} listens on port {target.port}, {deployment} on port {deployment.port}.",
            hint="Change the deployment to this revision first.",
        )
    try:
        with transaction.atomic():
            job = Job.objects.create(
                deployment=deployment,
                deployment_name=deployment.name,
                host_name=placement.host.name,
                kind=kind,
                requested_by=actor,
                requested_by_name=actor.get_username(),
                reason=reason,
                request_key=request_key,
                revision=target,
                way_back=way_back and kind == JobKind.RESTART,
                ring_at=timezone.now() + timedelta(seconds=5),
            )
            _claim_place(job, placement, port=target.port if target else deployment.port)
            JobStep.objects.bulk_create(
                JobStep(job=job, position=position, name=name) for position, name in enumerate(RECIPES[kind])
            )
            audit.record(
                f"ask for {kind}",
                actor=actor,
                target=deployment,
                detail={"job": job.pk, "revision": str(target), "reason": reason},
                address=address,
            )
            transaction.on_commit(lambda: tasks.ring(job.pk), robust=True)
    except IntegrityError as error:
        same_click = Job.objects.filter(requested_by=actor, request_key=request_key).first()
        if same_click is not None:
            return same_click
        raise _busy(deployment, placement, port=target.port if target else deployment.port) from error
    _tell(job)
    return job


def _claim_place(job: Job, placement: Placement, *, port: int) -> None:
    """Hold the cards and the port for as long as the job is active. Raises IntegrityError when another does."""
    machine = placement.host.machine
    CardClaim.objects.bulk_create(
        CardClaim(job=job, machine=machine, gpu_uuid=uuid) for uuid in sorted(set(placement.gpu_uuids))
    )
    PortClaim.objects.create(job=job, host=placement.host, port=port)


def _busy(deployment: Deployment, placement: Placement, *, port: int) -> Refused:
    """Say which job is in the way."""
    own = deployment.active_job
    if own is not None:
        return Refused(
            f"{own.requested_by_name} has already asked for a {own.kind} of {deployment} (job {own.pk}, {own.state}).",
            hint="Open that job; wait for its end or cancel it.",
        )
    card = CardClaim.objects.filter(machine=placement.host.machine, gpu_uuid__in=placement.gpu_uuids).first()
    claim = card or PortClaim.objects.filter(host=placement.host, port=port).first()
    if claim is None:
        return Refused("Another job has just ended here.", hint="Try again.")
    what = "one of its cards" if card is not None else f"port {port}"
    return Refused(
        f"Job {claim.job_id} ({claim.job.kind} of {claim.job.deployment_name}) works with {what}.",
        hint="Wait for its end, or cancel it.",
    )


def answer_gate(gate: Gate, *, choice: str, comment: str, plan_hash: str, actor: User, address: str) -> None:
    """Give a waiting job its answer. Raises Refused when it came too late or for another plan."""
    job = gate.job
    option = next((known for known in gate.choices if known["key"] == choice), None)
    if option is None:
        raise Refused(f"{choice!r} is not one of the choices.")
    _check_may_answer(job, Action(option["action"]), actor)
    if gate.plan_hash and gate.plan_hash != plan_hash:
        raise Refused("The plan has changed since this page was loaded.", hint="Read the new plan, then decide.")
    if option.get("needs_reason") and not comment.strip():
        raise Refused("This choice needs a reason.", hint="Write down why, in a sentence.")
    ends = {"discard": JobState.REJECTED}.get(choice)
    with transaction.atomic():
        now = timezone.now()
        answered = (
            Gate.objects.filter(pk=gate.pk, answered_at=None)
            .exclude(expires_at__lt=now)
            .update(answered_at=now, answered_by_name=actor.get_username(), answer=choice, comment=comment)
        )
        if not answered:
            raise Refused("This question is not open any more.", hint="Look at the job: somebody may have answered.")
        moved = Job.objects.filter(pk=job.pk, state=JobState.WAITING).update(
            state=ends or JobState.QUEUED,
            summary=f"{option['label']}: {actor.get_username()}" if ends else "",
            ended_at=now if ends else None,
            ring_at=now + timedelta(seconds=5),
            version=F("version") + 1,
            **({"approved_by_name": actor.get_username()} if choice == "approve" else {}),
        )
        if not moved:
            raise Refused("The job does not wait any more.", hint="Reload its page.")
        if ends:
            close(job.pk)
        audit.record(
            f"answer {gate.kind}: {choice}",
            actor=actor,
            target=job,
            detail={"gate": gate.pk, "plan": gate.plan_hash, "comment": comment},
            address=address,
        )
        transaction.on_commit(lambda: tasks.ring(job.pk), robust=True)
    _tell(job)


def _check_may_answer(job: Job, action: Action, actor: User) -> None:
    """Who may approve may also say no. The policy decides whether the requester may approve; no policy means no."""
    if action == Action.ASK and may(actor, Action.APPROVE):
        return
    require(actor, action)
    if action not in (Action.APPROVE, Action.CONFIRM_KILL) or job.requested_by_id != actor.pk:
        return
    if job.deployment is None or not job.deployment.requester_may_approve:
        raise PermissionDenied("Somebody else must approve: this deployment's policy does not let the requester do it.")


def cancel_job(job: Job, *, actor: User, address: str) -> None:
    """Cancel: at once when nothing was touched and nobody works on it, else by the worker at its next breath."""
    if not (may(actor, Action.ASK) or may(actor, Action.APPROVE)):
        require(actor, Action.ASK)
    with transaction.atomic():
        name = actor.get_username()
        idle = Job.objects.filter(pk=job.pk, touched=False, state__in=(JobState.QUEUED, JobState.WAITING))
        ended = idle.filter(lease_until=None).update(
            state=JobState.CANCELLED,
            summary=f"Cancelled by {name} before anything was touched.",
            cancel_requested_by=name,
            ended_at=timezone.now(),
            version=F("version") + 1,
        )
        if ended:
            Gate.objects.filter(job=job, answered_at=None).update(
                answered_at=timezone.now(), answered_by_name=name, answer="cancelled"
            )
            close(job.pk)
        else:
            asked = Job.objects.filter(pk=job.pk, state__in=ACTIVE).update(
                cancel_requested_by=name, version=F("version") + 1
            )
            if not asked:
                raise Refused("The job has already ended.")
            Job.objects.filter(pk=job.pk, state=JobState.WAITING).update(state=JobState.QUEUED)
            Gate.objects.filter(job=job, answered_at=None).update(
                answered_at=timezone.now(), answered_by_name=name, answer="cancelled"
            )
        audit.record("cancel", actor=actor, target=job, detail={"at_once": bool(ended)}, address=address)
        transaction.on_commit(lambda: tasks.ring(job.pk), robust=True)
    _tell(job)


def close(job_id: int) -> None:
    """Skip what a job has not done and let go of its cards and port; belongs into the transaction that ends it."""
    open_steps = JobStep.objects.filter(job_id=job_id, state__in=(StepState.PENDING, StepState.RUNNING))
    open_steps.update(state=StepState.SKIPPED)
    CardClaim.objects.filter(job_id=job_id).delete()
    PortClaim.objects.filter(job_id=job_id).delete()


def _tell(job: Job) -> None:
    hints.hint(f"job:{job.pk}")
    hints.hint("overview")


def lose_launch(launch: Launch, *, state: LaunchState, reason: str) -> None:
    """A live launch was found ended outside a job (called by the watcher)."""
    Launch.objects.filter(pk=launch.pk, state=launch.state).update(
        state=state, ended_at=timezone.now(), end_reason=reason
    )
