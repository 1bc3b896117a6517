"""A panel with one of everything, and what is wrong with its pages as a browser shows them."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, Page, ViewportSize, expect

from tests.support.panel import REPOSITORY

AXE = REPOSITORY / "node_modules/axe-core/axe.min.js"
SIZES: dict[str, ViewportSize] = {"desk": {"width": 1440, "height": 900}, "phone": {"width": 390, "height": 844}}
WAYS = [(size, scheme) for size in SIZES for scheme in ("light", "dark")]
TWO_WAYS = [("desk", "light"), ("phone", "dark")]
SERIOUS = ("serious", "critical")
RUN_AXE = "() => axe.run(document, { resultTypes: ['violations'] }).then(found => found.violations)"
WIDER = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@dataclass
class Seeded:
    """A panel with one of everything, somebody who is signed in, and what the browser has complained about."""

    url: str
    directory: Path
    context: BrowserContext
    page: Page
    paths: dict[str, str] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)

    def seed(self) -> None:
        """Rows of every kind, written beside the running panel."""
        self.paths |= json.loads(self._write())

    def say(self, job: str, text: str) -> None:
        """Something more in the log of a job, by the name of its page."""
        self._write(self.paths[job].split("/")[2], text)

    def _write(self, *args: str) -> str:
        kept = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
        own = {"RELAUNCH_DATA_DIR": str(self.directory), "DJANGO_SETTINGS_MODULE": "controlpanel.settings"}
        command = [sys.executable, "-m", "tests.e2e.seed", *args]
        return subprocess.run(
            command, env=kept | own, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE
        ).stdout.decode()

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
            # Not by a function in the page: the content security policy refuses to evaluate one a second time.
            expect(self.page.locator("html[data-live=live]")).to_be_attached()
        said = [f"the browser says: {text}" for text in self.complaints]
        self.complaints.clear()
        if wider := self.page.evaluate(WIDER):
            said.append(f"{wider} px wider than the screen")
        self.page.evaluate(AXE.read_text())
        return said + [_in_words(found) for found in self.page.evaluate(RUN_AXE) if found["impact"] in SERIOUS]


def _in_words(found: dict[str, Any]) -> str:
    places = "; ".join(f"{node['target']} {node['html'][:160]}" for node in found["nodes"][:4])
    return f"{found['impact']} {found['id']}, {found['help']}: {places}"
