"""A server in somebody's loop: a real supervisord, `while true` in a real tmux, a watchdog."""

import shlex

import pytest

from deployments.lifecycle import JobKind, JobState
from deployments.models import Effect
from lab.processes import Process
from tests.managers.keepers import (
    LATE,
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
    start_supervisord,
    wait_for_server,
)
from tests.support.story import Place, Story, one_server, told
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

WATCHDOG = "import subprocess, sys\nwhile True:\n    subprocess.run(sys.argv[1:])\n"


@pytest.mark.slow
def test_a_program_of_supervisord_is_stopped_through_it(story: Story, plain: Place) -> None:
    deployment = adopted(story, plain)
    other = Bystander(plain, "other")
    server = f"{env()} {serve(plain, deployment)}"
    start_supervisord(plain, {"chat": server, "other": other.command})
    other.wait()
    wait_for_server(plain, deployment)

    job = story.run_job(deployment)

    stop = Effect.objects.get(job=job, kind="stop by its manager")
    assert stop.command == "supervisorctl -c /root/lab-supervisord.conf stop chat"
    assert not signalled(job), told(job)
    status = run(plain, "supervisorctl -c /root/lab-supervisord.conf status || true")
    assert "STOPPED" in next(line for line in status.splitlines() if line.startswith("chat")), status
    assert one_server(plain, deployment.port).entry.launch
    other.assert_unharmed()


def in_tmux(place: Place, server: str) -> str:
    """A loop in a pane; returns the name of what runs it."""
    loop = shlex.quote(f"while true; do {server}; done")
    run(place, f"tmux -L lab new-session -d -s chat bash -c {loop}")
    return "bash"


def in_watchdog(place: Place, server: str) -> str:
    words = shlex.join(["/lab/bin/python", "-c", WATCHDOG, *shlex.split(server)])
    run(place, f"setsid -f {words} > /dev/null 2>&1")
    return "python"


def keeper_of(place: Place, name: str) -> Process:
    """The process that runs the loop."""
    marks = {"bash": "while true", "python": "subprocess.run"}
    return next(each for each in place.machine.processes() if marks[name] in each.title and "tmux" not in each.title)


@pytest.mark.slow
@pytest.mark.parametrize("start", [in_tmux, in_watchdog], ids=["tmux", "watchdog"])
def test_a_loop_is_asked_about_and_what_comes_back_is_named(story: Story, plain: Place, start: object) -> None:
    assert callable(start)
    deployment = adopted(story, plain)
    neighbour = bystander_alone(plain, "neighbour")
    name = start(plain, f"{env(LATE)} {serve(plain, deployment)}")
    before = wait_for_server(plain, deployment)
    keeper = keeper_of(plain, name)

    job = story.approve(story.ask(deployment))
    gate = story.gate(job, "manager")
    assert "may start the server again" in gate.title and f"pid {keeper.pid}" in gate.title, gate.title
    assert "while" in evidence_of(gate), "its command is shown"
    assert_untouched(plain, deployment, job)
    assert lives(plain, before)
    story.answer(gate, "stop", comment="Nobody is at that terminal.")

    gate = story.gate(job, "not free")
    assert gate.title == "The server has come back by itself", told(job)
    assert f"(pid {keeper.pid})" in evidence_of(gate), evidence_of(gate)
    assert "kill" not in [choice["key"] for choice in gate.choices]
    back = wait_for_server(plain, deployment)
    story.answer(gate, "leave")
    story.wait_for(job, JobState.FAILED)
    assert lives(plain, back) and lives(plain, keeper) and not lives(plain, before)
    assert not signalled(job) & {back.pid, keeper.pid}
    neighbour.assert_unharmed()


@pytest.mark.slow
def test_once_the_loop_is_ended_there_is_nothing_to_confirm(story: Story, plain: Place) -> None:
    deployment = adopted(story, plain)
    in_tmux(plain, f"setsid {env()} {serve(plain, deployment)}")
    wait_for_server(plain, deployment)
    keeper = keeper_of(plain, "bash")
    job = story.approve(story.ask(deployment, JobKind.STOP))
    gate = story.gate(job, "manager")
    run(plain, f"kill -9 {keeper.pid}")
    until(lambda: not lives(plain, keeper), seconds=10, what="the end of the loop")

    story.answer(gate, "again")
    assert "what looks after the server" in evidence_of(story.gate(job, "plan"))
    story.approve(job)
    story.succeeded(job)
    assert not plain.servers(deployment.port)
