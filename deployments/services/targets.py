"""Where a job may run, and which deployment may take the place of another."""

from __future__ import annotations

from controlpanel.refusal import Refused
from deployments.lifecycle import DOWN, ServiceState
from deployments.models import Deployment, Revision
from hosts.doubles import refuse_doubled


def refuse_released(deployment: Deployment) -> None:
    """Raises Refused for a deployment that the panel has let go of."""
    if deployment.state == ServiceState.RELEASED:
        back = "To take it back, look for servers on its host's page and attach the one that runs."
        raise Refused(
            f"{deployment} is released: the panel has let go of it.",
            hint=back if deployment.place is not None else "Its host was removed; clone it to another one.",
        )


def check_target(deployment: Deployment, target: Revision | None) -> None:
    """Raises Refused where no job can run, or not with this revision."""
    refuse_released(deployment)
    host = deployment.placement.host
    if host.look_only:
        raise Refused(f"{host} is look-only.", hint="Jobs cannot run there.")
    for machine in (host, host.machine):
        if machine.maintenance:
            raise Refused(
                f"{machine} is in maintenance: {machine.maintenance}",
                hint="Wait until it has ended; an administrator ends it on the host's page.",
            )
    refuse_doubled(host)
    if host.machine.look_only:
        raise Refused(
            f"{host.machine}, the node of {host}, is look-only, and the locks of its cards are there.",
            hint="Let the panel change the node, or restart the server by hand.",
        )
    if target is not None and target.port != deployment.port:
        raise Refused(
            f"{target} listens on port {target.port}, {deployment} on port {deployment.port}.",
            hint="Change the deployment to this revision first.",
        )


def check_replacement(old: Deployment, new: Deployment) -> None:
    """Raises Refused where ``new`` cannot take the place of ``old``."""
    refuse_released(old)
    if why_not := why_not_by(old, new):
        raise Refused(f"{old} cannot be replaced by {new}: {why_not}", hint="Choose another deployment.")


def why_not_by(old: Deployment, new: Deployment) -> str:
    """Why ``new`` cannot take the place of ``old``, in a sentence; empty when it can."""
    mine, theirs = new.placement, old.placement
    if new == old:
        return "it is the same deployment."
    if mine.host_id != theirs.host_id:
        return f"it runs on {mine.host}."
    if more := set(mine.gpu_uuids) - set(theirs.gpu_uuids):
        return f"it needs {len(more)} card{'s' if len(more) > 1 else ''} that {old} does not free."
    if not mine.gpu_uuids:
        return "it has no card."
    if new.is_unseen:
        return "whether a server of it runs has not been seen yet. Try again when its host has been read."
    if new.state not in DOWN or new.live_launch is not None:
        return f"it is not stopped ({new.get_state_display().lower()}). Stop it first."
    return ""
