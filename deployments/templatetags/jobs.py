"""A job's state in a word, for lists."""

from __future__ import annotations

from datetime import timedelta

from django import template
from django.utils import timezone

from controlpanel.templatetags.ui import lasted
from deployments.models import Gate, Job, JobStep
from deployments.views import words
from deployments.views.cures import CurePage, cure_page
from deployments.views.words import STEP_TITLES, Word, job_word

register = template.Library()


@register.filter
def word(job: Job) -> Word:
    """What the job is doing, or how it ended."""
    return job_word(job)


@register.simple_tag
def step_word(step: JobStep, job: Job) -> Word:
    """What a step does, or came to."""
    return words.step_word(step, job)


@register.filter
def step_title(name: str) -> str:
    """What a step does, in a few words."""
    return STEP_TITLES.get(name, "")


@register.filter
def answer_words(gate: Gate) -> str:
    """The answer that was given, as its button said it."""
    return words.answer_words(gate)


@register.simple_tag
def spent(of: Job | JobStep) -> dict[str, str]:
    """``work`` and ``waited`` (for a person) of a job or a step; what goes on is counted on by the browser.

    Both are empty when it has not begun, or when it is not known how long it took.
    """
    now = timezone.now()
    found = words.spent(of, now=now)
    if found is None:
        return {"work": "", "waited": ""}
    at_work = not found.is_over and not found.waits
    work = lasted(now - found.work, None if at_work else now)
    waited = lasted(now - found.waited, None if found.waits else now)
    return {"work": work, "waited": waited if found.waits or found.waited >= timedelta(seconds=1) else ""}


@register.simple_tag(takes_context=True)
def cure(context: template.Context, job: Job, which: str, of: str = "") -> CurePage | None:
    """The page on which the reader does what a warning of its plan says, ``of`` that deployment of a replacement."""
    return cure_page(job, which, context["may"], of=of)
