"""A command line is checked, completed and explained while it is written; without JavaScript it is checked too."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from lab.fleet import Fleet
from lab.host import Host
from tests.e2e import steps
from tests.e2e.conftest import RunningPanel
from tests.e2e.looking import AXE, RUN_AXE, SERIOUS
from tests.support.installed import VENV, install

pytestmark = [pytest.mark.lab, pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(300)]
COMMAND = f"{VENV}/bin/python3 -m sglang.launch_server --model-path /models/qwen-27b --kv-cache-dtype fp8"


@pytest.fixture(scope="module")
def gpu1(page: Page, fleet: Fleet) -> Host:
    machine = fleet.host("gpu1")
    install(machine)
    steps.add_ssh_host(page, machine)
    return machine


def check(page: Page, command: str) -> None:
    page.goto("/profiles/new/")
    page.get_by_label("Command line").fill(command)
    page.get_by_label("Check the flags against").select_option(label="gpu1")
    page.get_by_role("button", name="Check", exact=True).click()


def test_the_form_checks_itself_once_the_flags_are_read(page: Page, gpu1: Host) -> None:
    check(page, COMMAND)
    findings = page.locator("#flags")
    expect(findings).to_contain_text(f"SGLang 0.5.18 of {VENV}/bin/python3 on gpu1: 8 flags", timeout=60_000)
    expect(findings).to_contain_text("--kv-cache-dtype does not take “fp8”.")
    expect(page.get_by_label("Command line")).to_have_value(COMMAND)
    page.get_by_label("Command line").fill(COMMAND.replace("fp8", "bf16"))
    page.get_by_role("button", name="Check", exact=True).click()
    expect(findings).to_contain_text("Every flag is known")


def test_flags_and_their_choices_are_completed_by_keyboard(page: Page, gpu1: Host) -> None:
    check(page, COMMAND.replace("fp8", "bf16"))
    expect(page.locator("#flags")).to_contain_text("Every flag is known", timeout=60_000)
    area, offered = page.get_by_label("Command line"), page.get_by_role("listbox", name="Flags")
    area.fill("python3 -m sglang.launch_server ")
    area.press_sequentially("--k")
    expect(offered.get_by_role("option")).to_have_text([re.compile("--kv-cache-dtype")])
    area.press("ArrowDown")
    expect(page.locator(".flag-help")).to_contain_text("What the cache is kept as.")
    area.press("Enter")
    area.press_sequentially(" b")
    expect(offered.get_by_role("option")).to_have_text(["bf16"])
    area.press("ArrowDown")
    area.press("Tab")
    expect(area).to_have_value("python3 -m sglang.launch_server --kv-cache-dtype bf16")
    expect(offered).to_be_hidden()
    area.press_sequentially(" --m")
    expect(offered.get_by_role("option").first).to_be_visible()
    area.press("Escape")
    expect(offered).to_be_hidden()
    area.press("Tab")
    expect(area).not_to_be_focused()


def test_a_flag_is_looked_up_while_its_name_is_written_and_added(page: Page, gpu1: Host) -> None:
    check(page, COMMAND.replace("fp8", "bf16"))
    everything = page.locator("#all-flags")
    everything.locator("summary").click(timeout=60_000)
    expect(everything).to_contain_text("These are in the command line.")
    page.get_by_label("Find a flag").press_sequentially("context")
    expect(everything.get_by_role("listitem")).to_have_count(1)
    expect(page.get_by_label("Find a flag")).to_be_focused()
    page.evaluate(AXE.read_text())
    assert not [found["id"] for found in page.evaluate(RUN_AXE) if found["impact"] in SERIOUS]
    everything.get_by_label("Value of --context-length").fill("8192")
    everything.get_by_label("Value of --context-length").press("Enter")
    expect(everything).to_contain_text("--context-length is in the command line now.")
    expect(page.get_by_label("Command line")).to_have_value(re.compile("--context-length 8192"))


def test_the_real_llama_server_is_asked_for_its_help(page: Page, gpu1: Host) -> None:
    check(page, "/lab/bin/llama-server -m /models/tiny.gguf --ctx-sise 512 --spec-type draft-mtp")
    findings = page.locator("#flags")
    read = re.compile(r"^\s*llama-server \(llama.cpp\) on gpu1: 2\d\d flags, read from its help text")
    expect(findings.locator("p").filter(has_text=read)).to_be_visible(timeout=90_000)
    expect(findings.locator(".findings li")).to_have_count(1)
    expect(findings.locator(".findings li")).to_contain_text("Did you mean --ctx-size?")


def test_without_javascript_the_button_does_the_same(
    page: Page, browser: Browser, panel: RunningPanel, gpu1: Host
) -> None:
    check(page, COMMAND)
    expect(page.locator("#flags")).to_contain_text("does not take", timeout=60_000)
    plain = browser.new_context(
        java_script_enabled=False, base_url=panel.url, storage_state=page.context.storage_state(),
        viewport={"width": 390, "height": 844},
    )  # fmt: skip
    try:
        poor = plain.new_page()
        check(poor, f"{COMMAND} --zzz")
        expect(poor.locator("#flags")).to_contain_text("SGLang 0.5.18 does not know --zzz.")
        poor.locator("#all-flags summary").click()
        poor.get_by_label("Find a flag").fill("cache kept")
        poor.get_by_role("button", name="Find", exact=True).click()
        poor.get_by_label("Value of --kv-cache-dtype").select_option("bf16")
        poor.get_by_role("button", name="Change --kv-cache-dtype").click()
        expect(poor.get_by_label("Command line")).to_have_value(re.compile("--kv-cache-dtype bf16"))
    finally:
        plain.close()
