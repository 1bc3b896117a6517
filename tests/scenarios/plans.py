"""Plans that are made, looked at and thrown away."""

from typing import Any

from django.test import Client

from deployments.lifecycle import JobKind, JobState
from deployments.models import Deployment, Job
from tests.support.story import Story, told


def planned(story: Story, deployment: Deployment, **more: Any) -> tuple[dict[str, Any], str]:
    """The plan of a start as data, and its page; nothing is started."""
    job = story.ask(deployment, JobKind.START, **more)
    gate = story.gate(job, "plan")
    page = page_of(story, job)
    assert job.plan is not None and not job.plan["blocked"], told(job)
    found: dict[str, Any] = job.plan
    story.answer(gate, "discard")
    story.wait_for(job, JobState.REJECTED)
    return found, page


def page_of(story: Story, job: Job) -> str:
    """The job's page as a browser gets it."""
    client = Client()
    client.force_login(story.actor)
    return client.get(job.get_absolute_url()).content.decode()


def warning_of(plan: dict[str, Any], words: str) -> dict[str, Any]:
    """The warning that begins so."""
    found: dict[str, Any] = next(warning for warning in plan["warnings"] if warning["text"].startswith(words))
    return found
