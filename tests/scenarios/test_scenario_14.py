"""The old host is taken away; a container gets the same model. Its checks run there, and the history stays."""

import pytest

from deployments import services
from deployments.lifecycle import JobKind, ServiceState
from deployments.models import CloneCheck, Deployment
from lab.fleet import Fleet
from tests.support.story import Place, Story, launch_of
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]


def checked(story: Story, deployment: Deployment, place: Place, *, name: str, cards: int) -> CloneCheck:
    """What a worker has seen on the other host."""
    uuids = [place.host.gpus.get(index=index).uuid for index in range(cards)]
    check = services.request_clone_check(
        deployment, name=name, host=place.host, gpu_uuids=uuids, actor=story.actor, address=""
    )

    def done() -> bool:
        check.refresh_from_db()
        return check.finished_at is not None

    until(done, seconds=60, what="the check")
    assert not check.problem, check.problem
    return check


def verdicts(check: CloneCheck) -> dict[str, str]:
    return {row["label"]: row["status"] for row in check.rows}


@pytest.mark.slow
def test_scenario_14_the_service_moves_to_a_container(story: Story, gpu1: Place, ct129: Place, fleet: Fleet) -> None:
    old = story.deploy_sglang(gpu1)
    launched = launch_of(story.start(old))
    services.mark_proven(launched, actor=story.actor, address="")

    narrow = checked(story, old, ct129, name="too-narrow", cards=1)
    assert verdicts(narrow)["Cards"] == "not ok", narrow.rows
    check = checked(story, old, ct129, name=f"{old}-moved", cards=2)
    found = verdicts(check)
    assert found["The model"] == found["Memory of the smallest card"] == found["Room for logs"] == "ok", check.rows
    assert found["Cards"] == "info", "another kind of card, as many of them"
    version = next(row for row in check.rows if row["label"] == "SGLang version")
    assert version["here"] == launched.effective["version"] and version["there"], version

    story.run_job(old, JobKind.STOP)
    new = services.clone_deployment(check, actor=story.actor, address="")
    job = story.start(new)
    assert len(ct129.servers(new.port)) == 1 and not gpu1.servers(old.port)
    assert launch_of(job).revision == launched.revision

    fleet.faults.link_down(gpu1.machine)
    services.release(old, actor=story.actor, address="")
    old.refresh_from_db()
    assert old.state == ServiceState.RELEASED and new.cloned_from == old
    assert old.launches.count() == 1 and old.proven_launch == launched, "its history stays"


def test_scenario_14_what_is_missing_there_is_named(story: Story, gpu1: Place, ct129: Place) -> None:
    old = story.deploy_sglang(gpu1, model="only-here")
    rows = {row["label"]: row for row in checked(story, old, ct129, name=f"{old}-moved", cards=2).rows}
    assert rows["The model"]["status"] == "not ok" and rows["The model"]["there"] == "missing"
