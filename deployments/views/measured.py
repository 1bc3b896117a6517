"""Benchmarks as pages show them: the last one beside the proven one, and all of them over time."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from deployments.benchmark.compared import in_words, side_by_side
from deployments.models import Benchmark, Deployment, Launch
from deployments.proven import cards_in_words, moved, not_known, ran_with

SHOWN = 50  # in the drawing and its table


def measured(deployment: Deployment) -> dict[str, Any]:
    """Context of the deployment's page; empty where nothing was measured yet."""
    rows = Benchmark.objects.filter(launch__deployment=deployment).select_related("revision__profile")
    history = list(rows[:SHOWN])
    if not history:
        return {}
    return {
        **beside_proven(history[0], deployment),
        "history": [{"benchmark": row, "words": in_words(row.figures)} for row in history],
        "trend": json.dumps([_point(row) for row in reversed(history)]),
    }


def beside_proven(found: Benchmark, deployment: Deployment | None) -> dict[str, Any]:
    """One benchmark, and the last one of the launch that was proven, where that is another."""
    proven = _of_proven(deployment)
    other = proven if proven is not None and proven.pk != found.pk else None
    return {
        "benchmark": found,
        "rows": side_by_side(found.figures, other.figures if other else ()),
        "proven": other,
        "is_proven": proven is not None and proven.pk == found.pk,
        "otherwise": _otherwise(found, other) if other else [],
    }


def _of_proven(deployment: Deployment | None) -> Benchmark | None:
    if deployment is None or deployment.proven_launch_id is None:
        return None
    rows = Benchmark.objects.filter(launch=deployment.proven_launch_id)
    return rows.select_related("revision__profile").first()


def _otherwise(now: Benchmark, then: Benchmark) -> list[str]:
    """What beside the flags was not the same, in sentences: figures of unlike conditions are not to be compared."""
    found = []
    if now.tokens != then.tokens:
        found.append(f"The proven figures are of answers of {then.tokens} tokens, these of {now.tokens}.")
    if now.engine_version != then.engine_version:
        told = [row.engine_version or "a version that was not told" for row in (then, now)]
        found.append(f"The proven figures were measured with engine {told[0]}, these with {told[1]}.")
    if [card["name"] for card in now.cards] != [card["name"] for card in then.cards]:
        found.append("The proven figures were measured on other cards.")
    return found


def proof(deployment: Deployment, launch: Launch | None) -> dict[str, Any]:
    """What is kept of what was proven, and what of it has moved since; empty where nothing is proven.

    ``launch``: what serves; without one the last start tells what a restart would find.
    """
    kept = deployment.proven_with
    if deployment.proven_revision_id is None or not kept:
        return {}
    last = launch or deployment.launches.exclude(ready_at=None).first()
    now = ran_with(
        effective=last.effective if last else {},
        requested=last.requested if last else {},
        model=last.model if last else {},
        cards=deployment.place.cards if deployment.place else [],
    )
    return {
        **kept,
        "at": datetime.fromisoformat(kept["at"]) if kept.get("at") else None,
        "on": cards_in_words(kept),
        "moved": moved(kept, now),
        "not_known": not_known(kept),
    }


def _point(row: Benchmark) -> dict[str, Any]:
    """One benchmark as the drawing takes it: seconds since 1970, and tokens per second by concurrency."""
    return {
        "at": row.measured_at.timestamp(),
        "revision": f"r{row.revision.number}",
        "rates": {str(level.at_once): level.tokens_per_second for level in row.figures},
    }
