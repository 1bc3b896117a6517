"""A server in a container: the locks of its cards are on the node, which no script inside the container reaches."""

from __future__ import annotations

from deployments.lifecycle import EffectKind
from deployments.remote.locks import LocksRefused, take_cards
from deployments.steps.base import StepContext, StepFailed


def lock_on_node(ctx: StepContext, *, nothing_done: str = "") -> None:
    """Store the intent, lock the cards on the node, store what came of it; the job's end gives them back.

    Raises StepFailed when somebody else has one of them, with the sentence ``nothing_done``, or the node cannot write;
    LeaseLost and TransportError as any act does.
    """
    cards, machine = list(ctx.placement.gpu_uuids), ctx.host.machine
    effect = ctx.effect(
        EffectKind.TAKE_CARDS,
        command=f"lock {' '.join(cards)} on {machine}",
        target={"cards": cards, "host": machine.name},
        on=machine,
    )
    try:
        other = take_cards(ctx.job, ctx.deployment, fence=ctx.claim.fence, links=ctx.links, tick=ctx.tick)
    except LocksRefused as error:
        effect.done(str(error))
        raise StepFailed(f"{error} {nothing_done}".strip(), hint=f"Mend that on {machine}, then try again.") from error
    effect.done("taken" if other is None else str(other))
    if other is not None:
        raise StepFailed(f"{other} {nothing_done}".strip(), hint="Wait for that job, or ask that person.")
