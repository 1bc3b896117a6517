"""What a plan says is to be done has a link to the page where it is done, for who may do it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from controlpanel.access import Permissions
from deployments.lifecycle import JobKind, JobState, StepState
from deployments.models import Job
from deployments.plan.warnings import Cure, warning
from deployments.views.cures import cure_page
from tests.factories import make_deployment, make_gate, make_job

pytestmark = pytest.mark.django_db


def paths_of(job: Job) -> dict[Cure, str]:
    assert job.deployment is not None and job.revision is not None
    own = f"/deployments/{job.deployment.pk}/"
    revise = f"/profiles/{job.revision.profile_id}/revise/?from={job.revision.number}&plan={job.deployment.pk}"
    return {
        Cure.FLAGS: revise,
        Cure.SETTINGS: f"{own}edit/",
        Cure.SECRETS: f"{own}secrets/",
        Cure.HOST: f"/hosts/{job.deployment.placement.host_id}/",
        Cure.RESTART: f"{own}restart/",
        Cure.START: f"{own}start/",
    }


def test_each_cure_leads_to_its_page_for_who_may(administrator: User, viewer: User) -> None:
    job = make_job(make_deployment())
    paths = paths_of(job)
    assert paths.keys() == {*Cure} - {Cure.NONE}
    for cure, path in paths.items():
        page = cure_page(job, cure, Permissions(administrator))
        assert page is not None and page.url == path
    seen = {cure for cure in Cure if cure_page(job, cure, Permissions(viewer)) is not None}
    assert seen == {Cure.HOST}


def test_the_plan_that_waits_has_the_link_beside_its_warning(
    client_of: Callable[[User], Client], administrator: User
) -> None:
    row = warning("It takes many tokens.", "It may not fit.", "Lower it in a new revision.", cure=Cure.FLAGS)
    old = {"text": "From an older panel.", "why": "", "todo": "Do something.", "blocks": False}
    job = make_job(make_deployment(), at_step=0, state=JobState.WAITING, plan={"warnings": [row, old]})
    make_gate(job)
    page = client_of(administrator).get(f"/jobs/{job.pk}/").content.decode()
    assert page.count(escape(paths_of(job)[Cure.FLAGS])) == 1 and "discard this one" in page


@pytest.mark.parametrize("cure", [Cure.FLAGS, Cure.HOST, Cure.NONE])
def test_a_plan_that_was_refused_has_it_as_its_first_button(
    client_of: Callable[[User], Client], administrator: User, cure: Cure
) -> None:
    job = make_job(make_deployment(), at_step=0, failed=True, state=JobState.FAILED)
    job.steps.filter(state=StepState.FAILED).update(data={"cure": cure})
    page = client_of(administrator).get(f"/jobs/{job.pk}/").content.decode()
    first = escape(paths_of(job)[cure or Cure.HOST])
    assert f'btn-primary" href="{first}"' in page and page.count("btn-primary") == 1


@pytest.mark.parametrize("cure", [Cure.FLAGS, Cure.SETTINGS, Cure.SECRETS])
def test_what_a_replacement_warns_of_the_one_that_goes_leads_to_its_pages(
    client_of: Callable[[User], Client], administrator: User, cure: Cure
) -> None:
    old = make_deployment()
    job = make_job(make_deployment(), kind=JobKind.REPLACE, at_step=0, state=JobState.WAITING, replaces=old)
    row = warning("Of the old one.", "", "Do something.", cure=cure) | {"of": old.name}
    Job.objects.filter(pk=job.pk).update(plan={"warnings": [row], "replaces": {"old": old.name}})
    gate = make_gate(job)
    assert old.revision is not None
    theirs = {
        Cure.FLAGS: f"/profiles/{old.revision.profile_id}/revise/?from={old.revision.number}&plan={old.pk}",
        Cure.SETTINGS: f"/deployments/{old.pk}/edit/",
        Cure.SECRETS: f"/deployments/{old.pk}/secrets/",
    }[cure]
    client = client_of(administrator)
    page = client.get(f"/jobs/{job.pk}/").content.decode()
    assert page.count(escape(theirs)) == 1 and escape(paths_of(job)[cure]) not in page
    gate.delete()
    Job.objects.filter(pk=job.pk).update(state=JobState.FAILED, ended_at=timezone.now())
    job.steps.filter(state=StepState.RUNNING).update(state=StepState.FAILED, data={"cure": cure, "of": old.name})
    page = client.get(f"/jobs/{job.pk}/").content.decode()
    assert f'btn-primary" href="{escape(theirs)}"' in page and page.count("btn-primary") == 1


def test_a_warning_of_one_that_is_gone_has_no_link(administrator: User) -> None:
    job = make_job(make_deployment())
    assert cure_page(job, Cure.SETTINGS, Permissions(administrator), of="was deleted") is None
