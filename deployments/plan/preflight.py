"""What a launch would fail of, looked at before anything is stopped: cards, several machines, files. PURE.

Facts of the engines: SGLang needs `--tp-size` x `--pp-size` cards (data parallelism of attention is within them),
vLLM `--tensor-parallel-size` x `--pipeline-parallel-size` x `--data-parallel-size`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

from deployments.flags import flags_of
from deployments.plan.inputs import PlanInput, Recipe
from deployments.plan.start import Start
from deployments.plan.warnings import Cure, warning
from deployments.plan.ways import NAMED
from hosts.probe.frames import Unknown

CARD_FACTORS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "sglang": (
        ("--tp-size", "--tp", "--tensor-parallel-size"),
        ("--pp-size", "--pipeline-parallel-size", "--pp"),
    ),
    "vllm": (
        ("--tensor-parallel-size", "-tp"),
        ("--pipeline-parallel-size", "-pp"),
        ("--data-parallel-size", "-dp"),
    ),
}
"""Engine -> flags of which each group is a factor of how many cards it takes."""
RAY = re.compile(r"\bray\s+start\b", re.ASCII)
"""Also within the words of a `bash -c`."""


def preflight_warnings(asked: PlanInput, start: Start) -> list[dict[str, Any]]:
    """What stands in the way of the launch itself."""
    new = asked.new
    if new is None:
        return []
    return [*_several_machines(new), *_too_few_cards(asked, new), *_closed(asked, new, start)]


def several_machines(argv: Sequence[str]) -> str:
    """What of the command says that it is one of several machines; empty for none."""
    flags = flags_of(argv)
    nodes = flags.get("--nnodes", "1")
    if nodes.strip() not in ("1", ""):
        return f"--nnodes {nodes}"
    if flags.get("--distributed-executor-backend", "").lower() == "ray":
        return "--distributed-executor-backend ray"
    program = posixpath.basename(argv[0]) if argv else ""
    if (program == "ray" and "start" in argv[1:2]) or any(RAY.search(word) for word in argv):
        return "ray start"
    return ""


def _several_machines(new: Recipe) -> list[dict[str, Any]]:
    words = several_machines(new.argv)
    if not words:
        return []
    return [
        warning(
            f"{new.name} is a part of a server on several machines ({words}).",
            "Relaunch starts and checks a server on one machine. Of such a one it would see a part only.",
            "Start it on the machines by hand, or use a revision that needs one machine.",
            blocks=True,
            cure=Cure.FLAGS,
        )
    ]


def cards_wanted(engine: str, argv: Sequence[str]) -> int | None:
    """How many cards the engine takes; None where its flags do not say."""
    factors = CARD_FACTORS.get(engine)
    if factors is None:
        return None
    flags, wanted, said = flags_of(argv), 1, False
    for names in factors:
        value = next((flags[name] for name in names if name in flags), "1")
        if not re.fullmatch(r"[1-9][0-9]{0,3}", value, re.ASCII):
            return None
        said = said or any(name in flags for name in names)
        wanted *= int(value)
    return wanted if said else None


def _too_few_cards(asked: PlanInput, new: Recipe) -> list[dict[str, Any]]:
    wanted, have = cards_wanted(asked.engine.key, new.argv), len(asked.cards)
    if wanted is None or wanted <= have or not have:
        return []
    return [
        warning(
            f"{new.name} needs {wanted} cards, and {asked.deployment} has {have}.",
            "The engine ends at once when it does not find as many as its flags say.",
            f"Tick more cards under Edit of {asked.deployment}, or make the parallel sizes smaller in a new revision.",
            blocks=True,
            cure=Cure.SETTINGS,
        )
    ]


def _closed(asked: PlanInput, new: Recipe, start: Start) -> list[dict[str, Any]]:
    """What the user who will run the server may not read. A unit or container has its own, whom nobody asks."""
    if start.way.by in NAMED:
        return []
    if isinstance(asked.closed, Unknown):
        return [warning(asked.closed.reason, "The launch may fail of it.", "Look at its rights on the host.")]
    model = asked.engine.model_path(new.argv)
    unreadable = [path for path in (model, new.workdir) if path and path in asked.facts.closed]
    reader = asked.login
    if start.kept.uid is not None:
        unreadable, reader = [*asked.closed], start.kept.name or f"uid {start.kept.uid}"
    return [
        warning(
            f"{path} cannot be read on {asked.host} by {reader}, who runs the server.",
            "The launch would fail. On a network disk root itself may have no rights (root_squash).",
            f"Give {reader} the right to read it, or start the server as somebody who has it.",
            blocks=True,
        )
        for path in unreadable
    ]
