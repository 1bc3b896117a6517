"""The curve of a host's memory, in a real browser."""

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.looking import SIZES, Seeded

pytestmark = [pytest.mark.lab, pytest.mark.e2e]


def test_the_memory_of_the_last_minutes_the_month_and_a_piece_of_it(seeded: Seeded) -> None:
    page = seeded.page
    page.set_viewport_size(SIZES["desk"])
    page.goto(seeded.paths["host"])
    curve = page.get_by_role("img", name=re.compile("Memory in use over time: GPU 0 .*at most"))
    expect(curve).to_be_visible()
    with page.expect_response(re.compile("span=all")) as asked:
        page.get_by_role("button", name="30 days").click()
    assert asked.value.json()["step"] == 1800
    expect(page.get_by_role("button", name="30 days")).to_have_attribute("aria-pressed", "true")
    expect(curve).to_be_visible()
    box = page.locator("[data-memory] .u-over").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] - 8, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 40, box["y"] + 40)
    with page.expect_response(re.compile("since=")) as asked:
        page.mouse.up()
    assert asked.value.json()["step"] < 1800
    expect(page.get_by_text("A piece that you have marked")).to_be_visible()
    assert not seeded.complaints
