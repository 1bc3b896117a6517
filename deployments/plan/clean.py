"""Is a plan so clean that a standing approval may stand for a person's? PURE."""

from __future__ import annotations

from deployments.plan.plan import Plan


def why_not_clean(made: Plan) -> list[str]:
    """Sentences for an approver; empty when nothing stands in the way and no question is to be expected.

    Where no server of the deployment runs, each card must be measured at its baseline. Else its own server fills them,
    and they are measured after the stop, as in every job.
    """
    found = [str(row["text"]) for row in made.data["warnings"] if row["blocks"] or row.get("asks")]
    if made.serving.processes and not made.serving.is_launched:
        found.append("What serves was not started by Relaunch.")
    if not made.serving.processes:
        unmeasured = "Whether {} is free could not be measured."
        found += [card.too_full or unmeasured.format(card.label) for card in made.cards if not card.is_free]
    return found
