"""A start that takes longer than usual, or says nothing: it never counts as failed. A person is asked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from controlpanel.templatetags.words import duration
from deployments.decisions.readiness import Listener, usual
from deployments.engines.logtext import plain
from deployments.lifecycle import GateKind
from deployments.models import Gate, LogChunk
from deployments.plan.collect import PROBE_SECONDS, launches_of_others
from deployments.plan.port import port_verdict
from deployments.starts import last_starts, seconds_to_wait
from deployments.steps.approval import answer_stands
from deployments.steps.base import Afterwards, GateOpened, StepContext, StepFailed
from deployments.steps.following import Start
from hosts.probe.probe import probe
from hosts.transport.base import TransportError

PORT_SECTIONS = ("procs", "uids", "fds", "listeners")


def wait_until(start: Start) -> datetime:
    """When to ask; a person who chose to wait longer moves it. Raises StepFailed when one chose otherwise."""
    ctx = start.ctx
    told = ctx.answer(GateKind.NOT_READY)
    kept = ctx.step.data.get("until")
    if told is not None and answer_stands(ctx, told):
        _end_it(ctx, told)
    elif kept is not None:
        return datetime.fromisoformat(kept)
    until = timezone.now() + timedelta(seconds=seconds_to_wait(ctx.deployment, launch=start.row))
    ctx.remember_soon(until=until.isoformat())
    return until


def _end_it(ctx: StepContext, told: Gate) -> None:
    """What a person chose other than to wait."""
    if told.answer == "stop":
        raise StepFailed(
            f"The server was not ready in time, and {told.answered_by_name} decided to stop it.",
            hint="Read its log, then edit the flags or start it again.",
            afterwards=Afterwards.STOP,
        )
    if told.answer == "leave":
        raise StepFailed(
            f"The server was not ready in time, and {told.answered_by_name} decided to leave it as it is.",
            hint=f"It may still come up: the page of {ctx.deployment} then says so. Until then nobody follows its log.",
            afterwards=Afterwards.NOTHING,
        )


def ask_to_wait(start: Start) -> GateOpened:
    """The question, with what the log last said and what is usual; ``raise`` what this returns."""
    start.show()
    ctx, waits = start.ctx, seconds_to_wait(start.ctx.deployment, launch=start.row)
    return ctx.ask(
        GateKind.NOT_READY,
        title="The server is not ready yet. Wait longer?",
        text=f"It runs, but is not ready after {_age(start)}: {start.readiness.missing}. Large models and first starts "
        "after an update can take long without a word; that alone is no failure.",
        evidence=_evidence(start),
        choices=[
            {"key": "longer", "label": f"Wait another {duration(waits)}", "action": "ask"},
            _stop(ctx),
            {
                "key": "leave",
                "label": "Leave it as it is",
                "action": "ask",
                "detail": "The job ends. Nothing is stopped and nothing else is started; it may still come up.",
            },
        ],
    )


def _age(start: Start) -> str:
    began = start.row.started_at
    return "its limit" if began is None else duration((timezone.now() - began).total_seconds())


def _stop(ctx: StepContext) -> dict[str, Any]:
    previous = ctx.job.previous_revision
    back = ctx.job.way_back and previous is not None and not ctx.step.way_back
    return {
        "key": "stop",
        "label": "Stop it",
        "action": "ask",
        "danger": True,
        "detail": f"Then {previous} is started again, as the plan says." if back else f"{ctx.deployment} is down then.",
    }


def _evidence(start: Start) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    if start.progress.reached is not None:
        found.append({"text": f"It has got as far as: {start.progress.reached}."})
    found += _last_words(start)
    took = last_starts(start.ctx.deployment, before=start.row)
    expected = usual(took)
    if expected is not None:
        each = ", ".join(duration(seconds) for seconds in took)
        found.append({"text": f"Its last starts took {each}; usually {duration(expected)}."})
    else:
        found.append({"text": "No earlier start of it is known that came up, so nothing is known to be usual."})
    if start.readiness.listener == Listener.OTHER:
        found.append({"text": _who_has_the_port(start)})
    return found


def _last_words(start: Start) -> list[Mapping[str, Any]]:
    chunk = LogChunk.objects.filter(launch=start.row).exclude(text="").order_by("-seq").first()
    if chunk is None:
        return [{"text": "Its log is empty so far."}]
    lines = [line for line in chunk.text.replace("\r", "\n").split("\n") if line.strip()]
    said = f"Its log last said: “{plain(lines[-1])[:300]}”" if lines else "Its log last had an empty line"
    return [{"text": said + ",", "at": chunk.at.isoformat(timespec="seconds")}]


def _who_has_the_port(start: Start) -> str:
    """Another server on its port: who that is."""
    ctx, port = start.ctx, start.ctx.revision.port
    try:
        with ctx.link() as transport:
            facts = probe(transport, sections=PORT_SECTIONS, timeout=PROBE_SECONDS, sudo=ctx.host.sudo, tick=ctx.tick)
    except TransportError as error:
        return f"Who has port {port} could not be seen: {error}"
    return port_verdict(facts, port, launches=launches_of_others(ctx)).text
