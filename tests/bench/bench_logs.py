"""How fast a server's log comes from its host, masked, numbered and stored, and whether a flood of it holds up others.

The server writes its lines, 120 bytes each and one write() a line, before it says that it is ready, so that its job
keeps all of them. The peer is ``ssh tail -F`` of the same writer, its output read and thrown away. Then a server writes
a flood while plans are asked for on another host: the same worker makes both. LINES, FLOOD and RUNS say how much.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

from controlpanel.masking import MASK
from deployments.lifecycle import ENDED, JobKind
from deployments.models import Deployment, Job, Launch
from lab.engines.talker import LINE_BYTES, PLANTED
from lab.fleet import L40S, Fleet, Host, HostSpec
from tests.bench.figures import tell
from tests.bench.peers import OPTIONS
from tests.support.panel import Panel
from tests.support.story import READY_STANDIN, STANDIN, Place, Story, launch_of
from tests.support.waiting import until

TALKER = "/lab/bin/talker"
SECRETS = 1000
"""One line in so many holds the planted secret."""
PLANS = 20
UNCHANGED = 1.25
"""Of its quiet p95, at most: two runs without any flood differ by as much."""
NUMBER = re.compile(r"^[0-9.]+ INFO Decode batch ([0-9]+),", re.MULTILINE)


@dataclass
class Found:
    """All that was measured."""

    panel: list[float] = field(default_factory=list)
    """Lines per second."""
    tail: list[float] = field(default_factory=list)
    quiet: list[float] = field(default_factory=list)
    """Seconds from the click to the plan."""
    flooded: list[float] = field(default_factory=list)
    flood: float = 0.0
    wrong: int = 0
    """Lines that are missing, came twice, out of order or unmasked."""


def run(directory: Path) -> None:
    """Measure and print."""
    lines, flood = int(os.environ.get("LINES") or "100000"), int(os.environ.get("FLOOD") or "1000000")
    found = Found()
    hosts = [HostSpec(name=name, cards=[L40S] * 2, disk_mib=2048) for name in ("gpu1", "gpu2")]
    with Fleet(directory / "fleet", hosts=hosts) as fleet, Panel(directory / "data") as panel:
        story = Story.begin()
        talking, other = (story.add_host(fleet.host(name)) for name in ("gpu1", "gpu2"))
        panel.start("worker")
        panel.start("monitor")
        server = deploy_talker(story, talking, lines)
        for _ in range(int(os.environ.get("RUNS") or "5")):
            found.tail.append(by_tail(fleet, talking.node, lines))
            found.panel.append(by_panel(story, server, lines, found))
        story.run_job(server, JobKind.STOP)
        beside_a_flood(story, deploy_talker(story, talking, flood), other, flood, found)
    tell_all(found, flood)


def deploy_talker(story: Story, place: Place, lines: int) -> Deployment:
    """A server that says so much before it is ready."""
    server = [STANDIN, "--port", "{port}", "--gpu", "0", "--mib", "20000", "--ready", "0", "--stop", "0"]
    argv = [TALKER, "--lines", str(lines), "--each", str(SECRETS), "--", *server]
    return story.deploy(place, argv, cards=(0,), ready=READY_STANDIN)


def by_panel(story: Story, server: Deployment, lines: int, found: Found) -> float:
    """Lines per second from the first that is written to the last that is stored."""
    kind = JobKind.RESTART if server.launches.exists() else JobKind.START
    job = story.succeeded(story.begin_job(server, kind), seconds=600)
    launch = launch_of(job)
    found.wrong += wrong_lines(launch, lines)
    return lines / seconds_of(launch, lines)


def seconds_of(launch: Launch, lines: int) -> float:
    """From the moment in the first line until the last is stored."""
    chunks = launch.log.order_by("seq")
    last = chunks.filter(offset__lt=lines * LINE_BYTES).order_by("-seq")[0]
    return last.at.timestamp() - float(chunks[0].text.partition(" ")[0])


def wrong_lines(launch: Launch, lines: int) -> int:
    """How many lines are not exactly once, in order, masked and numbered there."""
    offset, line, said, text = 0, None, [], ""
    wrong = 0
    for chunk in launch.log.order_by("seq"):
        wrong += (chunk.offset != offset) + (line is not None and chunk.line < line) + bool(chunk.dropped)
        offset, line = chunk.offset + chunk.length, chunk.line + chunk.lines
        text += chunk.text
    said = [int(number) for number in NUMBER.findall(text)]
    wrong += sum(number != wanted for number, wanted in zip(said, range(1, lines + 1), strict=False))
    return wrong + abs(len(said) - lines) + text.count(PLANTED) + abs(text.count(MASK) - lines // SECRETS)


def by_tail(fleet: Fleet, host: Host, lines: int) -> float:
    """Lines per second by ``ssh tail -F`` of a file that the same writer fills."""
    file = "/tmp/talker.log"
    host.exec(["sh", "-c", f": > {file}"], timeout=10)
    command = ["ssh", "-i", str(fleet.client_key), *OPTIONS, f"root@{host.address}", f"echo; exec tail -n +1 -F {file}"]
    follower = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, bufsize=0)
    assert follower.stdout is not None
    try:
        follower.stdout.readline()  # it is connected
        writer = f"setsid -f {TALKER} --lines {lines} --each {SECRETS} --to {file} < /dev/null > /dev/null 2>&1"
        host.exec(["sh", "-c", writer], timeout=10)
        first = follower.stdout.readline()
        left = (lines - 1) * LINE_BYTES
        while left and (data := os.read(follower.stdout.fileno(), min(left, 65536))):
            left -= len(data)
        return lines / (time.time() - float(first.split()[0]))
    finally:
        follower.kill()
        follower.wait(10)


def beside_a_flood(story: Story, server: Deployment, other: Place, lines: int, found: Found) -> None:
    """Plans without a flood, then plans for as long as one lasts."""
    deployment = story.deploy_standin(other)
    story.start(deployment)
    seconds_to_plan(story, deployment)
    found.quiet = [seconds_to_plan(story, deployment) for _ in range(PLANS)]
    job = story.begin_job(server, JobKind.START)
    found.flooded = list(plans_until_its_end(story, deployment, job))
    launch = launch_of(story.succeeded(job, seconds=600))
    found.wrong += wrong_lines(launch, lines)
    found.flood = lines / seconds_of(launch, lines)


def plans_until_its_end(story: Story, deployment: Deployment, job: Job) -> Iterator[float]:
    """One after another, from the first line of its log on."""
    until(lambda: Launch.objects.filter(job=job, log__isnull=False).exists(), seconds=60, what="the flood")
    while Job.objects.exclude(state__in=ENDED).filter(pk=job.pk).exists():
        yield seconds_to_plan(story, deployment)


def seconds_to_plan(story: Story, deployment: Deployment) -> float:
    """From the click until the plan can be read."""
    job = story.ask(deployment)
    gate = story.gate(job, "plan")
    story.answer(gate, "discard")
    story.wait_for_end(job)
    return (gate.opened_at - job.created_at).total_seconds()


def tell_all(found: Found, flood: int) -> None:
    """The lines of the benchmark."""
    for name, rates in (("panel", found.panel), ("ssh tail -F", found.tail)):
        print(f"  {name:11} {median(rates):,.0f} lines/s ({min(rates):,.0f}-{max(rates):,.0f}, n={len(rates)})")
    print(f"  a flood of {flood:,} lines: {found.flood:,.0f} lines/s, {len(found.flooded)} plans made meanwhile")
    panel, tail = median(found.panel), median(found.tail)
    tell("logs_rate", round(panel), "lines/s", goal=">=0.25x_tail", peer=f"{tail:.0f}", ok=panel >= 0.25 * tail)
    tell("logs_of_tail", panel / tail, "x", goal=">=0.25", peer="1", ok=panel >= 0.25 * tail)
    tell("logs_wrong", found.wrong, "lines", goal="0", peer="none", ok=found.wrong == 0)
    quiet, flooded = (quantiles(seconds, n=20, method="inclusive")[-1] for seconds in (found.quiet, found.flooded))
    ok = flooded <= UNCHANGED * quiet
    tell("logs_control_p95", flooded, "s", goal=f"<={UNCHANGED}x_quiet", peer=f"{quiet:.2f}_quiet", ok=ok)
