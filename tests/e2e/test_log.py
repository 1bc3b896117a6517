"""The log viewer in a real browser: following, search, links, filter, colours, and few lines in the page."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.looking import SIZES, Seeded
from tests.e2e.seed import long_log

pytestmark = [pytest.mark.lab, pytest.mark.e2e, pytest.mark.timeout(300)]

LINES = 40_001
MOST_ROWS = 250
ROWS = "() => [...document.querySelectorAll('.ln')].map(row => [row.id, row.querySelector('.ln-text').textContent])"


@pytest.fixture
def page(seeded: Seeded) -> Iterator[Page]:
    """The page of the job with the long log, on a desk."""
    seeded.page.set_viewport_size(SIZES["desk"])
    seeded.page.goto(seeded.paths["job_long"])
    expect(line(seeded.page, LINES)).to_be_visible()
    yield seeded.page
    said, seeded.complaints = seeded.complaints, []
    assert not said


def line(page: Page, number: int) -> Locator:
    return page.locator(f"[id='L{number}']")


def view(page: Page) -> Locator:
    return page.locator("[data-log-view]")


def follow_button(page: Page) -> Locator:
    return page.locator("[data-log-follow]")


def check_rows(page: Page) -> None:
    """Few rows, each the line of its number: line 1 is the panel's, the server's begin at 2."""
    rows = page.evaluate(ROWS)
    assert 0 < len(rows) < MOST_ROWS
    for row, text in rows:
        number = int(row[1:])
        assert text == ("Plan." if number == 1 else f"[2026-11-30 12:00:00] INFO step {number}: loss {number % 97} <i>")


def test_following_stops_only_when_somebody_scrolls_up_and_one_key_resumes(page: Page) -> None:
    check_rows(page)
    expect(page.locator("[data-log-lines]")).to_have_text("40,001 lines")
    expect(follow_button(page)).to_be_hidden()
    view(page).hover()
    page.mouse.wheel(0, -600)
    expect(follow_button(page)).to_contain_text("To the end (F)")  # the job has ended: nothing is to be followed
    expect(line(page, LINES)).not_to_be_in_viewport()
    page.keyboard.press("f")
    expect(line(page, LINES)).to_be_visible()
    expect(follow_button(page)).to_be_hidden()


@pytest.mark.slow
def test_what_is_written_meanwhile_is_counted_and_followed(seeded: Seeded, page: Page) -> None:
    page.goto(seeded.paths["job_plan"])
    expect(page.locator(".live-dot")).to_have_attribute("data-state", "live")
    seeded.say("job_plan", "".join(f"early {n}\n" for n in range(200)))
    expect(view(page)).to_contain_text("early 199")
    view(page).hover()
    page.mouse.wheel(0, -1500)
    seeded.say("job_plan", "late 1\nlate 2\n")
    expect(follow_button(page)).to_contain_text("2 new")
    expect(view(page)).not_to_contain_text("late 2")
    view(page).press("End")
    expect(view(page)).to_contain_text("late 2")
    seeded.say("job_plan", "last\n")
    expect(line(page, 203)).to_be_visible()


@pytest.mark.slow
def test_a_line_has_a_link_that_survives_a_reload(seeded: Seeded, page: Page) -> None:
    for number in (12_345, 2, LINES - 3, 1001):  # in line 1001 a chunk ends
        page.goto("/")
        page.goto(f"{seeded.paths['job_long']}#L{number}")
        expect(line(page, number)).to_be_in_viewport()
        expect(line(page, number)).to_have_class(re.compile("ln-target"))
        check_rows(page)
        page.reload()
        expect(line(page, number)).to_be_in_viewport()
    line(page, 1003).locator("a").click()
    expect(line(page, 1003)).to_have_class(re.compile("ln-target"))
    assert page.url.endswith("#L1003")
    page.goto(f"{seeded.paths['job_long']}#L99999999")
    expect(line(page, LINES)).to_be_attached()


@pytest.mark.slow
def test_older_lines_come_as_somebody_scrolls_and_the_page_stays_light(page: Page) -> None:
    view(page).hover()
    for _ in range(40):
        page.mouse.wheel(0, -8_000)
        check_rows(page)
        page.wait_for_timeout(50)  # as a hand does it
    top = int(page.locator(".ln").first.get_attribute("id")[1:])  # type: ignore[index]
    assert top < LINES - 5_000, "only what was there at first"
    view(page).press("Home")
    expect(line(page, 1)).to_be_visible()
    check_rows(page)
    for _ in range(10):
        page.mouse.wheel(0, 8_000)
        check_rows(page)
        page.wait_for_timeout(50)
    expect(line(page, 3_000)).not_to_be_attached()
    view(page).press("End")
    expect(line(page, LINES)).to_be_visible()


@pytest.mark.slow
def test_search_over_the_whole_log_with_the_way_to_next_and_previous(page: Page) -> None:
    box, count = page.get_by_placeholder("Search in the log"), page.locator("[data-log-count]")
    page.keyboard.press("/")
    expect(box).to_be_focused()
    box.fill("STEP 1777")
    expect(count).to_have_text("1 of 11 lines")
    expect(line(page, 1777).locator("mark")).to_have_text("step 1777")
    box.press("Enter")
    expect(line(page, 17_770)).to_be_in_viewport()
    expect(line(page, 17_770)).to_have_class(re.compile("ln-current"))
    expect(count).to_have_text("2 of 11 lines")
    page.get_by_label("Previous match").click()
    page.get_by_label("Previous match").click()
    expect(line(page, 17_779)).to_be_in_viewport()
    box.fill("info")
    expect(count).to_have_text("1 of the newest 10,000 lines")
    box.fill("nobody said this")
    expect(count).to_have_text("no line")
    box.press("Escape")
    expect(count).to_have_text("")


@pytest.mark.slow
def test_one_step_alone(page: Page) -> None:
    page.locator("[data-log-step]").select_option("plan")
    expect(page.locator(".ln")).to_have_count(1)
    expect(line(page, 1)).to_contain_text("Plan.")
    page.locator("[data-log-step]").select_option("")
    expect(line(page, LINES)).to_be_visible()


@pytest.mark.slow
def test_wrap_and_times_are_switches_that_are_kept(seeded: Seeded, page: Page) -> None:
    wrap, times = page.get_by_role("button", name="Wrap"), page.get_by_role("button", name="Times")
    before = wrap.get_attribute("aria-pressed"), times.get_attribute("aria-pressed")
    wrap.click()
    times.click()
    page.reload()
    assert (wrap.get_attribute("aria-pressed"), times.get_attribute("aria-pressed")) != before
    expect(page.locator(".ln-time").first).to_be_hidden()
    view(page).press("Home")
    expect(line(page, 1)).to_be_visible()
    check_rows(page)
    wrap.click()
    times.click()
    expect(page.locator(".ln-time").first).to_be_visible()


WRAPPED = """() => [...document.querySelectorAll('.ln')].map((row) => {
  const before = [...row.querySelectorAll('.ln-break')].map((place) => place.previousSibling.textContent.at(-1));
  const [text, height] = [row.querySelector('.ln-text'), row.getBoundingClientRect().height];
  return { before, height, wide: text.scrollWidth - text.clientWidth, text: text.innerText };
})"""


@pytest.mark.slow
def test_a_wrapped_line_breaks_between_words_and_is_as_high_as_was_worked_out(seeded: Seeded, page: Page) -> None:
    try:
        page.set_viewport_size(SIZES["phone"])
        seeded.say("job", f"{'word ' * 40}end\n{'x' * 200}\n")
        page.goto(seeded.paths["job"])
        wrap = page.get_by_role("button", name="Wrap")
        if wrap.get_attribute("aria-pressed") == "false":
            wrap.click()
        expect(page.locator(".ln-break").first).to_be_attached()
        view(page).press("End")
        expect(line(page, 410)).to_be_visible()
        rows = page.evaluate(WRAPPED)
        assert all(row["height"] == 20 * (len(row["before"]) + 1) and row["wide"] <= 0 for row in rows), rows
        words = next(row for row in rows if row["text"].startswith("word"))
        assert len(words["before"]) > 3 and {*words["before"]} == {" "}
        assert "\n" not in words["text"], "what is copied is one line"
    finally:
        page.set_viewport_size(SIZES["desk"])


@pytest.mark.slow
def test_colours_become_classes_and_markup_stays_text(seeded: Seeded, page: Page) -> None:
    page.goto(seeded.paths["job"])
    view(page).press("Home")
    expect(line(page, 2).locator(".a-1")).to_have_text(["colour 1", "bold"])
    expect(line(page, 2).locator(".a-bold")).to_have_text("bold")
    expect(line(page, 9)).to_contain_text("loading weights 100 %")
    expect(line(page, 9)).not_to_contain_text("loading weights 90 %")
    expect(line(page, 10)).to_contain_text("<b>x</b>")
    assert page.locator(".log-view [style]:not([data-log-space], [data-log-rows])").count() == 0


@pytest.mark.slow
def test_the_download_is_what_is_stored(seeded: Seeded, page: Page) -> None:
    with page.expect_download() as begun:
        page.get_by_role("link", name="whole log").click()
    assert begun.value.suggested_filename == f"job-{seeded.paths['job_long'].split('/')[2]}-restart-third.txt"
    assert begun.value.path().read_bytes() == b"Plan.\n" + "".join(long_log()).encode()


@pytest.mark.slow
def test_on_paper_the_commands_are_unfolded_and_the_log_has_its_last_lines(seeded: Seeded, page: Page) -> None:
    page.goto(seeded.paths["job"])
    expect(line(page, 408)).to_be_visible()
    command = page.get_by_text("kill -TERM 4242").first
    expect(command).to_be_hidden()
    page.emulate_media(color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    expect(command).to_be_visible()
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "light")
    expect(page.locator("nav.side")).to_be_hidden()
    expect(view(page)).to_be_hidden()
    expect(page.locator("[data-log-print]")).to_contain_text("408  INFO line 399: <b>")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")
    expect(command).to_be_hidden()
    expect(page.locator("[data-log-print]")).to_be_hidden()
