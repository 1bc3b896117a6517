"""What a teammate does in the browser, in the words of the pages."""

import re
import shlex
from collections.abc import Mapping

from playwright.sync_api import Locator, Page, expect

from deployments.lifecycle import GateKind
from lab.host import Host
from tests.e2e.questions import BUTTONS, TITLES

COLLECT_READINGS = """() => {
  window.seen = [];
  document.querySelector('[data-stream^="readings:"]').addEventListener(
    'live', event => window.seen.push(...event.detail.items));
}"""


def main(page: Page) -> Locator:
    """The page without its navigation."""
    return page.locator("main")


def sign_in(page: Page, link: str) -> None:
    """By the one-time link, as the first administrator, to the overview."""
    page.goto(link)
    page.get_by_label("User name").fill("ana")
    page.get_by_label("Password", exact=True).fill("correct horse battery")
    page.get_by_label("Password again").fill("correct horse battery")
    page.get_by_role("button", name="Create the administrator").click()
    page.wait_for_url("**/")


def has_host(page: Page, name: str) -> bool:
    """Whether a host of this name was added before."""
    page.goto("/hosts/")
    return page.get_by_role("link", name=name, exact=True).count() > 0


def add_ssh_host(page: Page, machine: Host) -> None:
    """Address, fingerprint, key, test: the wizard from its first step to green findings. No harm when it is there."""
    if has_host(page, machine.name):
        return
    page.goto("/hosts/add/")
    page.get_by_label("Name", exact=True).fill(machine.name)
    page.get_by_label("Address").fill(machine.address)
    main(page).locator("button[type=submit]").click()
    page.wait_for_url(re.compile(r"/hosts/\d+/$"))
    page.get_by_role("button", name=f"Test {machine.name}").click()
    fingerprint = page.get_by_label("Fingerprint that the host itself shows")
    expect(fingerprint).to_be_visible(timeout=30_000)
    machine.authorize(page.locator("#public-key").inner_text().strip())
    own = machine.exec(["ssh-keygen", "-lf", "/etc/ssh/ssh_host_ed25519_key.pub"], timeout=20).stdout.decode()
    fingerprint.fill(own.split()[1])
    page.get_by_role("button", name=f"Compare and trust {machine.name}").click()
    expect(main(page)).to_contain_text(f"The key of {machine.name} is trusted.")
    page.get_by_role("button", name=re.compile(f"Test {machine.name}")).click()
    expect(main(page)).to_contain_text("Everything that a launch needs is there", timeout=30_000)
    expect(main(page).locator("#cards")).to_contain_text("GPU 0")


def add_container(page: Page, *, name: str, node: str, vmid: int) -> None:
    """A container of a node that is already trusted. No harm when it is there."""
    if has_host(page, name):
        return
    page.goto("/hosts/add/")
    page.get_by_label("Name", exact=True).fill(name)
    page.locator("input[name=transport][value=pct]").check()
    page.get_by_label("Reached through").select_option(label=node)
    page.get_by_label("Container id").fill(str(vmid))
    main(page).locator("button[type=submit]").click()
    page.wait_for_url(re.compile(r"/hosts/\d+/$"))
    page.get_by_role("button", name=f"Test {name}").click()
    expect(main(page)).to_contain_text("Everything that a launch needs is there", timeout=30_000)


def open_host(page: Page, name: str) -> None:
    """Its page, from the list."""
    page.goto("/hosts/")
    page.get_by_role("link", name=name, exact=True).click()
    page.wait_for_url(re.compile(r"/hosts/\d+/$"))


def adopt(page: Page, *, host: str, port: int, name: str) -> None:
    """Make the SGLang that listens on this port of a host a deployment; ends on the deployment's page."""
    open_host(page, host)
    servers = main(page).locator("#servers")
    servers.get_by_role("button", name=re.compile("Look for servers")).click()
    row = servers.locator(".server").filter(has_text=f"port {port}")
    expect(row).to_be_visible(timeout=30_000)
    row.get_by_label("Name of the deployment").fill(name)
    row.get_by_label("Whoever asks for a job may approve it too").check()
    row.get_by_role("button", name=f"Adopt SGLang on port {port}").click()
    page.wait_for_url(re.compile(r"/deployments/\d+/$"))


def set_secret(page: Page, *, what: str, value: str) -> None:
    """From a deployment's page, and back to it."""
    page.goto(f"{page.url}secrets/")
    page.get_by_label("What is it?").select_option(value=what)
    page.get_by_label("Value", exact=True).fill(value)
    page.get_by_role("button", name="Set the secret").click()
    page.wait_for_url(re.compile(r"/deployments/\d+/$"))
    expect(main(page)).to_contain_text(f"{what} is set.")


def restart_with(page: Page, *flags: str, reason: str, way_back: bool = True) -> None:
    """From a deployment's page: its newest flags and these behind them, to the plan that waits for an approval."""
    main(page).get_by_role("link", name=re.compile("^(Restart|Start)…")).click()
    main(page).get_by_role("link", name=re.compile(r"^Edit the flags of r\d+ first")).locator("visible=true").click()
    command = page.get_by_label("Command line")
    command.fill(f"{command.input_value()} {shlex.join(flags)}")
    page.get_by_role("button", name="Save and plan the restart…").click()
    page.get_by_label("Why").fill(reason)
    page.get_by_label("If it fails").set_checked(way_back)
    page.get_by_role("button", name="Make the plan").click()
    page.wait_for_url(re.compile(r"/jobs/\d+/$"))
    expect(page.get_by_role("button", name="Approve and restart")).to_be_visible(timeout=30_000)


def make_profile(
    page: Page,
    *,
    name: str,
    engine: str,
    command: str,
    env: Mapping[str, str] | None = None,
    ready: str = "",
    versions: str = "",
) -> None:
    """Paste a command line; ``ready`` is what a custom command says in its log."""
    page.goto("/profiles/new/")
    page.get_by_label("Versions it is known to be good with").fill(versions)
    page.get_by_label("Environment").fill("\n".join(f"{key}={value}" for key, value in (env or {}).items()))
    page.get_by_label("Text in the log that says: ready").fill(ready)
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Engine", exact=True).select_option(engine)
    page.get_by_label("Command line").fill(command)
    page.get_by_role("button", name="Create the profile").click()
    page.wait_for_url(re.compile(r"/profiles/\d+/$"))


def make_deployment(
    page: Page,
    *,
    name: str,
    profile: str,
    host: str,
    cards: int,
    seconds: Mapping[str, int] | None = None,
    kills_by_itself: bool = True,
    co_tenants: str = "",
) -> None:
    """Choose the recipe, the host and its first cards; the policy lets the requester approve.

    ``seconds``: time-outs by the name of their field. ``co_tenants``: who else may hold the cards, as user:program.
    """
    page.goto("/deployments/new/")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Revision").select_option(label=f"{profile} r1")
    page.get_by_label("Host", exact=True).select_option(label=host)
    boxes = page.locator("input[name=gpus]:visible")
    expect(boxes.first).to_be_visible()
    for number in range(cards):
        boxes.nth(number).check()
    page.locator("input[name=requester_may_approve]").check()
    page.locator("input[name=clean_start_by_itself]").uncheck()
    page.locator("input[name=kill_own_by_itself]").set_checked(kills_by_itself)
    page.locator("[name=co_tenants]").fill(co_tenants)
    if seconds:
        _fill_limits(page, seconds)
    main(page).locator("button[type=submit]").click()
    page.wait_for_url(re.compile(r"/deployments/\d+/$"))


def _fill_limits(page: Page, seconds: Mapping[str, int]) -> None:
    page.locator("summary").filter(has_text="Limits").click()
    for field, value in seconds.items():
        page.locator(f"input[name={field}]").fill(str(value))


def set_limits(page: Page, seconds: Mapping[str, int]) -> None:
    """From a deployment's page: other time-outs, by the name of their field."""
    page.goto(f"{page.url}edit/")
    _fill_limits(page, seconds)
    page.get_by_role("button", name=re.compile("^Save ")).click()
    page.wait_for_url(re.compile(r"/deployments/\d+/$"))


def ask_for(page: Page, *, deployment: str, kind: str, reason: str) -> str:
    """From the deployment's page to the job's page, where the plan waits; returns the job's path."""
    page.goto("/deployments/")
    main(page).get_by_role("link", name=deployment, exact=True).first.click()
    page.wait_for_url(re.compile(r"/deployments/\d+/$"))
    page.goto(page.url + f"{kind}/")
    page.get_by_label("Why").fill(reason)
    page.get_by_role("button", name="Make the plan").click()
    page.wait_for_url(re.compile(r"/jobs/\d+/$"))
    expect(page.get_by_role("button", name=f"Approve and {kind}")).to_be_visible(timeout=30_000)
    return re.sub(r"^https?://[^/]+", "", page.url)


def press(page: Page, kind: GateKind, choice: str, *, title: str = "", reason: str = "") -> None:
    """Answer the open question of this kind. ``title``: a part of it; ``reason`` where the choice needs one."""
    panel = main(page).locator("[data-key^=gate]").filter(has=page.locator("h2", has_text=re.compile(TITLES[kind])))
    panel = panel.filter(has_text=title)
    button = panel.locator(f"button[name=choice][value='{choice}']")
    expect(button).to_contain_text(BUTTONS[kind, choice], timeout=90_000)
    if reason:
        panel.get_by_label("Comment").fill(reason)
    if not button.is_visible():
        panel.get_by_text("Other choices", exact=True).click()
    with page.expect_navigation():
        button.click()


def approve_for_later(page: Page, *, begins: int, ends: int) -> None:
    """Approve the plan that is shown for a moment without requests, in some hours."""
    page.locator("summary").filter(has_text="Approve it for later").click()
    page.get_by_label("Not before").fill(str(begins))
    page.get_by_label("Not after").fill(str(ends))
    with page.expect_navigation():
        page.get_by_role("button", name="Approve when idle").click()


def ends(page: Page, word: str) -> None:
    """The job's page comes to its end by itself."""
    expect(main(page).get_by_text(word, exact=True).first).to_be_visible(timeout=90_000)


def approve_and_wait(page: Page, *, kind: str) -> list[dict[str, object]]:
    """Approve and follow the job on its page, without a reload, to its end; returns the readings the page got."""
    page.get_by_role("button", name=f"Approve and {kind}").click()
    page.wait_for_load_state()
    page.evaluate(COLLECT_READINGS)
    expect(main(page).get_by_text("Succeeded", exact=True).first).to_be_visible(timeout=90_000)
    seen: list[dict[str, object]] = page.evaluate("() => window.seen")
    return seen
