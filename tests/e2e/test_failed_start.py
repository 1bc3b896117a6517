"""A start that fails, that hangs, or that takes its time to answer, in a real browser: it is told on its page."""

import pytest
from playwright.sync_api import Page, expect

from deployments.lifecycle import GateKind
from lab.host import Host
from tests.e2e import steps

pytestmark = [pytest.mark.lab, pytest.mark.e2e, pytest.mark.timeout(300)]

SGLANG = "/lab/bin/python -m sglang.launch_server --model-path /models/qwen-27b --tp-size 2 --port {port}"
NOT_READY = "The server is not ready yet"


def deploy(page: Page, name: str, port: int, *, ready_seconds: int = 60, **env: str) -> None:
    """The simulated SGLang, its waits a tenth of what they are."""
    command = SGLANG.format(port=port)
    steps.make_profile(page, name=name, engine="sglang", command=command, env={"LAB_TIME_SCALE": "0.1", **env})
    steps.make_deployment(page, name=name, profile=name, host="gpu2", cards=2, seconds={"ready_seconds": ready_seconds})


def begin(page: Page, name: str) -> None:
    steps.ask_for(page, deployment=name, kind="start", reason="to see it fail")
    page.get_by_role("button", name="Approve and start").click()
    page.wait_for_load_state()


def test_the_cause_of_a_failed_start_is_said_and_leads_to_its_line(page: Page, gpu2: Host) -> None:
    deploy(page, "too-large", 25101, SGLANG_LAB_MODE="oom-pool", SGLANG_LAB_HINTS='{"noise_lines": 400}')
    begin(page, "too-large")
    steps.ends(page, "Start failed")

    why = steps.main(page).locator(".panel").filter(has_text="Why it failed")
    expect(why).to_contain_text("no memory was left for the KV cache")
    expect(why).to_contain_text("the model does not fit; nothing was left over")
    expect(why).to_contain_text("The usual fix")
    why.get_by_role("link", name="Show the line in the log").click()
    shown = page.locator(".ln-target")
    expect(shown).to_be_in_viewport()
    expect(shown).to_contain_text("Not enough memory. Please try to increase --mem-fraction-static")


@pytest.mark.slow
def test_a_start_that_hangs_shows_how_far_it_came_and_can_be_stopped(page: Page, gpu2: Host) -> None:
    deploy(page, "slow-disk", 25102, ready_seconds=25, SGLANG_LAB_MODE="never-ready")
    begin(page, "slow-disk")
    starting = steps.main(page).locator("#starting")
    expect(starting).to_contain_text("loading the weights", timeout=60_000)
    expect(starting).to_contain_text("5 of 10")
    question = steps.main(page).locator("[data-key^=gate]").filter(has_text=NOT_READY)
    expect(question).to_contain_text("that alone is no failure", timeout=60_000)
    expect(question).to_contain_text("Loading safetensors checkpoint shards")
    steps.press(page, GateKind.NOT_READY, "stop")
    steps.ends(page, "Start failed")
    expect(steps.main(page)).to_contain_text("was stopped; it is down")
    expect(steps.main(page)).to_contain_text("Stopping what did not come up")


@pytest.mark.slow
def test_its_first_answer_is_read_while_it_comes(page: Page, gpu2: Host) -> None:
    deploy(page, "slow-words", 25103, SGLANG_LAB_HINTS='{"tokens_per_second": 0.4}')  # four a second, by its haste
    begin(page, "slow-words")
    starting = steps.main(page).locator("#starting")
    expect(starting).to_contain_text("Its first answer, as it comes", timeout=60_000)
    early = starting.locator("blockquote").inner_text()
    assert early.startswith("Paris")
    expect(starting.locator("blockquote")).not_to_have_text(early)
    later = starting.locator("blockquote").inner_text()
    assert later.startswith(early) and len(later) > len(early), (early, later)
    steps.ends(page, "Succeeded")
    expect(steps.main(page).locator(".completion")).to_contain_text(later)
    expect(page.locator("[data-log]")).to_contain_text("Asked by /v1/completions, it answered: Paris")
