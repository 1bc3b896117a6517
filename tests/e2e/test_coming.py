"""A plan is read while it is still being made, in a real browser: the host's disk has not told of the model yet."""

import json
import os
import re

import pytest
from playwright.sync_api import Page, expect

from deployments.lifecycle import GateKind
from lab.host import Host
from tests.e2e import steps
from tests.scenarios.models import HYBRID, put_files

pytestmark = [pytest.mark.lab, pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(300)]

COMMAND = "/lab/bin/python -m sglang.launch_server --model-path /models/late --tp-size 2 --port 25701"


def test_what_is_known_stands_there_before_the_rest(page: Page, gpu2: Host) -> None:
    folder = gpu2.seen("/models/late")
    put_files(folder, HYBRID, weights_mib=26_000)
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")  # whoever reads it waits until somebody writes
    steps.make_profile(page, name="late", engine="sglang", command=COMMAND)
    steps.make_deployment(page, name="late", profile="late", host="gpu2", cards=2)
    page.goto(f"{page.url}start/")
    page.get_by_label("Why").fill("its disk is slow")
    page.get_by_role("button", name="Make the plan").click()
    page.wait_for_url(re.compile(r"/jobs/\d+/$"))

    coming = page.locator("#coming")
    for section in ("Will be stopped", "Cards", "Disk and shared memory", "Will be launched: late r1"):
        expect(coming.get_by_role("heading", name=section, exact=True)).to_be_visible()
    expect(coming.locator("section[aria-busy]").last).to_have_text(re.compile("Does it fit.*still being asked", re.S))
    with (folder / "config.json").open("w") as late:
        late.write(json.dumps(HYBRID))
    question = steps.main(page).locator("[data-key^=gate]")
    expect(question.get_by_role("heading", name="Does it fit", exact=True)).to_be_visible(timeout=30_000)
    expect(question.locator("table.fit-table")).to_be_visible()
    expect(coming).to_have_count(0)
    steps.press(page, GateKind.PLAN, "discard")
    steps.ends(page, "Discarded")
