"""Who else is on a deployment's cards: those that hold them, and servers of others that are to use them and load."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from deployments.plan.cards import Held, holders, labels_of, with_claims
from deployments.plan.claims import claims_on
from deployments.plan.collect import cards_of, launches_of_others, rules_of
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown

if TYPE_CHECKING:
    from deployments.steps.base import StepContext

LookForOthers = Callable[[HostFacts], Held | Unknown]


def others_of(ctx: StepContext) -> LookForOthers:
    """A look for everybody else on the deployment's cards, to be used on any number of readings.

    With those who hold no card yet: a server of another deployment that loads, and is to use a card of this one.
    """
    labels = labels_of(cards_of(ctx))
    look = partial(holders, labels=labels, rules=rules_of(ctx), launches=launches_of_others(ctx))
    claims = claims_on(ctx, labels)

    def others(facts: HostFacts) -> Held | Unknown:
        held = look(facts)
        return held if isinstance(held, Unknown) else with_claims(held, facts, claims)

    return others
