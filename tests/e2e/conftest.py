"""A real panel beside the simulated fleet, and a real browser."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from lab import cgroups, demo, namespaces
from lab.fleet import L40S, RTX_PRO, ContainerSpec, Fleet, HostSpec, NodeSpec
from lab.host import Host
from tests.e2e import steps
from tests.e2e.looking import SIZES, Seeded
from tests.support.fixtures import end_all
from tests.support.waiting import until

REPOSITORY = Path(__file__).resolve().parents[2]
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
LINK = re.compile(r"(http://\S+/sign-in/\S+/)")


class RunningPanel:
    """`manage.py panel` as a user starts it, on a free port inside the lab."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.log = directory / "panel.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(REPOSITORY / "manage.py"), "panel", "--port", str(self.port)],
                env={**kept, "RELAUNCH_DATA_DIR": str(self.directory)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until(self._is_ready, seconds=60, what="the panel answers", tell=self.log.read_text)

    def _is_ready(self) -> bool:
        assert self._process is not None and self._process.poll() is None, self.log.read_text()
        return "panel ready" in self.log.read_text()

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(15)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def tell(self, code: str) -> None:
        """Run a few lines of Python beside the panel, on its data."""
        kept = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
        command = [sys.executable, str(REPOSITORY / "manage.py"), "shell", "-c", code]
        subprocess.run(command, env={**kept, "RELAUNCH_DATA_DIR": str(self.directory)}, check=True, capture_output=True)

    @property
    def sign_in_link(self) -> str:
        """The one-time link that it printed."""
        found = LINK.search(self.log.read_text())
        assert found, self.log.read_text()
        return found.group(1)


CANCEL_ALL = """
from django.contrib.auth.models import User
from deployments import services
from deployments.lifecycle import ACTIVE
from deployments.models import Job
for job in Job.objects.filter(state__in=ACTIVE):
    services.cancel_job(job, actor=User.objects.first(), address="")
"""
RUNNING: dict[str, Fleet | RunningPanel] = {}


@pytest.fixture(scope="module", autouse=True)
def _leaves_nothing_behind() -> Iterator[None]:
    """One panel and one fleet serve all modules: what one leaves, or a failure in it, is not in the way of the next."""
    yield
    panel, fleet = RUNNING.get("panel"), RUNNING.get("fleet")
    if isinstance(panel, RunningPanel):
        panel.tell(CANCEL_ALL)
    if isinstance(fleet, Fleet):
        for machine in fleet.machines:
            end_all(machine)


@pytest.fixture(scope="package")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two plain hosts of two cards and a node of eight with a container; with systemd one each, where that can be."""
    if not namespaces.is_inside():
        pytest.fail("Run these tests by `python -m lab enter -- pytest ...`.", pytrace=False)
    hosts = [HostSpec(name="gpu1", cards=[L40S] * 2), HostSpec(name="gpu2", cards=[L40S] * 2)]
    containers = {129: ContainerSpec(name="llm-gpu")}
    if not cgroups.why_no_systemd():
        hosts.append(HostSpec(name="units", cards=[L40S] * 2, systemd=True))
        containers[131] = ContainerSpec(name="inner", systemd=True)
    directory = tmp_path_factory.mktemp("fleet")
    node = NodeSpec(name="pve", cards=[RTX_PRO] * 8, containers=containers)
    with Fleet(directory, hosts=hosts, nodes=[node]) as running:
        demo.put_models(running, directory)
        RUNNING["fleet"] = running
        yield running
    RUNNING.pop("fleet")


@pytest.fixture(scope="package")
def panel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPanel]:
    running = RunningPanel(tmp_path_factory.mktemp("panel"))
    running.start()
    RUNNING["panel"] = running
    yield running
    RUNNING.pop("panel")
    running.stop()


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    path = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    assert path, "No Chromium on this machine: install the package chromium."
    # Playwright's own loop would make Django believe that it runs inside an asynchronous program.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=QUIET)
        yield started
        started.close()


@pytest.fixture(scope="package")
def page(browser: Browser, panel: RunningPanel) -> Iterator[Page]:
    """A page of somebody who signed in by the one-time link. What the browser complains about fails the test."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, base_url=panel.url)
    opened = context.new_page()
    opened.set_default_timeout(20_000)
    complaints: list[str] = []

    def listen(message: ConsoleMessage) -> None:
        if message.type == "error":
            complaints.append(message.text)

    opened.on("console", listen)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    steps.sign_in(opened, panel.sign_in_link)
    yield opened
    context.close()
    assert not complaints


@pytest.fixture(scope="package")
def gpu2(page: Page, fleet: Fleet) -> Host:
    """A host that was added in the browser."""
    machine = fleet.host("gpu2")
    steps.add_ssh_host(page, machine)
    return machine


@pytest.fixture(scope="package")
def seeded(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seeded]:
    """A panel of its own with one of everything, and somebody who is signed in."""
    panel = RunningPanel(tmp_path_factory.mktemp("seeded"))
    panel.start()
    context = browser.new_context(viewport=SIZES["desk"], base_url=panel.url)
    page = context.new_page()
    page.set_default_timeout(20_000)
    made = Seeded(panel.url, panel.directory, context, page)
    made.listen()
    steps.sign_in(page, panel.sign_in_link)
    made.seed()
    yield made
    context.close()
    panel.stop()
