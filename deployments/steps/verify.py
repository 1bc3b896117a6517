"""Verify: are the cards and the port free? Measured, three times in a row; otherwise a person decides."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any

from django.utils import timezone

from controlpanel.identity import panel_id
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
)
from deployments.joblog import LeaseLost
from deployments.lifecycle import CheckStatus, JobKind, ServiceState
from deployments.models import Check, Deployment, Gate
from deployments.plan.cards import cards_seen, holders
from deployments.plan.collect import PROBE_SECONDS, cards_of, look_at_node
from deployments.plan.serving import port_owners
from deployments.remote import run as remote
from deployments.steps.base import GateOpened, StepContext, StepFailed
from deployments.steps.plan import approve_anew_if_stale
from deployments.steps.stop import Record
from hosts.models import Gpu
from hosts.probe.facts import AGAIN, HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.probe import SERVING, probe, watch

SECTIONS = ("host", "memory", "procs", "fds", "listeners", *AGAIN)
EVERY_SECONDS = 0.2
EAGER_SECONDS = 0.005
"""Pause between two looks: at first as fast as the host allows, then five times a second."""
CEILING_MIB = 64


def verify(ctx: StepContext) -> None:
    """Look until everything is free three times in a row, or the limit has passed; then ask."""
    if ctx.job.kind == JobKind.START and not ctx.step.data:
        approve_anew_if_stale(ctx)
    answer = ctx.answer("not free")
    if answer is not None and answer.answer != "again":
        _carry_out(ctx, answer)
        if answer.answer in ("anyway", "leave"):
            return
    record = _record(ctx)
    last, verdict, boot_id = _look(ctx, record)
    if isinstance(verdict, Free):
        others = _others_on_node(ctx, record)
        if others:
            verdict = NotFree(
                tuple(f"{h.name} (pid {h.pid} on the node, {h.user}) holds {', '.join(h.cards)}." for h in others)
            )
            raise _ask(ctx, verdict, others, boot_id)
        _free(ctx, last, boot_id)
        return
    raise _ask(ctx, verdict, last.holders or (), boot_id)


def _record(ctx: StepContext) -> Record | None:
    """The processes that the stop of this round has ended."""
    stopped = ctx.job.steps.filter(name="stop", way_back=ctx.step.way_back).order_by("-position").first()
    return Record.load(stopped.data) if stopped is not None and "processes" in stopped.data else None


def _policy(ctx: StepContext) -> VerifyPolicy:
    policy = ctx.deployment
    return VerifyPolicy(policy.memory_seconds, policy.stuck_seconds, policy.port_seconds)


def _look(ctx: StepContext, record: Record | None) -> tuple[Round, Verdict, str]:
    """Rounds until there is a verdict. The last round is shown as checks whenever it says something new."""
    cards = cards_of(ctx)
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
            for gpus in (facts.gpus, *facts.again):
                seen = _round(ctx, facts, record, cards_seen(replace(facts, gpus=gpus), cards))
                if not rounds or rounds[-1] != seen:
                    _show(ctx, seen)
                    ctx.readings({card.uuid: card.used_mib for card in seen.cards})
                rounds.append(seen)
            verdict = decide(list(rounds), policy, elapsed=(timezone.now() - began).total_seconds())
            if not isinstance(verdict, KeepLooking):
                return seen, verdict, "" if isinstance(facts.host, Unknown) else facts.host.boot_id
    raise StepFailed("The host stopped sending readings before there was a verdict.", hint="Ask for the job again.")


def _round(ctx: StepContext, facts: HostFacts, record: Record | None, cards: tuple[CardSeen, ...]) -> Round:
    owners = port_owners(facts, ctx.deployment.port)
    port_free = None if isinstance(facts.listeners, Unknown) else owners == frozenset()
    others = holders(facts, uuids=[card.uuid for card in cards], co_tenants=ctx.deployment.co_tenants)
    note = others.reason if isinstance(others, Unknown) else ""
    if not isinstance(facts.files, Unknown) and facts.files.partial:
        note = "This login may not see the files of other users' processes; memory decides."
    return Round(cards, _survivors(facts, record), None if isinstance(others, Unknown) else others, port_free, note)


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


def _others_on_node(ctx: StepContext, record: Record | None) -> tuple[HolderSeen, ...]:
    """A container does not see who else holds its cards: the node does."""
    facts = look_at_node(ctx)
    if facts is None:
        return ()
    others = holders(facts, uuids=ctx.placement.gpu_uuids, co_tenants=ctx.deployment.co_tenants)
    if isinstance(others, Unknown):
        ctx.check("holders on node", "Holders seen from the node", CheckStatus.UNKNOWN, detail=others.reason)
        return ()
    status = CheckStatus.NOT_OK if others else CheckStatus.OK
    names = ", ".join(holder.name for holder in others)
    ctx.check("holders on node", "Holders seen from the node", status, value=str(len(others)), limit="0", detail=names)
    return others


def _show(ctx: StepContext, seen: Round) -> None:
    """The round as checks, each with value, limit and source."""
    ctx.show([*(_card(ctx, card) for card in seen.cards), _holders(ctx, seen), _old(ctx, seen), _port(ctx, seen)])


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
        "port", f"Port {ctx.deployment.port}", status, value=words, limit="free", source="/proc/net/tcp"
    )


def _free(ctx: StepContext, last: Round, boot_id: str) -> None:
    """Free: learn baselines that are not known, and remember what was measured for the launch and the diagnosis."""
    unlearnt = {card.uuid for card in cards_of(ctx) if card.baseline_mib is None}
    for card in last.cards:
        if card.uuid in unlearnt and card.used_mib is not None and card.used_mib <= CEILING_MIB:
            Gpu.objects.filter(host=ctx.host, uuid=card.uuid, baseline_mib=None).update(baseline_mib=card.used_mib)
    memory = {card.uuid: card.used_mib for card in last.cards}
    ctx.remember(memory=memory, boot_id=boot_id, verified_at=timezone.now().isoformat())
    if ctx.job.kind == JobKind.STOP:
        with ctx.writing():
            Deployment.objects.filter(pk=ctx.deployment.pk).update(
                state=ServiceState.STOPPED, state_since=timezone.now(), state_detail=f"stopped by job {ctx.job.pk}"
            )
    total = len(last.cards)
    ctx.finish(f"{'The card is' if total == 1 else f'All {total} cards are'} at the baseline, and the port is free.")


# --- Not free -------------------------------------------------------------------------------------------------------


def _ask(ctx: StepContext, verdict: Verdict, others: tuple[HolderSeen, ...], boot_id: str) -> GateOpened:
    assert isinstance(verdict, NotFree | Unmeasured)
    measured = isinstance(verdict, NotFree)
    for reason in verdict.reasons:
        ctx.say(reason)
    details = _details(ctx, others) if measured else []
    ctx.remember(strangers=[[holder.pid, holder.start_time] for holder in others], strangers_boot=boot_id)
    evidence: list[dict[str, Any]] = [{"text": reason} for reason in verdict.reasons]
    if details:
        evidence.append({"table": {"head": ["Process", "User", "Command", "Holds"], "rows": details}})
    return ctx.ask(
        "not free",
        title="The cards are not free" if measured else "Whether the cards are free could not be measured",
        text="Nothing is launched until they are, or until somebody decides.",
        evidence=evidence,
        choices=_choices(ctx, others),
    )


def _details(ctx: StepContext, others: tuple[HolderSeen, ...]) -> list[list[str]]:
    """Who is in the way, asked once more with command lines; the node names those a container does not see."""
    port = ctx.deployment.port
    with ctx.link() as transport:
        facts = probe(
            transport, sections=SERVING, timeout=PROBE_SECONDS, ports=[port], sudo=ctx.host.sudo, tick=ctx.tick
        )
    again = holders(look_at_node(ctx) or facts, uuids=ctx.placement.gpu_uuids, co_tenants=ctx.deployment.co_tenants)
    named = others if isinstance(again, Unknown) else again
    if ctx.host.machine == ctx.host and others:
        # Exactly those that a confirmed kill would hit.
        named = tuple(holder for holder in named if holder.pid in {other.pid for other in others}) or others
    rows = [[str(holder.pid), holder.user, holder.name, ", ".join(holder.cards)] for holder in named]
    owners = port_owners(facts, port)
    return rows + ([] if isinstance(owners, Unknown) else [_owner(facts, pid, port) for pid in sorted(owners)])


def _owner(facts: HostFacts, pid: int, port: int) -> list[str]:
    """Who listens on the port, as a row."""
    detail = facts.details.get(pid)
    process = None if isinstance(facts.processes, Unknown) else facts.processes.by_pid.get(pid)
    user = "" if process is None or process.uid is None else "root" if process.uid == 0 else f"uid {process.uid}"
    name = (detail.command if detail is not None else "") or (process.comm if process is not None else "")
    return [str(pid), user, name[:200], f"port {port}"]


def _choices(ctx: StepContext, others: tuple[HolderSeen, ...]) -> list[dict[str, Any]]:
    again = {
        "key": "again",
        "label": "Look again",
        "action": "ask",
        "detail": "Waits by measuring, up to the same limits.",
    }
    leave = {"key": "leave", "label": "Leave it stopped", "action": "ask", "detail": f"{ctx.deployment} stays down."}
    kill = {
        "key": "kill",
        "label": f"Kill {'this process' if len(others) == 1 else f'these {len(others)} processes'}",
        "action": "confirm_kill",
        "danger": True,
        "needs_reason": True,
        "detail": "SIGKILL to exactly the processes above, if they are still the same. Their work is lost.",
    }
    anyway = {
        "key": "anyway",
        "label": "Launch anyway",
        "action": "approve",
        "danger": True,
        "needs_reason": True,
        "detail": "The launch may fail, or take memory from somebody else's work.",
    }
    killable = others and ctx.host.machine == ctx.host
    return [again, *([kill] if killable else []), leave, *([] if ctx.job.kind == JobKind.STOP else [anyway])]


def _carry_out(ctx: StepContext, answer: Gate) -> None:
    if answer.answer == "leave":
        raise StepFailed(
            f"{answer.answered_by_name} decided to leave {ctx.deployment} stopped.",
            hint="Start it when the cards are free.",
        )
    if answer.answer == "anyway":
        ctx.remember(forced=True, verified_at=timezone.now().isoformat())
        ctx.finish(f"{answer.answered_by_name} decided to launch anyway: {answer.comment}")
    if answer.answer == "kill":
        _kill(ctx, answer)


def _kill(ctx: StepContext, answer: Gate) -> None:
    """SIGKILL to the named strangers, if they are still the same processes."""
    named = [f"{pid}:{start}" for pid, start in ctx.step.data.get("strangers", [])]
    ctx.say(f"{answer.answered_by_name} decided to kill {', '.join(named)}: {answer.comment}")
    effect = ctx.effect("kill strangers", command=f"kill -KILL {' '.join(named)}", target={"processes": named})
    script = remote.script_for(
        ctx.deployment,
        "stop",
        fence=ctx.claim.fence,
        boot_id=ctx.step.data.get("strangers_boot", ""),
        signal="KILL",
        targets=named,
        watched=named,
        seconds_max=ctx.deployment.kill_seconds,
    )
    with ctx.link() as transport:
        said = list(remote.follow(transport, script, tick=ctx.tick))
    if any(line.word == "fenced" for line in said):
        raise LeaseLost
    denied = [line.text for line in said if line.word == "denied"]
    effect.done(f"denied: {', '.join(denied)}" if denied else "sent", said=[f"{s.word} {s.text}" for s in said][-20:])
    if denied:
        ctx.say(f"This login may not signal {', '.join(denied)}.")
