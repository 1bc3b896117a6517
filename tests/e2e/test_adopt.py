"""From a server that somebody has started to a deployment that is restarted, moved and let go, in a real browser."""

import re
import shlex

import pytest
from playwright.sync_api import Page, expect

from lab.fleet import Fleet
from lab.host import Host
from tests.e2e import steps
from tests.support.fixtures import end_all

pytestmark = [pytest.mark.lab, pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(300)]

PORT = 25201
WORDS = "/lab/bin/python -m sglang.launch_server --model-path /models/qwen-27b --tp-size 2 --host 0.0.0.0"
KEY = "sk-0123456789abcdef"


@pytest.fixture
def gpu1(page: Page, fleet: Fleet) -> Host:
    """A host that was added in the browser, on which one server runs and nothing else."""
    machine = fleet.host("gpu1")
    steps.add_ssh_host(page, machine)
    end_all(machine)
    steps.open_host(page, "gpu1")
    command = f"{WORDS} --port {PORT} --served-model-name support-bot --api-key {KEY}"
    env = {"LAB_TIME_SCALE": "0.1", "CUDA_VISIBLE_DEVICES": "0,1"}
    machine.exec(["sh", "-c", f"cd /tmp && exec setsid -f {command} > /tmp/by-hand.log 2>&1"], timeout=30, env=env)
    return machine


def test_adopt_restart_clone_and_release(page: Page, gpu1: Host, gpu2: Host) -> None:
    host = page.url
    servers = steps.main(page).locator("#servers")
    for _ in range(30):  # until it listens
        servers.get_by_role("button", name=re.compile("Look for servers")).click()
        expect(servers).to_contain_text(re.compile(r"Looked \d+ s ago"), timeout=30_000)
        if servers.get_by_role("button", name="Adopt SGLang").count():
            break
    expect(servers).to_contain_text("GPU 0")
    expect(servers).not_to_contain_text(KEY)
    expect(servers.get_by_label("Name of the deployment")).to_have_value("support-bot")
    servers.get_by_label("Whoever asks for a job may approve it too").check()
    servers.get_by_role("button", name=f"Adopt SGLang on port {PORT}").click()
    page.wait_for_url(re.compile(r"/deployments/\d+/$"))
    deployment = page.url
    expect(steps.main(page)).to_contain_text("Serving")
    expect(steps.main(page)).to_contain_text("by ana; engine version")

    steps.ask_for(page, deployment="support-bot", kind="restart", reason="its first one by the panel")
    steps.approve_and_wait(page, kind="restart")
    own = gpu1.exec(["sh", "-c", "tr '\\0' ' ' < /proc/$(pgrep -of sglang.launch_server)/cmdline"], timeout=20)
    assert shlex.split(own.stdout.decode())[1:-2] == [
        *WORDS.split()[1:], "--port", str(PORT), "--served-model-name", "support-bot",
    ]  # fmt: skip

    page.goto(deployment)
    page.get_by_role("link", name="Clone to another host").click()
    page.get_by_label("Host").select_option(label="gpu2")
    for box in page.locator("input[name=gpus]:visible").all()[:2]:
        box.check()
    page.get_by_role("button", name="Look at that host").click()
    expect(steps.main(page)).to_contain_text("/models/qwen-27b", timeout=30_000)
    page.get_by_role("button", name="Create support-bot-2 on gpu2").click()
    page.wait_for_url(re.compile(r"/deployments/\d+/$"))
    expect(steps.main(page)).to_contain_text("cloned from support-bot")

    page.goto(deployment)
    page.locator("summary").filter(has_text="Let go of support-bot").click()
    page.get_by_role("button", name="Release support-bot").click()
    expect(steps.main(page)).to_contain_text("the running server writes its output into it", timeout=30_000)
    page.goto(host)
    expect(steps.main(page).locator("section").filter(has_text="Deployments here")).to_contain_text("Released")
