"""Stories that must work, told in the browser from the first form to the last page. ``make scenarios`` counts them."""

import json

import pytest
from playwright.sync_api import Page, expect

from lab.fleet import Fleet
from lab.host import Host
from tests.e2e import steps
from tests.scenarios.models import HYBRID, put_files

pytestmark = [pytest.mark.lab, pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(300)]

SERVE = "-m sglang.launch_server --tp-size 2 --model-path"
QUICK = {"LAB_TIME_SCALE": "0.1"}


@pytest.fixture(scope="module")
def gpu1(page: Page, fleet: Fleet) -> Host:
    machine = fleet.host("gpu1")
    steps.add_ssh_host(page, machine)
    put_files(machine.seen("/models/hybrid"), HYBRID)
    return machine


def deploy(page: Page, name: str, command: str, *, versions: str = "", **env: str) -> None:
    """A profile and its deployment on both cards of gpu1."""
    steps.make_profile(page, name=name, engine="sglang", command=command, env=QUICK | env, versions=versions)
    steps.make_deployment(page, name=name, profile=name, host="gpu1", cards=2)


def start(page: Page, name: str) -> None:
    """To the page of the job, which goes on."""
    steps.ask_for(page, deployment=name, kind="start", reason="first start")
    page.get_by_role("button", name="Approve and start").click()
    page.wait_for_load_state()


def stop(page: Page, name: str) -> None:
    steps.ask_for(page, deployment=name, kind="stop", reason="its cards are needed")
    steps.approve_and_wait(page, kind="stop")


@pytest.mark.usefixtures("gpu1")
def test_scenario_04_what_the_engine_switches_off_stands_with_its_reason(page: Page) -> None:
    main = steps.main(page)
    deploy(page, "switches-off", f"/opt/sglang-0.5.11/bin/python {SERVE} /models/hybrid --port 26201")
    start(page, "switches-off")
    steps.ends(page, "Succeeded")  # a change by the engine is no failure
    for _ in range(2):  # on the job's page, and on the deployment's
        table = main.locator("table.flags").filter(has_text="Asked for")
        for name, why in (
            ("--disable-piecewise-cuda-graph", "counts as one"),
            ("--enable-single-batch-overlap", "off unless a flag asks for it"),
            ("--enable-flashinfer-allreduce-fusion", "only on SM90 and SM100 cards"),
            ("--enable-nccl-nvls", "SM90 or newer cards"),
        ):
            expect(table.locator("tr").filter(has_text=name)).to_contain_text(why)
        page.goto("/deployments/")
        main.get_by_role("link", name="switches-off", exact=True).first.click()
    stop(page, "switches-off")


@pytest.mark.usefixtures("gpu1")
def test_scenario_09_the_earliest_cause_is_said_and_leads_to_its_line(page: Page) -> None:
    noise = {"SGLANG_LAB_MODE": "oom-pool", "SGLANG_LAB_HINTS": json.dumps({"noise_lines": 400})}
    deploy(page, "child-dies", f"/lab/bin/python {SERVE} /models/qwen-27b --port 26202", **noise)
    start(page, "child-dies")
    steps.ends(page, "Start failed")
    why = steps.main(page).locator(".panel").filter(has_text="Why it failed")
    expect(why).to_contain_text("no memory was left for the KV cache")
    expect(why).to_contain_text("The usual fix")
    expect(why).not_to_contain_text("sigquit")
    why.get_by_role("link", name="Show the line in the log").click()
    line = page.locator(".ln-target")
    expect(line).to_be_in_viewport()
    expect(line).to_contain_text("Not enough memory. Please try to increase --mem-fraction-static")


@pytest.mark.usefixtures("gpu1")
def test_scenario_13_an_engine_that_is_too_old_is_named_and_its_answer_can_be_read(page: Page) -> None:
    main = steps.main(page)
    old = f"/opt/sglang-0.5.9/bin/python {SERVE} /models/qwen-27b --port"
    deploy(page, "too-old", f"{old} 26203", versions="0.5.10 or newer")
    steps.ask_for(page, deployment="too-old", kind="start", reason="first start")
    expect(main).to_contain_text("known to be good with SGLang 0.5.10 or newer; 0.5.9")
    steps.approve_and_wait(page, kind="start")
    expect(main).to_contain_text("Paris")
    stop(page, "too-old")

    deploy(page, "degraded", f"{old} 26204", SGLANG_LAB_MODE="repeating")
    start(page, "degraded")
    steps.ends(page, "Failed")
    expect(main).to_contain_text("repeats")
    stop(page, "degraded")
