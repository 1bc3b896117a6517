"""The standing approvals of a deployment, of a host, or all, with the button that revokes each."""

from __future__ import annotations

from typing import Any

from django import template

from deployments.models import Deployment
from deployments.often import Asked, asked_lately
from deployments.views import standing as views
from hosts.models import Host

register = template.Library()


@register.simple_tag
def asked_of(host: Host) -> Asked | None:
    """What jobs on ``host`` had to ask a person lately; None: nothing."""
    return next(iter(asked_lately(host)), None)


@register.inclusion_tag("deployments/_standing.html", takes_context=True)
def standing(context: template.Context, subject: Deployment | Host | None = None) -> dict[str, Any]:
    """Those that stand; ``subject`` None: all of them."""
    known = {str(name): value for name, value in context.flatten().items()}
    return known | {"approvals": views.about(subject), "subject": subject}
