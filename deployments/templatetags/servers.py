"""The servers that run on a host, for its page."""

from __future__ import annotations

from typing import Any

from django import template

from deployments.views import servers
from hosts.models import Host

register = template.Library()


@register.inclusion_tag("deployments/_servers_section.html", takes_context=True)
def servers_here(context: template.Context, host: Host) -> dict[str, Any]:
    """What the last look has found, with the buttons; what looks after pages in this one does so in here too."""
    return {str(name): value for name, value in context.flatten().items()} | servers.context(host)
