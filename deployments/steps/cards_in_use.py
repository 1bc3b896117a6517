"""The deployment's cards once the server answers: what it uses of each, and that it stays on them."""

from __future__ import annotations

from collections.abc import Sequence

from deployments.decisions.verify import CardSeen
from deployments.lifecycle import CheckStatus
from deployments.models import Check, Launch
from deployments.plan.cards import cards_seen, memory_on
from deployments.plan.collect import PROBE_SECONDS, cards_of
from deployments.steps.base import StepContext, StepFailed
from hosts.models import Gpu
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.probe import probe
from hosts.transport.base import Transport

IN_USE = ("memory", "apps", "procs")
"""What is looked at of the cards once the server answers."""


def _stays_on_its_cards(ctx: StepContext, row: Launch, facts: HostFacts) -> None:
    """A command can choose cards by itself: on any other than the deployment's it is where nobody has measured.

    Only memory that the driver attributes to the server counts: to look at a card, an engine opens its file too.
    """
    if row.pid is None or isinstance(facts.processes, Unknown) or isinstance(facts.apps, Unknown):
        return
    ours = {process.pid for process in facts.processes.tree(row.pid)}
    strays = {app.gpu_uuid for app in facts.apps.apps if app.pid in ours} - {*ctx.placement.gpu_uuids}
    if not strays:
        return
    known = dict(Gpu.objects.filter(host=ctx.host, uuid__in=strays).values_list("uuid", "index"))
    names = ", ".join(sorted(f"GPU {known[uuid]}" if uuid in known else uuid for uuid in strays))
    ctx.check("strays", "Cards that are not this deployment's", CheckStatus.NOT_OK, value=names, limit="none")
    raise StepFailed(
        f"The server uses {names}, which {ctx.deployment} does not have.",
        hint="Take the choice of cards out of the command, or tick those cards; then stop or restart it.",
    )


def cards_in_use(ctx: StepContext, row: Launch, transport: Transport) -> tuple[list[str], dict[str, int]]:
    """The last point of the memory curve; returns the cards on which a server that answers holds nothing, and what it
    uses by card (MiB).
    """
    cards = cards_of(ctx)
    if not cards:
        return [], {}
    facts = probe(transport, sections=IN_USE, timeout=PROBE_SECONDS, sudo=ctx.host.sudo, tick=ctx.tick)
    seen = cards_seen(facts, cards)
    _stays_on_its_cards(ctx, row, facts)
    used = _used(row, facts, seen)
    ctx.show([_card_in_use(ctx, card) for card in seen], used_mib={card.uuid: card.used_mib for card in seen})
    beside = verified_needs(ctx)
    tolerance = ctx.deployment.tolerance_mib
    idle = [card for card in seen if (used.get(card.uuid, 0) <= tolerance if card.uuid in beside else card.is_free)]
    return [card.label for card in idle], used


def _used(row: Launch, facts: HostFacts, seen: Sequence[CardSeen]) -> dict[str, int]:
    """What the server itself uses by card: by how much its memory has grown since just before the start, or what the
    driver attributes to it, whichever is more. Left out where it was not measured.
    """
    tree = () if row.pid is None or isinstance(facts.processes, Unknown) else facts.processes.tree(row.pid)
    pids = {process.pid for process in tree}
    return {
        card.uuid: max(0, card.used_mib - row.memory_before[card.uuid], memory_on(facts, pids, card.uuid) or 0)
        for card in seen
        if card.used_mib is not None and card.uuid in row.memory_before
    }


def verified_needs(ctx: StepContext) -> dict[str, int]:
    """The cards that verify has found shared, with what was needed there."""
    needs: dict[str, int] = ctx.verified.data.get("needs", {})
    return needs


def _card_in_use(ctx: StepContext, card: CardSeen) -> Check:
    status = CheckStatus.UNKNOWN if card.used_mib is None else CheckStatus.NOT_OK if card.is_free else CheckStatus.OK
    return ctx.measured(
        f"in use {card.uuid}",
        f"{card.label} memory in use",
        status,
        value="unknown" if card.used_mib is None else f"{card.used_mib:,} MiB",
        limit=f"more than {card.limit_mib:,} MiB",
        detail=card.reason or card.uuid,
        source="nvidia-smi",
    )
