"""Look at a deployment's host (and at its node, for a container) and make the plan of a job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from deployments import secrets
from deployments.engines.versions import program_with_version
from deployments.known import EARLIER_LAUNCHES, known_card, launches_on, names_of
from deployments.lifecycle import LIVE_LAUNCH, JobKind
from deployments.models import Launch, Revision
from deployments.plan import beside
from deployments.plan.asking import ask_starter, closed_to
from deployments.plan.cards import Card, labels_of
from deployments.plan.claims import claims_on
from deployments.plan.collect_fit import to_fit
from deployments.plan.collect_flags import check_flags
from deployments.plan.coming import Part, Tell, tell_nobody
from deployments.plan.inputs import Leaving, PlanInput, Recipe
from deployments.plan.loading import unasked
from deployments.plan.manager import Manager, ManagerKind
from deployments.plan.manager_answers import NOTHING_TOLD, Told, read_told
from deployments.plan.plan import Plan, make_plan, paths_needed
from deployments.plan.port import passed_on_by
from deployments.plan.replacing import joined
from deployments.plan.serving import KnownLaunch
from deployments.plan.sharing import Rules
from deployments.plan.start import LINGER
from deployments.plan.ways import NAMED, Way
from deployments.remote import run as remote
from deployments.starts import last_starts
from deployments.traffic.hook import Moment, hook_of
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.probe import HOLDERS, SERVING, USABLE, probe
from hosts.transport.base import Transport, no_tick

if TYPE_CHECKING:
    from deployments.steps.base import StepContext

PROBE_SECONDS = 45.0
MEASURED_LAUNCHES = 20
"""So far back is looked for what a revision used on a card."""
ASKED_AS = {ManagerKind.UNIT: "unit", ManagerKind.CONTAINER: "container", ManagerKind.SUPERVISOR: "supervisor"}
IN_A_PLAN = tuple(name for name in SERVING if name != "threads")
"""Threads with files of their own that the driver does not name either are as rare as dear to find: verify looks."""
NODE_SECTIONS = ("host", "gpus", "procs", "uids", "nspids", "fds", "pids", *HOLDERS)


def plan_for(ctx: StepContext, *, adopt: bool = True, tell: Tell = tell_nobody) -> Plan:
    """The plan of this job as the facts are now. Raises TransportError, or CannotPlan for what cannot be seen.

    ``adopt``: may an engine that listens on the port count as this deployment's, though it was not launched by us?
    ``tell``: is shown what is known of the plan while the rest is still being asked.
    """
    old = ctx.job.replaces
    if old is None or ctx.job.deployment is None:
        return _plan_of(ctx, ctx.job.kind, ctx.job.revision, adopt=adopt, tell=tell)
    if ctx.step.way_back:  # of the new one, which is stopped again
        return _plan_of(ctx, JobKind.STOP, None, adopt=adopt)
    out = _plan_of(ctx.about(old), JobKind.REPLACE, None, adopt=adopt)
    leaving = Leaving(old.name, out.serving)
    # Who listens on its port, if it is that of the old one, is the old one.
    new = _plan_of(ctx.about(ctx.job.deployment), JobKind.START, ctx.job.revision, adopt=False, leaving=leaving)
    return joined(out, new, old=old.name, comes=ctx.job.deployment.name)


def _plan_of(
    ctx: StepContext,
    kind: str,
    revision: Revision | None,
    *,
    adopt: bool,
    leaving: Leaving | None = None,
    tell: Tell = tell_nobody,
) -> Plan:
    """Of what is done to the deployment that ``ctx`` is about; ``revision`` is what is launched of it."""
    asked = _looked(ctx, kind, revision, adopt=adopt, leaving=leaving)
    if revision is None:
        return _made(ctx, asked)
    tell(asked, Part.FLAGS, Part.FIT)
    version, flags = engine_version(ctx, asked.new), check_flags(ctx, revision)
    asked = replace(asked, engine_version=version, flags=flags)
    tell(asked, Part.FIT)
    return _made(ctx, replace(asked, to_fit=to_fit(ctx, revision, version=version, flags=flags)))


def _looked(
    ctx: StepContext, kind: str, revision: Revision | None, *, adopt: bool, leaving: Leaving | None
) -> PlanInput:
    """All that the database and one look at the host tell."""
    new = recipe_of(revision)
    launch = ctx.live_launch()
    facts, node_facts = _looks(ctx, new, launch)
    given = secrets.versions(ctx.deployment) if new else {}
    cards = cards_of(ctx, stops_only=new is None)
    return PlanInput(
        kind=kind,
        deployment=ctx.deployment.name,
        host=ctx.host.name,
        engine=ctx.engine,
        port=new.port if new else ctx.deployment.port,
        cards=cards,
        rules=rules_of(ctx),
        launch=known_launch(launch or ctx.deployment.newest_launch),
        new=new,
        newer=_newer_than(revision),
        proven_engine=str(ctx.deployment.proven_with.get("engine") or "")
        if revision is not None and ctx.deployment.proven_revision_id == revision.pk
        else "",
        took=tuple(last_starts(ctx.deployment)) if new else (),
        proven=recipe_of(ctx.deployment.proven_revision),
        previous=str(launch.revision) if launch is not None and launch.revision is not None else None,
        way_back=ctx.job.way_back,
        facts=facts,
        node_facts=node_facts,
        machine=ctx.host.machine.name,
        used_alone=used_alone(ctx, revision),
        earlier=launches_of(ctx),
        launches=launches_of_others(ctx),
        claims=claims_on(ctx, labels_of(cards)),
        secrets=given,
        secrets_lost=secrets.why_not_opened(ctx.deployment) if given else None,
        secrets_odd=secrets.odd_for_compose(ctx.deployment) if given else (),
        started_by=Way.of(ctx.deployment.started_by),
        login=ctx.host.user or "root",
        hooks=tuple(filter(None, (hook_of(ctx.deployment.hooks, moment) for moment in Moment))),
        router_key=secrets.has_router_key(ctx.deployment),
        leaving=leaving,
        adopt=adopt,
        stop_seconds=ctx.deployment.term_seconds + ctx.deployment.kill_seconds,
    )


def _made(ctx: StepContext, asked: PlanInput) -> Plan:
    """The plan, made anew with what the server's manager says, where there is one."""
    if behind := container_behind(ctx, asked.facts, asked.port):
        asked = replace(asked, behind_port=behind)
    made = make_plan(asked)
    if not made.serving.processes and asked.adopt and (pids := unasked(asked.facts, labels_of(asked.cards))):
        asked = replace(asked, facts=with_details(ctx, asked.facts, pids))
        made = make_plan(asked)
    more: dict[str, Any] = {}
    if made.manager is not None and asked.stops:
        more["told"] = _ask_manager(ctx, made.manager)
    if made.start is not None and made.start.way.by in NAMED:
        image = str(asked.new.container.get("image", "")) if asked.new is not None else ""
        more["starter"] = ask_starter(ctx, made.start.way, made.start.tool, image=image)
    kept = made.start.kept if made.start is not None else None
    if kept is not None and kept.uid is not None and kept.gid is not None and asked.new is not None:
        model = asked.engine.model_path(asked.new.argv)
        paths = [path for path in (model, asked.new.workdir) if path]
        more["closed"] = closed_to(ctx, kept.uid, kept.gid, paths)
    return make_plan(replace(asked, **more)) if more else made


def _ask_manager(ctx: StepContext, manager: Manager) -> Told:
    """What the manager's own tools say of the server, before anything is stopped. Raises TransportError."""
    if manager.kind == ManagerKind.SCHEDULER:
        return NOTHING_TOLD
    script = remote.script_for(
        ctx.deployment,
        "manager",
        fence=ctx.claim.fence,
        boot_id="",
        kind=ASKED_AS.get(manager.kind, "waiting"),
        name=manager.name,
        tool=manager.tool,
        owner="" if manager.user is None else manager.user,
        become=" ".join(manager.become),
        group=manager.group,
        above=manager.pid or "",
        as_root="sudo -n" if ctx.host.sudo else "",
    )
    with ctx.link() as transport:
        said = remote.run(transport, script, timeout=PROBE_SECONDS, tick=ctx.tick)
    return read_told(((line.word, line.text) for line in said), child=manager.child, tool=manager.tool)


def container_behind(ctx: StepContext, facts: HostFacts, port: int) -> str:
    """By name, where docker itself listens on ``port`` for it; empty where not, or where docker does not say.

    Raises TransportError.
    """
    if passed_on_by(facts, port) is None:
        return ""
    words = dict.fromkeys(("tool", "owner", "become", "group", "above"), "")
    script = remote.script_for(
        ctx.deployment,
        "manager",
        fence=ctx.claim.fence,
        boot_id="",
        kind="published",
        name=port,
        as_root="sudo -n" if ctx.host.sudo else "",
        **words,
    )
    with ctx.link() as transport:
        said = remote.run(transport, script, timeout=PROBE_SECONDS, tick=ctx.tick)
    return next((line.text for line in said if line.word == "published"), "")


def engine_version(ctx: StepContext, new: Recipe | None) -> str | Unknown | None:
    """The engine's version that the command to be launched would use. None where the recipe is good with any.

    Raises TransportError.
    """
    if new is None or not new.engine_versions:
        return None
    if new.container:
        return Unknown("it runs in a container, whose image decides.")
    package = ctx.engine.package
    program = program_with_version(new.argv, package) if package else None
    if program is None:
        return Unknown("the command does not say where the engine is installed.")
    values = {"program": program, "package": package, "workdir": new.workdir}
    script = remote.script_for(ctx.deployment, "version", fence=ctx.claim.fence, boot_id="", **values)
    with ctx.link() as transport:
        said = remote.run(transport, script, timeout=PROBE_SECONDS, tick=ctx.tick)
    words = {line.word: line.text for line in said}
    return words.get("version") or Unknown(f"{words.get('unknown', 'the host did not say')}.")


def _newer_than(revision: Revision | None) -> str:
    """The newest revision of its profile, where that is another."""
    if revision is None:
        return ""
    newest = Revision.objects.filter(profile=revision.profile_id, number__gt=revision.number).order_by("-number")
    return str(found) if (found := newest.select_related("profile").first()) is not None else ""


def recipe_of(revision: Revision | None) -> Recipe | None:
    """A revision without its row."""
    if revision is None:
        return None
    return Recipe(
        str(revision),
        tuple(revision.argv),
        revision.command_line,
        revision.port,
        revision.workdir,
        revision.env,
        revision.container,
        revision.engine_versions,
    )


def cards_of(ctx: StepContext, *, stops_only: bool | None = None) -> tuple[Card, ...]:
    """The deployment's cards. One that the host has lost keeps its uuid as its name.

    ``stops_only``: nothing is launched on them; None: as the kind of the job says.
    """
    known = {gpu.uuid: gpu for gpu in ctx.gpus}
    needs = _needs(ctx, stops_only=ctx.job.kind == JobKind.STOP if stops_only is None else stops_only)
    found = []
    for uuid in ctx.placement.gpu_uuids:
        gpu = known.get(uuid)
        card = known_card(gpu, ctx.deployment) if gpu else Card(uuid, uuid, None)
        found.append(replace(card, need_mib=needs.get(uuid)))
    return tuple(found)


def _needs(ctx: StepContext, *, stops_only: bool) -> dict[str, int]:
    """MiB that what is to be launched needs by card: as measured when this revision served there last, else as the
    deployment states. Not asked where nobody may share the cards.
    """
    uuids = ctx.placement.gpu_uuids
    if stops_only:
        return dict.fromkeys(uuids, 0)
    if not rules_of(ctx):
        return {}
    stated = ctx.deployment.shared_need_mib
    needs = dict.fromkeys(uuids, stated) if stated is not None else {}
    return needs | measured_needs(ctx)


def measured_needs(ctx: StepContext) -> dict[str, int]:
    """MiB by card that the revision to be launched used there when it served last, as far as that was measured."""
    needs: dict[str, int] = {}
    served = Launch.objects.filter(revision=ctx.revision).exclude(ready_at=None).order_by("-intended_at")
    for measured in reversed(list(served.values_list("memory_used", flat=True)[:MEASURED_LAUNCHES])):
        needs |= {uuid: mib for uuid, mib in measured.items() if uuid in ctx.placement.gpu_uuids}
    return needs


def used_alone(ctx: StepContext, revision: Revision | None) -> frozenset[str]:
    """All cards of the host that a server of the revision to be launched used when it was last adopted there.

    Of a launch of the panel's own nothing is measured but the deployment's cards.
    """
    if revision is None:
        return frozenset()
    adopted = Launch.objects.filter(deployment=ctx.deployment, revision=revision, host=ctx.host)
    used = adopted.exclude(adopted_at=None).order_by("-adopted_at").values_list("memory_used", flat=True).first()
    return frozenset(used or ())


def rules_of(ctx: StepContext) -> Rules:
    """Who may hold the cards beside this deployment."""
    return Rules(frozenset(ctx.deployment.partners), tuple(ctx.deployment.co_tenants))


def launches_of(ctx: StepContext) -> tuple[str, ...]:
    """Ids of the deployment's last launches, whose markers its processes may still carry."""
    ids = ctx.deployment.launches.order_by("-intended_at").values_list("pk", flat=True)[:EARLIER_LAUNCHES]
    return tuple(map(str, ids))


def launches_of_others(ctx: StepContext) -> dict[str, str]:
    """launch -> deployment, of what the panel has started lately on this machine for other deployments."""
    mine = ctx.deployment.pk
    return names_of(launch for launch in launches_on(ctx.host.machine) if launch.deployment_id != mine)


def known_launch(launch: Launch | None) -> KnownLaunch | None:
    """What was recorded of a launch."""
    if launch is None:
        return None
    sent = launch.requested
    return KnownLaunch(
        str(launch.pk),
        launch.boot_id,
        launch.pid,
        launch.start_time,
        tuple(sent.get("argv", ())),
        sent.get("env", {}),
        sent.get("workdir", ""),
        sent.get("container", {}),
        Way.of(launch.started_by),
        launch.adopted_at is not None,
        launch.state not in LIVE_LAUNCH,
    )


def _looks(ctx: StepContext, new: Recipe | None, launch: Launch | None) -> tuple[HostFacts, HostFacts | None]:
    """At the host, and at its node meanwhile. Raises what the host's look raises before what the node's does."""
    if ctx.host.machine == ctx.host:
        return _look(ctx, new, launch), None
    with ctx.machine_link() as transport:
        asked = beside.begin(partial(_node_probe, ctx, transport, USABLE, no_tick))
        facts = _look(ctx, new, launch)
        return facts, beside.take(asked, tick=ctx.tick)


def look_at_node(ctx: StepContext, more: Sequence[str] = ()) -> HostFacts | None:
    """The node's look at the cards: a container does not see the processes of others. None for a plain host.

    ``more``: sections that only some need.
    """
    if ctx.host.machine == ctx.host:
        return None
    with ctx.machine_link() as transport:
        return _node_probe(ctx, transport, more, ctx.tick)


def _node_probe(ctx: StepContext, transport: Transport, more: Sequence[str], tick: Callable[[], None]) -> HostFacts:
    return probe(
        transport,
        sections=(*NODE_SECTIONS, *names_asked(ctx), *more),
        timeout=PROBE_SECONDS,
        sudo=ctx.host.machine.sudo,
        tick=tick,
    )


def names_asked(ctx: StepContext) -> tuple[str, ...]:
    """Users are asked for by name where a name decides who may share the cards."""
    return ("users",) if ctx.deployment.co_tenants else ()


def _look(ctx: StepContext, new: Recipe | None, launch: Launch | None) -> HostFacts:
    pids = [launch.pid] if launch is not None and launch.pid is not None else []
    port = new.port if new else ctx.deployment.port
    login = ctx.host.user or "root"
    with ctx.link() as transport:
        return probe(
            transport,
            sections=(*IN_A_PLAN, *USABLE, *names_asked(ctx), "disk"),
            timeout=PROBE_SECONDS,
            ports=sorted({port, ctx.deployment.port}),
            pids=pids,
            paths=[*paths_needed(ctx.engine, new), *([LINGER + login] if new and login != "root" else [])],
            sudo=ctx.host.sudo,
            tick=ctx.tick,
        )


def with_details(ctx: StepContext, facts: HostFacts, pids: Iterable[int]) -> HostFacts:
    """The same look, with the command lines of more processes, and with the markers by which they are ours."""
    missing = sorted(set(pids) - facts.details.keys())
    if not missing:
        return facts
    sections = ("pids", "markers") if isinstance(facts.markers, Unknown) else ("pids",)
    with ctx.link() as transport:
        more = probe(
            transport, sections=sections, timeout=PROBE_SECONDS, pids=missing, sudo=ctx.host.sudo, tick=ctx.tick
        )
    markers = more.markers if isinstance(facts.markers, Unknown) else facts.markers
    return replace(facts, details={**more.details, **facts.details}, markers=markers)
