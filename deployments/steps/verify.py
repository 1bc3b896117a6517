"""Verify: are the cards and the port free? Measured, three times in a row; otherwise a person decides."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from django.utils import timezone

from controlpanel.identity import panel_id
from deployments.decisions.port import PortVerdict
from deployments.decisions.stop_ladder import Record
from deployments.decisions.verify import (
    CLEAN_ROUNDS,
    CardSeen,
    Free,
    HolderSeen,
    KeepLooking,
    NotFree,
    Round,
    Verdict,
    VerifyPolicy,
    decide,
)
from deployments.lifecycle import CheckStatus, JobKind, ServiceState
from deployments.models import Check, Deployment
from deployments.plan.cards import cards_seen
from deployments.plan.collect import LookForOthers, cards_of, launches_of_others, look_at_node, others_of
from deployments.plan.port import port_verdict
from deployments.steps import not_free
from deployments.steps.approval import answer_stands
from deployments.steps.base import StepContext, StepFailed
from deployments.steps.plan import approve_anew_if_stale
from hosts.models import Gpu
from hosts.probe.facts import AGAIN, HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.probe import watch

SECTIONS = ("host", "memory", "procs", "fds", "listeners", "port", *AGAIN)
EVERY_SECONDS = 0.2
EAGER_SECONDS = 0.005
"""Pause between two looks: at first as fast as the host allows, then five times a second."""
CEILING_MIB = 64


def verify(ctx: StepContext) -> None:
    """Look until everything is free three times in a row, or the limit has passed; then ask."""
    if ctx.job.kind == JobKind.START and not (ctx.job.touched and ctx.step.data):
        approve_anew_if_stale(ctx)
    answer = ctx.answer("not free")
    if answer is not None and answer.answer != "again" and answer_stands(ctx, answer):
        not_free.carry_out(ctx, answer)
        if answer.answer in ("anyway", "leave"):
            return
    record = _record(ctx)
    last, verdict, boot_id = _look(ctx, record)
    if isinstance(verdict, Free):
        others = _others_on_node(ctx)
        if others:
            verdict = NotFree(tuple(f"On the node, {holder} holds {', '.join(holder.cards)}." for holder in others))
            raise not_free.ask(ctx, verdict, others, boot_id)
        _free(ctx, last, boot_id)
        return
    raise not_free.ask(ctx, verdict, last.holders or (), boot_id)


def _record(ctx: StepContext) -> Record | None:
    """The processes that the stop of this round has ended."""
    stopped = ctx.job.steps.filter(name="stop", way_back=ctx.step.way_back).order_by("-position").first()
    return Record.load(stopped.data) if stopped is not None and "processes" in stopped.data else None


def _policy(ctx: StepContext) -> VerifyPolicy:
    policy = ctx.deployment
    return VerifyPolicy(policy.memory_seconds, policy.stuck_seconds, policy.port_seconds)


def _look(ctx: StepContext, record: Record | None) -> tuple[Round, Verdict, str]:
    """Rounds until there is a verdict. The last round is shown as checks whenever it says something new."""
    cards, others_on, launches = cards_of(ctx), others_of(ctx), launches_of_others(ctx)
    rounds: deque[Round] = deque(maxlen=CLEAN_ROUNDS)
    began = timezone.now()
    policy = _policy(ctx)
    seconds = int(max(policy.stuck_seconds, policy.memory_seconds, policy.port_seconds)) + 30
    with ctx.link() as transport:
        for facts in watch(
            transport,
            sections=SECTIONS,
            every=EVERY_SECONDS,
            eager=EAGER_SECONDS,
            slot=f"verify-{panel_id()}-{ctx.deployment.pk}",
            seconds=seconds,
            ports=[ctx.deployment.port],
            sudo=ctx.host.sudo,
            tick=ctx.tick,
        ):
            port = port_verdict(facts, ctx.deployment.port, launches=launches)
            for gpus in (facts.gpus, *facts.again):
                seen = _round(facts, record, others_on, cards_seen(replace(facts, gpus=gpus), cards), port)
                if not rounds or rounds[-1] != seen:
                    _show(ctx, seen)
                rounds.append(seen)
            verdict = decide(list(rounds), policy, elapsed=(timezone.now() - began).total_seconds())
            if not isinstance(verdict, KeepLooking):
                return seen, verdict, "" if isinstance(facts.host, Unknown) else facts.host.boot_id
    raise StepFailed("The host stopped sending readings before there was a verdict.", hint="Ask for the job again.")


def _round(
    facts: HostFacts,
    record: Record | None,
    others_on: LookForOthers,
    cards: tuple[CardSeen, ...],
    port: PortVerdict,
) -> Round:
    others = others_on(facts)
    note = others.reason if isinstance(others, Unknown) else ""
    if not isinstance(facts.files, Unknown) and facts.files.partial:
        note = "This login may not see the files of other users' processes; memory decides."
    held_by = None if isinstance(others, Unknown) else others
    return Round(cards, _survivors(facts, record), held_by, port.free, note, port.text)


def _survivors(facts: HostFacts, record: Record | None) -> tuple[int, ...] | None:
    """Recorded processes that still live; those of another boot cannot. None: could not be seen."""
    if record is None:
        return ()
    if isinstance(facts.processes, Unknown):
        return None
    if not isinstance(facts.host, Unknown) and facts.host.boot_id != record.boot_id:
        return ()
    found = []
    for pid, start in record.processes:
        process = facts.processes.by_pid.get(pid)
        if process is not None and process.start_time == start and not process.is_dead_zombie:
            found.append(pid)
    return tuple(found)


def _others_on_node(ctx: StepContext) -> tuple[HolderSeen, ...]:
    """A container does not see who else holds its cards: the node does."""
    facts, others_on = look_at_node(ctx), others_of(ctx)
    if facts is None:
        return ()
    others = others_on(facts)
    if others and not isinstance(others, Unknown):
        others = _still_there(ctx, others, others_on)
    if isinstance(others, Unknown):
        ctx.check("holders on node", "Holders seen from the node", CheckStatus.UNKNOWN, detail=others.reason)
        return ()
    status = CheckStatus.NOT_OK if others else CheckStatus.OK
    names = ", ".join(holder.name for holder in others)
    ctx.check("holders on node", "Holders seen from the node", status, value=str(len(others)), limit="0", detail=names)
    return others


def _still_there(
    ctx: StepContext, before: tuple[HolderSeen, ...], others_on: LookForOthers
) -> tuple[HolderSeen, ...] | Unknown:
    """Those that a second look finds as well: a question of the panel's own may have been caught as it began."""
    facts = look_at_node(ctx)
    again = before if facts is None else others_on(facts)
    known = {(holder.pid, holder.start_time) for holder in before}
    return again if isinstance(again, Unknown) else tuple(h for h in again if (h.pid, h.start_time) in known)


def _show(ctx: StepContext, seen: Round) -> None:
    """The round as checks, each with value, limit and source."""
    checks = [*(_card(ctx, card) for card in seen.cards), _holders(ctx, seen), _old(ctx, seen), _port(ctx, seen)]
    ctx.show(checks, used_mib={card.uuid: card.used_mib for card in seen.cards})


def _card(ctx: StepContext, card: CardSeen) -> Check:
    status = CheckStatus.UNKNOWN if card.used_mib is None else CheckStatus.OK if card.is_free else CheckStatus.NOT_OK
    return ctx.measured(
        f"memory {card.uuid}",
        f"{card.label} memory in use",
        status,
        value="unknown" if card.used_mib is None else f"{card.used_mib:,} MiB",
        limit=f"{card.limit_mib:,} MiB",
        detail=card.reason or card.uuid,
        source="nvidia-smi",
    )


def _holders(ctx: StepContext, seen: Round) -> Check:
    label = "Others that hold the cards"
    if seen.holders is None:
        return ctx.measured("holders", label, CheckStatus.UNKNOWN, limit="0", detail=seen.holders_note)
    return ctx.measured(
        "holders",
        label,
        CheckStatus.NOT_OK if seen.holders else CheckStatus.OK,
        value=str(len(seen.holders)),
        limit="0",
        detail=", ".join(f"{holder.name} ({holder.pid})" for holder in seen.holders) or seen.holders_note,
        source="device files",
    )


def _old(ctx: StepContext, seen: Round) -> Check:
    survivors = seen.survivors
    status = CheckStatus.UNKNOWN if survivors is None else CheckStatus.NOT_OK if survivors else CheckStatus.OK
    return ctx.measured(
        "survivors",
        "Old processes alive",
        status,
        value="unknown" if survivors is None else str(len(survivors)),
        limit="0",
        detail=", ".join(map(str, survivors or ())),
        source="/proc",
    )


def _port(ctx: StepContext, seen: Round) -> Check:
    status = {True: CheckStatus.OK, False: CheckStatus.NOT_OK, None: CheckStatus.UNKNOWN}[seen.port_free]
    words = {True: "free", False: "taken", None: "unknown"}[seen.port_free]
    return ctx.measured(
        "port",
        f"Port {ctx.deployment.port}",
        status,
        value=words,
        limit="free",
        detail=seen.port_note,
        source="listeners and a try to bind it",
    )


def _free(ctx: StepContext, last: Round, boot_id: str) -> None:
    """Free: learn baselines that are not known, and remember what was measured for the launch and the diagnosis."""
    unlearnt = {card.uuid for card in cards_of(ctx) if card.baseline_mib is None}
    for card in last.cards:
        if card.uuid in unlearnt and card.used_mib is not None and card.used_mib <= CEILING_MIB:
            Gpu.objects.filter(host=ctx.host, uuid=card.uuid, baseline_mib=None).update(baseline_mib=card.used_mib)
    memory = {card.uuid: card.used_mib for card in last.cards}
    if ctx.job.kind == JobKind.STOP:
        with ctx.writing():
            Deployment.objects.filter(pk=ctx.deployment.pk).update(
                state=ServiceState.STOPPED, state_since=timezone.now(), state_detail=f"stopped by job {ctx.job.pk}"
            )
    total = len(last.cards)
    ctx.finish(
        f"{'The card is' if total == 1 else f'All {total} cards are'} at the baseline, and the port is free.",
        memory=memory,
        boot_id=boot_id,
        verified_at=timezone.now().isoformat(),
    )
