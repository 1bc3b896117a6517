"""What people may do with hosts: the only doors for views and commands. The web process never speaks to a host."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.urls import reverse
from django.utils import timezone

from controlpanel import audit
from controlpanel.access import Action, require
from controlpanel.live import hints
from controlpanel.refusal import Refused
from hosts import panel_key, tasks
from hosts.models import Gpu, Host, HostKey, HostTest

__all__ = [
    "NotConfirmed",
    "Refused",
    "begin_maintenance",
    "confirm_baseline",
    "end_maintenance",
    "forget_key",
    "panel_public_key",
    "register_host",
    "remove_host",
    "request_test",
    "trust_key",
    "update_host",
]

LONGEST_TEST = timedelta(minutes=2)
"""After this long without an end, a test counts as one whose worker has died."""


EDITABLE = (
    "name",
    "transport",
    "address",
    "port",
    "user",
    "via",
    "vmid",
    "key_source",
    "key_path",
    "sudo",
    "look_only",
)


def register_host(host: Host, *, actor: User, address: str) -> Host:
    """Add a host. Raises Refused when its name is taken."""
    require(actor, Action.EDIT_HOST)
    host.created_by = actor
    return _save(host, "add host", actor=actor, address=address)


def update_host(host: Host, *, actor: User, address: str) -> Host:
    """Change a host. Its keys and its cards are known only while it is the same place.

    Raises Refused for another place while something of ours runs at this one: it would be lost from sight.
    """
    require(actor, Action.EDIT_HOST)
    before = Host.objects.get(pk=host.pk)
    moved = _place(before) != _place(host)
    if moved:
        _refuse_while_used(before)
    with transaction.atomic():
        _save(host, "change host", actor=actor, address=address)
        if moved:
            host.keys.all().delete()
            host.gpus.update(present=False, used_mib=None, unread_reason="The host was moved; test it again.")
            Host.objects.filter(pk=host.pk).update(
                reach=Host.Reach.UNKNOWN, problem="", hint="", boot_id="", hostname=""
            )
    return host


def _place(host: Host) -> tuple[object, ...]:
    """What makes it the place that it is: the login too, below whose home the launches are."""
    return host.transport, host.address, host.port, host.user, host.via_id, host.vmid


def _refuse_while_used(host: Host) -> None:
    """Servers that run there, or on a container reached through it, and jobs at work there."""
    for used in (host, *host.reached_through.all()):
        launch = used.launches.filter(ended_at=None).select_related("deployment").first()
        if launch is not None:
            raise Refused(
                f"{launch.deployment} still runs on {used}.", hint="Stop it first, or add the new place as a host."
            )
        _refuse_while_busy(used)


def _refuse_while_busy(used: Host) -> None:
    """While a job is at work there, or waits."""
    own = Q(deployment__jobs__isnull=False, deployment__jobs__ended_at=None)
    others = Q(deployment__replacements__isnull=False, deployment__replacements__ended_at=None)
    busy = used.placements.filter(own | others).first()
    if busy is not None:
        job = busy.deployment.active_job
        doing = "waits for a person" if job and job.state == "waiting" else "is at work"
        raise Refused(
            f"A job of {busy.deployment} on {used} {doing}.",
            hint="Wait until it has ended, or cancel it.",
            link=(job.get_absolute_url(), f"Open job {job.pk}") if job else None,
        )


def _refuse_while_claimed(gpu: Gpu) -> None:
    """A job's verdict on a card hangs on its baseline: who holds the memory now must not become what is usual."""
    machine = gpu.host.machine
    for used in (machine, *machine.reached_through.all()):
        busy = used.placements.filter(deployment__jobs__card_claims__gpu_uuid=gpu.uuid).first()
        if busy is not None:
            job = busy.deployment.jobs.filter(card_claims__gpu_uuid=gpu.uuid).first()
            raise Refused(
                f"A job of {busy.deployment} goes on with this card, so its baseline stays as it is.",
                hint="Wait until it has ended, or cancel it; then write the baseline.",
                link=(job.get_absolute_url(), f"Open job {job.pk}") if job else None,
            )


def _save(host: Host, action: str, *, actor: User, address: str) -> Host:
    if Host.objects.exclude(pk=host.pk).filter(name=host.name).exists():
        raise Refused(f"There is already a host named {host.name}.", hint="Choose another name.")
    if host.pk and _passes_through(host.via, host):
        raise Refused(f"{host} would be reached through itself.", hint="Choose another host to go through.")
    with transaction.atomic():
        # Of a host that exists only what the form holds: the monitor writes to the same row.
        host.save(update_fields=EDITABLE if host.pk else None)
        audit.record(action, actor=actor, target=host, detail={"where": host.where}, address=address)
    return host


def _passes_through(via: Host | None, host: Host) -> bool:
    while via is not None:
        if via.pk == host.pk:
            return True
        via = via.via
    return False


def remove_host(host: Host, *, actor: User, address: str) -> None:
    """Forget a host that nothing uses. Raises Refused while it is used.

    Jobs of the past keep its name, and so do deployments that were released there, with all their history.
    """
    require(actor, Action.EDIT_HOST)
    with transaction.atomic():
        host.hold()  # nobody attaches anything there until the end
        _refuse_while_needed(host)
        for place in host.placements.select_related("deployment"):
            place.deployment.released = place.deployment.released | {"host": host.name}
            place.deployment.save(update_fields=["released"])
            place.delete()
        audit.record("remove host", actor=actor, target=host, detail={"where": host.where}, address=address)
        host.delete()


def _refuse_while_needed(host: Host) -> None:
    """Raises Refused while something would be lost with the host, or could not be reached without it."""
    in_use = host.placements.exclude(deployment__state="released")
    if in_use.exists():
        names = ", ".join(str(placement.deployment) for placement in in_use)
        raise Refused(
            f"{host} is used by {names}.",
            hint="Edit each to move it to another host, or release it: what runs then runs on, and its history stays.",
        )
    if host.reached_through.exists():
        names = ", ".join(map(str, host.reached_through.all()))
        raise Refused(f"{names} are reached through {host}.", hint="Remove them first.")
    for place in host.placements.select_related("deployment"):
        if host.reach == Host.Reach.REACHABLE and not place.deployment.released.get("done_at"):
            raise Refused(
                f"What the panel has left on {host} for {place.deployment} is not taken away yet.",
                hint="Tidy up there first: without the host nobody can.",
                link=(reverse("deployments:deployment", args=[place.deployment_id]), f"Open {place.deployment}"),
            )


def begin_maintenance(host: Host, *, reason: str, actor: User, address: str) -> None:
    """Leave a host alone, with the reason that pages show: it is not read, and no job begins there.

    Raises Refused while a job is at work there or on one of its containers.
    """
    require(actor, Action.EDIT_HOST)
    with transaction.atomic():
        host.hold()  # a job that is asked for just now is seen here, or sees the maintenance
        for used in (host, *host.reached_through.all()):
            _refuse_while_busy(used)
        _set_maintenance(host, reason, "begin maintenance", actor=actor, address=address)


def end_maintenance(host: Host, *, actor: User, address: str) -> None:
    """Read the host again."""
    require(actor, Action.EDIT_HOST)
    _set_maintenance(host, "", "end maintenance", actor=actor, address=address)


def _set_maintenance(host: Host, reason: str, action: str, *, actor: User, address: str) -> None:
    with transaction.atomic():
        if not Host.objects.filter(pk=host.pk).exclude(maintenance=reason).update(maintenance=reason):
            return
        audit.record(action, actor=actor, target=host, detail={"reason": reason}, address=address)
    hints.hint("overview")


def request_test(host: Host, *, actor: User, address: str) -> HostTest:
    """Ask a worker to try the connection and to look at the host. One test of a host runs at a time."""
    require(actor, Action.TEST_HOST)
    with transaction.atomic():
        host.hold()  # a second click waits for the first
        running = host.tests.filter(finished_at=None, requested_at__gt=timezone.now() - LONGEST_TEST).first()
        if running is not None:
            return running
        test = HostTest.objects.create(host=host, requested_by=actor)
        audit.record("test host", actor=actor, target=host, detail={"test": test.pk}, address=address)
        transaction.on_commit(lambda: tasks.ring_test(test.pk), robust=True)
    return test


def trust_key(key: HostKey, *, typed_fingerprint: str, actor: User, address: str) -> None:
    """Pin a key whose fingerprint a person has compared. Raises Refused when the fingerprints differ."""
    require(actor, Action.TRUST_HOST_KEY)
    if typed_fingerprint.strip().removeprefix("SHA256:") != key.fingerprint.removeprefix("SHA256:"):
        raise Refused(
            "This fingerprint is not the one the host has offered. The key was not trusted.",
            hint="Copy the fingerprint from the host's own console. If it really differs, somebody may sit in between.",
        )
    with transaction.atomic():
        replaced = list(key.host.keys.exclude(pk=key.pk).exclude(pinned_at=None))
        HostKey.objects.filter(pk=key.pk).update(pinned_at=timezone.now(), pinned_by=actor)
        key.host.keys.exclude(pk=key.pk).filter(key_type=key.key_type).delete()
        Host.objects.filter(pk=key.host_id).update(problem="", hint="")
        audit.record(
            "trust host key",
            actor=actor,
            target=key.host,
            detail={"fingerprint": key.fingerprint, "replaces": [old.fingerprint for old in replaced]},
            address=address,
        )
    hints.hint("overview")


def forget_key(key: HostKey, *, actor: User, address: str) -> None:
    """Stop trusting a key; the host is refused until another is trusted."""
    require(actor, Action.TRUST_HOST_KEY)
    with transaction.atomic():
        audit.record(
            "forget host key",
            actor=actor,
            target=key.host,
            detail={"fingerprint": key.fingerprint},
            address=address,
        )
        key.delete()


def panel_public_key() -> str:
    """The line to add to ``~/.ssh/authorized_keys`` on a host."""
    return panel_key.public_line(Path(settings.DATA_DIR))


class NotConfirmed(Refused):
    """A number above what is believed without a person: it is to be said once more, with the number in sight."""


def confirm_baseline(gpu: Gpu, *, mib: int, confirmed_mib: int | None = None, actor: User, address: str) -> None:
    """A person says what ``memory.used`` is (MiB) when nobody holds the card.

    Above the card's ceiling ``confirmed_mib`` must be the same number: whoever confirms has seen it. Raises
    NotConfirmed without it, and Refused for a number that cannot be, or while a job holds the card.
    """
    require(actor, Action.EDIT_HOST)
    _refuse_while_claimed(gpu)
    if mib < 0 or (gpu.total_mib is not None and mib >= gpu.total_mib):
        raise Refused(
            f"{mib} MiB cannot be the baseline of a card with {gpu.total_mib} MiB.",
            hint="Write what nvidia-smi shows as used while nobody holds the card.",
        )
    if mib > gpu.ceiling_mib and confirmed_mib != mib:
        raise NotConfirmed(
            f"{mib:,} MiB is more than the {gpu.ceiling_mib:,} MiB that a card like this may have in use by itself.",
            hint="If nobody holds it, confirm the number below. If somebody does, their memory would count as free.",
        )
    with transaction.atomic():
        Gpu.objects.filter(pk=gpu.pk).update(baseline_mib=mib, baseline_by=actor.get_username())
        audit.record(
            "confirm baseline",
            actor=actor,
            target=gpu,
            detail={"mib": mib, "before": gpu.baseline_mib, "uuid": gpu.uuid},
            address=address,
        )
