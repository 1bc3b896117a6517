"""The demo: what README says of it, and its second start, after which what ran in the first is not called crashed."""

from pathlib import Path

import pytest

from deployments.lifecycle import LaunchState, ServiceState
from deployments.models import Deployment
from deployments.services.replacing import weighed
from lab.demo import end_what_ran
from lab.demo_seed import add_deployments
from lab.fleet import demo_specs
from tests.factories import make_deployment, make_gpu, make_host, make_launch


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


@pytest.mark.django_db
def test_one_of_its_deployments_can_take_the_place_of_another() -> None:
    for name, cards in (("gpu1", 4), ("gpu2", 2), ("ct129", 8)):
        host = make_host(name=name)
        for _ in range(cards):
            make_gpu(host)
    add_deployments()
    Deployment.objects.update(state=ServiceState.STOPPED)
    old = Deployment.objects.get(name="chat-27b")
    assert [(one.name, why_not) for one, why_not in weighed(old)] == [("chat-27b-long", "")]


def test_the_readme_counts_the_machines_and_cards_of_the_demo() -> None:
    hosts, nodes = demo_specs()
    cards = sum(len(spec.cards) for spec in (*hosts, *nodes))
    assert (len(hosts) + len(nodes), cards) == (3, 14)
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text()
    assert "three simulated machines with fourteen GPUs" in readme
