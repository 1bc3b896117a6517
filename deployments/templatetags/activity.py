"""The strip on top of every page."""

from __future__ import annotations

from typing import Any

from django import template

from deployments.views import board

register = template.Library()


@register.inclusion_tag("deployments/_strip.html")
def activity() -> dict[str, Any]:
    """What runs or waits now, in one line."""
    return {"strip": board.strip()}
