"""The main job in a real browser: from an empty panel to a restart found in the history."""

import pytest
from playwright.sync_api import Page, Route, expect

from lab.fleet import Fleet
from tests.e2e import steps

pytestmark = [pytest.mark.lab, pytest.mark.e2e, pytest.mark.timeout(300)]

SGLANG = (
    "/lab/bin/python -m sglang.launch_server --model-path /models/qwen-27b --tp-size 2 --host 0.0.0.0 "
    "--port {port} --mem-fraction-static 0.88 --enable-metrics"
)
LLAMA = "/lab/bin/llama-server -m /models/tiny.gguf --host 0.0.0.0 --port {port} --metrics"
READY_WORDS = {"sglang": "The server is fired up and ready to roll!", "llama_server": "listening on"}


def restart_twice(page: Page, *, name: str, engine: str, command: str, host: str, cards: int) -> None:
    """Make it, start it by a first restart, restart it, watch, find it in the history with its whole log, stop it."""
    steps.make_profile(page, name=name, engine=engine, command=command)
    steps.make_deployment(page, name=name, profile=name, host=host, cards=cards)
    steps.ask_for(page, deployment=name, kind="restart", reason="first start")
    steps.approve_and_wait(page, kind="restart")

    job = steps.ask_for(page, deployment=name, kind="restart", reason="the real one")
    expect(steps.main(page)).to_contain_text("Will be stopped")
    seen = steps.approve_and_wait(page, kind="restart")
    check_memory_curve(seen)
    check_log_on_the_page(page, engine)

    page.goto("/jobs/")
    page.locator(f"main a[href='{job}']").first.click()
    page.wait_for_url("**" + job)
    check_page_of_an_ended_job(page, engine)
    text = page.request.get(job + "log.txt").text()
    assert READY_WORDS[engine] in text
    assert f"{name} serves with {name} r1." in text

    steps.ask_for(page, deployment=name, kind="stop", reason="its cards are needed")
    steps.approve_and_wait(page, kind="stop")


def check_page_of_an_ended_job(page: Page, engine: str) -> None:
    """It has its curve and its log, also where the part that draws them comes later than the rest."""

    def late(route: Route) -> None:
        page.wait_for_timeout(1_000)
        route.continue_()

    page.route("**/js/job.*js", late, times=1)
    page.reload()
    expect(page.locator("[data-curve] canvas")).to_be_visible()
    expect(page.locator("[data-log]")).to_contain_text(READY_WORDS[engine])


def check_memory_curve(seen: list[dict[str, object]]) -> None:
    """Every card fell to its baseline and rose again while the page watched."""
    curves: dict[object, list[int]] = {}
    for item in seen:
        assert isinstance(item["used"], int)
        curves.setdefault(item["uuid"], []).append(item["used"])
    assert curves
    for uuid, used in curves.items():
        lowest = used.index(min(used))
        assert used[lowest] <= 64, f"{uuid} never was at its baseline: {used}"
        assert max(used[lowest:]) > 1000, f"{uuid} was not seen rising: {used}"


def check_log_on_the_page(page: Page, engine: str) -> None:
    """The server's own words stand in the page's log."""
    page.get_by_placeholder("Search in the log").fill(READY_WORDS[engine])
    expect(page.locator("[data-log-count]")).to_contain_text("1")


@pytest.fixture(scope="module")
def hosts(page: Page, fleet: Fleet) -> None:
    """Hosts added in the browser: two by ssh, and a container through its node."""
    steps.add_ssh_host(page, fleet.host("gpu1"))
    steps.add_ssh_host(page, fleet.host("pve"))
    steps.add_container(page, name="ct129", node="pve", vmid=129)


@pytest.mark.usefixtures("hosts")
def test_sglang_over_ssh(page: Page) -> None:
    command = SGLANG.format(port=30000)
    restart_twice(page, name="chat-ssh", engine="sglang", command=command, host="gpu1", cards=2)


@pytest.mark.usefixtures("hosts")
def test_llama_over_pct(page: Page) -> None:
    command = LLAMA.format(port=8080)
    restart_twice(page, name="tiny-pct", engine="llama_server", command=command, host="ct129", cards=1)


@pytest.mark.slow
@pytest.mark.usefixtures("hosts")
def test_llama_over_ssh(page: Page, fleet: Fleet) -> None:
    steps.add_ssh_host(page, fleet.host("gpu2"))
    command = LLAMA.format(port=8081)
    restart_twice(page, name="tiny-ssh", engine="llama_server", command=command, host="gpu2", cards=1)


@pytest.mark.slow
@pytest.mark.usefixtures("hosts")
def test_sglang_over_pct(page: Page, fleet: Fleet) -> None:
    command = SGLANG.format(port=30001)
    restart_twice(page, name="chat-pct", engine="sglang", command=command, host="ct129", cards=2)
