"""Draws docs/screenshots: ``make screenshots``, or ``python -m lab enter -- python -m tests.e2e.screenshots``.

The demo's fleet and panel, one start, one restart, and a picture of each page on the way.
"""

import os
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, expect, sync_playwright

REPOSITORY = Path(__file__).resolve().parents[2]
PICTURES = REPOSITORY / "docs/screenshots"
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1440, "height": 900}


def main() -> int:
    """Make every picture anew."""
    with tempfile.TemporaryDirectory() as directory:
        os.environ["RELAUNCH_DATA_DIR"] = directory
        from lab import demo
        from lab.fleet import Fleet, demo_specs
        from tests.e2e.conftest import RunningPanel

        hosts, nodes = demo_specs()
        with Fleet(Path(directory) / "fleet", hosts=hosts, nodes=nodes) as fleet:
            demo.put_models(fleet, Path(directory))
            demo.prepare_panel(fleet, Path(directory))
            panel = RunningPanel(Path(directory))
            panel.start()
            try:
                _draw(panel.url, panel.sign_in_link)
            finally:
                panel.stop()
    return 0


def _draw(url: str, link: str) -> None:
    from tests.e2e import steps
    from tests.e2e.conftest import CHROMIUM, QUIET

    PICTURES.mkdir(parents=True, exist_ok=True)
    import shutil

    path = next(found for name in CHROMIUM if (found := shutil.which(name)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=QUIET)
        context = browser.new_context(viewport=DESK, base_url=url)
        page = context.new_page()
        page.set_default_timeout(30_000)
        steps.sign_in(page, link)
        _story(context, page)
        browser.close()


def _story(context: BrowserContext, page: Page) -> None:
    from tests.e2e import steps

    for name, why in (("tiny-llama", "Small model for the on-call bot"), ("chat-27b", "Morning start")):
        steps.ask_for(page, deployment=name, kind="restart", reason=why)
        steps.approve_and_wait(page, kind="restart")
    steps.ask_for(page, deployment="chat-27b", kind="restart", reason="Back to the flags of last week")
    _take(page, "plan")
    page.get_by_role("button", name="Approve and restart").click()
    expect(steps.main(page).get_by_text("Succeeded", exact=True).first).to_be_visible(timeout=90_000)
    page.wait_for_timeout(1500)  # the curve's last point is drawn at the next beat
    _take(page, "job")
    job = page.url
    for name, path in (("overview", "/"), ("deployment", "/deployments/1/"), ("host", "/hosts/1/"), ("jobs", "/jobs/")):
        page.goto(path)
        page.wait_for_timeout(1500)  # one live reading
        _take(page, name)
    phone = context.new_page()
    phone.set_viewport_size(PHONE)
    for name, path in (("overview", "/"), ("job", job)):
        phone.goto(path)
        phone.wait_for_timeout(1500)
        _take(phone, f"{name}-phone")


def _take(page: Page, name: str) -> None:
    """In both themes."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(150)  # the curve redraws itself in the other colours
        page.screenshot(path=PICTURES / f"{name}-{scheme}.png", full_page=True)
    page.emulate_media(color_scheme="light")


if __name__ == "__main__":
    sys.exit(main())
