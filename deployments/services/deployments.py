"""Make and change deployments, and say which launch was good."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from controlpanel import audit
from controlpanel.access import Action, require
from controlpanel.live import hints
from controlpanel.refusal import Refused
from deployments.models import Deployment, Launch, Placement, Revision
from deployments.proven import ran_with
from deployments.services.jobs import wait_for
from deployments.services.targets import refuse_released
from deployments.traffic.hook import Moment, hook_of
from hosts.doubles import refuse_doubled
from hosts.models import Gpu, Host

EDITABLE = (
    "name",
    "profile",
    "revision",
    "port",
    "owner",
    "production",
    "requester_may_approve",
    "clean_start_by_itself",
    "crash_starts_per_hour",
    "kill_own_by_itself",
    "kill_from_node_by_itself",
    "co_tenants",
    "shared_need_mib",
    "tolerance_mib",
    "drain_seconds",
    "term_seconds",
    "kill_seconds",
    "memory_seconds",
    "stuck_seconds",
    "port_seconds",
    "ready_seconds",
    "approval_minutes",
    "started_by",
    "hooks",
)


def create_deployment(
    deployment: Deployment,
    *,
    host: Host,
    gpu_uuids: list[str],
    shares_with: Iterable[Deployment] = (),
    actor: User,
    address: str,
) -> Deployment:
    """Make a deployment of ``deployment.revision`` on ``host`` and these cards.

    ``shares_with``: deployments that may hold the same cards; each of them then allows this one too.
    """
    require(actor, Action.EDIT_DEPLOYMENT)
    if Deployment.objects.filter(name=deployment.name).exists():
        raise Refused(f"There is already a deployment named {deployment.name}.", hint="Choose another name.")
    refuse_doubled(host)
    check_cards(host, gpu_uuids)
    _check_need(deployment)
    deployment.profile = deployment.revision.profile
    deployment.port = deployment.revision.port
    deployment.created_by = actor
    with transaction.atomic():
        deployment.save()
        Placement.objects.create(deployment=deployment, host=host, gpu_uuids=gpu_uuids)
        _share(deployment, shares_with, host=host, actor=actor, address=address)
        audit.record(
            "add deployment",
            actor=actor,
            target=deployment,
            detail={"host": host.name, "cards": gpu_uuids, **_policy(deployment)},
            address=address,
        )
    hints.hint("overview")
    return deployment


def update_deployment(
    deployment: Deployment,
    *,
    host: Host,
    gpu_uuids: list[str],
    shares_with: Iterable[Deployment] | None = None,
    actor: User,
    address: str,
) -> Deployment:
    """Change a deployment's recipe, place or policy. What runs stays as it is until the next restart.

    ``shares_with``: as for a new one; None leaves it as it is.

    Writes only what a form can hold: the row that was read may be old, and the fence must never fall.
    """
    require(actor, Action.EDIT_DEPLOYMENT)
    check_cards(host, gpu_uuids)
    _check_need(deployment)
    deployment.profile = deployment.revision.profile
    with transaction.atomic():
        wanted = None if shares_with is None else list(shares_with)
        others = [] if wanted is None else [*wanted, *deployment.shares_with.all()]
        locked = Deployment.locked_together(one.pk for one in (deployment, *others))
        before = next(row for row in locked if row.pk == deployment.pk)
        refuse_released(before)
        _refuse_while_it_runs(before, revision=deployment.revision, host=host)
        if host != before.placement.host:
            refuse_doubled(host)
        deployment.port = deployment.revision.port
        deployment.save(update_fields=EDITABLE)
        Placement.objects.filter(pk=before.placement.pk).update(host=host, gpu_uuids=gpu_uuids)
        if wanted is not None:
            if {one.pk for one in deployment.shares_with.all()} - {one.pk for one in locked}:
                raise Refused(f"Somebody has just changed who shares cards with {deployment}.", hint="Try again.")
            _share(deployment, wanted, host=host, actor=actor, address=address)
        audit.record(
            "change deployment",
            actor=actor,
            target=deployment,
            detail={"host": host.name, "cards": gpu_uuids, **_policy(deployment)},
            address=address,
        )
    hints.hint("overview")
    return deployment


def _share(deployment: Deployment, wanted: Iterable[Deployment], *, host: Host, actor: User, address: str) -> None:
    """Allow exactly these on the same cards, and say so in the audit of each other one that this changes.

    Raises Refused for one on another machine, and while a job of it goes on: its plan says who shares its cards.
    """
    now, before = {other.pk: other for other in wanted}, {other.pk: other for other in deployment.shares_with.all()}
    for other in Deployment.locked_together(now.keys() ^ before.keys()):
        pk = other.pk
        if pk in now and other.placement.host.machine != host.machine:
            raise Refused(
                f"{other} runs on {other.placement.host}, so it cannot share cards of {host}.",
                hint="Choose only deployments that use the same cards.",
            )
        if (job := other.active_job) is not None:
            raise wait_for(job, f"With whom {other} shares its cards is not changed while a job of it goes on.")
        detail = {"deployment": deployment.name, "may share its cards": pk in now}
        audit.record("change sharing", actor=actor, target=other, detail=detail, address=address)
    deployment.shares_with.set(now.values())


def _refuse_while_it_runs(before: Deployment, *, revision: Revision, host: Host) -> None:
    """What a job is at work on stays as it is; what serves does not change its place or its port."""
    if (job := before.active_job) is not None:
        raise wait_for(job, f"{before} is not changed while a job of it goes on.")
    if before.live_launch is None:
        return
    if before.placement.host_id != host.pk:
        raise Refused(f"{before} still runs on {before.placement.host}.", hint="Stop it first, then move it.")
    if revision.port != before.port:
        raise Refused(
            f"{before} still runs on port {before.port}; {revision} uses port {revision.port}.",
            hint="Stop it first, then change its port.",
        )


def check_cards(host: Host, gpu_uuids: list[str]) -> None:
    """Raises Refused for a host on which nothing is started, and for cards that it has not."""
    if host.look_only:
        raise Refused(f"{host} is look-only: nothing is started or stopped there.", hint="Change that on its page.")
    known = set(Gpu.objects.filter(host=host).values_list("uuid", flat=True))
    unknown = [uuid for uuid in gpu_uuids if uuid not in known]
    if len(set(gpu_uuids)) < len(gpu_uuids):
        raise Refused("A card is named twice.", hint="Name each card once.")
    if unknown:
        raise Refused(f"{host} has no card {unknown[0]}.", hint="Test the host again to read its cards.")


def _check_need(deployment: Deployment) -> None:
    need = deployment.shared_need_mib
    if need is not None and need < 1:
        raise Refused(
            f"{need} MiB cannot be what a server needs on a shared card.",
            hint="Write at least 1, or leave it empty: the job then asks before the launch.",
        )


def _policy(deployment: Deployment) -> dict[str, object]:
    return {
        "revision": str(deployment.revision),
        "requester_may_approve": deployment.requester_may_approve,
        "clean_start_by_itself": deployment.clean_start_by_itself,
        "crash_starts_per_hour": deployment.crash_starts_per_hour,
        "kill_own_by_itself": deployment.kill_own_by_itself,
        "kill_from_node_by_itself": deployment.kill_from_node_by_itself,
        "shares_with": sorted(deployment.shares_with.values_list("name", flat=True)),
        "co_tenants": deployment.co_tenants,
        "shared_need_mib": deployment.shared_need_mib,
        "tolerance_mib": deployment.tolerance_mib,
        "production": deployment.production,
        "started_by": deployment.started_by,
        "hooks": {moment: str(hook_of(deployment.hooks, Moment(moment))) for moment in deployment.hooks},
    }


def mark_proven(launch: Launch, *, actor: User, address: str) -> None:
    """Say that this launch was good: its revision becomes the deployment's proven one."""
    require(actor, Action.APPROVE)
    place = launch.deployment.place
    if launch.revision is None or launch.ready_at is None:
        raise Refused("Only a launch that has served can be marked as proven.")
    kept = ran_with(
        effective=launch.effective,
        requested=launch.requested,
        model=launch.model,
        cards=place.cards if place is not None else [],
    )
    who = {"by": actor.get_username(), "at": timezone.now().isoformat(timespec="seconds")}
    with transaction.atomic():
        Deployment.objects.filter(pk=launch.deployment_id).update(
            proven_revision=launch.revision, proven_launch=launch, proven_with={**kept, **who}
        )
        audit.record(
            "mark proven",
            actor=actor,
            target=launch.deployment,
            detail={"revision": str(launch.revision), "launch": str(launch.pk), **kept},
            address=address,
        )
    hints.hint("overview")


def unmark_proven(deployment: Deployment, *, actor: User, address: str) -> None:
    """Say that nothing of this deployment counts as proven any more."""
    require(actor, Action.APPROVE)
    if deployment.proven_revision is None:
        raise Refused(f"Nothing of {deployment} is marked as proven.")
    detail = {"revision": str(deployment.proven_revision)}
    with transaction.atomic():
        Deployment.objects.filter(pk=deployment.pk).update(proven_revision=None, proven_launch=None, proven_with={})
        audit.record("unmark proven", actor=actor, target=deployment, detail=detail, address=address)
    hints.hint("overview")
