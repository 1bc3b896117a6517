"""Before a stop: a confirmation of its own where the server's manager cannot be asked, or would end others with it."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from deployments.lifecycle import GateKind
from deployments.plan.manager import Manager
from deployments.plan.manager_warnings import must_confirm
from deployments.plan.plan import Plan
from deployments.steps.approval import answer_stands
from deployments.steps.base import GateOpened, StepContext, StepFailed


def confirm(ctx: StepContext, made: Plan) -> None:
    """Return when the stop may begin. Raises GateOpened to ask, StepFailed when a person said no."""
    manager = made.manager
    if manager is None or not made.serving.processes or not must_confirm(manager, made.beside):
        return
    about = f"{made.hash} {manager}"
    answer = ctx.answered(GateKind.MANAGER)
    if answer is not None and answer.answer == "leave":
        raise StepFailed(
            f"{answer.answered_by_name} decided to leave the server as it is.",
            hint=f"Stop it through the {manager} on {ctx.host}, then ask for a start.",
        )
    # Bound to what was shown: with another manager, or others beside the server, it is another question.
    shown = sha256(about.encode()).hexdigest()
    if answer is not None and answer.answer == "stop" and answer.plan_hash == shown and answer_stands(ctx, answer):
        ctx.say(f"{answer.answered_by_name} confirmed the stop: {answer.comment}")
        return
    raise _ask(ctx, made, manager, shown)


def _ask(ctx: StepContext, made: Plan, manager: Manager, shown: str) -> GateOpened:
    ends_others = manager.can_be_asked
    if ends_others:
        count = len(made.beside)
        others = "1 other process" if count == 1 else f"{count} other processes"
        title = f"Stopping the {manager} also ends {others}. Stop it?"
        text = "A unit or container is stopped as a whole. These are not part of this server:"
        rows = [[str(process.pid), process.comm] for process in made.beside]
        detail = "Everything in the unit or container ends, the processes above included."
    else:
        title = f"The {manager} may start the server again. Stop the server?"
        text = (
            f"Relaunch does not know how to stop the server through it. Only the server itself is told to end. The "
            f"{manager} is not, nor is a server that it starts again."
        )
        rows = [[str(manager.pid or ""), manager.told.command or manager.name]]
        detail = (
            "Only the server's own processes are ended. If it comes back in the first seconds after its end, the job "
            "says so and asks again."
        )
    again = {
        "key": "again",
        "label": "Look again",
        "action": "ask",
        "detail": "After somebody has ended what restarts the server, or has moved the others elsewhere.",
    }
    stop = {
        "key": "stop",
        "label": "Stop it" if ends_others else "Stop the server only",
        "action": "confirm_kill",
        "danger": True,
        "needs_reason": True,
        "detail": detail,
    }
    leave = {"key": "leave", "label": "Leave it", "action": "ask", "detail": "The job ends; the server runs on."}
    evidence: list[dict[str, Any]] = [{"table": {"head": ["Process", "Command"], "rows": rows}}]
    return ctx.ask(
        GateKind.MANAGER, title=title, text=text, evidence=evidence, choices=[again, stop, leave], plan_hash=shown
    )
