"""A job's state in a word, for lists."""

from __future__ import annotations

from django import template

from deployments.models import Job
from deployments.views.words import STEP_TITLES, Word, job_word

register = template.Library()


@register.filter
def word(job: Job) -> Word:
    """What the job is doing, or how it ended."""
    return job_word(job)


@register.filter
def step_title(name: str) -> str:
    """What a step does, in a few words."""
    return STEP_TITLES.get(name, "")
