"""Draws docs/screenshots: ``make screenshots``, or ``python -m lab enter -- python -m tests.e2e.screenshots``.

The demo's fleet and panel, one start, one restart, a benchmark, a server that somebody has started by hand, and a
picture of each page on the way.
"""

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, expect, sync_playwright

from lab.fleet import Fleet

REPOSITORY = Path(__file__).resolve().parents[2]
PICTURES = REPOSITORY / "docs/screenshots"
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1440, "height": 900}
BOTH = ("light", "dark")
BY_HAND = "/lab/bin/llama-server -m /models/tiny.gguf --host 0.0.0.0 --port 8090"


def main() -> int:
    """Make every picture anew."""
    with tempfile.TemporaryDirectory() as directory:
        os.environ["RELAUNCH_DATA_DIR"] = directory
        from lab import demo
        from lab.fleet import demo_specs

        hosts, nodes = demo_specs()
        with Fleet(Path(directory) / "fleet", hosts=hosts, nodes=nodes) as fleet:
            demo.put_models(fleet, Path(directory))
            demo.prepare_panel(fleet, Path(directory))  # sets Django up, which the tests' pieces need
            from tests.e2e.conftest import RunningPanel

            panel = RunningPanel(Path(directory))
            panel.start()
            try:
                _draw(panel.url, panel.sign_in_link, fleet)
            finally:
                panel.stop()
    return 0


def _draw(url: str, link: str, fleet: Fleet) -> None:
    from tests.e2e import steps
    from tests.e2e.conftest import CHROMIUM, QUIET

    PICTURES.mkdir(parents=True, exist_ok=True)
    path = next(found for name in CHROMIUM if (found := shutil.which(name)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=QUIET)
        context = browser.new_context(viewport=DESK, base_url=url)
        page = context.new_page()
        page.set_default_timeout(30_000)
        steps.sign_in(page, link)
        job = _restarts(page)
        _benchmark(page)
        _fit_and_clone(page)
        _hosts(page, fleet)
        _lists(context, page, job)
        browser.close()


def _restarts(page: Page) -> str:
    """Returns the address of the job that was looked at."""
    from tests.e2e import steps

    for name, why in (("tiny-llama", "Small model for the on-call bot"), ("chat-27b", "Morning start")):
        steps.ask_for(page, deployment=name, kind="restart", reason=why)
        steps.approve_and_wait(page, kind="restart")
    steps.ask_for(page, deployment="chat-27b", kind="restart", reason="Back to the flags of last week")
    _take(page, "plan")
    page.get_by_role("button", name="Approve and restart").click()
    steps.ends(page, "Succeeded")
    page.wait_for_timeout(1500)  # the curve's last point is drawn at the next beat
    _take(page, "job")
    page.locator(".log").screenshot(path=PICTURES / "log-light.png")
    return page.url


def _benchmark(page: Page) -> None:
    from tests.e2e import steps

    page.goto("/deployments/1/benchmark/")
    page.get_by_label("Requests at once").fill("1, 4, 8")
    page.get_by_role("button", name="Run the benchmark").click()
    page.wait_for_url(re.compile(r"/jobs/\d+/$"))
    steps.ends(page, "Succeeded")
    _take(page, "benchmark", themes=("light",))


def _fit_and_clone(page: Page) -> None:
    page.goto("/profiles/1/?context=64K&kv=fp8")
    _take(page, "profile", themes=("light",))
    page.goto("/deployments/1/clone/")
    page.get_by_label("Host", exact=True).select_option(label="pve")
    for box in page.locator("input[name=gpus]:visible").all()[:2]:
        box.check()
    page.get_by_role("button", name="Look at that host").click()
    expect(page.get_by_text("Does it fit there")).to_be_visible()
    _take(page, "clone", themes=("light",))


def _hosts(page: Page, fleet: Fleet) -> None:
    """A server that nobody knows, and a host that is about to be added."""
    machine = fleet.host("gpu2")
    machine.exec(["sh", "-c", f"exec setsid -f {BY_HAND} > /tmp/by-hand.log 2>&1"], timeout=30)
    page.goto("/hosts/")
    page.get_by_role("link", name="gpu2", exact=True).click()
    servers = page.locator("#servers")
    while not servers.get_by_role("button", name=re.compile("^Adopt ")).count():  # until it listens
        servers.get_by_role("button", name=re.compile("Look for servers")).click()
        expect(servers).to_contain_text(re.compile(r"Looked \d+ s ago"))
    servers.screenshot(path=PICTURES / "servers-light.png")

    page.goto("/hosts/add/")
    page.get_by_label("Name", exact=True).fill("gpu3")
    page.get_by_label("Address").fill(machine.address)
    page.locator("main button[type=submit]").click()
    page.get_by_role("button", name="Test gpu3").click()
    expect(page.get_by_label("Fingerprint that the host itself shows")).to_be_visible()
    _take(page, "host-wizard", themes=("light",))


def _lists(context: BrowserContext, page: Page, job: str) -> None:
    for name, path in (("overview", "/"), ("deployment", "/deployments/1/"), ("host", "/hosts/1/"), ("jobs", "/jobs/")):
        page.goto(path)
        page.wait_for_timeout(1500)  # one live reading
        _take(page, name)
    page.goto("/audit/")
    _take(page, "audit", themes=("light",))
    phone = context.new_page()
    phone.set_viewport_size(PHONE)
    for name, path in (("overview", "/"), ("job", job)):
        phone.goto(path)
        phone.wait_for_timeout(1500)
        _take(phone, f"{name}-phone")


def _take(page: Page, name: str, *, themes: tuple[str, ...] = BOTH) -> None:
    page.evaluate("scrollTo(0, 0)")  # or the bar on top would be drawn in the middle
    for scheme in themes:
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.wait_for_timeout(150)  # the curve redraws itself in the other colours
        page.screenshot(path=PICTURES / f"{name}-{scheme}.png", full_page=True)
    page.emulate_media(color_scheme="light")


if __name__ == "__main__":
    sys.exit(main())
