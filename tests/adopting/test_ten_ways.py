"""Ten differently started servers are adopted, restarted, let go: flags kept, nobody else touched, nothing left."""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from django.utils import timezone

from deployments import services
from deployments.lifecycle import ENDED, JobState
from deployments.models import Deployment
from lab.fleet import Fleet
from lab.processes import Process
from tests.adopting.people import files, on_port, wait_for_server
from tests.adopting.test_release import released
from tests.adopting.ways import WAYS, Start, on_another_port, strangers
from tests.managers.keepers import Bystander, lives
from tests.support.story import Place, Story, told
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(240)]
PORT = 28000
KEEPERS = {  # what is said to look after it; after the restart the same does
    "a unit with Restart=always": "systemd unit chat.service",
    "docker with a restart policy": "container chat",
}


OF_ALL_PANELS = ("/run/lock/relaunch", "/tmp/relaunch-locks")
"""Empty directories for locks, which whoever needs them makes again."""


@dataclass
class Case:
    """One of the ways, with what was there before the panel did anything."""

    story: Story
    start: Start
    way: str
    files: set[str] = field(default_factory=set)
    others: dict[tuple[int, int], Process] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        return self.start.place

    @property
    def server(self) -> Process:
        return wait_for_server(self.place, self.start.port)

    def look(self) -> None:
        """Keep what is there now, besides the server and logins."""
        self.start.beside.wait()
        self.files, self.others = self.files_now(), self.others_now()

    def files_now(self) -> set[str]:
        """On the machine, and on its node."""
        found = {f"{place.machine.name}:{name}" for place in self._both for name in files(place)}
        return {name for name in found if "/lab-" not in name}

    def others_now(self) -> dict[tuple[int, int], Process]:
        return strangers(self.place, self.start.port)

    @property
    def _both(self) -> list[Place]:
        node = self.story.places.get(self.place.node.name, self.place)
        return list({place.machine.name: place for place in (self.place, node)}.values())

    def adopt(self, port: int) -> Deployment:
        found = on_port(self.place, port)
        assert not found.refused, found.refused
        assert found.keeper == KEEPERS.get(self.way, found.keeper)
        return services.adopt(
            self.place.host,
            found,
            name=f"kept-{port}",
            seen_at=timezone.now(),
            requester_may_approve=True,
            actor=self.story.actor,
            address="",
        )

    def attach(self, deployment: Deployment) -> None:
        found = on_port(self.place, self.start.port)
        assert not found.refused, found.refused
        services.attach(deployment, found, seen_at=timezone.now(), actor=self.story.actor, address="")
        deployment.refresh_from_db()

    def nothing_else_was_touched(self) -> None:
        """Nobody has got a signal, nobody has gone, no file is missing."""
        self.start.beside.assert_unharmed()
        now = self.others_now()
        gone = [each.title for key, each in self.others.items() if key not in now]
        assert [title for title in gone if not self._goes_with_the_server(title)] == []
        missing = self.files - self.files_now()
        assert {name for name in missing if not name.endswith(OF_ALL_PANELS)} == set()

    def left(self, kept: list[str]) -> tuple[list[str], list[str]]:
        """What is there now and was not before, besides what was named: files, and command lines."""
        new = {name.partition(":")[2] for name in self.files_now() - self.files}
        named = [name for name in new if name.endswith("/log") and any(name in text for text in kept)]
        files = [name for name in new if not any(log.startswith(name) for log in named)]
        who = [each for key, each in self.others_now().items() if key not in self.others]
        who = [each for each in who if not any(f"Process {each.own_pid}," in text for text in kept)]
        return (
            [name for name in files if name.removesuffix("/exit") not in self._their_launches],
            [each.title for each in who if not self._goes_with_the_server(each.title)],
        )

    def _goes_with_the_server(self, title: str) -> bool:
        """What holds a container, and the wrapper of another panel's launch, which then writes how it ended."""
        holds = self.way == "docker with a restart policy" and title.endswith(f"--port {self.start.port}")
        return holds or any(title == f"sh {where}/run {where}" for where in self._their_launches)

    @property
    def _their_launches(self) -> set[str]:
        """Directories of launches that were there before."""
        found = (name.partition(":")[2] for name in self.files if "/launches/" in name)
        return {name.removesuffix("/run") for name in found if name.endswith("/run")}


@pytest.fixture(params=WAYS)
def case(request: pytest.FixtureRequest, story: Story, fleet: Fleet) -> Iterator[Case]:
    where, begin = WAYS[request.param]
    place = story.add_container(fleet.container(129)) if where == "box" else request.getfixturevalue(where)
    start = Start(fleet, place, PORT + 10 * [*WAYS].index(request.param), Bystander(place, "neighbour"))
    begin(start)
    yield Case(story, start, request.param)


def adopted(case: Case) -> list[Deployment]:
    """Its deployment first, then that of who shares its card."""
    port = case.start.port
    if case.way == "port changed":
        was = wait_for_server(case.place, port + 1)
        deployment = case.adopt(port + 1)
        os.kill(was.lab_pid, signal.SIGTERM)
        until(lambda: deployment.live_launch is None, seconds=60, what="the monitor sees its end")
        on_another_port(case.start)
        case.look()
        case.attach(deployment)
        return [deployment]
    wait_for_server(case.place, port)
    case.look()
    more = [case.adopt(port + 1)] if case.way == "two on one card" else []
    return [case.adopt(port), *more]


def restarted(case: Case, deployment: Deployment) -> None:
    """Whoever must confirm the stop of a loop does so."""
    job = case.story.begin_job(deployment)
    case.story.wait_for(job, JobState.WAITING, *ENDED)
    while job.state == JobState.WAITING:
        gate = job.open_gate
        assert gate is not None and gate.kind == "manager" and case.way == "a loop in tmux", told(job)
        case.story.answer(gate, "stop", comment="It sleeps for long.")
        case.story.wait_for(job, JobState.WAITING, *ENDED)
    assert job.state == JobState.SUCCEEDED, told(job)
    assert (job.plan or {})["flags"] == [], "the plan says that nothing changes"
    of_another = [row["text"] for row in (job.plan or {})["warnings"] if "another Relaunch panel" in row["text"]]
    assert bool(of_another) == (case.way == "another panel")


def test_adopted_restarted_and_let_go(case: Case) -> None:
    deployment, *neighbours = adopted(case)
    was = case.server

    told_at_once = released(case.story, deployment).released["kept"]
    assert told_at_once == [] and case.left([]) == ([], []) and lives(case.place, was)
    case.nothing_else_was_touched()

    case.attach(deployment)
    restarted(case, deployment)
    now = case.server
    assert not lives(case.place, was) and now.cmdline[1:] == was.cmdline[1:]
    assert _same_program(case.place, was.cmdline[0], now.cmdline[0])
    case.nothing_else_was_touched()

    kept = [text for one in (deployment, *neighbours) for text in released(case.story, one).released["kept"]]
    assert lives(case.place, now), "it runs on"
    assert bool(kept) == (case.way not in KEEPERS), kept
    until(lambda: case.left(kept) == ([], []), seconds=10, what="nothing is left", tell=lambda: case.left(kept))
    case.nothing_else_was_touched()
    back = on_port(case.place, case.start.port)
    assert not back.refused, "it can be taken back"
    assert back.keeper == KEEPERS.get(case.way, back.keeper)


def _same_program(place: Place, was: str, now: str) -> bool:
    """By its whole path instead of a name that an activated environment finds."""
    return now == was or now.endswith(f"/bin/{was}")
