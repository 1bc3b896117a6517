"""The process is gone, the port or the cards are still busy for a while."""

import pytest

from deployments.lifecycle import JobKind
from deployments.models import Deployment, JobReading
from lab.fleet import Fleet
from tests.support.story import HASTE, Place, Story, launch_of, one_server, told

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

LINGERING = "/opt/lingering.py"
PROMPT_SECONDS = 6.0
"""From the first free reading to the launch, on a machine that does many things at once."""


@pytest.mark.parametrize("place", ["ssh", "pct"], indirect=True)
def test_scenario_16_late_release_is_waited_for_by_measuring(story: Story, place: Place) -> None:
    deployment = story.deploy_standin(place, "--delay", "4", cards=(0, 1))
    story.start(deployment)

    job = story.run_job(deployment)

    assert [gate.kind for gate in job.gates.all()] == ["plan"]
    launch = launch_of(job)
    for uuid in deployment.placement.gpu_uuids:
        points = JobReading.objects.filter(job=job, gpu_uuid=uuid, at__lt=launch.intended_at).order_by("id")
        curve = list(points.values_list("used_mib", "at"))
        held = [at for used, at in curve if used]
        free = [at for used, at in curve if used == 0]
        assert held and free and max(held) < min(free), curve
        assert (launch.intended_at - min(free)).total_seconds() < PROMPT_SECONDS, curve
    one_server(place, deployment.port)


def deploy_lingering(story: Story, place: Place, *, seconds: float, **policy: object) -> Deployment:
    """A server whose port stays taken by a child for ``seconds`` after its end."""
    place.machine.seen(LINGERING).write_text(SERVER)
    argv = ["/lab/bin/python", LINGERING, "{port}", str(seconds)]
    return story.deploy(place, argv, cards=(0, 1), ready="lingering ready", env=HASTE, **policy)


def test_scenario_16_port_lingers(story: Story, place: Place) -> None:
    deployment = deploy_lingering(story, place, seconds=4, port_seconds=60)
    story.start(deployment)

    job = story.run_job(deployment)

    assert [gate.kind for gate in job.gates.all()] == ["plan"], told(job)
    verify = job.steps.get(name="verify")
    assert verify.started_at is not None and verify.ended_at is not None
    assert (verify.ended_at - verify.started_at).total_seconds() > 1.0, "it cannot have waited for the port"


@pytest.mark.slow
def test_scenario_16_stuck_port_names_who_has_it(story: Story, place: Place) -> None:
    deployment = deploy_lingering(story, place, seconds=600, port_seconds=2)
    story.start(deployment)

    job = story.begin_job(deployment)
    gate = story.gate(job, "not free")

    holder = next(process for process in place.machine.processes() if LINGERING in process.cmdline)
    shown = str(gate.evidence)
    assert "port" in shown.lower() and str(holder.own_pid) in shown and LINGERING in shown, shown
    place.machine.exec(["kill", "-9", str(holder.own_pid)], timeout=20)
    story.answer(gate, "again")
    story.succeeded(job)


def test_scenario_16_stuck_memory_names_who_holds_it(story: Story, place: Place, clean_fleet: Fleet) -> None:
    deployment = story.deploy_standin(place, cards=(0, 1), memory_seconds=2, stuck_seconds=3)
    clean_fleet.faults.gpu_hold(place.node, 1, 5000)

    job = story.begin_job(deployment, JobKind.START)
    gate = story.gate(job, "not free")

    shown = str(gate.evidence)
    assert "GPU 1" in shown and "5,000 MiB" in shown and "sleep 86400" in shown, shown
    assert not place.starts(deployment.port)


def test_scenario_16_memory_without_a_holder_says_so(story: Story, place: Place, clean_fleet: Fleet) -> None:
    deployment = story.deploy_standin(place, cards=(0, 1), memory_seconds=2, stuck_seconds=3)
    clean_fleet.faults.gpu_leak(place.node, 0, 7000)

    job = story.begin_job(deployment, JobKind.START)
    gate = story.gate(job, "not free")

    assert "GPU 0 still holds 7,000 MiB" in str(gate.evidence), gate.evidence
    assert not place.starts(deployment.port)
    clean_fleet.faults.gpu_clear(place.node)
    story.answer(gate, "again")
    story.succeeded(job)


SERVER = """\
import os, signal, socket, sys, time

ANSWER = b'{"choices": [{"index": 0, "text": " Paris, of course.", "finish_reason": "stop"}]}'

server = socket.create_server(("0.0.0.0", int(sys.argv[1])))


def end(*_):
    if os.fork() == 0:
        os.setsid()
        time.sleep(float(sys.argv[2]))
    os._exit(0)


signal.signal(signal.SIGTERM, end)
print("lingering ready", flush=True)
while True:
    client, _ = server.accept()
    client.recv(65536)
    client.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n" % len(ANSWER) + ANSWER)
    client.close()
"""
