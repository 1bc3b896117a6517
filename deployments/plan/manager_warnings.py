"""What a person should know before a server is stopped that something else looks after. PURE."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from deployments.plan.inputs import PlanInput
from deployments.plan.manager import Manager, ManagerKind, launch_waited_for
from deployments.plan.warnings import Cure, warning
from hosts.probe.processes import Process


def must_confirm(manager: Manager | None, beside: Sequence[Process]) -> bool:
    """Does stopping need a confirmation of its own? Its manager cannot be asked, or would end others with it."""
    return manager is not None and (not manager.can_be_asked or bool(beside))


def managed_warnings(
    asked: PlanInput, manager: Manager | None, beside: Sequence[Process], *, stays: bool = False
) -> list[dict[str, Any]]:
    """What restarts the server by itself has to stop it, or else what is killed comes back.

    ``stays``: the manager looks after the new server too, or was made by us for the old one alone.
    """
    if not asked.stops:
        return []
    if manager is None:
        return _of_another_panel(asked)
    if manager.kind == ManagerKind.SCHEDULER:
        return [
            warning(
                f"The server is a job of {manager.name} on {asked.host}.",
                "The scheduler has given it its cards, so it is never touched from here.",
                f"Stop it with {manager.name}'s own tools.",
                blocks=True,
            )
        ]
    if manager.told.trouble:
        return [
            warning(
                f"The {manager} looks after the server and would not be asked: {manager.told.trouble}",
                "What is stopped in another way, it starts again.",
                "Let the panel's login ask it (sudo), or stop the server on the host, then plan a start.",
                blocks=True,
            )
        ]
    if not manager.can_be_asked:
        return [_not_asked(asked, manager)]
    after = _after_the_stop(asked, manager, stays=stays)
    return [*_ended_too(manager, beside), *_slower_than_the_job(asked, manager), *after]


def _of_another_panel(asked: PlanInput) -> list[dict[str, Any]]:
    """Its wrapper starts nothing again, but the panel itself may, after what it takes for a crash."""
    launch = launch_waited_for(asked.told.command)
    if not launch or launch in asked.earlier or launch in asked.launches:
        return []
    return [
        warning(
            "The server was launched by another Relaunch panel, or for a deployment that is no longer here.",
            "That panel takes its end for a crash, and starts it again where its policy says so.",
            "Release it there first.",
            asks=True,
        )
    ]


def _not_asked(asked: PlanInput, manager: Manager) -> dict[str, Any]:
    """It is known, or guessed, and there is no way that we know to stop the server through it."""
    if not manager.is_certain:
        return warning(
            f"The {manager} waits for the server, and may start it again in a loop.",
            "It was not started by Relaunch, and it is not stopped. Before the stop you are asked once more.",
            "End that loop first, where it runs. When the server comes back in the first seconds after its end, the "
            "job says so and asks again.",
            asks=True,
        )
    return warning(
        f"The {manager} looks after the server and starts it again when it ends.",
        "Relaunch does not know how to stop it through that. Before the stop you are asked once more.",
        f"Stop it on {asked.host} by its own tools instead, then plan a start.",
        asks=True,
    )


def _ended_too(manager: Manager, beside: Sequence[Process]) -> list[dict[str, Any]]:
    if not beside:
        return []
    names = ", ".join(f"{process.comm} (pid {process.pid})" for process in beside)
    return [
        warning(
            f"The {manager} runs more than this server: {names}.",
            "It is stopped as a whole, and they end with it. Before the stop you are asked once more.",
            "Make sure that nobody needs them.",
            asks=True,
        )
    ]


def _slower_than_the_job(asked: PlanInput, manager: Manager) -> list[dict[str, Any]]:
    """A unit has a time-out of its own, and nobody is signalled behind its back."""
    seconds = manager.told.stop_seconds
    if seconds is None or seconds <= asked.stop_seconds:
        return []
    longest = "for ever" if math.isinf(seconds) else f"{seconds:.0f} s"
    return [
        warning(
            f"The {manager} may wait {longest} for its server to end (TimeoutStopSec); this job waits "
            f"{asked.stop_seconds:.0f} s.",
            "A server that ends no sooner makes the job fail, while the unit goes on stopping it.",
            f"Raise “For the server to end” under Edit of {asked.deployment}, or set a shorter TimeoutStopSec in the "
            "unit, then plan again.",
            cure=Cure.SETTINGS,
        )
    ]


def _after_the_stop(asked: PlanInput, manager: Manager, *, stays: bool) -> list[dict[str, Any]]:
    """What becomes of the manager's own server once ours is to take its place."""
    found = []
    if manager.told.triggers:
        found.append(
            warning(
                f"{', '.join(manager.told.triggers)} can start the {manager} again at any time.",
                "The server then comes back by itself, perhaps while the job is still at work.",
                f"Stop {' and '.join(manager.told.triggers)} on {asked.host} first.",
            )
        )
    if stays:
        return found
    if asked.new is None:
        return found + _returns_at_boot(asked, manager)
    when = {
        True: f"When {asked.host} boots, that starts its own server again, and the two collide.",
        False: "It does not start its own server at boot, but anybody can start it by hand.",
        None: "When the host boots, both may start.",
    }[manager.told.at_boot]
    found.append(
        warning(
            f"The server belongs to the {manager}, which is asked to stop it.",
            f"The new one is started by Relaunch, beside that. {when}",
            f"Disable the {manager} on the host if Relaunch is to look after the server from now on.",
        )
    )
    return found


def _returns_at_boot(asked: PlanInput, manager: Manager) -> list[dict[str, Any]]:
    told = manager.told
    if told.at_boot is False or (told.at_boot is None and not told.restart):
        return []
    starts = "starts" if told.at_boot else "may start"
    return [
        warning(
            f"The {manager} {starts} its server again when {asked.host} boots.",
            "It is asked to stop it now, and stays as it is otherwise.",
            f"Disable the {manager} on the host if the server is to stay down.",
        )
    ]
