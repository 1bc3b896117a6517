"""The stories of the estimate in a real browser: what a teammate reads before anything is stopped, and after it."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from deployments.lifecycle import GateKind
from lab.demo import QWEN_397B
from lab.fleet import Fleet
from lab.host import Host
from lab.node import Container
from tests.e2e import steps
from tests.scenarios.models import FP8_KV, HYBRID, put_files

pytestmark = [pytest.mark.lab, pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(300)]

HASTE = {"LAB_TIME_SCALE": "0.1"}
SWITCHES = "The checkpoint itself switches the KV cache to FP8"


@pytest.fixture(scope="module")
def gpu1(page: Page, fleet: Fleet) -> Host:
    machine = fleet.host("gpu1")
    steps.add_ssh_host(page, machine)
    return machine


@pytest.fixture(scope="module")
def ct129(page: Page, fleet: Fleet) -> Container:
    steps.add_ssh_host(page, fleet.host("pve"))
    steps.add_container(page, name="ct129", node="pve", vmid=129)
    return fleet.container(129)


def deploy(page: Page, name: str, *flags: str, port: int, host: str = "gpu1", cards: int = 2) -> None:
    """The simulated SGLang with the model of the same name; ends at the plan of its start."""
    command = f"/lab/bin/python -m sglang.launch_server --model-path /models/{name} --tp-size {cards} --port {port}"
    steps.make_profile(page, name=name, engine="sglang", command=" ".join([command, *flags]), env=HASTE)
    steps.make_deployment(page, name=name, profile=name, host=host, cards=cards)
    steps.ask_for(page, deployment=name, kind="start", reason="to see whether it fits")


def plan(page: Page) -> Locator:
    return steps.main(page).locator("[data-key^=gate]")


def changed(page: Page, name: str) -> Locator:
    """The row of a flag among what the server runs with."""
    table = steps.main(page).locator("table.flags").filter(has_text="Asked for")
    return table.locator("tr").filter(has=page.locator("code", has_text=re.compile(f"^{name}$")))


def stop(page: Page, name: str) -> None:
    steps.ask_for(page, deployment=name, kind="stop", reason="its cards are needed")
    steps.approve_and_wait(page, kind="stop")


def test_scenario_05_fp8_by_the_checkpoint_is_named_before_and_shown_after(page: Page, gpu1: Host) -> None:
    put_files(gpu1.seen("/models/browser-fp8"), HYBRID, quantization=FP8_KV)
    deploy(page, "browser-fp8", port=25601)
    note = plan(page).locator(".note").filter(has_text=SWITCHES)
    expect(note).to_contain_text("no scales for it, so 1.0 is used")
    expect(note).to_contain_text("--kv-cache-dtype bf16")
    expect(plan(page).locator("table.fit-table tr.in-use")).to_contain_text("fp8")
    steps.approve_and_wait(page, kind="start")
    expect(changed(page, "--kv-cache-dtype")).to_contain_text("fp8_e4m3")
    expect(changed(page, "--kv-cache-dtype")).to_contain_text("scales of 1.0")

    page.goto("/deployments/")
    steps.main(page).get_by_role("link", name="browser-fp8", exact=True).first.click()
    steps.restart_with(page, "--kv-cache-dtype", "bf16", reason="as exact as the model")
    expect(plan(page)).not_to_contain_text(SWITCHES)
    expect(plan(page).locator("table.fit-table tr.in-use")).to_contain_text("bf16")
    steps.approve_and_wait(page, kind="restart")
    steps.main(page).get_by_text(re.compile("what was asked for, what is in effect")).click()
    expect(changed(page, "--kv-cache-dtype")).to_have_text(re.compile(r"^\s*--kv-cache-dtype\s+bf16\s+bf16\s"))
    stop(page, "browser-fp8")


def test_scenario_06_does_bf16_kv_fit_in_the_plan_and_beside_the_profile(page: Page, ct129: Container) -> None:
    put_files(ct129.seen("/models/browser-397b"), QWEN_397B, weights_mib=393_500)
    flags = ("--context-length", "131072", "--mem-fraction-static", "0.88", "--kv-cache-dtype", "bf16")
    deploy(page, "browser-397b", *flags, port=25602, host="ct129", cards=8)
    rows = plan(page).locator("table.fit-table tbody tr")
    expect(rows.nth(0)).to_have_text(re.compile(r"bf16\s+these flags\s*1\.28 M\s*9\s*39"))
    expect(rows.nth(1)).to_have_text(re.compile(r"fp8\s*2\.56 M\s*19\s*78"))
    plan(page).get_by_text("How this was worked out").click()
    how = plan(page).locator("#fit-how")
    for words in ("15,360 bytes", "18.3 GiB ÷ 15,360 bytes", "9.8", "39"):
        expect(how.get_by_text(words, exact=False).first).to_be_visible()
    steps.press(page, GateKind.PLAN, "discard")
    steps.ends(page, "Discarded")

    page.goto("/profiles/")
    steps.main(page).get_by_role("link", name="browser-397b", exact=True).click()
    tried = page.locator("#whatif-result")
    expect(tried.locator("tr.in-use")).to_contain_text("1.28 M")
    page.locator("#whatif-kv").select_option("fp8")
    expect(tried.locator("tr.in-use")).to_have_text(re.compile(r"fp8.*2\.56 M", re.S))
    page.locator("#whatif-context").fill("32K")
    expect(tried.locator("table").first).not_to_contain_text("128K")
    expect(tried.locator("tr.in-use")).to_contain_text("78")


def test_scenario_07_it_cannot_fit_is_said_before_and_never_blamed_on_left_over_memory(page: Page, gpu1: Host) -> None:
    put_files(gpu1.seen("/models/browser-large"), HYBRID, weights_mib=53_000)
    flags = (
        "--mem-fraction-static", "0.85", "--context-length", "131072", "--speculative-algorithm", "NEXTN",
        "--speculative-num-steps", "3", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4",
        "--enable-torch-compile",
    )  # fmt: skip
    deploy(page, "browser-large", *flags, port=25603)
    expect(plan(page)).to_contain_text("browser-large r1 does not fit on these cards.")
    expect(plan(page)).to_contain_text("would make it fit")
    steps.press(page, GateKind.PLAN, "approve", reason="Somebody takes the risk.")
    steps.ends(page, "Start failed")
    why = steps.main(page).locator(".panel").filter(has_text="Why it failed")
    expect(why).to_contain_text("The cards were at their baseline before the start: the model does not fit")
    expect(why).to_contain_text("nothing was left over")
    expect(why).to_contain_text("The plan had said that it does not fit.")
    change = why.locator("code").first.inner_text()

    steps.main(page).get_by_role("link", name="Edit the flags…").click()
    command = page.get_by_label("Command line")
    command.fill(f"{command.input_value()} {change}")
    page.get_by_role("button", name=re.compile("^Save and plan the start")).click()
    page.get_by_label("Why").fill("with the change that the plan proposes")
    page.get_by_role("button", name="Make the plan").click()
    page.wait_for_url(re.compile(r"/jobs/\d+/$"))
    expect(plan(page)).to_contain_text("It fits", timeout=30_000)
    steps.approve_and_wait(page, kind="start")
    stop(page, "browser-large")


def test_scenario_10_both_pools_and_how_many_requests_each_allows(page: Page, gpu1: Host) -> None:
    put_files(gpu1.seen("/models/browser-hybrid"), HYBRID, weights_mib=26_000)
    flags = ("--mem-fraction-static", "0.88", "--context-length", "32768", "--mamba-full-memory-ratio", "0.5")
    deploy(page, "browser-hybrid", *flags, port=25604)
    plan(page).get_by_text("How this was worked out").click()
    how = plan(page).locator("#fit-how")
    for words in ("Recurrent state allows", "KV cache allows", "33.3% of what is left (ratio 0.5)", "State slots"):
        expect(how.get_by_text(words).first).to_be_visible()
    slots = how.locator("dl > div").filter(has=page.locator("dt", has_text=re.compile("^State slots$"))).locator("dd")
    said = int(re.sub(r"\D", "", slots.inner_text().splitlines()[0]))
    steps.approve_and_wait(page, kind="start")
    facts = steps.main(page).inner_text()
    found = re.search(r"Recurrent state\s*:?\s*([\d,]+)", facts)
    assert found is not None, facts
    assert said == pytest.approx(int(found[1].replace(",", "")), rel=0.05)
    stop(page, "browser-hybrid")
