"""In a real browser: an engine that was not tried, what it changes by itself, and what it says to that."""

import pytest
from playwright.sync_api import Page, expect

from lab.fleet import Fleet
from lab.host import Host
from tests.e2e import steps
from tests.scenarios.models import FP8_KV, HYBRID, put_files

pytestmark = [pytest.mark.lab, pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(300)]

COMMAND = "/opt/sglang-0.5.11/bin/python -m sglang.launch_server --model-path /models/hybrid --tp 2 --port 26001"


@pytest.fixture(scope="module")
def gpu1(page: Page, fleet: Fleet) -> Host:
    machine = fleet.host("gpu1")
    steps.add_ssh_host(page, machine)
    put_files(machine.seen("/models/hybrid"), HYBRID, quantization=FP8_KV)
    return machine


@pytest.mark.usefixtures("gpu1")
def test_what_an_engine_changes_is_told_from_the_plan_to_the_service(page: Page) -> None:
    main = steps.main(page)
    steps.make_profile(
        page, name="hybrid", engine="sglang", command=COMMAND, env={"LAB_TIME_SCALE": "0.1"}, versions="0.5.23 or newer"
    )
    steps.make_deployment(page, name="hybrid", profile="hybrid", host="gpu1", cards=2)
    steps.ask_for(page, deployment="hybrid", kind="restart", reason="first start")
    expect(main).to_contain_text("known to be good with SGLang 0.5.23 or newer; 0.5.11")
    steps.approve_and_wait(page, kind="restart")

    def told() -> None:
        table = main.locator("table.flags").filter(has_text="Asked for")
        for name, words in (
            ("--kv-cache-dtype", "scales of 1.0"),
            ("--disable-piecewise-cuda-graph", "counts as one"),
            ("--disable-overlap-schedule", "mamba no_buffer"),
        ):
            expect(table.locator("tr").filter(has_text=name).filter(has_text="changed by the engine")).to_contain_text(
                words
            )

    told()
    expect(main).to_contain_text("Paris")
    page.goto("/deployments/")
    main.get_by_role("link", name="hybrid", exact=True).first.click()
    expect(main).to_contain_text("engine version 0.5.11")
    told()
    steps.ask_for(page, deployment="hybrid", kind="stop", reason="its cards are needed")
    steps.approve_and_wait(page, kind="stop")
