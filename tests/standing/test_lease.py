"""An afternoon of tuning on one card: restarts there go through, each verified; on the other an approver is asked."""

import pytest

from deployments import services
from deployments.lifecycle import JobState
from deployments.models import StandingApproval
from lab.fleet import Fleet
from tests.support.story import Place, Story, one_server

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(240)]


def test_restarts_within_the_lease_go_through_and_no_others(story: Story, gpu1: Place, fleet: Fleet) -> None:
    tuned, other = (story.deploy_standin(gpu1, cards=[card]) for card in (0, 1))
    for deployment in (tuned, other):
        story.start(deployment)
    cards = tuned.placement.gpu_uuids
    lease = services.ask_for_lease(gpu1.host, gpu_uuids=cards, hours=1, reason="flags", actor=story.actor, address="")
    services.give_lease(lease, actor=story.actor, address="")
    before = one_server(gpu1, other.port)

    for _ in range(2):
        job = story.succeeded(story.ask(tuned))
        assert job.gates.get().standing == lease and job.steps.get(name="verify").checks.exists()
    assert len(gpu1.starts(tuned.port)) == 3
    one_server(gpu1, tuned.port)
    assert one_server(gpu1, other.port).process == before.process, "nothing else was touched"

    gate = story.gate(story.ask(other), "plan")
    story.answer(gate, "discard")
    fleet.faults.gpu_hold(gpu1.node, 0, 500)
    gate = story.gate(story.ask(tuned), "plan")
    story.answer(gate, "discard")
    fleet.faults.gpu_clear(gpu1.node)

    services.revoke_standing(StandingApproval.in_force().get(), actor=story.actor, address="")
    job = story.ask(tuned)
    assert story.gate(job, "plan").job.state == JobState.WAITING
