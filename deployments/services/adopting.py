"""Look for servers that run on a host, and make them deployments, or attach them to one."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from controlpanel import audit, sealing
from controlpanel.access import Action, require
from controlpanel.live import hints
from controlpanel.refusal import Refused
from controlpanel.sealing import CannotUnseal
from deployments import secrets, tasks
from deployments.commandline import on_one_line
from deployments.discovery.found import Found
from deployments.discovery.look import command_of
from deployments.engines.registry import ENGINES
from deployments.lifecycle import LIVE_LAUNCH, LaunchState, ServiceState
from deployments.models import Deployment, Launch, Placement, Profile, Revision, ServerLook
from deployments.services.deployments import create_deployment
from deployments.services.jobs import wait_for
from deployments.services.profiles import LaunchFields, add_revision, create_profile
from deployments.services.secrets import set_secret
from hosts.doubles import refuse_doubled, same_machine
from hosts.models import Host

LOOK_AGAIN = "Look for servers again on the host's page."
SEEN_WITHIN = timedelta(minutes=5)
"""Nothing is adopted by a look that is older: the server may have ended since."""


def request_look(host: Host, *, actor: User, address: str) -> ServerLook:
    """Ask a worker to look for servers on a host. One look at a host goes on at a time."""
    require(actor, Action.TEST_HOST)
    with transaction.atomic():
        _lock(host)
        before = ServerLook.objects.filter(host=host).first()
        if before is not None and before.goes_on:
            return before
        look = ServerLook.objects.create(host=host, requested_by=actor)
        audit.record("look for servers", actor=actor, target=host, detail={}, address=address)
        transaction.on_commit(lambda: tasks.ring_look(look.pk), robust=True)
    return look


def _lock(host: Host) -> None:
    """Until the transaction ends: two clicks do not adopt one server twice."""
    host.hold()


def owner_of(host: Host, found: Found) -> Deployment | None:
    """The deployment whose server it is by what the panel has recorded."""
    launch = _launch_that_is(host, found, Launch.objects.filter(state__in=LIVE_LAUNCH))
    return launch.deployment if launch is not None else None


def _launch_that_is(host: Host, found: Found, launches: QuerySet[Launch]) -> Launch | None:
    """Of these the one whose server it is, on the host, in a container of it, or on a host that is the same machine."""
    known = launches.select_related("deployment", "host")
    doubles = same_machine(host) if host.machine == host else []
    machines = [host, *doubles]
    for launch in known.filter(Q(host__in=machines) | Q(host__via__in=machines)):
        here = launch.host in machines
        same = found.is_process(launch.boot_id, launch.pid, launch.start_time) if here else False
        if same or str(launch.pk) == found.launch or (not here and found.is_inside(launch.pid, launch.start_time)):
            return launch
    return None


def adopt(
    host: Host,
    found: Found,
    *,
    seen_at: datetime | None,
    name: str,
    requester_may_approve: bool = False,
    actor: User,
    address: str,
) -> Deployment:
    """Make a profile, its first revision and a deployment of a server that runs. Nothing on the host is touched.

    ``seen_at``: when the host was looked at. Raises Refused.
    """
    require(actor, Action.EDIT_PROFILE)
    require(actor, Action.EDIT_DEPLOYMENT)
    _check_free_to_take(host, found)
    with transaction.atomic():
        Deployment.locked_together(one.pk for one in _sharing(host, found))  # before the host, as everybody does
        _lock(host)
        _check_still_there(host, found, seen_at)
        _refuse_if_owned(host, found)
        profile = create_profile(
            name=name,
            engine=found.engine,
            description=f"Adopted from {host}.",
            **_launch_fields(found, notes=f"As it ran on {host} when it was adopted."),
            actor=actor,
            address=address,
        )
        unsaved = Deployment(
            name=name, revision=profile.newest, owner=actor, requester_may_approve=requester_may_approve
        )
        deployment = create_deployment(
            unsaved,
            host=host,
            gpu_uuids=[card.uuid for card in found.cards],
            shares_with=_sharing(host, found),
            actor=actor,
            address=address,
        )
        _take(deployment, host, found, deed="adopt server", actor=actor, address=address)
    hints.hint("overview")
    return deployment


def attach(deployment: Deployment, found: Found, *, seen_at: datetime | None, actor: User, address: str) -> Revision:
    """Make what runs the server of a deployment that has none, as a revision of its profile.

    A revision that says the same is used again. ``seen_at``: when the host was looked at. Raises Refused.
    """
    require(actor, Action.EDIT_PROFILE)
    require(actor, Action.EDIT_DEPLOYMENT)
    host = deployment.placement.host
    _check_free_to_take(host, found)
    if found.engine != deployment.profile.engine:
        raise Refused(
            f"The server is {ENGINES[found.engine].label}, {deployment} is for "
            f"{ENGINES[deployment.profile.engine].label}.",
            hint="Adopt it as a deployment of its own.",
        )
    with transaction.atomic():
        now = Deployment.locked(deployment.pk)  # before its host, as everybody does
        _lock(host)
        _check_still_there(host, found, seen_at)
        _refuse_if_owned(host, found)
        _check_has_no_server(now)
        revision = _same_revision(now.profile, found) or add_revision(
            now.profile,
            **_launch_fields(found, notes=f"As it was started by hand on {host}, attached since."),
            actor=actor,
            address=address,
        )
        Deployment.objects.filter(pk=now.pk).update(revision=revision, port=revision.port)
        if found.cards:
            Placement.objects.filter(pk=now.placement.pk).update(gpu_uuids=[card.uuid for card in found.cards])
        now.refresh_from_db()
        _take(now, host, found, deed="attach server", actor=actor, address=address)
    hints.hint("overview")
    return revision


def _check_free_to_take(host: Host, found: Found) -> None:
    """Raises Refused for a server that cannot be adopted."""
    if found.refused:
        raise Refused(found.refused, hint=found.hint)
    refuse_doubled(host)
    if host.look_only:
        raise Refused(f"{host} is look-only: nothing is started or stopped there.", hint="Change that on its page.")


def is_old(seen_at: datetime | None) -> bool:
    """Was the host looked at too long ago for anything to be adopted by that?"""
    return seen_at is None or timezone.now() - seen_at > SEEN_WITHIN


def _check_still_there(host: Host, found: Found, seen_at: datetime | None) -> None:
    """Raises Refused where the server may have ended since: the deployment would say that it serves.

    An end within these minutes that nobody has recorded is seen by the monitor's next reading. A signal is safe in any
    case: the host compares boot, pid and start time once more before it sends one (remote/signal.sh).
    """
    host.refresh_from_db(fields=["reach"])
    if host.reach == Host.Reach.UNREACHABLE:
        raise Refused(
            f"{host} cannot be reached now, so whether that server still runs is not known.",
            hint=f"When it answers again: {LOOK_AGAIN}",
        )
    if seen_at is None or is_old(seen_at):
        raise Refused("That server was seen too long ago: it may have ended or been restarted since.", hint=LOOK_AGAIN)
    if (ended := _launch_that_is(host, found, Launch.objects.filter(ended_at__gte=seen_at))) is not None:
        raise Refused(f"That server was one of {ended.deployment}, which has ended since that look.", hint=LOOK_AGAIN)


def _refuse_if_owned(host: Host, found: Found) -> None:
    if (owner := owner_of(host, found)) is not None:
        link = (f"/deployments/{owner.pk}/", f"Open {owner}")
        raise Refused(f"It is the server of {owner} already.", hint="Nothing was changed.", link=link)


def _check_has_no_server(deployment: Deployment) -> None:
    """Raises Refused while a job is at work, or another server counts as the deployment's own."""
    if (job := deployment.active_job) is not None:
        raise wait_for(job, f"Nothing is attached to {deployment} while a job of it goes on.")
    if deployment.live_launch is not None:
        raise Refused(
            f"{deployment} has a server that counts as running.",
            hint="When it has ended, the panel sees that within seconds. Then attach the other one.",
        )


def _launch_fields(found: Found, *, notes: str) -> LaunchFields:
    return {
        "argv": list(found.argv),
        "env": dict(found.env),
        "workdir": found.workdir,
        "container": {},
        "port": found.port,
        "ready_pattern": "",
        "notes": notes,
    }


def _same_revision(profile: Profile, found: Found) -> Revision | None:
    """The newest revision that starts exactly that."""
    wanted = command_of(found)
    same = (each for each in profile.revisions.all() if each.command == wanted and each.port == found.port)
    return next(same, None)


def _sharing(host: Host, found: Found) -> list[Deployment]:
    """Those whose server holds one of the same cards beside it now: what is so today may go on."""
    machine, cards = host.machine, {card.uuid for card in found.cards}
    live = Launch.objects.filter(state__in=LIVE_LAUNCH).values("deployment")
    places = Placement.objects.filter(deployment__in=live).select_related("deployment", "host__via")
    return [place.deployment for place in places if place.host.machine == machine and cards & set(place.gpu_uuids)]


def _take(deployment: Deployment, host: Host, found: Found, *, deed: str, actor: User, address: str) -> None:
    """Keep its secrets, record it as the deployment's launch, say that it serves, and write who did it."""
    _keep_secrets(deployment, found, actor=actor, address=address)
    launch = _launch(deployment, host, found, actor=actor)
    Deployment.objects.filter(pk=deployment.pk).update(
        state=ServiceState.SERVING, state_since=launch.started_at, state_detail="", found={}, released={}
    )
    detail: dict[str, Any] = {
        "host": host.name,
        "pid": found.pid,
        "command": on_one_line(command_of(found)),
        "revision": str(deployment.revision),
        "cards": [card.uuid for card in found.cards],
        "secrets": sorted(found.secrets),
    }
    audit.record(deed, actor=actor, target=deployment, detail=detail, address=address)


def _keep_secrets(deployment: Deployment, found: Found, *, actor: User, address: str) -> None:
    """Those that its command and environment held become the deployment's. Raises Refused."""
    for name, sealed in sorted(found.secrets.items()):
        try:
            value = sealing.unseal(sealed, owner=found.owner)
        except CannotUnseal as error:
            raise Refused(error.message, hint=LOOK_AGAIN) from error
        set_secret(deployment, name=name, value=value, actor=actor, address=address)


def _launch(deployment: Deployment, host: Host, found: Found, *, actor: User) -> Launch:
    """What the panel knows of a start that was not its own."""
    now = timezone.now()
    return Launch.objects.create(
        deployment=deployment,
        revision=deployment.revision,
        host=host,
        state=LaunchState.SERVING,
        started_by=found.started_by,
        adopted_at=now,
        adopted_by_name=actor.get_username(),
        boot_id=found.boot_id,
        pid_namespace=found.pid_namespace,
        pid=found.pid,
        start_time=found.start_time,
        requested={
            "argv": list(found.argv),
            "env": dict(found.env),
            "workdir": found.workdir,
            "port": found.port,
            "secrets": secrets.versions(deployment),
        },
        effective=dict(found.effective),
        memory_used={card.uuid: card.mib for card in found.cards if card.mib is not None},
        started_at=parse_datetime(found.since) or now,
        ready_at=now,
    )
