"""Keys, the tab's title, and the notifications of the browser."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.looking import SIZES, Seeded

pytestmark = [pytest.mark.lab, pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(300)]

# A browser without a screen shows no notifications: this one notes what it was asked to show.
FAKE = """
  window.shown = [];
  window.Notification = class {
    static permission = localStorage.getItem('fake-permission') || 'default';
    static requestPermission() {
      localStorage.setItem('fake-permission', 'granted');
      Notification.permission = 'granted';
      return Promise.resolve('granted');
    }
    constructor(title, options) { window.shown.push([title, options.body, options.tag]); }
  };
  Document.prototype.hasFocus = () => sessionStorage.getItem('away') === null;
"""


@pytest.fixture
def page(seeded: Seeded, browser: Browser) -> Iterator[Page]:
    """A browser of its own, of the person who signed in."""
    state = seeded.page.context.storage_state()
    context = browser.new_context(viewport=SIZES["desk"], base_url=seeded.url, storage_state=state)
    context.add_init_script(FAKE)
    yield context.new_page()
    context.close()


def test_the_title_says_what_waits(page: Page) -> None:
    page.goto("/profiles/")
    expect(page).to_have_title("(3) Waiting for you · Profiles · Relaunch")


def test_nobody_is_asked_or_notified_but_by_the_button(seeded: Seeded, page: Page) -> None:
    page.goto("/audit/")
    button = page.locator("[data-notify]")
    expect(button).to_have_text("Notify me")
    page.evaluate("sessionStorage.setItem('away', '1')")
    page.evaluate("localStorage.removeItem('notified')")
    page.reload()
    expect(page).to_have_title(re.compile("Waiting for you"))
    assert page.evaluate("window.shown") == [] and page.evaluate("Notification.permission") == "default"
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    page.evaluate("localStorage.removeItem('notified')")
    page.reload()
    page.wait_for_function("window.shown.length > 1")
    assert ["second waits for you", "Approve the restart"] in [said[:2] for said in page.evaluate("window.shown")]
    page.reload()
    expect(page).to_have_title(re.compile("Waiting for you"))
    assert page.evaluate("window.shown") == [], "each is told once"
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")


def test_keys(seeded: Seeded, page: Page) -> None:
    page.goto("/hosts/")
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("j")
    page.wait_for_url("**/jobs/")
    page.keyboard.press("/")
    expect(page.get_by_label("Deployment")).to_be_focused()
    page.keyboard.type("g o?")
    expect(page.get_by_label("Deployment")).to_have_value("g o?")
    page.get_by_role("heading", name="Jobs").click()
    page.keyboard.press("g")
    page.keyboard.press("o")
    page.wait_for_url(seeded.url + "/")
