"""Verify: are the cards and the port free? Measured, three times in a row; otherwise a person decides."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.utils import timezone

from controlpanel.identity import panel_id
from deployments.decisions.port import PortVerdict
from deployments.decisions.stop_ladder import Record
from deployments.decisions.usable import not_usable
from deployments.decisions.verify import (
    CLEAN_ROUNDS,
    CardSeen,
    Free,
    HolderSeen,
    KeepLooking,
    NotFree,
    Round,
    Unmeasured,
    Verdict,
    VerifyPolicy,
    decide,
    in_the_way,
    unmeasured,
)
from deployments.lifecycle import CheckStatus, GateKind, JobKind, ServiceState, StepName
from deployments.models import Check, Deployment
from deployments.plan.after_stop import Stopped, survivors
from deployments.plan.cards import Held, cards_seen, labels_of, with_those_of
from deployments.plan.collect import cards_of, launches_of_others, look_at_node, names_asked
from deployments.plan.collect_others import LookForOthers, others_of
from deployments.plan.health import cards_usable
from deployments.plan.port import port_verdict
from deployments.plan.sharing import Planned
from deployments.steps import not_free
from deployments.steps.approval import answer_stands
from deployments.steps.base import StepContext
from deployments.steps.plan import approve_anew_if_stale
from deployments.steps.returned import expected, is_back, stopped_of
from deployments.steps.verify_rows import Patience, show_round, usable_row
from hosts.models import Gpu
from hosts.probe.facts import AGAIN, HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.probe import HOLDERS, USABLE, watch
from hosts.transport.base import LinkLost

SECTIONS = ("host", "memory", "procs", "fds", "listeners", "port", "markers", *AGAIN, *USABLE, *HOLDERS)
EVERY_SECONDS = 0.2
EAGER_SECONDS = 0.005
"""Pause between two looks: at first as fast as the host allows, then five times a second."""
AT_ONCE = VerifyPolicy(0, 0, 0)
"""One look, and nothing is waited for."""
SLOW_NODE = timedelta(seconds=5)
"""A container's own readings are taken again when its node took longer: they count for 10 s at a launch."""
RETURN_SECONDS = 3.0
"""How long a server that something may start again must stay away: loops start it at once, or after a second or two."""


def verify(ctx: StepContext) -> None:
    """Look until everything is free three times in a row, or the limit has passed; then ask."""
    not_free.leave_if_decided(ctx)
    # Used up here: what was decided on other facts does not count for a new plan.
    answer = ctx.answer(GateKind.NOT_FREE)
    if ctx.job.kind == JobKind.START and not (ctx.job.touched and ctx.step.data):
        approve_anew_if_stale(ctx)
    anyway = None
    if answer is not None and answer.answer != "again" and answer_stands(ctx, answer):
        anyway = answer if answer.answer == "anyway" else None
        not_free.carry_out(ctx, answer)
    record = _record(ctx)
    planned = not_free.planned_of(ctx)
    looked = _look(ctx, record, planned, AT_ONCE if anyway is not None else _policy(ctx))
    free = isinstance(looked.verdict, Free)
    if free or anyway is not None:
        if found := _on_node(ctx, looked, planned):
            looked = replace(looked, verdict=found[0] if free else looked.verdict, last=found[1])
        elif free and timezone.now() - looked.at > SLOW_NODE:  # what the container itself has seen is old by now
            looked = replace(_look(ctx, record, planned, _policy(ctx)), first=looked.first)
    last, verdict, boot_id = looked.last, looked.verdict, looked.boot_id
    doubt = ctx.step.data.get("doubt", "")
    if isinstance(verdict, Free) and doubt and answer is None:
        verdict = Unmeasured((doubt,))
    if anyway is not None and (doubt or not isinstance(verdict, Free)):
        not_free.launch_anyway(ctx, anyway, verdict, last, boot_id, record=record)
    elif isinstance(verdict, Free):
        _free(ctx, looked)
    else:
        raise not_free.ask(ctx, verdict, last, boot_id, record=record)


def _record(ctx: StepContext) -> Record | None:
    """The server that the job has ended, on the way back that of the new launch or else the one before it; where
    nothing was there to be ended, what would be its server if somebody else started it.
    """
    rounds = (True, False) if ctx.step.way_back else (False,)
    for way_back in rounds:
        stopped = ctx.job.steps.filter(name=StepName.STOP, way_back=way_back).order_by("-position").first()
        if stopped is not None and stopped.data.get("processes"):
            return Record.load(stopped.data)
    return expected(ctx) if ctx.job.kind in (JobKind.START, JobKind.RESTART) else None


def _policy(ctx: StepContext) -> VerifyPolicy:
    policy = ctx.deployment
    return VerifyPolicy(policy.memory_seconds, policy.stuck_seconds, policy.port_seconds)


@dataclass
class Pace:
    """How often the host is really looked at: its nvidia-smi may take long."""

    looks: int = 0
    told: bool = False

    def slow(self, elapsed: float) -> float:
        """Seconds between two looks, once, when they come clearly less often than asked for; else 0."""
        self.looks += 1
        between = elapsed / max(1, self.looks - 1)
        if self.told or self.looks < CLEAN_ROUNDS or between < 2 * EVERY_SECONDS:
            return 0.0
        self.told = True
        return between


@dataclass(frozen=True)
class Looked:
    """The verdict with the round it rests on; the first look, which alone tells whether the cards can be used."""

    first: HostFacts
    last: Round
    verdict: Verdict
    boot_id: str
    at: datetime


def _look(ctx: StepContext, record: Record | None, planned: Planned, policy: VerifyPolicy) -> Looked:
    """Rounds until there is a verdict. The last round is shown as checks whenever it says something new."""
    cards, others_on, launches = cards_of(ctx), others_of(ctx), launches_of_others(ctx)
    stopped = stopped_of(ctx, record)
    shared = planned.shared(labels_of(cards))
    rounds: deque[Round] = deque(maxlen=CLEAN_ROUNDS)
    first: HostFacts | None = None
    more: list[Check] = []
    unusable: tuple[str, ...] = ()
    began: float | None = None
    pace, patience = Pace(), Patience()
    seconds = int(max(policy.stuck_seconds, policy.memory_seconds, policy.port_seconds)) + 30
    with ctx.link() as transport:
        for facts in watch(
            transport,
            sections=(*SECTIONS, *names_asked(ctx)),
            every=EVERY_SECONDS,
            eager=EAGER_SECONDS,
            slot=f"verify-{panel_id()}-{ctx.deployment.pk}",
            seconds=seconds,
            ports=[ctx.deployment.port],
            sudo=ctx.host.sudo,
            tick=ctx.tick,
        ):
            if began is None or first is None:
                began, first = time.monotonic(), facts  # the way to the host takes nothing from the limits
                more, unusable = _usable(ctx, facts, None if ctx.host.machine != ctx.host else facts)
            facts = with_those_of(first, facts)
            port = port_verdict(facts, ctx.deployment.port, launches=launches)
            shown = False
            for gpus in (facts.gpus, *facts.again):
                now = cards_seen(replace(facts, gpus=gpus), cards, shared=shared)
                seen = _round(facts, stopped, _sorted(ctx, others_on(facts), planned), now, port)
                seen = replace(seen, unusable=unusable)
                if not rounds or rounds[-1] != seen:
                    show_round(ctx, seen, more)
                    more, shown = [], True
                rounds.append(seen)
            elapsed = time.monotonic() - began
            if between := pace.slow(elapsed):
                ctx.say(f"{ctx.host} takes {between:.1f} s for a look, so the readings come no faster than that.")
            patience.heed(ctx, seen, policy, elapsed=elapsed, shown=shown)
            verdict = decide(list(rounds), policy, elapsed=elapsed)
            if isinstance(verdict, Free):
                verdict = _unless_it_returns(ctx, facts, stopped, elapsed)
            if not isinstance(verdict, KeepLooking):
                patience.is_over(ctx)
                boot_id = "" if isinstance(facts.host, Unknown) else facts.host.boot_id
                return Looked(first, seen, verdict, boot_id, timezone.now())
    raise LinkLost("The host stopped sending readings before there was a verdict.")


def _unless_it_returns(ctx: StepContext, facts: HostFacts, stopped: Stopped | None, elapsed: float) -> Verdict:
    """Free, unless the server has been started again and has not reached the cards yet, or may be at any moment."""
    if back := is_back(ctx, facts, stopped):
        return NotFree((back,))
    may_return = stopped is not None and stopped.record.may_return
    return KeepLooking(False) if may_return and elapsed < RETURN_SECONDS else Free()


def _round(
    facts: HostFacts,
    stopped: Stopped | None,
    others: Others | Unknown,
    cards: tuple[CardSeen, ...],
    port: PortVerdict,
) -> Round:
    old = survivors(facts, stopped)
    if isinstance(others, Unknown):
        return Round(cards, old, None, port.free, others.reason, port.text)
    return Round(cards, old, others.strangers, port.free, "", port.text, others.missing)


@dataclass(frozen=True)
class Others:
    """Who holds the cards beside the co-tenants of the plan, and which of these do so no more, in words."""

    strangers: tuple[HolderSeen, ...]
    missing: tuple[str, ...]


def _sorted(ctx: StepContext, held: Held | Unknown, planned: Planned, *, from_node: bool = False) -> Others | Unknown:
    """Only the very processes of the plan are co-tenants. In a container not all of them can be seen.

    Where nothing is launched, it does not matter which of those that may share the cards come and go.
    """
    if isinstance(held, Unknown):
        return held
    if ctx.job.kind == JobKind.STOP:
        return Others(held.strangers, ())
    inside = not from_node and ctx.host.machine != ctx.host
    strangers = tuple(holder for holder in held.all if not planned.covers(holder, inside=inside))
    return Others(strangers, () if inside else planned.missing(held.all))


def _usable(ctx: StepContext, facts: HostFacts, outer: HostFacts | None) -> tuple[list[Check], tuple[str, ...]]:
    """Whether the cards can be used, to be shown; and why not, unless nothing is to be started on them.

    ``outer``: of the machine that has the cards; None for a container whose node is asked later. Where something is
    launched, the plan has judged every fault before the job, and let none pass.
    """
    stops_only = ctx.job.kind == JobKind.STOP
    since = None if stops_only else ctx.job.created_at
    cards = cards_usable(facts, outer, cards_of(ctx), host=ctx.host.name, machine=ctx.host.machine.name, since=since)
    checks = [usable_row(ctx, cards)] if cards else []
    if stops_only:
        return checks, ()
    return checks, tuple(f"{reason.text} {reason.todo}" for reason in not_usable(cards))


def _on_node(ctx: StepContext, looked: Looked, planned: Planned) -> tuple[NotFree | Unmeasured, Round] | None:
    """A container sees neither who else holds its cards nor the kernel's log: the node does. None: all is well."""
    facts = look_at_node(ctx, USABLE)
    if facts is None:
        return None
    checks, unusable = _usable(ctx, looked.first, facts)
    ctx.show(checks)
    last = replace(looked.last, unusable=unusable)
    others_on = others_of(ctx)
    others = _sorted(ctx, others_on(facts), planned, from_node=True)
    if isinstance(others, Others) and others.strangers:
        others = _still_there(ctx, others, others_on, planned)
    if isinstance(others, Unknown):
        ctx.check("holders on node", "Holders seen from the node", CheckStatus.UNKNOWN, detail=others.reason)
        unseen = replace(last, holders=None, holders_note=others.reason)
        if unusable:
            return NotFree(unusable, unusable=True), unseen
        return (Unmeasured(unmeasured(unseen)), unseen) if unseen.hides_holders else None
    status = CheckStatus.NOT_OK if others.strangers else CheckStatus.OK
    ctx.check(
        "holders on node",
        "Holders seen from the node",
        status,
        value=str(len(others.strangers)),
        limit="0",
        detail=", ".join(holder.name for holder in others.strangers),
    )
    reasons = in_the_way(replace(last, holders=others.strangers, missing=others.missing))
    if not reasons:
        return None
    verdict = NotFree(tuple(f"On the node: {reason}" for reason in reasons), bool(unusable))
    return verdict, replace(last, missing=others.missing)  # whose holders stay those of the container's own numbers


def _still_there(ctx: StepContext, before: Others, others_on: LookForOthers, planned: Planned) -> Others | Unknown:
    """Of the strangers, those that a second look finds too: a question of ours may have been caught as it began."""
    facts = look_at_node(ctx)
    again = before if facts is None else _sorted(ctx, others_on(facts), planned, from_node=True)
    if isinstance(again, Unknown):
        return again
    known = {(holder.pid, holder.start_time) for holder in before.strangers}
    strangers = tuple(holder for holder in again.strangers if (holder.pid, holder.start_time) in known)
    return replace(again, strangers=strangers)


def _free(ctx: StepContext, looked: Looked) -> None:
    """Free: learn baselines that are not known, and remember what was measured for the launch and the diagnosis.

    Without a baseline a card is free under its ceiling only; what somebody may hold there is not learnt.
    """
    last, now = looked.last, looked.at.isoformat()
    unlearnt = {card.uuid for card in cards_of(ctx) if card.baseline_mib is None}
    for card in last.cards:
        if card.uuid in unlearnt and not card.shared and last.holders == ():
            Gpu.objects.filter(host=ctx.host, uuid=card.uuid, baseline_mib=None).update(baseline_mib=card.used_mib)
    memory = {card.uuid: card.used_mib for card in last.cards}
    needs = {card.uuid: card.need_mib for card in last.cards if card.shared}
    if ctx.job.kind in (JobKind.STOP, JobKind.REPLACE):
        by = f"stopped by job {ctx.job.pk}"
        told = Deployment.objects.filter(pk=ctx.stopped.deployment.pk, state=ServiceState.STOPPED, state_detail=by)
        with ctx.writing():
            if not told.exists():  # by the stop, which knows since when
                Deployment.objects.filter(pk=ctx.stopped.deployment.pk).update(
                    state=ServiceState.STOPPED, state_since=timezone.now(), state_detail=by
                )
    measured = {"memory": memory, "needs": needs, "boot_id": looked.boot_id, "verified_at": now}
    ctx.finish(_summary(last), forced=False, **measured)


def _summary(last: Round) -> str:
    """What was found, in a sentence; with a note where somebody's files could not be looked at."""
    note = "" if last.holders is not None else f" Memory alone says so: {last.holders_note}"
    alone = [card for card in last.cards if not card.shared]
    found = [f"{card.label} has {card.free_mib:,} MiB free beside its co-tenants" for card in last.cards if card.shared]
    if not alone and not found:
        return f"It uses no card, and the port is free.{note}"
    if alone and found:
        found.append(f"{', '.join(card.label for card in alone)} {'is' if len(alone) == 1 else 'are'} at the baseline")
    elif not found:
        found.append(f"{'The card is' if len(alone) == 1 else f'All {len(alone)} cards are'} at the baseline")
    return f"{', '.join(found)}, and the port is free.{note}"
