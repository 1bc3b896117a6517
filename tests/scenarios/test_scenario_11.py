"""``pkill -9 -f python3`` in a shared machine: the thing that must never happen."""

import pytest
from django.core.exceptions import PermissionDenied

from controlpanel.refusal import Refused
from deployments import services
from deployments.models import Effect, Gate
from lab.processes import Process
from tests.support.story import Place, Story, one_server, told
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

SLEEP = "import time; time.sleep(86400)"


def start_python(place: Place, mark: str, *, holding: int | None = None) -> Process:
    """A python process of somebody else, which may hold memory of a card; returns when it runs."""
    hold = f"gpu-hold --gpu {holding} --mib 3000 --" if holding is not None else ""
    command = f"exec setsid -f {hold} /lab/bin/python -c '{SLEEP}' {mark} > /dev/null 2>&1"
    place.machine.exec(["sh", "-c", command], timeout=30)

    def look() -> Process | None:
        found = [process for process in place.machine.processes() if process.cmdline[-2:] == (SLEEP, mark)]
        return found[0] if found else None

    found = until(look, seconds=30, what=mark)
    assert found is not None
    return found


def lives(place: Place, process: Process) -> bool:
    """Still the very same process."""
    same = [
        other for other in place.machine.processes() if (other.pid, other.started) == (process.pid, process.started)
    ]
    return bool(same) and same[0].state not in "ZX"


def test_scenario_11_stranger_is_killed_only_after_its_own_confirmation(story: Story, gpu1: Place) -> None:
    deployment = story.deploy_standin(gpu1, cards=(0, 1), memory_seconds=2, stuck_seconds=4)
    story.start(deployment)
    server = one_server(gpu1, deployment.port).process
    download = start_python(gpu1, "download")
    stranger = start_python(gpu1, "somebody-else", holding=1)

    job = story.begin_job(deployment)
    gate = story.gate(job, "not free")

    assert lives(gpu1, stranger) and lives(gpu1, download) and not lives(gpu1, server)
    named = [row for item in gate.evidence for row in item.get("table", {}).get("rows", [])]
    assert [row[0] for row in named] == [str(stranger.pid)], gate.evidence
    assert "somebody-else" in named[0][2] and "GPU 1" in named[0][3]
    assert gate.choices[0]["key"] == "again", "the recommended choice must harm nobody"

    story.answer(gate, "again")
    gate = story.gate(job, "not free")
    assert lives(gpu1, stranger), told(job)

    refuses_without_right_or_reason(story, gate)
    story.answer(gate, "kill", comment="Its owner has agreed.")
    story.succeeded(job)

    assert not lives(gpu1, stranger)
    assert lives(gpu1, download)
    killed = Effect.objects.get(job=job, kind="kill strangers").target["processes"]
    assert killed == [[stranger.pid, stranger.started]]
    one_server(gpu1, deployment.port)


def refuses_without_right_or_reason(story: Story, gate: Gate) -> None:
    """An operator may not confirm a kill, and nobody may without a reason."""
    from django.contrib.auth.models import Group, User

    operator, _ = User.objects.get_or_create(username="olga")
    operator.groups.set([Group.objects.get(name="operator")])
    with pytest.raises(PermissionDenied):
        services.answer_gate(
            gate, choice="kill", comment="I want to", plan_hash=gate.plan_hash, actor=operator, address=""
        )
    with pytest.raises(Refused):
        story.answer(gate, "kill")


def test_scenario_11_stranger_that_became_another_is_not_killed(story: Story, gpu1: Place) -> None:
    """Between the question and the answer the stranger ended; whoever is there now was not asked about."""
    deployment = story.deploy_standin(gpu1, cards=(0, 1), memory_seconds=2, stuck_seconds=4)
    story.start(deployment)
    stranger = start_python(gpu1, "first", holding=1)
    job = story.begin_job(deployment)
    gate = story.gate(job, "not free")
    gpu1.machine.exec(["kill", "-9", str(stranger.pid)], timeout=20)
    until(lambda: not lives(gpu1, stranger), seconds=20, what="end of the first stranger")
    second = start_python(gpu1, "second", holding=1)

    story.answer(gate, "kill", comment="The first one.")
    gate = story.gate(job, "not free")

    assert lives(gpu1, second)
    assert not gpu1.servers(deployment.port)
    assert any(str(second.pid) == row[0] for item in gate.evidence for row in item.get("table", {}).get("rows", []))
