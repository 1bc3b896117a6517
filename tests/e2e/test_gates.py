"""The questions of a job in a real browser, each of their choices used once, and who must not be touched."""

import os
import signal

import pytest
from playwright.sync_api import Page, expect

from deployments.lifecycle import GateKind
from lab.fleet import Fleet
from lab.host import Host
from tests.e2e import steps

pytestmark = [pytest.mark.lab, pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(300)]

STANDIN = "/lab/bin/standin --port {port} --gpu 0,1 --mib 20000"
SGLANG = "/lab/bin/python -m sglang.launch_server --model-path /models/qwen-27b --tp-size 2 --port {port}"
PATIENCE = {"memory_seconds": 2, "stuck_seconds": 3, "port_seconds": 3, "term_seconds": 1, "kill_seconds": 2}
NOT_FREE = "The cards are not free"
UNMEASURED = "Whether the cards are free could not be measured"


LEAVES = """#!/bin/sh
trap 'setsid sleep 86400 & kill $SERVER; wait $SERVER; exit' TERM
"$@" & SERVER=$!
wait
"""
"""A wrapper that starts something when it is told to end, as one does that wants to write a last report."""


def deploy_standin(page: Page, name: str, port: int, *options: str, wrapper: str = "", co_tenants: str = "") -> None:
    command = " ".join([wrapper, STANDIN.format(port=port), *options])
    steps.make_profile(page, name=name, engine="custom", command=command, ready="standin ready")
    steps.make_deployment(page, name=name, profile=name, host="gpu2", cards=2, seconds=PATIENCE, co_tenants=co_tenants)


def begin(page: Page, *, deployment: str, kind: str, reason: str) -> None:
    steps.ask_for(page, deployment=deployment, kind=kind, reason=reason)
    steps.press(page, GateKind.PLAN, "approve")


def stop(page: Page, deployment: str) -> None:
    steps.ask_for(page, deployment=deployment, kind="stop", reason="the next test needs its cards")
    steps.approve_and_wait(page, kind="stop")


def test_a_stranger_is_looked_at_again_then_killed_with_a_reason(page: Page, fleet: Fleet, gpu2: Host) -> None:
    deploy_standin(page, "gate-stranger", 25001)
    begin(page, deployment="gate-stranger", kind="restart", reason="first start")
    steps.ends(page, "Succeeded")
    fleet.faults.gpu_hold(gpu2, 1, 3000)
    begin(page, deployment="gate-stranger", kind="restart", reason="with somebody on GPU 1")
    question = steps.main(page).locator("[data-key^=gate]").filter(has_text=NOT_FREE)
    expect(question).to_contain_text("sleep 86400", timeout=60_000)
    expect(steps.main(page).locator("[data-curve] canvas")).to_be_visible()

    steps.press(page, GateKind.NOT_FREE, "again")
    steps.press(page, GateKind.NOT_FREE, "kill", reason="Its owner agreed.")

    steps.ends(page, "Succeeded")
    expect(steps.main(page)).to_contain_text("Its owner agreed.")
    stop(page, "gate-stranger")


def test_memory_without_an_owner_is_left_or_launched_onto(page: Page, fleet: Fleet, gpu2: Host) -> None:
    deploy_standin(page, "gate-leak", 25002)
    fleet.faults.gpu_leak(gpu2, 0, 5000)
    begin(page, deployment="gate-leak", kind="start", reason="onto a card that leaks")
    steps.press(page, GateKind.NOT_FREE, "leave")
    steps.ends(page, "Ended by a decision")
    expect(steps.main(page)).to_contain_text("decided to leave gate-leak stopped")

    begin(page, deployment="gate-leak", kind="start", reason="it is small enough")
    steps.press(page, GateKind.NOT_FREE, "anyway", reason="5 GB are nothing to it.")
    steps.ends(page, "Succeeded")
    stop_needs_the_leak_gone(page, fleet, gpu2)


def stop_needs_the_leak_gone(page: Page, fleet: Fleet, gpu2: Host) -> None:
    begin(page, deployment="gate-leak", kind="stop", reason="done")
    expect(steps.main(page).locator("[data-key^=gate]").filter(has_text=NOT_FREE)).to_be_visible(timeout=60_000)
    fleet.faults.gpu_clear(gpu2)
    steps.press(page, GateKind.NOT_FREE, "again")
    steps.ends(page, "Succeeded")


def test_a_co_tenant_that_came_meanwhile_is_agreed_to(page: Page, fleet: Fleet, gpu2: Host) -> None:
    deploy_standin(page, "gate-shared", 25005, "--stop", "3", co_tenants="root:sleep")
    begin(page, deployment="gate-shared", kind="restart", reason="first start")
    steps.ends(page, "Succeeded")
    begin(page, deployment="gate-shared", kind="restart", reason="another moves in meanwhile")
    expect(page.locator("[data-log]")).to_contain_text("Sending SIG", timeout=30_000)
    fleet.faults.gpu_hold(gpu2, 1, 3000)
    steps.press(page, GateKind.NOT_FREE, "accept")
    steps.ends(page, "Succeeded")
    (co_tenant,) = [process for process in gpu2.processes() if process.title == "sleep 86400"]  # it was never touched
    stop(page, "gate-shared")
    os.kill(co_tenant.lab_pid, signal.SIGKILL)


def test_what_the_old_server_left_behind_is_killed_when_a_person_says_so(page: Page, gpu2: Host) -> None:
    script = gpu2.seen("/root/leaves.sh")
    script.write_text(LEAVES)
    script.chmod(0o755)
    deploy_standin(page, "gate-left", 25006, wrapper="/root/leaves.sh")
    begin(page, deployment="gate-left", kind="restart", reason="first start")
    steps.ends(page, "Succeeded")
    begin(page, deployment="gate-left", kind="stop", reason="what it starts at its end is not ours to kill unasked")
    steps.press(page, GateKind.NOT_FREE, "kill_left", title="Something is left over", reason="It only sleeps.")
    steps.ends(page, "Succeeded")


def test_what_cannot_be_read_is_not_free_until_it_can(page: Page, fleet: Fleet, gpu2: Host) -> None:
    deploy_standin(page, "gate-unread", 25003, "--stop", "3")
    begin(page, deployment="gate-unread", kind="restart", reason="first start")
    steps.ends(page, "Succeeded")
    begin(page, deployment="gate-unread", kind="restart", reason="while nvidia-smi says nothing")
    expect(page.locator("[data-log]")).to_contain_text("Sending SIG", timeout=30_000)
    fleet.faults.gpu(gpu2, "empty")
    question = steps.main(page).locator("[data-key^=gate]").filter(has_text=UNMEASURED)
    expect(question).to_be_visible(timeout=60_000)
    fleet.faults.gpu(gpu2, "none")
    steps.press(page, GateKind.NOT_FREE, "again", title=UNMEASURED)
    steps.ends(page, "Succeeded")
    stop(page, "gate-unread")


def test_a_deaf_server_is_waited_for_left_and_killed(page: Page, gpu2: Host) -> None:
    env = {"SGLANG_LAB_MODE": "ignore-sigterm", "LAB_TIME_SCALE": "0.1"}
    steps.make_profile(page, name="gate-deaf", engine="sglang", command=SGLANG.format(port=25004), env=env)
    steps.make_deployment(
        page, name="gate-deaf", profile="gate-deaf", host="gpu2", cards=2, seconds=PATIENCE, kills_by_itself=False
    )
    begin(page, deployment="gate-deaf", kind="restart", reason="first start")
    steps.ends(page, "Succeeded")
    begin(page, deployment="gate-deaf", kind="restart", reason="it does not listen")
    steps.press(page, GateKind.KILL, "wait")
    steps.press(page, GateKind.KILL, "leave")
    steps.ends(page, "Ended by a decision")
    expect(steps.main(page)).to_contain_text("decided not to kill")

    begin(page, deployment="gate-deaf", kind="stop", reason="it still does not listen")
    steps.press(page, GateKind.KILL, "kill")
    steps.ends(page, "Succeeded")
