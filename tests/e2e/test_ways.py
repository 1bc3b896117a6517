"""Whatever has started a server: in the browser it is adopted, and restarted with one changed flag in the same way."""

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from lab import cgroups
from lab.cgroups import one_user_only
from lab.fleet import Fleet
from lab.processes import Process
from tests.adopting.people import wait_for_server
from tests.e2e import starters, steps
from tests.managers.keepers import lives
from tests.support.story import Machine, Place

pytestmark = [pytest.mark.lab, pytest.mark.e2e, pytest.mark.timeout(180)]

WAYS = {
    "unit": "A unit of systemd that is there: chat.service",
    "transient": "Relaunch: a unit of systemd, made for each start",
    "compose": "A service of docker compose: llm/chat",
    "plain": "Relaunch: a process on its own",
}
GROUPS = {"unit": "/chat.service", "transient": "/relaunch-", "compose": "/docker/", "plain": ""}
"""In which control group the new server runs; empty: it has none of its own."""
FLAG = ("--context-length", "4096")
QUICK = ("unit", "ssh", starters.LLM)

_ports = itertools.count(26101)


@pytest.fixture
def machine(page: Page, fleet: Fleet, way: str, transport: str) -> Iterator[Machine]:
    """The machine of this way, added in the browser; afterwards nothing runs on it but itself."""
    if way != "plain" and (why_not := cgroups.why_no_systemd()):
        pytest.skip(f"no machine with systemd here: {why_not}")
    found: Machine
    if transport == "pct":
        vmid = 129 if way == "plain" else 131
        steps.add_ssh_host(page, fleet.node("pve"))
        steps.add_container(page, name=host_of(way, transport), node="pve", vmid=vmid)
        found = fleet.container(vmid)
    else:
        found = fleet.host(host_of(way, transport))
        steps.add_ssh_host(page, found)
    starters.end(found)
    yield found
    starters.end(found)
    for locks in ("/run/lock/relaunch", "/tmp/relaunch-locks"):
        shutil.rmtree(found.seen(locks), ignore_errors=True)


def host_of(way: str, transport: str) -> str:
    """The machine of this way, by its name in the panel."""
    return {"ssh": "gpu1", "pct": "ct129"}[transport] if way == "plain" else {"ssh": "units", "pct": "ct131"}[transport]


ROWS = [
    pytest.param(*row, id="-".join(row), marks=[] if row == QUICK else pytest.mark.slow)
    for row in itertools.product(WAYS, ("ssh", "pct"), starters.UIDS)
]


@pytest.mark.parametrize(("way", "transport", "user"), ROWS)
def test_a_flag_is_changed_in_the_browser(page: Page, machine: Machine, way: str, transport: str, user: str) -> None:
    if user != starters.ROOT and one_user_only():
        pytest.skip("without root the lab has one user only")
    port, name = next(_ports), f"{way}-{transport}-{user}"
    before = starters.start(machine, way, port=port, user=user)
    steps.adopt(page, host=host_of(way, transport), port=port, name=name)

    steps.restart_with(page, *FLAG, reason="a shorter context")
    plan = steps.main(page)
    expect(plan).to_contain_text(WAYS[way])
    expect(plan.get_by_role("row").filter(has_text=FLAG[0])).to_contain_text(FLAG[1])
    assert lives(Place(None, machine), before)  # type: ignore[arg-type]  # nothing is touched before the approval
    steps.approve_and_wait(page, kind="restart")

    check_the_new_server(machine, way, port=port, user=user, before=before)
    page.goto("/deployments/")
    plan.get_by_role("link", name=name, exact=True).first.click()
    expect(plan).to_contain_text("Serving")
    expect(plan).not_to_contain_text("edited, not applied")


KEY = "plain-horse-battery-7"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "transport", "user"), [("unit", "pct", starters.LLM), ("compose", "ssh", starters.LLM)]
)
def test_a_key_is_set_in_the_browser(page: Page, machine: Machine, way: str, transport: str, user: str) -> None:
    port, name = next(_ports), f"key-{way}"
    before = starters.start(machine, way, port=port, user=user)
    steps.adopt(page, host=host_of(way, transport), port=port, name=name)
    steps.set_secret(page, what="API key", value=KEY)

    steps.restart_with(page, *FLAG, reason="only for those who have the key")
    plan = steps.main(page)
    expect(plan).to_contain_text(WAYS[way])
    assert KEY not in page.content()
    steps.approve_and_wait(page, kind="restart")
    shown = plan.get_by_text("Refuses requests without its API key")
    expect(shown.first).to_be_visible()
    expect(plan).to_contain_text("status 401")
    now = wait_for_server(Place(None, machine), port)  # type: ignore[arg-type]
    assert now.cmdline[-2] == "--config" and KEY not in "".join(now.cmdline) and now.lab_pid != before.lab_pid
    assert KEY not in page.content()


def check_the_new_server(machine: Machine, way: str, *, port: int, user: str, before: Process) -> None:
    """On the machine itself: another process, with the flag, of the same user, kept alike; the old one is gone."""
    place = Place(None, machine)  # type: ignore[arg-type]
    now = wait_for_server(place, port)
    assert now.cmdline[-2:] == FLAG and before.cmdline[-2:] != FLAG
    assert not lives(place, before)
    proc = Path(f"/proc/{now.lab_pid}")
    uids = next(line.split()[1:] for line in (proc / "status").read_text().splitlines() if line.startswith("Uid:"))
    assert set(uids) == {str(starters.UIDS[user])}
    assert GROUPS[way] in (proc / "cgroup").read_text()
