"""Which secrets a server is given, which one its API asks for, and which values must be hidden."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from django.db.models import Q

from controlpanel.masking import as_written
from controlpanel.sealing import CannotUnseal
from deployments.lifecycle import ACTIVE, LIVE_LAUNCH
from deployments.models import Deployment, Launch, Secret
from deployments.plan.passing import API_KEY, ROUTER_KEY, is_odd_for_compose


@dataclass(frozen=True)
class Passed:
    """A secret that was opened to be passed on. Its text shows only its name."""

    name: str
    value: str = field(repr=False)


def versions(deployment: Deployment) -> dict[str, int]:
    """The secrets in use, as name -> number of the row: what a launch keeps of them."""
    return dict(deployment.secrets.filter(retired_at=None).exclude(name=ROUTER_KEY).values_list("name", "pk"))


def has_router_key(deployment: Deployment) -> bool:
    """One is set."""
    return deployment.secrets.filter(retired_at=None, name=ROUTER_KEY).exists()


def router_key(deployment: Deployment) -> str:
    """The key that its router asks for. Raises CannotUnseal, also when it is not set."""
    row = deployment.secrets.filter(retired_at=None, name=ROUTER_KEY).first()
    if row is None:
        raise CannotUnseal(f"{deployment} has no secret “{ROUTER_KEY}”.", hint="Set it under Secrets on its page.")
    return row.open()


def passed_to(launch: Launch) -> list[Passed]:
    """What the launch is started with: as it was when the launch was intended, also if it is sent again later.

    Raises CannotUnseal.
    """
    wanted: dict[str, int] = launch.requested.get("secrets", {})
    rows = {row.pk: row for row in Secret.objects.filter(deployment=launch.deployment_id, pk__in=wanted.values())}
    if missing := sorted(name for name, pk in wanted.items() if pk not in rows):
        raise CannotUnseal(f"{missing[0]} of this launch was removed meanwhile.", hint="Start it once more.")
    return [Passed(name, rows[pk].open()) for name, pk in sorted(wanted.items())]


def api_key(deployment: Deployment, launch: Launch | None) -> str:
    """The key to ask a server with: the one it was launched with; without a launch of ours, the one that is set.

    Empty when it has none, or when its key cannot be opened: it will then say itself that it wants one.
    """
    wanted = versions(deployment) if launch is None else launch.requested.get("secrets", {})
    row = Secret.objects.filter(deployment=deployment, pk__in=[wanted[API_KEY]] if API_KEY in wanted else []).first()
    try:
        return row.open() if row is not None else ""
    except CannotUnseal:
        return ""


def values_to_hide(job_id: int) -> tuple[str, ...]:
    """Every value of the job's deployment, those of a server that still lives included, in all ways it may be written.

    What cannot be opened cannot be looked for; what looks like a secret is hidden all the same.
    """
    found: set[str] = set()
    for row in Secret.objects.filter(Q(deployment__jobs=job_id) | Q(deployment__replacements=job_id)).distinct():
        try:
            found |= as_written(row.open())
        except CannotUnseal:
            continue
    return tuple(found)


def why_not_opened(deployment: Deployment) -> tuple[str, str] | None:
    """What stands in the way of passing the secrets on, and what to do; None when nothing does."""
    try:
        for row in deployment.secrets.filter(retired_at=None):
            row.open()
    except CannotUnseal as error:
        return error.message, error.hint
    return None


def odd_for_compose(deployment: Deployment) -> tuple[str, ...]:
    """Those whose values docker compose cannot be given; of what cannot be opened nothing is said here."""
    found = []
    for row in deployment.secrets.filter(retired_at=None).exclude(name=ROUTER_KEY):
        with suppress(CannotUnseal):
            found += [row.name] if is_odd_for_compose(row.open()) else []
    return tuple(sorted(found))


def forget_retired() -> None:
    """Delete what is out of use, and with which no server lives any more. Left alone while a job goes on."""
    rows = Secret.objects.exclude(retired_at=None).exclude(deployment__jobs__state__in=ACTIVE)
    rows = rows.exclude(deployment__replacements__state__in=ACTIVE)
    for deployment_id in set(rows.values_list("deployment_id", flat=True)):
        live = Launch.objects.filter(deployment=deployment_id, state__in=LIVE_LAUNCH)
        kept = {pk for sent in live.values_list("requested", flat=True) for pk in sent.get("secrets", {}).values()}
        rows.filter(deployment=deployment_id).exclude(pk__in=kept).delete()
