"""After a release: take away what the panel has left on the host, and keep what was taken and what must stay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import close_old_connections, transaction
from django.db.models import Q
from django.utils import timezone

from controlpanel import audit
from controlpanel.live import hints
from deployments.lifecycle import EffectKind, ServiceState
from deployments.models import Deployment, Effect
from deployments.remote import run as remote
from deployments.remote.script import Said
from hosts import links
from hosts.models import Host
from hosts.transport.base import TransportError

SECONDS = 45.0
WORDS = {
    "log": "{}: the running server writes its output into it.",
    "shell": "Process {}, the shell that has started the server; it ends with it.",
    "unit": "{}, the unit of systemd in which the server runs; it ends with it.",
    "written": "{}: the server is started with what stands in it.",
}
"""Of what stays, and why."""


def run_release(deployment_id: int) -> None:
    """Tidy up on the host of a deployment that was released. Done twice, it does no harm."""
    close_old_connections()
    found = Deployment.objects.filter(pk=deployment_id, state=ServiceState.RELEASED).first()
    if found is None or found.released.get("done_at") or found.place is None:
        return
    told: dict[str, Any] = {"problem": "The panel failed while it tidied up.", "hint": "Try again."}
    try:
        host = found.placement.host
        said = [line for machine in dict.fromkeys((host, host.machine)) for line in _release(found, machine)]
        told = {"done_at": timezone.now().isoformat(), "problem": "", "hint": "", **_told(said)}
    except TransportError as error:
        told = {"problem": str(error), "hint": error.hint}
    finally:
        _store(found, told)


def _release(deployment: Deployment, machine: Host) -> Iterable[Said]:
    """Raises TransportError; also where the host has said that it did not do it."""
    own = machine == deployment.placement.host
    written = written_files(deployment) if own else []
    script = remote.script_for(
        deployment,
        "release",
        fence=deployment.fence,
        boot_id="",
        written="\n".join(written),
        as_root="sudo -n" if machine.sudo else "",
    )
    with links.borrow(machine) as transport:
        said = remote.run(transport, script, timeout=SECONDS)
    if not any(line.word == "released" for line in said):
        why = next((line.text for line in said if line.word in ("refused", "fenced")), "no answer")
        raise TransportError(f"{machine} was not tidied up: {why}.")
    return said


def written_files(deployment: Deployment) -> list[str]:
    """The files that launches of it have written so that a unit or container starts it, as far as the history goes."""
    about = Q(job__deployment=deployment, step__way_back=False) | Q(job__replaces=deployment, step__way_back=True)
    about |= Q(job__deployment=deployment, job__replaces=None)
    launches = Effect.objects.filter(about, kind=EffectKind.LAUNCH).order_by("pk")
    targets = launches.values_list("target", flat=True)
    paths = (str(target.get(name, "")) for target in targets for name in ("writes", "gives"))
    return list(dict.fromkeys(filter(None, paths)))


def _told(said: Iterable[Said]) -> dict[str, list[str]]:
    lines = list(said)
    kept = [WORDS[line.rest[0]].format(" ".join(line.rest[1:])) for line in lines if line.word == "kept"]
    return {"removed": [line.text for line in lines if line.word == "removed"], "kept": kept}


def _store(deployment: Deployment, told: dict[str, Any]) -> None:
    """Unless somebody has taken it back meanwhile."""
    with transaction.atomic():
        now = Deployment.locked(deployment.pk)
        if now.state != ServiceState.RELEASED:
            return
        Deployment.objects.filter(pk=now.pk).update(released=now.released | told)
        audit.record("tidy up after release", actor=None, target=now, detail=told)
    hints.hint("overview")
