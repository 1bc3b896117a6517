"""In a real browser: one deployment takes the place of another, with one approval; one that fails gives it back."""

import re

import pytest
from playwright.sync_api import Page, expect

from lab.fleet import Fleet
from tests.e2e import steps

pytestmark = [pytest.mark.lab, pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(300)]
LLAMA = "/lab/bin/llama-server -m /models/tiny.gguf --host 0.0.0.0 --port {port} --metrics"


def replace(page: Page, *, old: str, new: str) -> None:
    """From the page of what serves to the plan."""
    page.goto("/deployments/")
    steps.main(page).get_by_role("link", name=old, exact=True).first.click()
    page.get_by_role("link", name="Replace by…").click()
    page.get_by_label(new).check()
    page.get_by_label("Why").fill("another model for the night")
    page.get_by_role("button", name="Make the plan").click()
    page.wait_for_url(re.compile(r"/jobs/\d+/$"))
    expect(page.get_by_role("button", name="Approve and replace")).to_be_visible(timeout=30_000)


def test_one_approval_replaces_and_a_failure_goes_back(page: Page, fleet: Fleet) -> None:
    steps.add_ssh_host(page, fleet.host("gpu1"))
    for name, port, more in (("day", 8091, ""), ("night", 8092, ""), ("broken", 8093, " --no-such-flag")):
        steps.make_profile(page, name=name, engine="llama_server", command=LLAMA.format(port=port) + more)
        steps.make_deployment(page, name=name, profile=name, host="gpu1", cards=1)
    steps.ask_for(page, deployment="day", kind="restart", reason="first start")
    steps.approve_and_wait(page, kind="restart")

    replace(page, old="day", new="night")
    expect(steps.main(page)).to_contain_text("Will be stopped: day", timeout=30_000)
    steps.approve_and_wait(page, kind="replace")
    expect(steps.main(page)).to_contain_text("night serves with night r1 instead of day.")

    replace(page, old="night", new="broken")
    page.get_by_role("button", name="Approve and replace").click()
    steps.ends(page, "Replace failed")
    expect(steps.main(page)).to_contain_text("broken failed; night serves again with night r1.")
    steps.ask_for(page, deployment="night", kind="stop", reason="its card is needed")
    steps.approve_and_wait(page, kind="stop")
