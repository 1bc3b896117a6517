"""Make a deployment of another on a second host, after a look there."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db import transaction

from controlpanel import audit
from controlpanel.access import Action, require
from controlpanel.refusal import Refused
from controlpanel.sealing import CannotUnseal
from deployments import tasks
from deployments.models import CloneCheck, Deployment, Secret
from deployments.services.deployments import EDITABLE, check_cards, create_deployment
from hosts.models import Host

OF_THE_PLACE = ("name", "profile", "revision", "port", "owner", "started_by", "hooks")
"""Of what a form can change, what a clone gets in another way or not at all."""


def request_clone_check(
    deployment: Deployment, *, name: str, host: Host, gpu_uuids: list[str], actor: User, address: str
) -> CloneCheck:
    """Ask a worker to look at the host that the deployment is to be cloned to. Raises Refused."""
    require(actor, Action.EDIT_DEPLOYMENT)
    if Deployment.objects.filter(name=name).exists():
        raise Refused(f"There is already a deployment named {name}.", hint="Choose another name.")
    check_cards(host, gpu_uuids)
    with transaction.atomic():
        check = CloneCheck.objects.create(
            deployment=deployment,
            revision=deployment.revision,
            name=name,
            host=host,
            gpu_uuids=gpu_uuids,
            requested_by=actor,
        )
        detail = {"host": host.name, "cards": gpu_uuids, "revision": str(deployment.revision)}
        audit.record("check a clone", actor=actor, target=deployment, detail=detail, address=address)
        transaction.on_commit(lambda: tasks.ring_clone_check(check.pk), robust=True)
    return check


def clone_deployment(check: CloneCheck, *, actor: User, address: str) -> Deployment:
    """Make the deployment that was checked: its revision, policy and secrets of the old one, on the new place.

    Nothing is started, and the old one stays as it is. Raises Refused.
    """
    source = check.deployment
    secrets = list(source.secrets.filter(retired_at=None))
    if secrets:
        require(actor, Action.SET_SECRET)
    if check.finished_at is None:
        raise Refused("The check goes on.", hint="Wait for its end, then look at what differs.")
    if check.revision is None or check.has_moved:
        raise Refused(
            f"{source} is at {source.revision} by now, and {check.revision or 'an earlier one'} was checked.",
            hint="Look once more: what differs may be something else.",
        )
    policy = {name: getattr(source, name) for name in EDITABLE if name not in OF_THE_PLACE}
    unsaved = Deployment(name=check.name, revision=check.revision, owner=source.owner, cloned_from=source, **policy)
    with transaction.atomic():
        made = create_deployment(unsaved, host=check.host, gpu_uuids=check.gpu_uuids, actor=actor, address=address)
        for secret in secrets:
            _copy(secret, made, actor=actor)
        detail = {"from": source.name, "secrets": [secret.name for secret in secrets]}
        audit.record("clone deployment", actor=actor, target=made, detail=detail, address=address)
    return made


def _copy(secret: Secret, made: Deployment, *, actor: User) -> None:
    """Sealed anew for its new owner. Raises Refused."""
    row = Secret(deployment=made, name=secret.name, set_by=actor, set_by_name=actor.get_username())
    try:
        row.put(secret.open())
    except CannotUnseal as error:
        raise Refused(error.message, hint=error.hint) from error
    row.save()
