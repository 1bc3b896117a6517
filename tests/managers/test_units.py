"""A server that a real systemd looks after."""

import shlex

import pytest

from deployments.lifecycle import EffectKind, JobKind, JobState
from deployments.models import Effect
from lab.fleet import Fleet
from tests.managers.keepers import (
    Bystander,
    adopted,
    assert_untouched,
    bystander_alone,
    env,
    evidence_of,
    lives,
    run,
    serve,
    signalled,
    start_unit,
    wait_for_server,
)
from tests.support.story import Place, Story, one_server, told
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]


def state_of(place: Place, unit: str) -> dict[str, str]:
    text = run(place, f"systemctl show -p ActiveState -p NRestarts -p UnitFileState {unit}")
    return dict(line.split("=", 1) for line in text.splitlines())


def test_a_unit_is_stopped_through_systemd_and_does_not_come_back(story: Story, with_systemd: Place) -> None:
    deployment = adopted(story, with_systemd, started_by="transient")
    start_unit(with_systemd, deployment)
    other = bystander_alone(with_systemd, "other")

    job = story.ask(deployment)
    plan = story.gate(job, "plan").job.plan
    assert plan is not None
    rows = {row["label"]: row for section in plan["sections"] for row in section["rows"]}
    assert rows["Looked after by"]["value"] == "systemd unit chat.service"
    assert rows["Looked after by"]["detail"] == "restarts it: always, starts it at boot"
    assert any("boots, that starts its own server again" in each["why"] for each in plan["warnings"]), plan["warnings"]
    waits = "may wait 90 s for its server to end (TimeoutStopSec)"  # systemd's own, where the unit says nothing
    assert any(waits in each["text"] for each in plan["warnings"]), plan["warnings"]
    assert "systemctl start chat.service" in plan["way_back"]["text"]
    story.approve(job)
    story.succeeded(job)

    kinds = list(
        Effect.objects.filter(job=job)
        .exclude(kind__in=("launch", EffectKind.TAKE_CARDS))
        .values_list("kind", "command")
    )
    assert kinds == [("stop by its manager", "systemctl stop chat.service")], told(job)
    state = state_of(with_systemd, "chat")
    assert state["ActiveState"] in ("inactive", "failed") and state["NRestarts"] == "0", state
    assert one_server(with_systemd, deployment.port).entry.launch, "the one that serves is ours"
    other.assert_unharmed()


@pytest.mark.slow
def test_a_unit_that_somebody_starts_again_is_named_and_left_alone(
    story: Story, with_systemd: Place, fleet: Fleet
) -> None:
    """A watchdog of somebody else: what comes back belongs to the unit again."""
    deployment = adopted(story, with_systemd)
    start_unit(with_systemd, deployment)
    before = wait_for_server(with_systemd, deployment)
    fleet.faults.gpu_leak(with_systemd.node, 0, 1000)  # so that it is looked at until the other has acted
    loop = (
        "while sleep 0.05; do systemctl show -P ActiveState chat | grep -qE 'failed|^ina' && systemctl start chat; done"
    )
    job = story.ask(deployment)
    gate = story.gate(job, "plan")
    run(with_systemd, f"systemd-run --quiet --collect --unit=watch sh -c {shlex.quote(loop)}")
    story.answer(gate, "approve")

    gate = story.gate(job, "not free")
    assert gate.title == "The server has come back by itself", told(job)
    assert "the systemd unit chat.service has started it again" in evidence_of(gate)
    assert "kill" not in [choice["key"] for choice in gate.choices]
    back = wait_for_server(with_systemd, deployment)
    assert back != before
    story.answer(gate, "leave")
    story.wait_for(job, JobState.FAILED)
    assert lives(with_systemd, back)
    assert not signalled(job), "it was stopped through systemd, and what came back was left alone"
    assert len(with_systemd.servers(deployment.port)) == 1


@pytest.mark.slow
def test_a_unit_with_more_in_it_than_the_server_is_asked_about(story: Story, with_systemd: Place) -> None:
    deployment = adopted(story, with_systemd)
    neighbour = Bystander(with_systemd, "neighbour", ends=True)
    script = with_systemd.machine.seen("/root/both.sh")
    script.write_text(f"{neighbour.command} &\n{env()} {serve(with_systemd, deployment)}\n")
    run(with_systemd, "systemd-run --quiet --collect --unit=chat sh /root/both.sh")
    neighbour.wait()
    wait_for_server(with_systemd, deployment)

    job = story.approve(story.ask(deployment, JobKind.STOP))
    gate = story.gate(job, "manager")
    assert "also ends 1 other" in gate.title and str(neighbour.was.pid) in evidence_of(gate)
    story.answer(gate, "leave")
    story.wait_for(job, JobState.FAILED)

    assert "Nothing was touched" in job.summary, told(job)
    assert_untouched(with_systemd, deployment, job)
    neighbour.assert_unharmed()

    job = story.approve(story.ask(deployment, JobKind.STOP))
    story.answer(story.gate(job, "manager"), "stop", comment="It is mine.")
    story.succeeded(job)
    until(lambda: neighbour.process() is None, seconds=20, what="its end: systemd ends a unit as a whole")


@pytest.mark.slow
def test_a_unit_of_a_logins_own_systemd(story: Story, with_systemd: Place) -> None:
    deployment = adopted(story, with_systemd)
    run(with_systemd, "systemctl start user@1000")
    text = f"systemd-run --user --quiet --unit=chat -p Restart=always {env()} {serve(with_systemd, deployment)}"
    run(with_systemd, f"setpriv --reuid=1000 --clear-groups env XDG_RUNTIME_DIR=/run/user/1000 {text}")
    wait_for_server(with_systemd, deployment)

    job = story.run_job(deployment, JobKind.STOP)

    stop = Effect.objects.get(job=job, kind="stop by its manager")
    assert stop.command.endswith("XDG_RUNTIME_DIR=/run/user/1000 systemctl --user stop chat.service")
    until(lambda: not with_systemd.servers(deployment.port), seconds=10, what="its end")
    assert not signalled(job)
