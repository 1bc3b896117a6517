"""Look at a host for servers: who they are, what they hold, and how each could be adopted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from controlpanel import sealing
from controlpanel.masking import as_written, mask_argv, mask_text, mask_values
from deployments.commandline import Command
from deployments.discovery.asking import Asker, Process, with_told
from deployments.discovery.environment import Given, NotReadable, given_again, read_environ
from deployments.discovery.found import Found, HeldCard
from deployments.discovery.readback import (
    PASTE,
    CannotReadBack,
    ReadBack,
    read_back,
    read_back_managed,
    seeing_all_cards,
)
from deployments.discovery.servers import Candidate, candidates, cards_of, inner_pid, launch_of, recognised, started_at
from deployments.engines.configuration import Seen
from deployments.pages import pages_of
from deployments.plan.container_change import ContainerTold
from deployments.plan.manager import Manager, ManagerKind, find_manager
from deployments.plan.passing import API_KEY
from deployments.plan.start import starts_itself
from deployments.plan.unit_change import UnitTold
from deployments.plan.unit_file import expand, read_environment
from deployments.plan.ways import By, Way
from deployments.plan.words import user_of
from hosts.models import Host
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.probe import SERVING, probe
from hosts.transport.base import Transport, no_tick

LOOK_SECONDS = 45.0
SECTIONS = (*SERVING, "users")


@dataclass(frozen=True)
class Looked:
    """A candidate with all that was asked about it."""

    candidate: Candidate
    argv: tuple[str, ...]
    process: Process
    manager: Manager | Unknown | None
    through: Way
    """By which it is started again; AUTO: by the panel."""
    runs: tuple[str, ...] = ()
    """What its unit or container says that it starts."""


def look_for_servers(
    transport: Transport, host: Host, *, only_port: int | None = None, tick: Callable[[], None] = no_tick
) -> list[Found]:
    """Every server of an engine that the panel knows; ``only_port``: who listens on that port, and nobody else.

    Raises TransportError.
    """
    asker = Asker(transport, host.sudo, tick)
    argvs = asker.commands()
    known = recognised(argvs)
    if not known:
        return []
    ports = [only_port] if only_port is not None else sorted({engine.port(argvs[pid]) for pid, engine in known.items()})
    facts = probe(
        transport,
        sections=SECTIONS,
        timeout=LOOK_SECONDS,
        ports=ports,
        pids=sorted(known),
        sudo=host.sudo,
        tick=tick,
    )
    here = candidates(facts, known, argvs, only_port=only_port)
    more = asker.processes([candidate.root.pid for candidate in here])
    login = read_login(asker.login()) if here else {}
    return [_found(asker, host, facts, _asked(asker, facts, each, more), login) for each in here]


def read_login(content: bytes) -> dict[str, str]:
    """The login's own environment; none where it cannot be read, so that everything counts as the server's own."""
    try:
        return read_environ(content)
    except NotReadable:
        return {}


def _asked(asker: Asker, facts: HostFacts, candidate: Candidate, more: Mapping[int, Process]) -> Looked:
    """What looks after it, and what that would start."""
    detail = facts.details.get(candidate.root.pid)
    argv = detail.argv if detail is not None else ()
    manager = find_manager(facts, candidate.serving)
    looked = Looked(candidate, argv, more.get(candidate.root.pid, Process()), manager, Way())
    if not isinstance(manager, Manager):
        return looked
    if manager.kind not in (ManagerKind.UNIT, ManagerKind.CONTAINER):
        return looked
    looked = replace(looked, manager=with_told(manager, asker.told(manager)))
    if manager.kind == ManagerKind.CONTAINER and not manager.tool:
        return looked
    return _through(looked, manager, asker.starter(manager), facts)


def _through(looked: Looked, manager: Manager, told: UnitTold | ContainerTold | Unknown, facts: HostFacts) -> Looked:
    """Does the unit or container start this server again by itself, and with which words?"""
    if isinstance(told, ContainerTold) and told.name:
        return replace(looked, through=told.way, runs=told.runs)
    table = facts.processes
    if not isinstance(told, UnitTold) or isinstance(table, Unknown):
        return looked
    if not starts_itself(told, looked.candidate.root, table):
        return looked
    runs: tuple[str, ...] = ()
    if not isinstance(told.file, Unknown):
        texts = {name: value for name, value in told.environment_files.items() if isinstance(value, str)}
        runs = _expanded(told, texts)
    return replace(looked, through=Way(By.UNIT, manager.name), runs=runs)


def _expanded(told: UnitTold, texts: Mapping[str, str]) -> tuple[str, ...]:
    """The unit's command with its variables filled in; empty where that is not plain."""
    if isinstance(told.file, Unknown):
        return ()
    environment = dict(told.file.environment)
    for text in texts.values():
        values = read_environment(text)
        if isinstance(values, Unknown):
            return ()
        environment |= values
    try:
        return tuple(expand(told.file.words, environment))
    except ValueError:
        return ()


def _found(asker: Asker, host: Host, facts: HostFacts, looked: Looked, login: Mapping[str, str]) -> Found:
    """One server as it is stored."""
    candidate, root = looked.candidate, looked.candidate.root
    assert not isinstance(facts.host, Unknown)  # who serves was found in it
    cards = cards_of(facts, candidate.serving)
    found = Found(
        boot_id=facts.host.boot_id,
        pid=root.pid,
        start_time=root.start_time,
        pid_namespace=facts.host.pid_namespace,
        engine=candidate.engine.key,
        words=tuple(mask_text(word) for word in mask_argv(looked.argv)),
        port=candidate.port,
        since=started_at(facts, root),
        user=facts.owners.get(root.pid) or user_of(root.uid),
        keeper=_words(looked.manager),
        started_by=str(looked.through),
        cards=cards,
        processes=len(candidate.serving.processes),
        inner_pid=inner_pid(facts, root),
        launch=launch_of(facts, candidate.serving),
    )
    try:
        _refuse(host, facts, looked)
        read = _read_back(looked, login)
    except CannotReadBack as problem:
        refused = replace(found, refused=mask_text(str(problem)), hint=_hint(looked))
        return replace(refused, effective=_told(asker, looked, ReadBack(Command(list(looked.argv)))))
    if looked.through == Way():
        read = _with_cards(facts, cards, read)
    return _with_recipe(found, read, told=_told(asker, looked, read))


def _with_cards(facts: HostFacts, cards: Sequence[HeldCard], read: ReadBack) -> ReadBack:
    """With the variable by which its restart lands on the same cards, where it needs one."""
    gpus = () if isinstance(facts.gpus, Unknown) else facts.gpus.gpus
    uuids = {card.uuid for card in cards}
    held = {gpu.index for gpu in gpus if gpu.uuid in uuids and isinstance(gpu.index, int)}
    return seeing_all_cards(read, cards_here=len(gpus), held=held)


def _told(asker: Asker, looked: Looked, read: ReadBack) -> Mapping[str, object]:
    """What the engine says of its configuration, asked with its own key; empty where it does not answer."""
    engine, known = looked.candidate.engine, _all_written(read.secrets)
    if engine.configuration is None or not looked.candidate.listens:
        return {}
    pages = pages_of(
        asker.transport,
        looked.candidate.port,
        engine,
        key=read.secrets.get(API_KEY, ""),
        hide=lambda value: mask_values(value, known=known),
        tick=asker.tick,
    )
    told = engine.configuration(Seen(read.command.argv, "", pages)).as_data() if pages else {}
    hidden: Mapping[str, object] = mask_values(told, known=known)
    return hidden


def _all_written(secrets: Mapping[str, str]) -> set[str]:
    return {text for value in secrets.values() for text in as_written(value)}


def _with_recipe(found: Found, read: ReadBack, *, told: Mapping[str, object]) -> Found:
    """With what a revision holds."""
    known = _all_written(read.secrets)
    return replace(
        found,
        words=tuple(mask_text(word, known=known) for word in found.words),
        argv=tuple(read.command.argv),
        env=read.command.env,
        workdir=read.command.workdir,
        secrets={name: sealing.seal(value, owner=found.owner) for name, value in read.secrets.items()},
        notes=read.notes,
        effective=told,
    )


def _refuse(host: Host, facts: HostFacts, looked: Looked) -> None:
    """Raises CannotReadBack for a server that no job of this host could restart."""
    manager, candidate = looked.manager, looked.candidate
    if isinstance(manager, Unknown):
        raise CannotReadBack(f"What looks after it could not be seen: {manager.reason}")
    if manager is not None and manager.kind == ManagerKind.SCHEDULER:
        raise CannotReadBack(f"It is a job of {manager.name}, which has given it its cards: it is never touched.")
    inside = inner_pid(facts, candidate.root) > 0
    if not candidate.listens and inside:
        raise CannotReadBack(f"It runs in a container of {host}, and its port is not one of {host} itself.")
    if not candidate.listens:
        raise CannotReadBack(f"Nothing of it listens on port {candidate.port}, which its command names, so far.")
    if not looked.argv:
        raise CannotReadBack("Its command line cannot be read.")
    if inside and looked.through == Way():
        raise CannotReadBack(f"It runs in a container of {host}, and what started that cannot be asked.")


def _hint(looked: Looked) -> str:
    """What to do instead."""
    if looked.candidate.listens:
        return PASTE
    return "If it is still loading, look again later. If it runs in a container, add that as a host, and look there."


def _read_back(looked: Looked, login: Mapping[str, str]) -> ReadBack:
    """Raises CannotReadBack."""
    engine, process = looked.candidate.engine, looked.process
    if any("\ufffd" in word for word in looked.argv):
        raise CannotReadBack("Its command line holds bytes that are no text.")
    if looked.through != Way():
        return read_back_managed(engine, _as_kept(looked), keeper=_words(looked.manager))
    if process.environ is None:
        raise CannotReadBack(
            "This login may not see the environment of that process, which belongs to another user. Log in as root, or "
            "let the login use sudo, and look again."
        )
    if not process.cwd or process.cwd.endswith(" (deleted)"):
        raise CannotReadBack("The directory that it runs in is gone or cannot be seen.")
    if not process.is_same:
        shown = process.program or looked.argv[0]
        raise CannotReadBack(f"What it runs is not found again at {mask_text(shown)}.")
    try:
        given: Given = given_again(read_environ(process.environ), login)
    except NotReadable as problem:
        raise CannotReadBack(str(problem)) from problem
    return read_back(engine, looked.argv, given=given, workdir=process.cwd, program=process.program)


def _as_kept(looked: Looked) -> Sequence[str]:
    """As its unit or container writes it, where that is the same: a script shows its interpreter in front of it, and a
    wrapper the program that it has become."""
    runs, argv = without_env(looked.runs), looked.argv
    tail = runs[1:]
    same = bool(tail) and argv[-len(tail) :] == tail and len(argv) - len(runs) in (0, 1)
    return runs if same and looked.candidate.engine.recognises(" ".join(runs)) else argv


def without_env(runs: Sequence[str]) -> tuple[str, ...]:
    """`env A=b python ...` is the command behind it."""
    words = list(runs)
    if words and words[0].rpartition("/")[2] == "env":
        words = words[1:]
        while words and "=" in words[0] and not words[0].startswith("-"):
            words = words[1:]
    return tuple(words)


def _words(manager: Manager | Unknown | None) -> str:
    return "" if manager is None else "not known" if isinstance(manager, Unknown) else str(manager)


def command_of(found: Found) -> Command:
    """What a revision of it starts."""
    return Command(list(found.argv), dict(found.env), found.workdir)
