"""What verify shows: each measured fact as a row with its value, its limit and its source; and what it waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.utils import timezone

from deployments.decisions.usable import CardUsable, Usability, not_usable
from deployments.decisions.verify import CardSeen, Round, VerifyPolicy, waiting_for
from deployments.lifecycle import CheckStatus
from deployments.models import Check, JobStep
from deployments.steps.base import StepContext

QUIET_SECONDS = 3.0
"""After so long it is said what is waited for: memory is usually free before that."""
CURVE_SECONDS = 1.0
"""How often the memory curve gets a point where nothing changes."""


def show_round(ctx: StepContext, seen: Round, more: Sequence[Check]) -> None:
    """The round as checks, each with value, limit and source; ``more``: what is shown beside it, in the same write."""
    checks = [
        *(_card(ctx, card) for card in seen.cards),
        _holders(ctx, seen),
        *([_co_tenants(ctx, seen)] if any(card.shared for card in seen.cards) else []),
        _old(ctx, seen),
        _port(ctx, seen),
        *more,
    ]
    ctx.show(checks, used_mib={card.uuid: card.used_mib for card in seen.cards})


def _card(ctx: StepContext, card: CardSeen) -> Check:
    status = CheckStatus.UNKNOWN if card.unmeasured else CheckStatus.OK if card.is_free else CheckStatus.NOT_OK
    if card.shared:
        need = "unknown" if card.need_mib is None else f"at least {card.need_mib:,} MiB"
        return ctx.measured(
            f"memory {card.uuid}",
            f"{card.label} memory free beside its co-tenants",
            status,
            value="unknown" if card.free_mib is None else f"{card.free_mib:,} MiB",
            limit=need,
            detail=card.unmeasured or card.uuid,
            source="nvidia-smi",
        )
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


def _co_tenants(ctx: StepContext, seen: Round) -> Check:
    """Are those that share the cards still the ones of the plan?"""
    unknown = seen.holders is None
    return ctx.measured(
        "co-tenants",
        "Co-tenants of the plan gone",
        CheckStatus.UNKNOWN if unknown else CheckStatus.NOT_OK if seen.missing else CheckStatus.OK,
        value="unknown" if unknown else str(len(seen.missing)),
        limit="0",
        detail=", ".join(seen.missing),
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


def usable_row(ctx: StepContext, cards: tuple[CardUsable, ...]) -> Check:
    """One row for all cards: the worst of their verdicts, with the reasons and notes of each."""
    values = {card.value for card in cards}
    worst = next(value for value in (Usability.NOT_USABLE, Usability.UNKNOWN, Usability.USABLE) if value in values)
    status = {
        Usability.NOT_USABLE: CheckStatus.NOT_OK,
        Usability.UNKNOWN: CheckStatus.UNKNOWN,
        Usability.USABLE: CheckStatus.OK,
    }[worst]
    reasons = [f"{reason.text} {reason.todo}" for reason in not_usable(cards)]
    notes = dict.fromkeys(note for card in cards for note in card.notes)
    return ctx.measured(
        "usable",
        "The card can be used" if len(cards) == 1 else "The cards can be used",
        status,
        value=worst,
        limit=Usability.USABLE,
        detail=" ".join((*reasons, *notes)),
        source="nvidia-smi, the kernel's log, /dev",
    )


@dataclass
class Patience:
    """What people see while everything stays as it is: the curve goes on, and what is waited for is said."""

    limit: float | None = None
    """In seconds after the first look, as it was said last."""
    stored: float = 0.0

    def heed(self, ctx: StepContext, seen: Round, policy: VerifyPolicy, *, elapsed: float, shown: bool) -> None:
        """After a look; ``shown``: it was stored already, since it says something new."""
        if shown:
            self.stored = elapsed
        elif elapsed - self.stored >= CURVE_SECONDS:
            self.stored = elapsed
            ctx.readings({card.uuid: card.used_mib for card in seen.cards})
        waiting = waiting_for(seen, policy) if elapsed >= QUIET_SECONDS else None
        if waiting is not None and elapsed < waiting.seconds != self.limit:
            self.limit = waiting.seconds
            until = timezone.now() + timedelta(seconds=waiting.seconds - elapsed)
            text = f"Waiting for {waiting.what}, until {until:%H:%M:%S} UTC at the latest; then a person decides."
            ctx.say(text)
            _summarise(ctx, text)

    def is_over(self, ctx: StepContext) -> None:
        """Nothing is waited for any more."""
        if self.limit is not None:
            _summarise(ctx, "")


def _summarise(ctx: StepContext, text: str) -> None:
    with ctx.writing():
        JobStep.objects.filter(pk=ctx.step.pk).update(summary=text)
