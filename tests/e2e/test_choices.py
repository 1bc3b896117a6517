"""The rarer questions of a job in a real browser, each of their choices used once (all: tests/e2e/questions.py)."""

import contextlib
import os
import re
import shlex
import signal
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from deployments.lifecycle import GateKind
from lab import stuck
from lab.fleet import Fleet
from lab.host import Host
from lab.node import Container
from tests.e2e import steps
from tests.support.fixtures import end_all
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(300)]

STANDIN = "/lab/bin/standin --port {port} --gpu 0 --mib 2000"
LLAMA = "/lab/bin/llama-server -m /models/tiny.gguf --host 0.0.0.0 --port {port}"
SGLANG = "/lab/bin/python -m sglang.launch_server --model-path /models/qwen-27b --tp-size 2 --port {port}"
LIMITS = {"memory_seconds": 5, "stuck_seconds": 8, "port_seconds": 5, "term_seconds": 10, "kill_seconds": 5}
HASTY = {"memory_seconds": 2, "stuck_seconds": 3, "port_seconds": 3, "term_seconds": 1, "kill_seconds": 2}


def begin(page: Page, *, deployment: str, kind: str, reason: str = "to be asked") -> None:
    """Ask for a job and approve its plan."""
    steps.ask_for(page, deployment=deployment, kind=kind, reason=reason)
    steps.press(page, GateKind.PLAN, "approve")


def finished(page: Page, *, deployment: str, kind: str) -> None:
    begin(page, deployment=deployment, kind=kind)
    steps.ends(page, "Succeeded")


def deploy_llama(page: Page, name: str, port: int) -> None:
    """One that does not tell how many requests it works on; it serves then."""
    steps.make_profile(page, name=name, engine="llama_server", command=LLAMA.format(port=port))
    steps.make_deployment(page, name=name, profile=name, host="gpu2", cards=1, seconds=HASTY)
    finished(page, deployment=name, kind="restart")


def open_deployment(page: Page, name: str) -> None:
    page.goto("/deployments/")
    steps.main(page).get_by_role("link", name=name, exact=True).first.click()
    page.wait_for_url(re.compile(r"/deployments/\d+/$"))


# --- Before the stop


def test_a_plan_is_put_off_asked_anew_put_off_again_and_discarded(page: Page, gpu2: Host) -> None:
    deploy_llama(page, "ask-later", 25301)
    steps.ask_for(page, deployment="ask-later", kind="restart", reason="tonight, perhaps")
    steps.approve_for_later(page, begins=2, ends=4)
    steps.press(page, GateKind.WHEN_IDLE, "ask")
    expect(page.get_by_role("button", name="Approve and restart")).to_be_visible(timeout=30_000)
    steps.approve_for_later(page, begins=2, ends=4)
    steps.press(page, GateKind.WHEN_IDLE, "discard")
    steps.ends(page, "Discarded")
    expect(steps.main(page)).to_contain_text("Nothing was touched.")

    steps.ask_for(page, deployment="ask-later", kind="stop", reason="or at once")
    steps.press(page, GateKind.PLAN, "discard")
    steps.ends(page, "Discarded")
    finished(page, deployment="ask-later", kind="stop")


def measure(page: Page, name: str) -> None:
    open_deployment(page, name)
    page.goto(f"{page.url}benchmark/")
    page.get_by_label("Requests at once").fill("1")
    page.get_by_role("button", name="Run the benchmark").click()
    page.wait_for_url(re.compile(r"/jobs/\d+/$"))


def test_a_benchmark_beside_users_is_put_off_or_made_all_the_same(page: Page, gpu2: Host) -> None:
    deploy_llama(page, "ask-users", 25302)
    measure(page, "ask-users")
    steps.press(page, GateKind.TRAFFIC, "again")
    steps.press(page, GateKind.TRAFFIC, "leave")
    steps.ends(page, "Ended by a decision")
    measure(page, "ask-users")
    steps.press(page, GateKind.TRAFFIC, "anyway")
    steps.ends(page, "Succeeded")
    finished(page, deployment="ask-users", kind="stop")


def test_a_router_that_says_no_is_asked_again_heeded_or_left_out(page: Page, gpu2: Host) -> None:
    deploy_llama(page, "ask-router", 25303)
    open_deployment(page, "ask-router")
    page.goto(f"{page.url}edit/")
    page.locator("summary").filter(has_text="Its router").click()
    for moment, command in (("take_out", "false"), ("put_back", "true")):
        page.locator(f"[name={moment}-how]").select_option(value="command")
        page.locator(f"[name={moment}-command]").fill(command)
    page.get_by_role("button", name="Save ask-router").click()
    page.wait_for_url(re.compile(r"/deployments/\d+/$"))

    begin(page, deployment="ask-router", kind="stop")
    steps.press(page, GateKind.ROUTER, "again")
    steps.press(page, GateKind.ROUTER, "discard")
    steps.ends(page, "Cancelled")
    begin(page, deployment="ask-router", kind="stop")
    steps.press(page, GateKind.ROUTER, "without", reason="Nobody uses it now.")
    steps.ends(page, "Succeeded")
    expect(steps.main(page)).to_contain_text("Nobody uses it now.")


# --- What looks after a server, and what does not end


@pytest.fixture
def looped(page: Page, gpu2: Host) -> Iterator[Host]:
    """A server that somebody's loop starts again and again, adopted. Its memory stays for a while after its end."""
    words = SGLANG.format(port=25304)
    hints = '{"release_seconds": 20, "weights_mib": 2000, "kv_mib": 1000}'
    env = {"LAB_TIME_SCALE": "0.1", "CUDA_VISIBLE_DEVICES": "0,1"}
    env |= {"SGLANG_LAB_MODE": "late-release", "SGLANG_LAB_HINTS": hints}
    loop = shlex.quote(f"while true; do {words}; done")
    gpu2.exec(["sh", "-c", f"cd /tmp && exec setsid -f bash -c {loop} > /tmp/loop.log 2>&1"], timeout=30, env=env)
    until(lambda: "fired up" in gpu2.seen("/tmp/loop.log").read_text(), seconds=60, what="the server of the loop")
    steps.adopt(page, host="gpu2", port=25304, name="ask-loop")
    yield gpu2
    end_all(gpu2)


def test_a_loop_that_nobody_can_ask_is_looked_at_again_left_and_stopped_beside(page: Page, looped: Host) -> None:
    steps.set_limits(page, LIMITS)
    begin(page, deployment="ask-loop", kind="restart")
    steps.press(page, GateKind.MANAGER, "again")
    steps.press(page, GateKind.MANAGER, "leave")
    steps.ends(page, "Ended by a decision")

    begin(page, deployment="ask-loop", kind="stop")
    steps.press(page, GateKind.MANAGER, "stop", reason="Nobody is at that terminal.")
    back = steps.main(page).locator("[data-key^=gate]").filter(has_text="The server has come back by itself")
    expect(back).to_be_visible(timeout=90_000)
    (keeper,) = [each for each in looped.processes() if each.title.startswith("bash -c while true")]
    os.kill(keeper.lab_pid, signal.SIGKILL)
    steps.press(page, GateKind.NOT_FREE, "leave", title="has come back by itself")
    steps.ends(page, "Ended by a decision")


HANGS = """import signal, sys, threading
threading.Thread(target=lambda: open(sys.argv[1], "rb", 0).read(1)).start()
signal.pause()
"""
"""One of its threads waits inside the kernel, so that SIGKILL leaves a leader that has ended and a thread that has not:
what the driver does to a server in the midst of a call."""
FILE = "/run/lab/ask-node"
BESIDE = f"""#!/bin/sh
/lab/bin/python /root/hangs.py {FILE} &
exec "$@"
"""


@pytest.fixture
def hangs(page: Page, fleet: Fleet) -> Iterator[tuple[Container, Callable[[], None]]]:
    """A container in the panel, with a program that hangs in the kernel from ``begin`` until its file is released."""
    if not stuck.is_possible():
        pytest.skip("needs /dev/fuse")
    container = fleet.container(129)
    steps.add_ssh_host(page, fleet.host("pve"))
    steps.add_container(page, name="llm-gpu", node="pve", vmid=129)
    container.seen("/root/hangs.py").write_text(HANGS)
    script = container.seen("/root/beside.sh")
    script.write_text(BESIDE)
    script.chmod(0o755)

    def block() -> None:
        stuck.block(container.pid1, FILE, seconds=280, record=container.stuck)

    yield container, block
    stuck.release(container.stuck)


def test_what_a_kill_inside_a_container_does_not_end_is_killed_from_its_node(
    page: Page, hangs: tuple[Container, Callable[[], None]]
) -> None:
    container, block = hangs
    command = f"/root/beside.sh {STANDIN.format(port=25305)}"
    steps.make_profile(page, name="ask-node", engine="custom", command=command, ready="standin ready")
    steps.make_deployment(
        page, name="ask-node", profile="ask-node", host="llm-gpu", cards=1, seconds=HASTY | {"kill_seconds": 5}
    )
    block()
    finished(page, deployment="ask-node", kind="start")
    begin(page, deployment="ask-node", kind="stop")
    steps.press(page, GateKind.NODE_KILL, "wait")
    steps.press(page, GateKind.NODE_KILL, "leave")
    steps.ends(page, "Ended by a decision")
    stuck.release(container.stuck)

    block()
    finished(page, deployment="ask-node", kind="start")
    begin(page, deployment="ask-node", kind="stop")
    steps.press(page, GateKind.NODE_KILL, "kill")
    expect(page.locator("[data-log]")).to_contain_text("Sending SIGKILL from pve", timeout=30_000)
    stuck.release(container.stuck)
    steps.ends(page, "Succeeded")
    expect(steps.main(page)).to_contain_text("signal KILL from the node")


# --- After the launch


def test_a_start_that_takes_long_is_waited_for_and_left_to_itself(page: Page, gpu2: Host) -> None:
    env = {"LAB_TIME_SCALE": "0.1", "SGLANG_LAB_MODE": "never-ready"}
    steps.make_profile(page, name="ask-slow", engine="sglang", command=SGLANG.format(port=25306), env=env)
    limits = {**HASTY, "ready_seconds": 6}
    steps.make_deployment(page, name="ask-slow", profile="ask-slow", host="gpu2", cards=2, seconds=limits)
    begin(page, deployment="ask-slow", kind="start")
    steps.press(page, GateKind.NOT_READY, "longer")
    steps.press(page, GateKind.NOT_READY, "leave")
    steps.ends(page, "Ended by a decision")
    expect(steps.main(page)).to_contain_text("It may still come up")
    finished(page, deployment="ask-slow", kind="stop")


def test_after_a_restart_that_failed_what_served_is_started_again_or_not(page: Page, gpu2: Host) -> None:
    deploy_llama(page, "ask-back", 25307)
    for answer in ("back", "as it is"):
        open_deployment(page, "ask-back")
        steps.restart_with(page, "--no-such-flag", reason="a typing error", way_back=False)
        steps.press(page, GateKind.PLAN, "approve")
        if answer == "back":
            steps.press(page, GateKind.WAY_BACK, "back", title="Start ask-back r1 again?")
            expect(steps.main(page)).to_contain_text("ask-back r1 serves again.", timeout=60_000)
        else:
            steps.press(page, GateKind.WAY_BACK, "as it is", title="Start ask-back r1 again?")
            expect(steps.main(page)).to_contain_text("decided to leave it as it is", timeout=60_000)
        steps.ends(page, "Restart failed")


# --- A host that was away


def restart_and_lose(page: Page, fleet: Fleet, host: Host) -> None:
    """The host falls silent after the SIGTERM, and has booted when it is back."""
    begin(page, deployment="ask-lost", kind="restart")
    expect(page.locator("[data-log]")).to_contain_text("Sending SIG", timeout=60_000)
    with contextlib.ExitStack() as back:
        fleet.faults.sshd_stop(host)
        back.callback(fleet.faults.sshd_start, host)
        fleet.faults.sessions_drop(host)
        expect(steps.main(page)).to_contain_text("contact lost since", timeout=90_000)
        fleet.faults.boot_id_change(host)


def test_after_a_boot_a_person_decides_whether_the_job_goes_on(page: Page, fleet: Fleet, gpu2: Host) -> None:
    command = f"{STANDIN.format(port=25308)} --stop 4"
    steps.make_profile(page, name="ask-lost", engine="custom", command=command, ready="standin ready")
    limits = {**HASTY, "term_seconds": 10}
    steps.make_deployment(page, name="ask-lost", profile="ask-lost", host="gpu2", cards=1, seconds=limits)
    finished(page, deployment="ask-lost", kind="start")
    restart_and_lose(page, fleet, gpu2)
    steps.press(page, GateKind.CONTACT, "go_on")
    steps.ends(page, "Succeeded")

    restart_and_lose(page, fleet, gpu2)
    steps.press(page, GateKind.CONTACT, "end")
    steps.ends(page, "Restart failed")
    expect(steps.main(page)).to_contain_text("decided to end the job here")
