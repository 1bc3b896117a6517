"""The plan of a replacement: the stop of one deployment and the start of another, approved as one. PURE."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deployments.plan.binding import hash_of
from deployments.plan.plan import Plan
from deployments.plan.warnings import Cure, warning

FROM_THE_STOP = ("serves", "manager", "beside")
"""Of the facts that an approval rests on: those on the server that goes."""


def joined(out: Plan, new: Plan, *, old: str, comes: str) -> Plan:
    """One plan of the two: whom the stop ends and by what, and what is launched then, where and how."""
    warnings = _warnings(out, new, old=old, comes=comes)
    binding = {
        **new.data["binding"],
        **{name: out.data["binding"][name] for name in FROM_THE_STOP},
        "kind": "replace",
        "cards": sorted({*out.data["binding"]["cards"], *new.data["binding"]["cards"]}),
        "replaces": [old, comes],
        "blocked": sorted(warning["text"] for warning in warnings if warning["blocks"]),
        **_routers(out, new),
        "co_tenants": _both(out.data["binding"]["co_tenants"], new.data["binding"]["co_tenants"]),
    }
    data = {
        **new.data,
        "replaces": {"old": old, "new": comes},
        "sections": [*_named(out.data["sections"], old), *_named(new.data["sections"], comes)],
        "stops": out.data["stops"],
        "co_tenants": _both(out.data["co_tenants"], new.data["co_tenants"]),
        "co_tenants_old": out.data["co_tenants"],
        "co_tenants_new": new.data["co_tenants"],
        "warnings": warnings,
        "blocked": any(warning["blocks"] for warning in warnings),
        "way_back": out.data["way_back"],
        "back": out.data["back"],
        "binding": binding,
    }
    # The cards are those of both, so that the curve shows what the old one gives back.
    cards = {card.uuid: card for card in (*out.cards, *new.cards)}
    return replace(
        out, data=data, hash=hash_of(binding), cards=tuple(cards.values()), start=new.start, newest=out.newest
    )


def _both(old: list[Any], new: list[Any]) -> list[Any]:
    """Whoever may stay beside either: the way back is beside those of the old one."""
    return [*old, *(row for row in new if row not in old)]


def _warnings(out: Plan, new: Plan, *, old: str, comes: str) -> list[dict[str, Any]]:
    """Each once, those that block first; that nothing serves is one of them. ``of``: whose pages it is mended on."""
    of_the_stop = [{**row, "of": old} for row in out.data["warnings"]]
    found = [*of_the_stop, *new.data["warnings"]]
    if not out.serving.processes:
        found.append(
            warning(
                f"{old} does not serve, so there is nothing to replace.",
                "A replacement stops one server and starts another.",
                f"Start {comes} instead.",
                blocks=True,
                cure=Cure.START,
            )
        )
    once = {row["text"]: row for row in found}
    return sorted(once.values(), key=lambda row: not row["blocks"])


def _named(sections: list[dict[str, Any]], deployment: str) -> list[dict[str, Any]]:
    return [{**section, "title": f"{section['title']}: {deployment}"} for section in sections]


def _routers(out: Plan, new: Plan) -> dict[str, Any]:
    told = [plan.data["binding"].get("router", []) for plan in (out, new)]
    return {"router": told} if any(told) else {}
