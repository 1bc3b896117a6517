"""What a launch or a stop is likely to trip over, though nothing stands in its way. PURE."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from deployments.engines.versions import is_among
from deployments.fit.explain import size
from deployments.fit.span import MIB
from deployments.plan.fitting import Room
from deployments.plan.inputs import LEAST_SHARED_MIB, SHARED_MEMORY, PlanInput
from deployments.plan.serving import Serving
from deployments.plan.warnings import Cure, warning
from hosts.probe.facts import DiskSpace
from hosts.probe.frames import Unknown

Row = dict[str, Any]
UNEVEN = 0.1
"""From so much less on the fullest card SGLang refuses to start over several cards (model_runner.py)."""


def foreseen(asked: PlanInput, rooms: Sequence[Room] | Unknown | None) -> list[Row]:
    """Of the launch. ``rooms``: the cards as it will find them; None where nobody has worked that out."""
    if asked.new is None:
        return []
    uneven = _uneven(asked, rooms) if rooms is not None and not isinstance(rooms, Unknown) else []
    return [*uneven, *_shared_memory(asked), *_old_driver(asked), *_not_as_proven(asked)]


def _uneven(asked: PlanInput, rooms: Sequence[Room]) -> list[Row]:
    """The engine takes of every card what the fullest one allows."""
    if len(rooms) < 2:
        return []
    least, most = (choose(rooms, key=lambda room: room.free_mib) for choose in (min, max))
    if least.free_mib >= most.free_mib * (1 - UNEVEN):
        return []
    return [
        warning(
            f"{least.label} will have {size(least.free_mib * MIB)} free and {most.label} {size(most.free_mib * MIB)}.",
            f"{asked.engine.label} takes of every card only what the fullest allows, or refuses to start: from a tenth "
            "less on, SGLang calls the memory unbalanced.",
            "Look who holds that card, choose cards that are alike, or launch on fewer.",
        )
    ]


def _shared_memory(asked: PlanInput) -> list[Row]:
    """Several processes, one for each card, exchange data there."""
    room = asked.facts.disks.get(SHARED_MEMORY)
    if len(asked.cards) < 2 or not isinstance(room, DiskSpace) or room.free >= LEAST_SHARED_MIB:
        return []
    return [
        warning(
            f"Only {room.free:,} MiB of shared memory are free on {asked.host} ({SHARED_MEMORY}).",
            "The processes of a server over several cards exchange data there. With too little, the start ends with "
            "“No space left on device” or a bus error.",
            "Free some of it, or have it made larger: for a container --shm-size or --ipc=host, else the size of the "
            f"tmpfs on {SHARED_MEMORY}.",
            cure=Cure.HOST,
        )
    ]


def _old_driver(asked: PlanInput) -> list[Row]:
    """By the release of CUDA that this version of the engine is built for."""
    version = asked.version
    wanted = next((oldest for first, oldest in asked.engine.drivers if is_among(version, f"{first} or newer")), None)
    if wanted is None or isinstance(asked.facts.gpus, Unknown):
        return []
    own = {card.uuid for card in asked.cards}
    found = {gpu.driver_version for gpu in asked.facts.gpus.gpus if gpu.uuid in own}
    old = next((text for text in sorted(found) if _release(text) < wanted), "")
    if not old:
        return []
    return [
        warning(
            f"The driver {old} of {asked.host} is older than {asked.engine.label} {version} takes.",
            f"It is built for a CUDA that needs driver {wanted} or newer; with an older one the start ends with “driver"
            " version is insufficient”.",
            "Have the driver renewed by whoever looks after the machine, or use an older engine.",
        )
    ]


def _not_as_proven(asked: PlanInput) -> list[Row]:
    """The same flags on another version are not what was proven."""
    if asked.new is None or not asked.proven_engine or asked.version in ("", asked.proven_engine):
        return []
    return [
        warning(
            f"{asked.new.name} was proven with {asked.engine.label} {asked.proven_engine}; {asked.host} has "
            f"{asked.version} now.",
            "Another version may change other flags by itself, be slower, or answer otherwise.",
            "Use the environment with which it was proven, or measure again after the start and mark that as proven.",
            cure=Cure.FLAGS,
        )
    ]


def _release(driver: str) -> float:
    """Of ``550.54.14``: 550. One that cannot be read is not called old."""
    number = driver.split(".")[0]
    return int(number) if number.isdecimal() else math.inf


def busy(asked: PlanInput, serving: Serving) -> Row | None:
    """What the stop does to requests that run, in case some do. None where the engine waits, or takes no new ones."""
    if not asked.stops or not asked.engine.told_to_end or asked.hooks or serving.root is None:
        return None
    detail = asked.facts.details.get(serving.root.pid)
    flag = asked.engine.waits_with
    if flag and detail is not None and asked.engine.flag(detail.argv, (flag,)) not in (None, "0"):
        return None
    more = f" It was started without {flag}." if flag else ""
    return warning(
        asked.engine.told_to_end,
        f"The job waits for a moment without requests first, as long as the deployment says. What still runs or comes "
        f"after that is cut off.{more}",
        "Approve it for later, when no request runs, or say under Edit how its router is told to send it nothing more.",
        cure=Cure.SETTINGS,
    )


def duration_table(asked: PlanInput) -> list[Row]:
    """How long the start takes, by its last ones; no table where nothing is launched."""
    if asked.new is None:
        return []
    if not asked.took:
        row = {"label": "Until it is ready", "value": "not known", "status": "unknown",
               "detail": "No earlier start of it came up."}  # fmt: skip
    else:
        last = ", ".join(map(_seconds, asked.took))
        row = {"label": "Until it is ready", "value": f"about {_seconds(sorted(asked.took)[len(asked.took) // 2])}",
               "status": "info", "detail": f"its last start{'s' if len(asked.took) > 1 else ''}: {last}"}  # fmt: skip
    return [{"title": "How long it takes", "rows": [row]}]


def _seconds(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
