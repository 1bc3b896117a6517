"""What is known of a plan while the rest of it is still being asked: its sections are shown as they arrive. PURE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from typing import Any

from deployments.plan.flagcheck import NOT_CHECKED
from deployments.plan.inputs import PlanInput
from deployments.plan.plan import CannotPlan, make_plan


class Part(StrEnum):
    """Of a plan: what takes a question of its own to the host."""

    FLAGS = "Engine and flags"
    FIT = "Does it fit"


Tell = Callable[..., None]
"""Of a plan's input so far, and the parts that are still missing."""
NOT_YET = "How it is started"
"""A section that the server's manager may still change."""
SHOWN = ("stops", "flags", "flags_before", "co_tenants", "untouched", "launch", "way_back")
"""What one look tells. Warnings come with the whole plan: half of them would say that nothing more is in the way."""


def tell_nobody(asked: PlanInput, *missing: Part) -> None:
    """For a plan that nobody waits for on its page."""


def so_far(asked: PlanInput, *missing: Part) -> dict[str, Any] | None:
    """The sections that are known, as the page shows them, with the names of those to come; None without any."""
    try:
        data = make_plan(replace(asked, flags=NOT_CHECKED) if Part.FLAGS in missing else asked).data
    except CannotPlan:
        return None
    return {
        **{name: data[name] for name in SHOWN},
        "sections": [section for section in data["sections"] if section["title"] != NOT_YET],
        "fit": None,
        "warnings": [],
        "requests": None,
        "waiting": None,
        "requests_unknown": "",
        "missing": [str(part) for part in missing],
    }
