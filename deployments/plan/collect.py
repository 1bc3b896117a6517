"""Look at a deployment's host (and at its node, for a container) and make the plan of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deployments import http
from deployments.engines.base import HttpRequest
from deployments.models import Launch, Revision
from deployments.plan.cards import Card
from deployments.plan.plan import Plan, PlanInput, Recipe, make_plan, paths_needed
from deployments.plan.serving import KnownLaunch
from hosts.probe.facts import HostFacts
from hosts.probe.probe import SERVING, probe
from hosts.transport.base import TransportError

if TYPE_CHECKING:
    from deployments.steps.base import StepContext

PROBE_SECONDS = 45.0
EARLIER_LAUNCHES = 200
NODE_SECTIONS = ("host", "gpus", "procs", "uids", "fds", "pids")


def plan_for(ctx: StepContext, *, count_requests: bool = True, adopt: bool = True) -> Plan:
    """The plan of this job as the facts are now. Raises TransportError, or CannotPlan for what cannot be seen.

    ``count_requests``: ask the server how many requests run, which no approval is bound to. ``adopt``: may an engine
    that listens on the port count as this deployment's, though it was not launched by us?
    """
    new = recipe_of(ctx.job.revision)
    launch = ctx.live_launch()
    facts = _look(ctx, new, launch)
    proven = ctx.deployment.proven_revision
    return make_plan(
        PlanInput(
            kind=ctx.job.kind,
            deployment=ctx.deployment.name,
            host=ctx.host.name,
            engine=ctx.engine,
            port=new.port if new else ctx.deployment.port,
            cards=cards_of(ctx),
            co_tenants=tuple(ctx.deployment.co_tenants),
            launch=known_launch(launch or ctx.deployment.newest_launch),
            new=new,
            proven=recipe_of(proven),
            previous=str(launch.revision) if launch is not None and launch.revision is not None else None,
            way_back=ctx.job.way_back,
            facts=facts,
            node_facts=look_at_node(ctx),
            earlier=_earlier(ctx),
            requests=running_requests(ctx) if count_requests else None,
            adopt=adopt,
        )
    )


def recipe_of(revision: Revision | None) -> Recipe | None:
    """A revision without its row."""
    if revision is None:
        return None
    return Recipe(
        str(revision), tuple(revision.argv), revision.command_line, revision.port, revision.workdir, revision.env
    )


def cards_of(ctx: StepContext) -> tuple[Card, ...]:
    """The deployment's cards. One that the host has lost keeps its uuid as its name."""
    known = {gpu.uuid: gpu for gpu in ctx.placement.gpus}
    return tuple(
        Card(uuid, f"GPU {known[uuid].index}", known[uuid].baseline_mib) if uuid in known else Card(uuid, uuid, None)
        for uuid in ctx.placement.gpu_uuids
    )


def _earlier(ctx: StepContext) -> tuple[str, ...]:
    """Ids of the deployment's last launches, whose markers its processes may still carry."""
    ids = ctx.deployment.launches.order_by("-intended_at").values_list("pk", flat=True)[:EARLIER_LAUNCHES]
    return tuple(map(str, ids))


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
    )


def look_at_node(ctx: StepContext) -> HostFacts | None:
    """The node's look at the cards: a container does not see the processes of others. None for a plain host."""
    if ctx.host.machine == ctx.host:
        return None
    with ctx.machine_link() as transport:
        return probe(
            transport, sections=NODE_SECTIONS, timeout=PROBE_SECONDS, sudo=ctx.host.machine.sudo, tick=ctx.tick
        )


def _look(ctx: StepContext, new: Recipe | None, launch: Launch | None) -> HostFacts:
    pids = [launch.pid] if launch is not None and launch.pid is not None else []
    port = new.port if new else ctx.deployment.port
    with ctx.link() as transport:
        return probe(
            transport,
            sections=(*SERVING, "disk"),
            timeout=PROBE_SECONDS,
            ports=sorted({port, ctx.deployment.port}),
            pids=pids,
            paths=paths_needed(ctx.engine, new),
            sudo=ctx.host.sudo,
            tick=ctx.tick,
        )


def running_requests(ctx: StepContext) -> int | None:
    """How many requests the server of our live launch says it works on; None when it does not say."""
    if ctx.live_launch() is None or not ctx.engine.metrics_path:
        return None
    page = HttpRequest("GET", ctx.engine.metrics_path, timeout=3.0)
    try:
        with ctx.link() as transport:
            answer = http.ask(transport, ctx.deployment.port, page, tick=ctx.tick)
    except (http.NoAnswer, TransportError):
        return None
    return ctx.engine.running_requests(answer.body.decode(errors="replace"))
