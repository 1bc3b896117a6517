"""What stands in the way of a job, and what its approver should know: a sentence, why, and what to do. PURE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any

from deployments.commandline import Command
from deployments.commandline.prefixes import uv_without_frozen
from deployments.decisions.usable import CardUsable, Usability, not_usable
from deployments.decisions.verify import CardSeen
from deployments.engines.versions import is_among
from deployments.plan.cards import CARDS_VARIABLE, Held, cards_named, memory_on
from deployments.plan.flagcheck import warnings_of_flags, warnings_of_program
from deployments.plan.inputs import HOME, LEAST_DISK_MIB, PlanInput, Recipe
from deployments.plan.manager import scheduler_of
from deployments.plan.passing import ROUTER_KEY, why_not_in_container, why_not_passed
from deployments.plan.serving import Serving, port_owners
from deployments.plan.words import command_of
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown


class Cure(StrEnum):
    """The page on which somebody does what a warning says, for a link beside it."""

    NONE = ""
    FLAGS = "flags"
    SETTINGS = "settings"
    SECRETS = "secrets"
    HOST = "host"
    RESTART = "restart"
    START = "start"


def warning(
    text: str,
    why: str,
    todo: str,
    *,
    blocks: bool = False,
    asks: bool = False,
    despite: str = "",
    cure: Cure = Cure.NONE,
) -> dict[str, Any]:
    """A sentence, why it matters, and what to do, on which page. ``asks``: a plan with it is never approved without a
    person. ``despite``: approving needs a reason too, and these words stand on its button, as "although it fails".
    """
    found = {"text": text, "why": why, "todo": todo, "blocks": blocks, "asks": asks, "cure": cure.value}
    return found | ({"despite": despite} if despite else {})


def warnings_of(
    asked: PlanInput,
    serving: Serving,
    *,
    cards: Sequence[CardSeen],
    usable: Sequence[CardUsable],
    managed: Sequence[dict[str, Any]],
    fitting: Sequence[dict[str, Any]],
    others: Held | Unknown,
) -> list[dict[str, Any]]:
    """All of them, those that block first.

    ``managed``: those on what looks after the server; ``fitting``: on whether what is launched fits.
    """
    found = [
        *_unusable(asked, usable),
        *_router(asked),
        *_blocking(asked, serving, _to_be_measured(cards, usable)),
        *managed,
        *fitting,
        *(_of_command(asked, asked.new) if asked.new is not None else ()),
        *_scheduled(asked),
        *_may_change(asked),
        *_split(asked),
        *_other_version(asked),
        *_heeded(asked, serving, others),
        *_tight(asked, serving, _to_be_measured(cards, usable)),
    ]
    return sorted(found, key=lambda warning: not warning["blocks"])


def _of_command(asked: PlanInput, new: Recipe) -> list[dict[str, Any]]:
    """Whether it starts the engine at all, and with flags that this knows."""
    command = Command(list(new.argv), dict(new.env), new.workdir, new.container)
    program = warnings_of_program(command, asked.engine, launch=new.name)
    return [*program, *warnings_of_flags(asked.flags, launch=new.name)]


def _unusable(asked: PlanInput, usable: Sequence[CardUsable]) -> list[dict[str, Any]]:
    """What nobody but a person mends: said before anything is stopped. To stop a server it need not be mended."""
    why = "No program starts on it before somebody has mended that, and what serves now would be stopped for nothing."
    if asked.new is None:
        why = "The server can be stopped. The next one does not start before somebody has mended that."
    return [
        warning(reason.text, why, reason.todo, blocks=asked.new is not None, cure=Cure.HOST)
        for reason in not_usable(usable)
    ]


def _router(asked: PlanInput) -> list[dict[str, Any]]:
    """Said before it is taken out by one request and cannot be put back by the other."""
    if asked.router_key or not any(hook.needs_key for hook in asked.hooks):
        return []
    return [
        warning(
            f"{asked.deployment} has no secret “{ROUTER_KEY}”.",
            "The requests that take it out of its router and put it back hold that key.",
            "Set it under Secrets on the deployment's page, or take {router key} out of the requests under Edit.",
            blocks=True,
            cure=Cure.SECRETS,
        )
    ]


def _to_be_measured(cards: Sequence[CardSeen], usable: Sequence[CardUsable]) -> list[CardSeen]:
    """Without those that cannot be used, for which a reading would change nothing."""
    out = {card.uuid for card in usable if card.value == Usability.NOT_USABLE}
    return [card for card in cards if card.uuid not in out]


def _blocking(asked: PlanInput, serving: Serving, cards: Sequence[CardSeen]) -> list[dict[str, Any]]:
    found = [_unread(asked, card) for card in cards if card.used_mib is None]
    owners = port_owners(asked.facts, asked.port)
    foreign = [] if isinstance(owners, Unknown) else sorted(owners - serving.pids - _leaving(asked))
    if asked.new is not None and foreign:
        found.append(
            warning(
                f"Port {asked.port} belongs to another process: pid {foreign[0]} "
                f"({_command(asked.facts, foreign[0])}).{_behind(asked)}",
                "It is not a server of this deployment's engine, so it is not stopped.",
                "Ask its owner to stop it, or give the deployment another port.",
                blocks=True,
                cure=Cure.FLAGS,
            )
        )
    if asked.new is not None:
        found += _no_card(asked) + _missing(asked, asked.new) + _other_cards(asked, asked.new)
        found += _secrets(asked, asked.new)
    if asked.kind == "start" and serving.processes:
        found.append(
            warning(
                f"{asked.deployment} already serves (pid {serving.processes[0].pid}).",
                "A start never stops anything.",
                "Ask for a restart instead.",
                blocks=True,
                cure=Cure.RESTART,
            )
        )
    return found


def _leaving(asked: PlanInput) -> frozenset[int]:
    """The pids of a server that is gone by then."""
    return frozenset() if asked.leaving is None else asked.leaving.serving.pids


def _unread(asked: PlanInput, card: CardSeen) -> dict[str, Any]:
    """Nothing is launched onto such a card. A server is stopped all the same, which may be what mends it."""
    text, todo = f"{card.label} cannot be measured: {card.reason}", "Mend that on the host, then plan again."
    if asked.new is not None:
        return warning(
            text, "Without a reading nobody can say that the card is free.", todo, blocks=True, cure=Cure.HOST
        )
    why = (
        "The server can be stopped. Whether its card is free then cannot be said: the job waits for a reading, as long "
        "as for slow memory, then asks."
    )
    return warning(text, why, "Answer “Leave it stopped” then, or mend the host first.", asks=True)


def _behind(asked: PlanInput) -> str:
    return f" It passes the port on to the container {asked.behind_port}." if asked.behind_port else ""


def _command(facts: HostFacts, pid: int) -> str:
    process = None if isinstance(facts.processes, Unknown) else facts.processes.by_pid.get(pid)
    return command_of(process, facts.details.get(pid), letters=120) if process is not None else "unknown command"


def _no_card(asked: PlanInput) -> list[dict[str, Any]]:
    """A deployment without cards is for a machine without cards: elsewhere it could land on any, measured by nobody."""
    there = len(asked.facts.device_files.nodes)
    if asked.cards or (isinstance(asked.facts.gpus, Unknown) and not there):
        return []
    if not isinstance(asked.facts.gpus, Unknown):
        there = max(there, len(asked.facts.gpus.gpus))
    if not there:
        return []
    return [
        warning(
            f"{asked.deployment} has no card, but {asked.host} has {there}.",
            "The server could take cards that nobody has measured, and that somebody else works on.",
            "Edit the deployment and tick the cards that it may use.",
            blocks=True,
            cure=Cure.SETTINGS,
        )
    ]


def _other_cards(asked: PlanInput, new: Recipe) -> list[dict[str, Any]]:
    """The server must not land on cards that the job has not looked at.

    One that was adopted may see more than its own: this very command was seen to use no others (discovery/readback.py).
    """
    mark, own = f"{CARDS_VARIABLE}=", {card.uuid for card in asked.cards}
    values = [word.removeprefix(mark) for word in new.argv if word.startswith(mark)]  # behind an `env` in the command
    if CARDS_VARIABLE in new.env:
        values.append(new.env[CARDS_VARIABLE])
    for value in values:
        named = cards_named(asked.facts, value)
        if named and (named <= own or (own <= named and asked.used_alone == own)):
            continue
        return [
            warning(
                f"{new.name} sets {CARDS_VARIABLE}={value}, which "
                + ("names cards that are not this deployment's." if named else "names no card that is known here."),
                "The job would free and measure other cards than the server then uses.",
                "Take the variable out of the revision (the panel sets it from the cards that are ticked, and flags "
                "like --base-gpu-id or --main-gpu then count from the first of them), or tick those cards.",
                blocks=True,
                cure=Cure.FLAGS,
            )
        ]
    return []


def _may_change(asked: PlanInput) -> list[dict[str, Any]]:
    """``uv run`` looks at the project's lock at each start, and installs what it names."""
    if asked.new is None or not uv_without_frozen(asked.new.argv):
        return []
    return [
        warning(
            f"{asked.new.name} is started by uv run without --frozen.",
            "uv may install other versions before it starts the server, which then is another one than was proven.",
            "Write uv run --frozen in a new revision to start what is installed.",
            cure=Cure.FLAGS,
        )
    ]


def _secrets(asked: PlanInput, new: Recipe) -> list[dict[str, Any]]:
    """Said before anything is stopped: without its secrets the server does not start."""
    why = f"{asked.deployment} is not started without its secrets ({', '.join(sorted(asked.secrets))})."
    if asked.secrets_lost is not None:
        text, todo = asked.secrets_lost
        return [warning(text, why, todo, blocks=True, cure=Cure.SECRETS)]
    reason = why_not_passed(asked.engine, new.argv, asked.secrets)
    if new.container:
        reason = why_not_in_container(asked.engine, new.container["options"], asked.secrets, new.argv)
    if not reason:
        return []
    todo = "Start the engine itself in a new revision, or remove the secret on the deployment's page."
    return [warning(f"The secrets cannot be passed on: {reason}.", why, todo, blocks=True, cure=Cure.SECRETS)]


def _scheduled(asked: PlanInput) -> list[dict[str, Any]]:
    """A scheduler does not know what is launched beside its jobs, and gives the cards away."""
    name = scheduler_of(asked.facts) or (scheduler_of(asked.node_facts) if asked.node_facts is not None else "")
    if not name or asked.new is None:
        return []
    return [
        warning(
            f"{asked.host} is a node of {name}.",
            f"{name} hands out its cards to jobs and does not see a server that Relaunch starts: both may use a card.",
            f"Have the cards taken out of {name}'s hands first, by whoever looks after it.",
        )
    ]


def _split(asked: PlanInput) -> list[dict[str, Any]]:
    """A card in MIG mode is measured as a whole, while a program that is given it gets one part."""
    if isinstance(asked.facts.gpus, Unknown) or asked.new is None:
        return []
    split = {gpu.uuid for gpu in asked.facts.gpus.gpus if gpu.mig}
    labels = [card.label for card in asked.cards if card.uuid in split]
    if not labels:
        return []
    return [
        warning(
            f"{' and '.join(labels)} {'is' if len(labels) == 1 else 'are'} split into parts (MIG).",
            "The server gets the first part only. The job looks at the card as a whole: whoever uses any part of it "
            "counts as in the way.",
            "Choose a card that is not split, or have MIG switched off there by whoever looks after the machine.",
        )
    ]


def _other_version(asked: PlanInput) -> list[dict[str, Any]]:
    """An engine may load a model that it is too old for, and answer badly."""
    new, installed = asked.new, asked.engine_version
    if new is None or installed is None or not new.engine_versions:
        return []
    why = "Another version may load the model all the same, and give worse answers."
    todo = "Use an environment with such a version. If this one has been tried, state it in a new revision."
    if isinstance(installed, Unknown):
        text = f"{new.name} is known to be good with {asked.engine.label} {new.engine_versions}. Which version is "
        return [
            warning(f"{text}installed on {asked.host} is not known: {installed.reason}", why, todo, cure=Cure.FLAGS)
        ]
    among = is_among(installed, new.engine_versions)
    if among:
        return []
    found = "is not among them" if among is False else "cannot be compared with them"
    return [
        warning(
            f"{new.name} is known to be good with {asked.engine.label} {new.engine_versions}; {installed}, which "
            f"{asked.host} has, {found}.",
            why,
            todo,
            cure=Cure.FLAGS,
        )
    ]


def _missing(asked: PlanInput, new: Recipe) -> list[dict[str, Any]]:
    found = []
    paths = asked.facts.paths
    if isinstance(paths, Unknown):
        return [warning(paths.reason, "Paths on the host could not be looked at.", "Plan again.", blocks=True)]
    what = {new.workdir: "The working directory"}
    if not new.container:
        what |= {asked.engine.model_path(new.argv) or "": "The model", new.argv[0]: "The program"}
    for path, there in paths.items():
        if not there and path in what:
            found.append(
                warning(
                    f"{what[path]} {path} is not there on {asked.host}.",
                    "The launch would fail.",
                    "Correct the path in a new revision, or mount or copy it on the host.",
                    blocks=True,
                    cure=Cure.FLAGS,
                )
            )
    space = asked.facts.disks.get(HOME)
    if space is not None and not isinstance(space, Unknown) and space.free < LEAST_DISK_MIB:
        found.append(
            warning(
                f"Only {space.free} MiB are free on {space.mount} of {asked.host}.",
                "The launch needs room for its log.",
                f"Free some space; at least {LEAST_DISK_MIB} MiB are needed.",
                blocks=True,
                cure=Cure.HOST,
            )
        )
    return found


def _stays_down(asked: PlanInput, serving: Serving) -> str:
    """What somebody else on the cards means for the service."""
    stopped = f" {asked.deployment} is stopped all the same." if asked.stops and serving.processes else ""
    return (
        f"The job will not touch them.{stopped} If they are still there before the launch, {asked.deployment} stays "
        "down: the job asks, and measures nothing more until somebody answers."
    )


def _heeded(asked: PlanInput, serving: Serving, others: Held | Unknown) -> list[dict[str, Any]]:
    if isinstance(others, Unknown):
        return [
            warning(
                f"Who else holds the cards is not known: {others.reason}",
                "Memory at its baseline counts as free all the same; on a card that is shared it does not, and the job "
                "asks.",
                "Ask who else works on them. To have it seen, log in as root or tick sudo on the host's page.",
                asks=bool(serving.processes) or bool(asked.rules),
                cure=Cure.HOST,
            )
        ]
    if not others.strangers or asked.new is None:
        return []
    names = ", ".join(str(replace(holder, name=holder.program)) for holder in others.strangers)
    held = sorted({card for holder in others.strangers for card in holder.cards})
    neighbours = sorted({holder.deployment for holder in others.strangers if holder.deployment})
    todo = f"Stop {' and '.join(neighbours)} first, or let {asked.deployment} share its cards with it under Edit."
    return [
        warning(
            f"Somebody else holds {' and '.join(held)}: {names}.",
            _stays_down(asked, serving),
            todo if neighbours else "Ask their owner first.",
            asks=True,
            cure=Cure.SETTINGS if neighbours else Cure.NONE,
        )
    ]


def _tight(asked: PlanInput, serving: Serving, cards: Sequence[CardSeen]) -> list[dict[str, Any]]:
    """On a shared card the co-tenants stay, so what is free then must be enough for what is launched."""
    if asked.new is None:
        return []
    found = []
    for card in cards:
        if not card.shared or card.free_mib is None:
            continue
        if card.need_mib is None:
            found.append(
                warning(
                    f"How much memory {asked.new.name} needs on {card.label} is not known.",
                    "The card is shared and this revision was not measured there yet. The job will ask before the "
                    "launch.",
                    f"Write the number under Edit of {asked.deployment} (memory needed on a shared card), then plan "
                    "again.",
                    asks=True,
                    cure=Cure.SETTINGS,
                )
            )
            continue
        ours = memory_on(asked.facts, serving.pids | _leaving(asked), card.uuid)
        if card.free_mib + (ours or 0) < card.need_mib and (ours is not None or not serving.processes):
            found.append(
                warning(
                    f"{asked.new.name} needs {card.need_mib:,} MiB on {card.label}; beside its co-tenants only "
                    f"{card.free_mib + (ours or 0):,} MiB will be free.",
                    "The co-tenants are left alone, so the launch would not fit.",
                    "Launch a revision that needs less, or stop or shrink a co-tenant first.",
                    asks=True,
                    cure=Cure.FLAGS,
                )
            )
    return found
