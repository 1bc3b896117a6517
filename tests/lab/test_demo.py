"""The demo's second start: what ran in the first one was stopped with it, and is not called crashed."""

import pytest

from deployments.lifecycle import LaunchState, ServiceState
from lab.demo import end_what_ran
from tests.factories import make_deployment, make_launch


@pytest.mark.django_db
def test_what_ran_in_the_last_demo_counts_as_stopped() -> None:
    deployment = make_deployment(state=ServiceState.SERVING)
    launch = make_launch(deployment, state=LaunchState.SERVING)
    never = make_deployment(state=ServiceState.UNKNOWN)
    end_what_ran()
    for row in (deployment, launch, never):
        row.refresh_from_db()
    assert (launch.state, deployment.state) == (LaunchState.ENDED, ServiceState.STOPPED)
    assert deployment.state_detail == "the demo was stopped"
    assert never.state == ServiceState.UNKNOWN
