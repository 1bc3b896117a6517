"""A server that somebody has started in one of many ways becomes a deployment; its first restart keeps every flag."""

import itertools
import os
import shlex
import signal

import pytest
from django.utils import timezone

from controlpanel.models import AuditEntry
from deployments import services
from deployments.discovery.found import Found
from deployments.lifecycle import ENDED, JobState, ServiceState
from deployments.models import Deployment, Launch, LogChunk, Revision, ServerLook
from lab.fleet import Fleet
from tests.adopting.people import (
    by_llama_server,
    by_nohup,
    by_unit,
    command,
    flags_of,
    line,
    looked,
    on_port,
    wait_for_server,
)
from tests.managers.keepers import UNITS, run, start_docker
from tests.support.story import HASTE, Place, Story, told
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]
PORTS = itertools.count(26000)


def adopt(story: Story, place: Place, found: Found, **more: bool) -> Deployment:
    name = f"adopted-{found.port}"
    return services.adopt(
        place.host,
        found,
        name=name,
        seen_at=timezone.now(),
        requester_may_approve=True,
        actor=story.actor,
        address="",
        **more,
    )


def still_serves(deployment: Deployment) -> None:
    """The monitor has looked at it, and says so."""
    before = deployment.placement.host.last_seen_at

    def look() -> bool:
        deployment.refresh_from_db()
        deployment.placement.host.refresh_from_db()
        return deployment.placement.host.last_seen_at != before

    until(look, seconds=30, what="the monitor looks")
    assert deployment.state == ServiceState.SERVING, deployment.state_detail


def test_a_server_started_over_ssh_keeps_flags_directory_and_environment(story: Story, desk: Place) -> None:
    port = next(PORTS)
    run(desk, "mkdir -p /srv")
    was = by_nohup(desk, port, "--context-length", "4096", env={"CUDA_VISIBLE_DEVICES": "0,1", "NCCL_DEBUG": "WARN"})
    before = was.cmdline
    found = on_port(desk, port)
    assert not found.refused, found
    assert (found.engine, found.pid, len(found.cards), found.keeper) == ("sglang", was.own_pid, 2, "")
    assert {**found.env, "LANG": ""} == {"LANG": "", "CUDA_VISIBLE_DEVICES": "0,1", "NCCL_DEBUG": "WARN", **HASTE}
    assert found.workdir == "/srv"
    deployment = adopt(story, desk, found)
    assert deployment.placement.gpu_uuids == [card.uuid for card in found.cards]
    deployment.refresh_from_db()
    assert deployment.state == ServiceState.SERVING, "at once"
    still_serves(deployment)

    job = story.run_job(deployment)
    now = wait_for_server(desk, port)
    assert now.cmdline == before and now.own_pid != was.own_pid, told(job)
    environment = run(desk, f"tr '\\0' '\\n' < /proc/{now.own_pid}/environ; readlink /proc/{now.own_pid}/cwd")
    assert "NCCL_DEBUG=WARN\n" in environment and "CUDA_VISIBLE_DEVICES=0,1\n" in environment
    assert environment.splitlines()[-1] == "/srv"
    assert (job.plan or {})["flags"] == [], "the plan says that nothing changes"
    assert flags_of(desk, port) == before


def restarted(story: Story, place: Place, deployment: Deployment) -> tuple[str, ...]:
    """The command line after a restart with the same revision; whoever must confirm the stop of a loop does so."""
    job = story.begin_job(deployment)
    story.wait_for(job, JobState.WAITING, *ENDED)
    while job.state == JobState.WAITING:
        gate = job.open_gate
        assert gate is not None and gate.kind == "manager", told(job)
        story.answer(gate, "stop", comment="It sleeps for long.")
        story.wait_for(job, JobState.WAITING, *ENDED)
    assert job.state == JobState.SUCCEEDED, told(job)
    assert (job.plan or {})["flags"] == [], "the plan says that nothing changes"
    return tuple(flags_of(place, deployment.port))


@pytest.mark.slow
def test_the_key_of_its_api_becomes_a_secret(story: Story, desk: Place) -> None:
    port = next(PORTS)
    key = "sk-of-the-adopted-server-1234"
    before = by_nohup(
        desk, port, "--api-key", key, env={"CUDA_VISIBLE_DEVICES": "0,1", "HF_TOKEN": f"hf_{key}"}
    ).cmdline
    found = on_port(desk, port)
    assert key not in str(found), "sealed, never in the open"
    assert found.effective, "it was asked for its configuration with its own key"
    assert sorted(found.secrets) == ["API key", "HF_TOKEN"]
    deployment = adopt(story, desk, found)
    assert "--api-key" not in deployment.revision.argv and key not in str(deployment.revision.env)
    after = restarted(story, desk, deployment)
    assert key not in " ".join(after)
    words = [word for word in before if word not in ("--api-key", key)]
    assert list(after[: len(words)]) == words, "everything else is as it was"
    environment = run(desk, f"tr '\\0' '\\n' < /proc/{wait_for_server(desk, port).own_pid}/environ")
    assert f"HF_TOKEN=hf_{key}\n" in environment
    for table in ServerLook, Launch, Deployment, AuditEntry, Revision, LogChunk:
        assert key not in str(list(table.objects.values())), table


@pytest.mark.slow
def test_a_loop_in_tmux(story: Story, desk: Place) -> None:
    port = next(PORTS)
    desk.machine.seen("/root/serve.sh").write_text(f"#!/bin/sh\nwhile true; do {line(port)}; sleep 30; done\n")
    run(desk, "tmux new-session -d -s llm 'sh /root/serve.sh'")
    before = wait_for_server(desk, port).cmdline
    found = on_port(desk, port)
    assert found.keeper.startswith("shell sh (pid") and found.keeper.endswith("in tmux")
    assert restarted(story, desk, adopt(story, desk, found)) == before


@pytest.mark.slow
def test_a_unit_that_restarts_it_is_asked_to(story: Story, units: Place) -> None:
    port = next(PORTS)
    before = by_unit(units, port).cmdline
    found = on_port(units, port)
    assert (found.keeper, found.started_by) == ("systemd unit chat.service", "unit chat.service")
    assert found.env == {} and found.workdir == "", "the unit keeps both"
    deployment = adopt(story, units, found)
    assert restarted(story, units, deployment) == before
    again = on_port(units, port)
    assert again.started_by == "unit chat.service", "through the same unit"
    assert run(units, f"ls {UNITS}/chat.service.d 2> /dev/null; true") == "", "nothing was written for it"


@pytest.mark.slow
def test_a_unit_that_starts_it_by_a_script(story: Story, units: Place) -> None:
    port = next(PORTS)
    script = units.machine.seen("/root/chat.sh")
    script.write_text(f"#!/bin/sh\nexec {line(port, '--context-length', '4096')}\n")
    script.chmod(0o755)
    text = "[Service]\nExecStart=/root/chat.sh\nRestart=always\n"
    units.machine.seen(f"{UNITS}/chat.service").write_text(text)
    run(units, "systemctl daemon-reload; systemctl start chat")
    before = wait_for_server(units, port).cmdline
    found = on_port(units, port)
    assert found.started_by == "unit chat.service"
    assert restarted(story, units, adopt(story, units, found)) == before
    assert on_port(units, port).started_by == "unit chat.service"


def test_one_that_was_not_told_its_card_lands_on_the_same_again(story: Story, desk: Place) -> None:
    port = next(PORTS)
    before = by_nohup(desk, port, "--base-gpu-id", "1", env={}, cards=1).cmdline
    found = on_port(desk, port)
    assert [card.label for card in found.cards] == ["GPU 1"] and found.env["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert restarted(story, desk, adopt(story, desk, found)) == before
    assert on_port(desk, port).cards[0].uuid == found.cards[0].uuid


@pytest.mark.slow
def test_of_another_panel(story: Story, desk: Place) -> None:
    port = next(PORTS)
    theirs = {"RELAUNCH_LAUNCH_ID": "11111111-2222-3333-4444-555555555555", "RELAUNCH_DEPLOYMENT": "theirs"}
    before = by_nohup(desk, port, env={"CUDA_VISIBLE_DEVICES": "0,1", **theirs}).cmdline
    found = on_port(desk, port)
    assert found.launch == theirs["RELAUNCH_LAUNCH_ID"] and not any(name in theirs for name in found.env)
    assert restarted(story, desk, adopt(story, desk, found)) == before


@pytest.mark.slow
def test_one_that_was_restarted_on_another_port_is_attached(story: Story, desk: Place) -> None:
    one, two = next(PORTS), next(PORTS)
    was = by_nohup(desk, one)
    deployment = adopt(story, desk, on_port(desk, one))
    os.kill(was.lab_pid, signal.SIGTERM)
    until(lambda: deployment.live_launch is None, seconds=60, what="the monitor sees its end")
    after = by_nohup(desk, two).cmdline
    services.attach(deployment, on_port(desk, two), seen_at=timezone.now(), actor=story.actor, address="")
    deployment.refresh_from_db()
    assert deployment.port == two
    assert restarted(story, desk, deployment) == after


@pytest.mark.slow
def test_a_container_of_docker_with_a_restart_policy(story: Story, units: Place) -> None:
    port = next(PORTS)
    start_docker(units)
    run(units, f"docker run -d --name chat --restart always sglang {line(port)}")
    before = wait_for_server(units, port).cmdline
    found = on_port(units, port)
    assert found.keeper == "container chat" and found.started_by == "container chat"
    assert restarted(story, units, adopt(story, units, found)) == before
    assert on_port(units, port).keeper == "container chat", "the same one"


@pytest.mark.slow
def test_of_another_user(story: Story, desk: Place) -> None:
    port = next(PORTS)
    run(desk, f"cd /tmp && setsid -f setpriv --reuid=llm --regid=llm --init-groups {line(port)} > /tmp/{port}.log 2>&1")
    before = wait_for_server(desk, port)
    found = on_port(desk, port)
    assert found.user == "llm"
    assert restarted(story, desk, adopt(story, desk, found)) == before.cmdline
    assert on_port(desk, port).user == "llm"


@pytest.mark.slow
def test_with_an_environment_that_was_activated(story: Story, desk: Place) -> None:
    port = next(PORTS)
    words = shlex.join(["python", *command(port)[1:]])
    home = "/opt/sglang-0.5.9"
    run(
        desk,
        f"export PATH={home}/bin:$PATH VIRTUAL_ENV={home} LAB_TIME_SCALE=0.1; cd /tmp; "
        f"setsid -f {words} > /tmp/{port}.log 2>&1",
    )
    was = wait_for_server(desk, port)
    assert was.cmdline[0] == "python"
    found = on_port(desk, port)
    assert found.argv[0] == f"{home}/bin/python" and found.env["VIRTUAL_ENV"] == home
    after = restarted(story, desk, adopt(story, desk, found))
    assert after[1:] == tuple(was.cmdline[1:])


@pytest.mark.slow
def test_in_a_container_of_a_node(story: Story, fleet: Fleet) -> None:
    port = next(PORTS)
    box = story.add_container(fleet.container(129))
    before = by_nohup(box, port).cmdline
    found = on_port(box, port)
    assert not found.refused and len(found.cards) == 2
    on_node = [each for each in looked(story.places["pve"]) if each.port == port]
    assert len(on_node) == 1 and "runs in a container of pve" in on_node[0].refused
    deployment = adopt(story, box, found)
    assert services.owner_of(story.places["pve"].host, on_node[0]) == deployment
    assert restarted(story, box, deployment) == before


@pytest.mark.slow
def test_two_on_one_card(story: Story, desk: Place) -> None:
    one, two = next(PORTS), next(PORTS)
    by_llama_server(desk, one)
    second = by_llama_server(desk, two)
    first_deployment = adopt(story, desk, on_port(desk, one))
    second_deployment = adopt(story, desk, on_port(desk, two))
    assert first_deployment.profile.engine == "llama_server" and len(second_deployment.placement.gpu_uuids) == 1
    assert list(second_deployment.shares_with.all()) == [first_deployment], "as it is today"
    restarted(story, desk, first_deployment)
    assert wait_for_server(desk, two).own_pid == second.own_pid, "the neighbour was not touched"


def test_what_cannot_be_read_back_is_refused_in_words(story: Story, desk: Place) -> None:
    port = next(PORTS)
    by_nohup(desk, port, env={"CUDA_VISIBLE_DEVICES": "0,1", "LD_PRELOAD": "libm.so.6"})
    found = on_port(desk, port)
    assert "LD_PRELOAD" in found.refused and found.hint.startswith("Paste the command into a new profile")
    with pytest.raises(services.Refused):
        adopt(story, desk, found)
    assert not Deployment.objects.exists()


@pytest.mark.slow
def test_a_plain_login_may_not_read_the_environment_of_another_user(story: Story, fleet: Fleet) -> None:
    machine = fleet.host("desk")
    place = story.add_host(machine, user="llm")
    port = next(PORTS)
    by_nohup(place, port)
    found = [each for each in looked(place) if each.port == port]
    assert len(found) == 1 and "another user" in found[0].refused, found
