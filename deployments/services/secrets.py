"""Set and remove the secrets of a deployment. Nothing gives one back."""

from __future__ import annotations

import re

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from controlpanel import audit
from controlpanel.access import Action, require
from controlpanel.live import hints
from controlpanel.refusal import Refused
from controlpanel.sealing import CannotUnseal
from deployments import commandline
from deployments.engines.registry import ENGINES
from deployments.models import Deployment, Secret
from deployments.plan.cards import CARDS_VARIABLE
from deployments.plan.passing import API_KEY, ROUTER_KEY
from deployments.services.jobs import wait_for

VALUE = re.compile(r"[!-~]{8,4096}", re.ASCII)
"""Shorter ones would hide half of every log; of other letters each program makes something else."""


def set_secret(deployment: Deployment, *, name: str, value: str, actor: User, address: str) -> bool:
    """Give the deployment's next launch this secret. True when it replaces one that was there."""
    require(actor, Action.SET_SECRET)
    check_name(deployment, name)
    check_value(name, value)
    row = Secret(deployment=deployment, name=name, set_by=actor, set_by_name=actor.get_username())
    try:
        row.put(value)
    except CannotUnseal as error:
        raise Refused(error.message, hint=error.hint) from error
    with transaction.atomic():
        _refuse_while_it_works(deployment)
        replaced = _retire(deployment, name)
        row.save()
        audit.record(
            "replace secret" if replaced else "set secret",
            actor=actor,
            target=deployment,
            detail={"variable": name},
            address=address,
        )
    hints.hint("overview")
    return replaced


def remove_secret(deployment: Deployment, *, name: str, actor: User, address: str) -> None:
    """The next launch does without it."""
    require(actor, Action.SET_SECRET)
    with transaction.atomic():
        _refuse_while_it_works(deployment)
        if not _retire(deployment, name):
            raise Refused(f"{deployment} has no secret of that name any more.", hint="Look at its page again.")
        audit.record("remove secret", actor=actor, target=deployment, detail={"variable": name}, address=address)
    hints.hint("overview")


def check_name(deployment: Deployment, name: str) -> None:
    """Raises Refused for a name under which nothing can be passed on."""
    engine = ENGINES[deployment.profile.engine]
    if name == API_KEY:
        if not engine.takes_api_key:
            raise Refused(
                f"The panel does not know how {engine.label} takes a key for its API.",
                hint="Set it as an environment variable, under the name that your server reads.",
            )
        return
    if name == ROUTER_KEY:
        return
    try:
        commandline.check_env_name(name)
    except ValueError as error:
        raise Refused(str(error)) from error
    if name == CARDS_VARIABLE:
        raise Refused(f"{name} is no secret: the panel sets it to the deployment's cards.")
    if name == engine.api_key_variable:
        raise Refused(
            f"{name} is the key of the server's API.", hint=f"Choose “{API_KEY}”: the panel then uses it too."
        )
    if len(name) > 64:
        raise Refused("The name is too long.", hint="64 letters at most.")


def check_value(name: str, value: str) -> None:
    """Raises Refused, without the value, for one that cannot be hidden or passed on."""
    if not VALUE.fullmatch(value):
        raise Refused(
            f"This cannot be the value of {name}.",
            hint="8 to 4,096 letters, digits and signs of plain ASCII, without spaces; paste it whole.",
        )
    if name == API_KEY and value.startswith("-"):
        raise Refused("An API key that begins with “-” would be taken for a flag.", hint="Make another one.")


def _refuse_while_it_works(deployment: Deployment) -> None:
    """A job goes on with the secrets that its plan names."""
    if (job := Deployment.locked(deployment.pk).active_job) is not None:
        raise wait_for(job, f"The secrets of {deployment} are not changed while a job of it goes on.")


def _retire(deployment: Deployment, name: str) -> bool:
    """Take the version in use out of use; False when there is none."""
    return bool(
        Secret.objects.filter(deployment=deployment, name=name, retired_at=None).update(retired_at=timezone.now())
    )
