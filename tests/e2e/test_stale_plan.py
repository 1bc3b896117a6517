"""A plan whose facts have changed when its approval is used, in a real browser: it says which, and asks about that."""

import contextlib
import os
import re
import signal

import pytest
from playwright.sync_api import Locator, Page, expect

from deployments.lifecycle import GateKind
from lab.fleet import Fleet
from lab.host import Host
from tests.e2e import steps
from tests.support.fixtures import end_all

pytestmark = [pytest.mark.lab, pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(300)]

NAME = "stale"
STANDIN = "/lab/bin/standin --port 25501 --gpu 0,1 --mib 20000"
OUT_OF_DATE = "The plan is out of date"


@pytest.fixture(scope="module")
def deployed(page: Page, gpu2: Host) -> Host:
    steps.make_profile(page, name=NAME, engine="custom", command=STANDIN, ready="standin ready")
    steps.make_deployment(page, name=NAME, profile=NAME, host="gpu2", cards=2)
    return gpu2


@pytest.fixture
def serving(page: Page, deployed: Host) -> Host:
    """The host, with the server that serves there."""
    if not any(STANDIN in process.title for process in deployed.processes()):
        steps.ask_for(page, deployment=NAME, kind="restart", reason="it must serve")
        steps.press(page, GateKind.PLAN, "approve")
        steps.ends(page, "Succeeded")
    return deployed


def question(page: Page) -> Locator:
    return steps.main(page).locator("[data-key^=gate]").filter(has_text=OUT_OF_DATE)


def differs(page: Page, label: str, before: str, now: str) -> None:
    """The question has this row, and everything else of the plan is folded."""
    row = question(page).locator("tr").filter(has=page.get_by_role("cell", name=label, exact=True)).first
    expect(row).to_be_visible(timeout=60_000)
    expect(row.locator("td").nth(1)).to_contain_text(before)
    expect(row.locator("td").nth(2)).to_contain_text(now)
    expect(question(page).get_by_text("The whole new plan")).to_be_visible()
    expect(question(page).get_by_role("heading", name="Will be stopped")).to_be_hidden()


def discard(page: Page) -> None:
    steps.press(page, GateKind.PLAN, "discard", title=OUT_OF_DATE)
    steps.ends(page, "Discarded")
    expect(steps.main(page)).to_contain_text("Nothing was touched.")


def ended_by_hand(page: Page, machine: Host) -> None:
    """Its server is killed, and the panel has seen that: what may be launched is offered by what serves."""
    end_all(machine)
    page.goto("/deployments/")
    steps.main(page).get_by_role("link", name=NAME, exact=True).first.click()
    expect(page.locator(".deployment-head")).to_contain_text(
        re.compile("crashed|stopped", re.IGNORECASE), timeout=60_000
    )


def test_an_edited_profile(page: Page, serving: Host) -> None:
    job = steps.ask_for(page, deployment=NAME, kind="restart", reason="with the flags that were planned")
    page.goto("/profiles/")
    steps.main(page).get_by_role("link", name=NAME, exact=True).click()
    page.goto(f"{page.url}revise/")
    page.get_by_label("Command line").fill(f"{STANDIN} --stop 0.1")
    page.get_by_role("button", name="Save as the next revision").click()
    page.goto(job)
    steps.press(page, GateKind.PLAN, "approve")
    differs(page, "Newer revision", "none", f"{NAME} r2")
    steps.press(page, GateKind.PLAN, "approve", title=OUT_OF_DATE)
    steps.ends(page, "Succeeded")
    expect(page.locator("[data-log]")).to_contain_text(f"{NAME} serves with {NAME} r1.")


def test_a_server_that_was_killed_by_hand(page: Page, serving: Host) -> None:
    steps.ask_for(page, deployment=NAME, kind="restart", reason="somebody is quicker")
    end_all(serving)
    steps.press(page, GateKind.PLAN, "approve")
    differs(page, "What serves", "standin", "nothing")
    discard(page)
    ended_by_hand(page, serving)


def test_somebody_new_on_a_card(page: Page, fleet: Fleet, serving: Host) -> None:
    steps.ask_for(page, deployment=NAME, kind="restart", reason="somebody moves in")
    fleet.faults.gpu_hold(serving, 1, 3000)
    steps.press(page, GateKind.PLAN, "approve")
    differs(page, "Others on the cards", "nobody", "sleep")
    expect(question(page)).to_contain_text("Somebody else holds GPU 1: sleep")
    discard(page)
    for process in serving.processes():
        if process.title == "sleep 86400":
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.lab_pid, signal.SIGKILL)


def test_a_host_that_has_booted(page: Page, fleet: Fleet, serving: Host) -> None:
    steps.ask_for(page, deployment=NAME, kind="restart", reason="before the machine goes down")
    boot = serving.boot_id
    fleet.faults.boot_id_change(serving)
    steps.press(page, GateKind.PLAN, "approve")
    differs(page, "Boot of the host", boot, serving.boot_id)
    discard(page)
    ended_by_hand(page, serving)
