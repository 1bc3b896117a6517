"""Look at the host that a deployment is to be cloned to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import close_old_connections
from django.db.models import Q
from django.utils import timezone

from controlpanel.live import hints
from deployments.cloning.rows import CardThere, Here, Row, There, Wanted, compare
from deployments.engines.base import Engine
from deployments.engines.registry import ENGINES
from deployments.engines.versions import program_with_version
from deployments.fit import store
from deployments.fit.estimate import KV_FLAGS
from deployments.fit.where import draft_place, model_place
from deployments.known import known_card
from deployments.lifecycle import ServiceState
from deployments.models import CloneCheck, Deployment, Placement, Revision
from deployments.plan.inputs import HOME
from deployments.plan.port import port_verdict
from deployments.plan.ways import NAMED, Way
from deployments.remote import run as remote
from hosts import links
from hosts.models import Gpu, Host
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.probe import EVERYTHING, probe
from hosts.transport.base import Transport, TransportError

LOOK_SECONDS, READ_SECONDS = 45.0, 15.0


def run_check(check_id: int) -> None:
    """Do one check. Rung twice, it runs once."""
    close_old_connections()
    if not CloneCheck.objects.filter(pk=check_id, started_at=None).update(started_at=timezone.now()):
        return
    check = CloneCheck.objects.select_related("host__via", "deployment", "revision__profile").get(pk=check_id)
    told: dict[str, Any] = {"problem": "The panel failed while it looked.", "hint": "Check again."}
    try:
        with links.borrow(check.host) as transport:
            told = {"rows": [row.as_data for row in look(transport, check)], "problem": ""}
    except TransportError as error:
        told = {"problem": str(error), "hint": error.hint}
    finally:
        CloneCheck.objects.filter(pk=check_id).update(finished_at=timezone.now(), **told)
        hints.hint(f"clone:{check_id}")


def look(transport: Transport, check: CloneCheck) -> list[Row]:
    """Raises TransportError."""
    revision = check.revision
    if revision is None:  # asked for by an earlier version of the panel
        raise TransportError("Which revision was to be checked is not known.", hint="Look once more.")
    engine = ENGINES[revision.profile.engine]
    wanted = _wanted(revision, engine)
    facts = probe(
        transport,
        sections=(*EVERYTHING, "port"),
        timeout=LOOK_SECONDS,
        ports=[revision.port],
        paths=[HOME, *wanted.paths],
        sudo=check.host.sudo,
    )
    _read_model(transport, check.host, revision, engine)
    port = port_verdict(facts, revision.port)
    there = There(
        check.host.name,
        _cards_there(facts, check),
        _version(transport, check, revision, engine),
        facts.paths,
        facts.closed,
        facts.disks,
        port.free,
        port.text,
        _others(check, port=revision.port),
    )
    return compare(wanted, _here(check.deployment, revision), there)


def _read_model(transport: Transport, host: Host, revision: Revision, engine: Engine) -> None:
    """Keep what tells whether it fits there, for the page. Raises TransportError."""
    path = model_place(engine, revision.argv, revision.container)
    if engine.key not in KV_FLAGS or isinstance(path, Unknown):
        return
    for found in filter(None, (path, draft_place(engine, revision.argv, revision.container))):
        store.read_and_keep(transport, host, found, revision.workdir, timeout=READ_SECONDS)


def _wanted(revision: Revision, engine: Engine) -> Wanted:
    paths: dict[str, str] = {}
    if not revision.container:
        program, model = revision.argv[0], engine.model_path(revision.argv)
        paths |= {program: "The program"} if program.startswith("/") else {}
        paths |= {model: "The model"} if model is not None else {}
    paths |= {revision.workdir: "The working directory"} if revision.workdir else {}
    return Wanted(revision.port, paths, HOME, engine.label, revision.engine_versions, revision.env)


def _here(deployment: Deployment, revision: Revision) -> Here:
    """From what the panel has stored: the host itself may be gone."""
    place = deployment.place
    launch = deployment.launches.exclude(effective={}).order_by("-intended_at").first()
    newest = deployment.newest_launch
    way = Way.of(newest.started_by) if newest is not None else Way()
    keeper = str(way) if way.by in NAMED and not revision.container else ""
    version = str(launch.effective.get("version", "")) if launch is not None else ""
    if place is None:  # it was released, and its host removed since
        return Here(deployment.released.get("host", ""), [], version, keeper)
    return Here(place.host.name, [_card(gpu, deployment) for gpu in place.gpus], version, keeper)


def _card(gpu: Gpu, deployment: Deployment, used: int | None = None) -> CardThere:
    card = known_card(gpu, deployment)
    return CardThere(card.label, gpu.name, gpu.total_mib, used, card.limit_mib, gpu.driver_version)


def _cards_there(facts: HostFacts, check: CloneCheck) -> Sequence[CardThere]:
    """As they are read now."""
    used: dict[str, int] = {}
    if not isinstance(facts.gpus, Unknown):
        used = {gpu.uuid: gpu.memory_used for gpu in facts.gpus.gpus if isinstance(gpu.memory_used, int)}
    rows = Gpu.objects.filter(host=check.host, uuid__in=check.gpu_uuids).order_by("index")
    return [_card(gpu, check.deployment, used.get(gpu.uuid)) for gpu in rows]


def _version(transport: Transport, check: CloneCheck, revision: Revision, engine: Engine) -> str | Unknown | None:
    """Of the engine that the command would use there. Raises TransportError."""
    if revision.container:
        return None
    program = program_with_version(revision.argv, engine.package) if engine.package else None
    if program is None:
        return Unknown("the command does not say where the engine is installed.")
    values = {"program": program, "package": engine.package, "workdir": revision.workdir}
    script = remote.script_for(check.deployment, "version", fence=0, boot_id="", **values)
    said = {line.word: line.text for line in remote.run(transport, script, timeout=LOOK_SECONDS)}
    return said.get("version") or Unknown(f"{said.get('unknown', 'the host did not say')}.")


def _others(check: CloneCheck, *, port: int) -> list[str]:
    """Deployments on the same machine that have one of the cards, or on the same host the port."""
    machine: Host = check.host.machine
    places: Iterable[Placement] = (
        Placement.objects.filter(Q(host=machine) | Q(host__via=machine))
        .exclude(deployment__state=ServiceState.RELEASED)
        .exclude(deployment=check.deployment)
        .select_related("deployment")
    )
    cards = set(check.gpu_uuids)
    return sorted(
        place.deployment.name
        for place in places
        if cards & set(place.gpu_uuids) or (place.host_id == check.host_id and place.deployment.port == port)
    )
