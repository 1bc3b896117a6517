"""What a plan says is to be done has a link to the page where it is done, for who may do it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils.html import escape

from controlpanel.access import Permissions
from deployments.lifecycle import JobState, StepState
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
