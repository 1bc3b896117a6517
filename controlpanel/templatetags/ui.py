"""How the pages write things: sizes, times, states, form fields. No page formats by itself."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django import template
from django.conf import settings
from django.forms import BoundField
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from controlpanel.manual import manage_command
from controlpanel.templatetags import words

register = template.Library()

STALE_SECONDS = 5  # a reading older than this is grey and says its age
CLASSES = {"select": "form-select", "checkbox": "form-check-input"}


@register.simple_tag
def icon(name: str) -> SafeString:
    """A decorative icon; the word beside it carries the meaning."""
    return format_html('<i class="ti ti-{}" aria-hidden="true"></i>', name)


@register.simple_tag(takes_context=True)
def invite_command(context: template.Context, role: str) -> str:
    """The line that invites somebody with ``role`` on the panel's machine; its link leads to where browsers are now."""
    request: HttpRequest = context["request"]
    url = [] if settings.PANEL_URL else ["--url", f"{request.scheme}://{request.get_host()}"]
    return manage_command("signinlink", "--user", "NAME", "--role", role, *url)


@register.simple_tag
def state(kind: str, value: str, word: str = "") -> SafeString:
    """The state ``value`` of a ``kind`` of thing as icon and word; ``word`` replaces the usual one."""
    look = words.look(kind, value)
    return format_html(
        '<span class="st st-{}"><i class="ti ti-{}" aria-hidden="true"></i>{}</span>',
        look.tone,
        look.icon,
        word or look.word,
    )


@register.filter
def tone(value: str, kind: str) -> str:
    """The tone (good, busy, warn, bad, off) of a state, for the edge of a card."""
    return words.look(kind, value).tone


@register.filter
def mib(value: int | None) -> str:
    """A size given in MiB with its unit; an unknown size says so."""
    return words.size(value)


@register.filter
def seconds(value: float | None) -> str:
    """A length of time given in seconds, in the two largest units."""
    return "" if value is None else words.duration(float(value))


@register.filter
def moment(value: str | None) -> datetime | None:
    """The moment that an ISO text stands for, for the ``when`` tag; None when it is not one."""
    try:
        found = datetime.fromisoformat(value or "")
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


@register.filter
def told(detail: Mapping[str, object]) -> list[tuple[str, str]]:
    """The details of an audit entry as names and values."""
    return words.told(detail)


def age_seconds(value: datetime | None) -> float:
    """How old a moment is, in seconds; an unknown moment is endlessly old."""
    return float("inf") if value is None else (timezone.now() - value).total_seconds()


@register.filter
def is_old(value: datetime | None) -> bool:
    """Whether a reading of that moment may no longer pass for the present."""
    return age_seconds(value) > STALE_SECONDS


@register.simple_tag
def when(value: datetime | None, style: str = "full") -> SafeString:
    """A moment, in UTC until the browser rewrites it in its own zone.

    ``style`` is full (date and time), clock (time only) or ago (its age, which the browser keeps true).
    """
    if value is None:
        return SafeString("")
    utc = value.astimezone(UTC)
    text = f"{utc:%H:%M:%S}" if style == "clock" else f"{utc:%Y-%m-%d %H:%M}"
    if style == "ago":
        text = f"{words.duration(max(0.0, age_seconds(value)), parts=1)} ago"
    return format_html(
        '<time datetime="{}" data-time="{}" title="{} UTC">{}</time>',
        utc.isoformat(timespec="seconds"),
        style,
        f"{utc:%Y-%m-%d %H:%M:%S}",
        text,
    )


@register.simple_tag
def lasted(start: datetime | None, end: datetime | None) -> SafeString:
    """The time between two moments; while there is no end the browser counts on."""
    if start is None:
        return SafeString("")
    length = ((end or timezone.now()) - start).total_seconds()
    if end is not None:
        return format_html("{}", words.duration(length))
    since = start.isoformat(timespec="milliseconds")  # of whole seconds the browser's count would run ahead of ours
    return format_html('<span data-since="{}">{}</span>', since, words.duration(length))


@register.inclusion_tag("ui/field.html")
def field(bound: BoundField, **options: Any) -> dict[str, Any]:
    """A form field with its label, help and error, tied together for screen readers.

    Options: ``quiet`` (do not say "optional"), ``must`` (say "required", where people would leave it out),
    ``mono``, ``unit``, ``shows_for`` (see fields.js).
    """
    errors = bool(bound.errors)
    described = [f"{bound.auto_id}_help"] if bound.help_text else []
    described += [f"{bound.auto_id}_error"] if errors else []
    attrs: dict[str, Any] = {"aria-describedby": " ".join(described)} if described else {}
    kind = getattr(bound.field.widget, "input_type", "textarea")
    attrs["class"] = CLASSES.get(kind, "form-control")
    if options.get("mono"):
        attrs["class"] += " font-monospace"
    if errors:
        attrs |= {"class": f"{attrs['class']} is-invalid", "aria-invalid": "true"}
    return {"field": bound, "widget": bound.as_widget(attrs=attrs), "is_check": kind == "checkbox", **options}


@register.simple_tag(takes_context=True)
def query(context: template.Context, **changes: Any) -> str:
    """The page's query string with ``changes`` made to it; None or "" takes a key away."""
    request: HttpRequest = context["request"]
    params = request.GET.copy()
    for key, value in changes.items():
        params.pop(key, None)
        if value not in (None, ""):
            params[key] = str(value)
    return f"?{params.urlencode()}"


@register.simple_tag(takes_context=True)
def here(context: template.Context, *prefixes: str) -> str:
    """``page`` when the page lies under one of ``prefixes`` ("/" means exactly that page), for aria-current."""
    path = context["request"].path
    found = any(path == prefix if prefix == "/" else path.startswith(prefix) for prefix in prefixes)
    return "page" if found else "false"
