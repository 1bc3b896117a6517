"""The standing approvals of a deployment, of a host, or all, with the button that revokes each."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.safestring import SafeString

from controlpanel.templatetags.ui import state
from deployments.models import Deployment
from deployments.often import Asked, asked_lately
from deployments.views import standing as views
from deployments.views.board import rows
from deployments.views.words import deployment_word
from hosts.models import Host

register = template.Library()


@register.simple_tag
def asked_of(host: Host) -> Asked | None:
    """What jobs on ``host`` had to ask a person lately; None: nothing."""
    return next(iter(asked_lately(host)), None)


@register.simple_tag
def service_word(deployment: Deployment) -> SafeString:
    """The state of a deployment's server, in the word that all other pages have for it."""
    row = rows(Deployment.objects.filter(pk=deployment.pk))[0]
    word = deployment_word(row.deployment, active=None, is_new=row.is_new)
    return state(word.kind, word.value, word.text)


@register.inclusion_tag("deployments/_standing.html", takes_context=True)
def standing(context: template.Context, subject: Deployment | Host | None = None) -> dict[str, Any]:
    """Those that stand; ``subject`` None: all of them."""
    known = {str(name): value for name, value in context.flatten().items()}
    return known | {"approvals": views.about(subject), "subject": subject}
