"""Every page in a real browser, in both themes, on a desk and on a phone: axe finds nothing serious, nothing scrolls
sideways, and the browser complains about nothing."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize

from tests.e2e import steps
from tests.e2e.conftest import REPOSITORY, RunningPanel

pytestmark = [pytest.mark.lab, pytest.mark.e2e, pytest.mark.timeout(300)]

AXE = REPOSITORY / "node_modules/axe-core/axe.min.js"
SIZES: dict[str, ViewportSize] = {"desk": {"width": 1440, "height": 900}, "phone": {"width": 390, "height": 844}}
WAYS = [(size, scheme) for size in SIZES for scheme in ("light", "dark")]
TWO_WAYS = [("desk", "light"), ("phone", "dark")]
SERIOUS = ("serious", "critical")
SAMPLE = ("overview", "job", "deployment")
RUN_AXE = "() => axe.run(document, { resultTypes: ['violations'] }).then(found => found.violations)"
WIDER = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@dataclass
class Seeded:
    """A panel with one of everything, somebody who is signed in, and what the browser has complained about."""

    panel: RunningPanel
    context: BrowserContext
    page: Page
    paths: dict[str, str]
    complaints: list[str] = field(default_factory=list)

    def listen(self) -> None:
        """Note what the browser complains about; a refusal by the content security policy is among it."""
        noted = self.complaints.append
        self.page.on("console", lambda message: noted(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: noted(str(error)))

    def look(self, path: str, *, ways: Sequence[tuple[str, str]] = WAYS) -> list[str]:
        """What is wrong with a page, in each width and theme of ``ways``, as sentences."""
        wrong: list[str] = []
        for size, scheme in ways:
            self.page.set_viewport_size(SIZES[size])
            self.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            self.page.goto(path)
            wrong += [f"{size}, {scheme}: {said}" for said in self._look_now()]
        return wrong

    def _look_now(self) -> list[str]:
        if self.page.locator("[data-live]").count():
            self.page.wait_for_function("document.documentElement.dataset.live === 'live'")
        said = [f"the browser says: {text}" for text in self.complaints]
        self.complaints.clear()
        if wider := self.page.evaluate(WIDER):
            said.append(f"{wider} px wider than the screen")
        self.page.evaluate(AXE.read_text())
        return said + [_in_words(found) for found in self.page.evaluate(RUN_AXE) if found["impact"] in SERIOUS]


def _in_words(found: dict[str, Any]) -> str:
    places = "; ".join(f"{node['target']} {node['html'][:160]}" for node in found["nodes"][:4])
    return f"{found['impact']} {found['id']}, {found['help']}: {places}"


def seed(directory: Path) -> dict[str, str]:
    """Rows of every kind, written beside the running panel; returns the addresses of the pages by name."""
    kept = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    own = {"RELAUNCH_DATA_DIR": str(directory), "DJANGO_SETTINGS_MODULE": "controlpanel.settings"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.e2e.seed"], env=kept | own, cwd=REPOSITORY, check=True, capture_output=True
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def seeded(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seeded]:
    panel = RunningPanel(tmp_path_factory.mktemp("seeded"))
    panel.start()
    context = browser.new_context(viewport=SIZES["desk"], base_url=panel.url)
    page = context.new_page()
    page.set_default_timeout(20_000)
    made = Seeded(panel, context, page, {})
    made.listen()
    steps.sign_in(page, panel.sign_in_link)
    made.paths |= seed(panel.directory)
    yield made
    context.close()
    panel.stop()


@pytest.mark.parametrize("name", SAMPLE)
def test_the_pages_that_people_use_all_day(seeded: Seeded, name: str) -> None:
    assert not seeded.look(seeded.paths[name], ways=TWO_WAYS)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_page(seeded: Seeded) -> None:
    wrong = {name: said for name, path in seeded.paths.items() if (said := seeded.look(path))}
    assert not wrong, json.dumps(wrong, indent=1)


@pytest.mark.slow
def test_the_pages_of_somebody_who_is_not_signed_in(seeded: Seeded, browser: Browser) -> None:
    context = browser.new_context(base_url=seeded.panel.url)
    outside = Seeded(seeded.panel, context, context.new_page(), {})
    outside.listen()
    assert not outside.look("/login/")
    assert not [said for said in outside.look("/sign-in/used-up/") if "404" not in said and "410" not in said]
    context.close()


@pytest.mark.slow
def test_no_page_allows_what_is_unsafe(seeded: Seeded) -> None:
    for path in (*seeded.paths.values(), "/nowhere/"):
        policy = seeded.page.request.get(path).headers["content-security-policy"]
        assert "default-src 'self'" in policy and "unsafe" not in policy, path
