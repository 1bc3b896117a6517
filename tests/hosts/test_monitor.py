"""The monitor: one at a time for each host, a thread each, and nobody is forgotten after trouble."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from django.utils import timezone

from hosts import links, monitor
from hosts.claims import OWNER
from hosts.history.keeping import read_block
from hosts.models import Gpu, Host
from hosts.monitor import Monitor
from hosts.probe.facts import HostFacts
from hosts.probe.fake import frame_bytes
from hosts.transport.base import ConnectTimeout
from hosts.transport.fake import Call, FakeTransport, Reply
from tests.deployments.machine import Machine, idle_machine
from tests.factories import make_gpu, make_host

pytestmark = pytest.mark.django_db


@dataclass
class Watching:
    """Remembers what it was told."""

    wants: list[int] = field(default_factory=list)
    facts: list[HostFacts] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def ports(self, host: Host) -> Sequence[int]:
        return self.wants

    def saw(self, host: Host, facts: HostFacts) -> None:
        self.facts.append(facts)

    def lost(self, host: Host, reason: str) -> None:
        self.reasons.append(reason)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "close_old_connections", lambda: None)
    monkeypatch.setattr(monitor, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(monitor, "LONGEST_PAUSE", 0.001)


class Hosts:
    """What the links lead to."""

    def __init__(self, machine: Machine, frames: int = 3) -> None:
        self.machine, self.frames = machine, frames
        self.statuses: list[int] = []
        self.errors: list[Exception] = []
        self.asked: list[Call] = []

    @contextlib.contextmanager
    def borrow(self, host: Host) -> Iterator[FakeTransport]:
        if self.errors:
            raise self.errors.pop(0)
        yield FakeTransport().on("sh", reply=self._watch)

    def ask(self) -> None:
        """Happens as the host is asked."""

    def _watch(self, call: Call) -> Reply:
        self.asked.append(call)
        self.ask()
        token = call.stdin.partition(b"\n")[0].removeprefix(b"TOKEN=").decode()
        chunks = tuple(frame_bytes(token, self.machine.sections()) for _ in range(self.frames))
        return Reply(chunks=chunks, exit_status=self.statuses.pop(0) if self.statuses else 0)


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Hosts:
    hosts = Hosts(idle_machine())
    monkeypatch.setattr(links, "borrow", hosts.borrow)
    return hosts


def owners() -> dict[str, str]:
    return dict(Host.objects.values_list("name", "monitor_owner"))


def test_which_hosts_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    followed: list[int] = []
    soon, ago = timezone.now() + timedelta(seconds=10), timezone.now() - timedelta(seconds=1)
    free = make_host(name="free")
    dead = make_host(name="dead", monitor_owner="other", monitor_lease_until=ago)
    ours = make_host(name="ours", monitor_owner=f"{OWNER}:7", monitor_lease_until=soon)
    slow = make_host(name="slow", monitor_owner=f"{OWNER}:7", monitor_lease_until=ago)
    make_host(name="theirs", monitor_owner="other", monitor_lease_until=soon)
    make_host(name="untested", reach=Host.Reach.UNKNOWN)
    away = make_host(name="away", reach=Host.Reach.UNREACHABLE)
    monkeypatch.setattr(Monitor, "_follow", lambda self, pk, owner: followed.append(pk))
    Monitor()._round()
    new, old = f"{OWNER}:1", f"{OWNER}:7"
    assert set(followed) == {free.pk, dead.pk, ours.pk, slow.pk, away.pk}
    assert owners() == {
        "free": new, "dead": new, "ours": old, "slow": new, "theirs": "other", "untested": "", "away": new,
    }  # fmt: skip
    lease = Host.objects.get(name="ours").monitor_lease_until
    assert lease is not None and lease > timezone.now() + timedelta(seconds=10)


def test_a_host_that_another_monitor_has_taken_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    host, stops = make_host(), []
    live = threading.Event()

    def follow(self: Monitor, pk: int, owner: str) -> None:
        stop = threading.Event()
        stops.append(stop)
        thread = threading.Thread(target=live.wait, daemon=True)
        thread.start()
        self._followers[pk] = monitor._Follower(thread, stop, owner)

    monkeypatch.setattr(Monitor, "_follow", follow)
    made = Monitor()
    made._round()
    made._round()
    assert len(stops) == 1, "one thread a host"
    Host.objects.update(monitor_owner="other", monitor_lease_until=timezone.now() + timedelta(seconds=10))
    made._round()
    assert stops[0].is_set() and host.pk not in made._followers
    Host.objects.update(monitor_lease_until=timezone.now() - timedelta(seconds=1))
    made._round()
    Host.objects.update(monitor_lease_until=timezone.now() - timedelta(seconds=1))
    made._round()
    assert len(stops) == 3 and stops[1].is_set(), "nobody else took it, and yet the thread's readings may be old"
    assert not stops[2].is_set()
    live.set()


def hold(host: Host, *, owner: str = "us", seconds: float = 60) -> str:
    until = timezone.now() + timedelta(seconds=seconds)
    Host.objects.filter(pk=host.pk).update(monitor_owner=owner, monitor_lease_until=until)
    host.refresh_from_db()
    return owner


def lose(host: Host, how: str) -> None:
    """As it is for a monitor that wakes after it was frozen for longer than its lease."""
    if how == "taken":
        Host.objects.filter(pk=host.pk).update(monitor_owner="other")
    else:
        Host.objects.filter(pk=host.pk).update(monitor_lease_until=timezone.now() - timedelta(seconds=1))


def run_host(made: Monitor, host: Host, watching: Watching, *, readings: int = 0, losses: int = 0) -> None:
    """Until that much was told."""
    stop = threading.Event()

    def enough() -> None:
        if len(watching.facts) >= readings and len(watching.reasons) >= losses:
            stop.set()

    saw, lost = watching.saw, watching.lost
    watching.saw = lambda host, facts: (saw(host, facts), enough())[0]  # type: ignore[method-assign]
    watching.lost = lambda host, reason: (lost(host, reason), enough())[0]  # type: ignore[method-assign]
    made._run_host(host.pk, hold(host), stop)


def test_readings_are_stored_and_told(there: Hosts) -> None:
    host, watching = make_host(reach=Host.Reach.UNREACHABLE), Watching()
    run_host(Monitor(watchers=[watching]), host, watching, readings=3)
    assert Gpu.objects.filter(host=host).count() == 2
    host.refresh_from_db()
    assert host.reach == Host.Reach.REACHABLE


def test_who_stops_leaves_no_reading_unwritten(there: Hosts) -> None:
    host, watching = make_host(), Watching()
    run_host(Monitor(watchers=[watching]), host, watching, readings=3)
    (block,) = host.memory_blocks.all()
    assert block.step == 1 and read_block(block).cards.keys() == {"GPU-aaaa", "GPU-bbbb"}


def test_old_memory_is_forgotten_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[int] = []
    made = Monitor()
    monkeypatch.setattr(monitor, "forget_old", lambda: rounds.append(made._rounds))
    for _ in range(25):
        made._round()
    assert rounds == [1, 13, 25]


def test_after_trouble_it_says_so_and_tries_again(there: Hosts) -> None:
    host, watching = make_host(), Watching()
    there.errors = [ConnectTimeout("No answer."), ConnectTimeout("No answer.")]
    run_host(Monitor(watchers=[watching]), host, watching, readings=1, losses=2)
    assert watching.reasons == ["No answer."] * 2
    host.refresh_from_db()
    assert host.reach == Host.Reach.REACHABLE


def test_a_fault_of_ours_does_not_leave_the_host_unread(there: Hosts) -> None:
    watching = Watching()
    there.errors = [ZeroDivisionError()]
    run_host(Monitor(watchers=[watching]), make_host(), watching, readings=1)
    assert watching.facts


def test_a_probe_that_ends_is_started_again(there: Hosts) -> None:
    watching = Watching()
    run_host(Monitor(watchers=[watching]), make_host(), watching, readings=7)
    assert len(there.asked) == 3


def test_a_probe_that_dies_is_a_host_that_cannot_be_read(there: Hosts) -> None:
    watching = Watching()
    there.statuses = [137, 137]
    run_host(Monitor(watchers=[watching]), make_host(), watching, readings=7)
    assert watching.reasons == ["The host's readings ended with status 137."] * 2


def test_ports_are_watched_as_soon_as_somebody_wants_to_know(there: Hosts) -> None:
    there.frames = 6
    watching = Watching()
    made = Monitor(watchers=[watching])
    saw = watching.saw

    def want(host: Host, facts: HostFacts) -> None:
        saw(host, facts)
        watching.wants = [30000]

    watching.saw = want  # type: ignore[method-assign]
    run_host(made, make_host(), watching, readings=5)
    first, second = (call.argv for call in there.asked)
    assert "port=30000" not in first and "procs" not in first[3]
    assert "port=30000" in second and {"procs", "listeners"} <= set(second[3].split(","))
    assert first[-1] == second[-1], "the newer takes the older's slot"


def test_a_host_that_was_removed_ends_its_thread(there: Hosts) -> None:
    Monitor()._run_host(12345, "us", threading.Event())
    assert there.asked == []


@pytest.mark.parametrize("how", ["taken", "over"])
def test_who_has_lost_the_host_writes_no_reading_and_ends(there: Hosts, how: str) -> None:
    host, watching = make_host(reach=Host.Reach.UNREACHABLE), Watching()
    there.frames = 1
    there.ask = lambda: lose(host, how)  # type: ignore[method-assign]
    Monitor(watchers=[watching])._run_host(host.pk, hold(host), threading.Event())
    assert len(there.asked) == 1 and not watching.facts
    assert not Gpu.objects.exists()
    host.refresh_from_db()
    assert host.reach == Host.Reach.UNREACHABLE


def test_who_has_lost_the_host_does_not_say_that_it_is_away() -> None:
    host = make_host()
    hold(host)
    lose(host, "taken")
    Monitor()._trouble(host, ConnectTimeout("No answer."))
    host.refresh_from_db()
    assert (host.reach, host.problem) == (Host.Reach.REACHABLE, "")


def test_the_end_gives_the_hosts_back(there: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    host = make_host()
    stop = threading.Event()

    def follow(self: Monitor, pk: int, owner: str) -> None:
        stop.set()

    monkeypatch.setattr(Monitor, "_follow", follow)
    Monitor().run(stop)
    host.refresh_from_db()
    assert (host.monitor_owner, host.monitor_lease_until) == ("", None)


def test_after_trouble_the_pauses_grow_and_no_two_hosts_come_back_together(
    there: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor, "FIRST_PAUSE", 2.0)
    monkeypatch.setattr(monitor, "LONGEST_PAUSE", 30.0)

    class Stop(threading.Event):
        pauses: list[float] = []

        def wait(self, timeout: float | None = None) -> bool:
            self.pauses.append(timeout or 0)
            if len(self.pauses) >= 7:
                self.set()
            return self.is_set()

    runs = []
    for _ in range(2):
        host, stop = make_host(), Stop()
        stop.pauses = []
        there.errors = [ConnectTimeout("No answer.") for _ in range(7)]
        Monitor()._run_host(host.pk, hold(host), stop)
        runs.append(stop.pauses)
    for pauses in runs:
        assert all(
            usual * 0.8 <= pause <= usual * 1.2 for pause, usual in zip(pauses, [2, 4, 8, 16, 30, 30, 30], strict=True)
        )
    assert runs[0] != runs[1]


def test_a_host_in_maintenance_is_left_alone_and_what_serves_there_is_unknown(
    there: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed: list[int] = []
    monkeypatch.setattr(Monitor, "_follow", lambda self, pk, owner: followed.append(pk))
    host, watching = make_host(maintenance="new driver"), Watching()
    other = make_host(
        maintenance="theirs", monitor_owner="x:1", monitor_lease_until=timezone.now() + timedelta(seconds=9)
    )
    made = Monitor(watchers=[watching])
    made._round()
    assert watching.reasons == ["it is in maintenance (new driver)"] and not followed
    assert owners() == {host.name: "", other.name: "x:1"}
    Host.objects.update(maintenance="")
    made._round()
    assert owners()[host.name].startswith(OWNER) and followed == [host.pk]


def node_with_container(**values: object) -> tuple[Host, Host]:
    node = make_host(monitor_owner="us:1", monitor_lease_until=timezone.now() + timedelta(seconds=60), **values)
    inside = make_host(transport=Host.TransportKind.PCT, via=node, vmid=101)
    make_gpu(node, uuid="GPU-aaaa")
    return node, inside


def sections(there: Hosts) -> list[str]:
    return [call.argv[3] for call in there.asked]


def test_a_container_of_a_node_that_is_read_asks_for_its_cards_once(there: Hosts) -> None:
    _, inside = node_with_container()
    watching = Watching()
    there.frames = 3
    run_host(Monitor(watchers=[watching]), inside, watching, readings=9)
    assert sections(there)[0] == "host,gpus" and set(sections(there)[1:]) == {"host"}
    assert inside.gpus.get(uuid="GPU-aaaa").used_mib is not None, "what it has seen itself stays"


@pytest.mark.parametrize(
    "trouble",
    [
        {"monitor_lease_until": None}, {"gpu_problem": "No driver."}, {"reach": "unreachable"}, {"maintenance": "x"},
    ],
)  # fmt: skip
def test_a_container_asks_itself_where_its_node_is_not_read(there: Hosts, trouble: dict[str, object]) -> None:
    node, inside = node_with_container()
    Host.objects.filter(pk=node.pk).update(**trouble)
    watching = Watching()
    run_host(Monitor(watchers=[watching]), inside, watching, readings=9)
    assert set(sections(there)) == {"host,gpus"}


def test_a_container_asks_itself_when_the_readings_of_its_node_have_stopped(there: Hosts) -> None:
    node, inside = node_with_container()
    node.gpus.update(read_at=timezone.now() - timedelta(seconds=6))
    watching = Watching()
    run_host(Monitor(watchers=[watching]), inside, watching, readings=6)
    assert set(sections(there)) == {"host,gpus"}


def test_from_time_to_time_a_container_is_asked_for_its_cards_again(
    there: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor, "CARDS_AGAIN_SECONDS", 0.0)
    _, inside = node_with_container()
    watching = Watching()
    run_host(Monitor(watchers=[watching]), inside, watching, readings=6)
    assert set(sections(there)) == {"host,gpus"}
