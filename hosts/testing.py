"""The connection test of a host: each finding with what to do about it, shown as it is found."""

from __future__ import annotations

from typing import Literal

from django.db import close_old_connections
from django.utils import timezone

from controlpanel.live import hints
from controlpanel.templatetags.words import duration
from hosts import doubles, links
from hosts.models import Host, HostTest
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.probe import EVERYTHING, probe
from hosts.readings import not_reached, reached, store_cards
from hosts.transport.base import SudoRefused, Transport, TransportError

Status = Literal["ok", "not ok", "unknown"]
TIMEOUT_SECONDS = 45.0
TOOLS = {
    "flock": "util-linux",
    "setsid": "util-linux",
    "timeout": "coreutils",
    "awk": "mawk or gawk",
    "stat": "coreutils",
}
LEAST_FREE_MIB = 64


class _Findings:
    """Adds findings to a test's row one by one."""

    def __init__(self, test: HostTest) -> None:
        self._test = test

    def add(self, label: str, status: Status, detail: str, *, hint: str = "") -> None:
        self._test.findings.append({"label": label, "status": status, "detail": detail, "hint": hint})
        HostTest.objects.filter(pk=self._test.pk).update(findings=self._test.findings)
        hints.hint(f"hosttest:{self._test.pk}")


def run_test(test_id: int) -> None:
    """Do one test. Rung twice, it runs once."""
    close_old_connections()
    if not HostTest.objects.filter(pk=test_id, started_at=None).update(started_at=timezone.now()):
        return
    test = HostTest.objects.select_related("host", "host__via").get(pk=test_id)
    found = _Findings(test)
    links.POOL.evict(test.host_id)
    try:
        with links.borrow(test.host) as transport:
            if test.host.transport != Host.TransportKind.PCT:
                found.add("Connection", "ok", f"Connected to {test.host.where}.")
            _look(test.host, transport, found)
    except TransportError as error:
        not_reached(test.host, error)
        found.add("Connection", "not ok", str(error), hint=error.hint)
    finally:
        HostTest.objects.filter(pk=test_id).update(finished_at=timezone.now())
        hints.hint(f"hosttest:{test_id}")
        hints.hint("overview")


def _look(host: Host, transport: Transport, found: _Findings) -> None:
    facts = _facts(host, transport, found)
    if host.transport == Host.TransportKind.PCT:  # what was open before is the link of its node
        found.add("Connection", "ok", f"Connected to {host.where}.")
    reached(host, facts)
    store_cards(host, facts, source="test")
    _host(facts, found)
    _double(host, found)
    _cards(facts, found)
    _sight(host, facts, found)
    _disk(facts, found)
    _tools(transport, found)


def _facts(host: Host, transport: Transport, found: _Findings) -> HostFacts:
    """One look at everything; without sudo where the host refuses it, so that the rest is found all the same."""
    if host.sudo:
        try:
            facts = probe(transport, sections=EVERYTHING, timeout=TIMEOUT_SECONDS, paths=["."], sudo=True)
        except SudoRefused as refused:
            found.add("Root by sudo", "not ok", str(refused), hint=refused.hint)
        else:
            found.add("Root by sudo", "ok", "The login may use sudo without a password.")
            return facts
    return probe(transport, sections=EVERYTHING, timeout=TIMEOUT_SECONDS, paths=["."])


def _host(facts: HostFacts, found: _Findings) -> None:
    if isinstance(facts.host, Unknown):
        found.add("Host", "unknown", facts.host.reason, hint="The login needs a POSIX shell.")
        return
    up = duration(facts.host.uptime_seconds, parts=1)
    found.add("Host", "ok", f"It calls itself {facts.host.hostname} and has been up for {up}.")


def _double(host: Host, found: _Findings) -> None:
    """That it was added before, under another name."""
    host.refresh_from_db(fields=["boot_id", "hostname"])
    if others := doubles.same_machine(host):
        found.add("Known already", "not ok", doubles.in_words(host, others), hint=doubles.hint(host, others))


def _cards(facts: HostFacts, found: _Findings) -> None:
    if isinstance(facts.gpus, Unknown):
        hint = "Install the NVIDIA driver, or pass the cards to this container. Without it no card can be verified."
        found.add("Cards", "not ok", facts.gpus.reason, hint=hint)
        return
    for fault in facts.gpus.faults:
        found.add("Cards", "not ok", fault, hint="Look at the host's kernel log.")
    if facts.gpus.gpus:
        first = facts.gpus.gpus[0]
        found.add("Cards", "ok", f"{len(facts.gpus.gpus)} x {first.name}, driver {first.driver_version}.")


def _sight(host: Host, facts: HostFacts, found: _Findings) -> None:
    if isinstance(facts.files, Unknown):
        found.add("Who holds the cards", "unknown", facts.files.reason)
    elif facts.files.partial:
        found.add(
            "Who holds the cards",
            "unknown",
            "This login may not see the files of other users' processes.",
            hint=_as_root(host),
        )
    else:
        held = [holder for holder in facts.files.holders if holder.cards]
        commands = "; ".join(facts.details[h.pid].command[:80] for h in held if h.pid in facts.details)
        found.add("Who holds the cards", "ok", f"{len(held)} processes{': ' + commands if commands else ''}.")


def _as_root(host: Host) -> str:
    """How this host is looked at with root's eyes, in the words of its form."""
    if host.transport == Host.TransportKind.PCT:
        return f"Let {host.via} enter the container as root."
    who = "Run the panel as root" if host.transport == Host.TransportKind.LOCAL else "Log in as root"
    login = "its user" if host.transport == Host.TransportKind.LOCAL else "the login"
    return f"{who}, or let {login} use sudo without a password and tick “Use sudo where root is needed” under Edit."


def _disk(facts: HostFacts, found: _Findings) -> None:
    space = facts.disks.get(".")
    if space is None or isinstance(space, Unknown):
        found.add("Disk", "unknown", space.reason if isinstance(space, Unknown) else "Not measured.")
    elif space.free < LEAST_FREE_MIB:
        found.add(
            "Disk", "not ok", f"Only {space.free} MiB are free on {space.mount}.", hint="Free some space for logs."
        )
    else:
        found.add("Disk", "ok", f"{space.free:,} MiB are free on {space.mount}.")


def _tools(transport: Transport, found: _Findings) -> None:
    script = "for tool; do command -v $tool >/dev/null 2>&1 || echo $tool; done"
    result = transport.run(["sh", "-c", script, "sh", *TOOLS], timeout=10.0)
    missing = [tool for tool in result.stdout.decode(errors="replace").split() if tool in TOOLS]
    if missing:
        packages = ", ".join(dict.fromkeys(TOOLS[tool] for tool in missing))
        found.add("Tools", "not ok", f"Missing: {', '.join(missing)}.", hint=f"Install {packages} on the host.")
    else:
        found.add("Tools", "ok", "Everything that a launch needs is there.")
