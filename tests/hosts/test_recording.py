"""The recorder: what is worth writing, many looks in one transaction, and nothing of a host that is another's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from hosts import recording
from hosts.history.keeping import MemoryHistory
from hosts.models import Gpu, Host, MemoryBlock
from hosts.probe.facts import HostFacts
from hosts.probe.frames import NOT_ASKED
from hosts.readings import HoldLost
from hosts.recording import CardKeeper, Look, Recorder
from tests.deployments.machine import BOOT, Machine, idle_machine
from tests.factories import make_gpu, make_host
from tests.support.waiting import until

pytestmark = pytest.mark.django_db


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hints."""
    found: list[str] = []
    monkeypatch.setattr(recording.hints, "hint", found.append)
    return found


def held(**values: Any) -> Host:
    until_then = timezone.now() + timedelta(seconds=60)
    return make_host(**({"monitor_owner": "us", "monitor_lease_until": until_then} | values))


def later(machine: Machine, seconds: float) -> HostFacts:
    facts = machine.facts()
    return replace(facts, measured_at=facts.measured_at + timedelta(seconds=seconds))


def test_cards_that_stay_as_they_are_are_written_every_two_seconds() -> None:
    keeper, machine = CardKeeper(make_host()), idle_machine()
    assert [keeper.look(later(machine, at)).cards for at in (0, 1, 1.9, 2, 3)] == [True, False, False, True, False]
    machine.cards["GPU-aaaa"] = 99
    assert keeper.look(later(machine, 3.1)).cards


def test_all_of_a_card_is_written_when_it_is_another_and_once_a_minute() -> None:
    keeper, machine = CardKeeper(make_host()), idle_machine()
    assert [keeper.look(later(machine, at)).whole for at in (0, 2, 4)] == [True, False, False]
    machine.broken["gpus"] = ("couldn't communicate with the NVIDIA driver", 9)
    assert keeper.look(later(machine, 5)).whole
    machine.broken.clear()
    assert keeper.look(later(machine, 6)).whole
    assert [keeper.look(later(machine, at)).whole for at in (8, 65, 67)] == [False, False, True]


def test_pages_are_told_of_what_they_show(told: list[str]) -> None:
    recorder, keeper, machine = Recorder(), CardKeeper(held()), idle_machine()
    recorder.keep(keeper.look(later(machine, 0)))
    assert told.pop() == "gpus" and not [name for name in told if name == "overview"]
    told.clear()
    recorder.keep(keeper.look(later(machine, 2)))
    assert told == [], "nothing has changed but the time"
    machine.cards["GPU-aaaa"] = 99
    recorder.keep(keeper.look(later(machine, 3)))
    assert told == ["gpus"]


@pytest.mark.parametrize("used", [99, "[N/A]"])
def test_the_short_way_writes_what_the_long_one_does(used: int | str) -> None:
    short, long = held(), held()
    machine = idle_machine()
    for host, ways in ((short, (True, False)), (long, (True, True))):
        for seconds, whole in enumerate(ways):
            machine.cards["GPU-aaaa"] = used if seconds else 4
            Recorder().keep(Look(host, later(machine, seconds), cards=True, whole=whole))
    own = ("id", "host_id")
    rows = [[{k: v for k, v in row.items() if k not in own} for row in host.gpus.values()] for host in (short, long)]
    assert rows[0] == rows[1]
    assert rows[0][0]["read_at"] == later(machine, 1).measured_at
    assert rows[0][0]["used_mib"] == (99 if used == 99 else None)


def test_a_host_that_answers_again_is_reachable(told: list[str]) -> None:
    host = held(reach=Host.Reach.UNREACHABLE, problem="gone", hint="look")
    Recorder().keep(Look(host, later(idle_machine(), 1), cards=True))
    host.refresh_from_db()
    assert (host.reach, host.problem, host.hint, host.boot_id) == (Host.Reach.REACHABLE, "", "", BOOT)
    assert host.last_seen_at == later(idle_machine(), 1).measured_at and "overview" in told


def test_many_hosts_cost_one_transaction() -> None:
    def statements(count: int) -> int:
        looks = [Look(held(), idle_machine().facts(), cards=True) for _ in range(count)]
        with CaptureQueriesContext(
            connection,
        ) as seen:
            recording._write(looks)
        assert not [look.error for look in looks if look.error]
        return len(seen)

    assert statements(2) == statements(20)


@pytest.mark.parametrize("how", [{"monitor_owner": "other"}, {"monitor_lease_until": timezone.now()}])
def test_of_a_host_that_is_lost_nothing_is_written_and_the_others_are(how: dict[str, Any]) -> None:
    ours, lost = held(), held(reach=Host.Reach.UNREACHABLE)
    Host.objects.filter(pk=lost.pk).update(**how)
    looks = []
    for host in (ours, lost):
        history = MemoryHistory(host)
        history.add(idle_machine().facts())
        looks.append(Look(host, idle_machine().facts(), cards=True, whole=True, due=history.due(2**40)))
    recording._write(looks)
    assert looks[0].error is None and isinstance(looks[1].error, HoldLost)
    assert {gpu.host_id for gpu in Gpu.objects.all()} == {ours.pk}
    assert {block.host_id for block in MemoryBlock.objects.all()} == {ours.pk}
    lost.refresh_from_db()
    assert lost.reach == Host.Reach.UNREACHABLE


def test_who_loses_a_host_while_he_writes_takes_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, lost = held(), held()
    make_gpu(lost, uuid="GPU-aaaa", used_mib=7)
    store = recording._store

    def freeze(looks: list[Look], **away: Any) -> None:
        store(looks, **away)
        if len(looks) == 2:
            monkeypatch.setattr(recording, "_held", lambda looks: {ours.pk: "reachable"})

    monkeypatch.setattr(recording, "_store", freeze)
    looks = [Look(host, idle_machine().facts(), cards=True) for host in (ours, lost)]
    looks[1].whole = True
    recording._write(looks)
    assert looks[0].error is None and isinstance(looks[1].error, HoldLost)
    assert Gpu.objects.get(uuid="GPU-aaaa").used_mib == 7


@pytest.fixture
def gathering(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    """A recorder with its thread."""
    monkeypatch.setattr(recording, "close_old_connections", lambda: None)
    monkeypatch.setattr(recording, "GATHER_SECONDS", 0.001)
    recorder = Recorder()
    recorder.start()
    yield recorder
    recorder.stop()


def keep_from_threads(recorder: Recorder, looks: list[Look]) -> list[BaseException | None]:
    found: dict[int, BaseException | None] = {}

    def keep(number: int, look: Look) -> None:
        try:
            recorder.keep(look)
            found[number] = None
        except BaseException as error:
            found[number] = error

    threads = [threading.Thread(target=keep, args=item) for item in enumerate(looks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    return [found[number] for number in range(len(looks))]


def test_looks_of_many_threads_are_written_together(gathering: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []
    monkeypatch.setattr(recording, "_write", lambda looks: batches.append(len(looks)))
    monkeypatch.setattr(recording, "GATHER_SECONDS", 0.2)
    facts = idle_machine().facts()
    assert keep_from_threads(gathering, [Look(Host(pk=n), facts) for n in range(10)]) == [None] * 10
    assert sum(batches) == 10 and len(batches) < 4


def test_a_database_that_fails_is_told_to_all_who_wait_and_the_next_look_is_written(
    gathering: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = [True]
    done: list[int] = []

    def write(looks: list[Look]) -> None:
        if failing:
            raise DatabaseError("locked")
        done.append(len(looks))

    monkeypatch.setattr(recording, "_write", write)
    facts = idle_machine().facts()
    errors = keep_from_threads(gathering, [Look(Host(pk=n), facts) for n in range(3)])
    assert [type(error) for error in errors] == [DatabaseError] * 3
    failing.clear()
    assert keep_from_threads(gathering, [Look(Host(pk=1), facts)]) == [None]


def test_the_end_writes_what_is_there_first(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    monkeypatch.setattr(recording, "close_old_connections", lambda: None)
    monkeypatch.setattr(recording, "_write", lambda looks: written.append(len(looks)))
    recorder, looks = Recorder(), [Look(Host(pk=1), idle_machine().facts())]
    recorder.start()
    threading.Thread(target=recorder.keep, args=(looks[0],), daemon=True).start()
    until(lambda: recorder._looks, seconds=5, what="the look waits")
    recorder.stop()
    assert written == [1] and looks[0].done.is_set()


def test_what_is_read_on_a_node_is_read_for_its_containers() -> None:
    node = held()
    inside, elsewhere = make_host(transport="pct", via=node, vmid=101), make_host(via=node)
    for host in (inside, elsewhere):
        make_gpu(host, uuid="GPU-aaaa", used_mib=1)
    theirs = make_gpu(inside, uuid="GPU-other", used_mib=2)
    machine = idle_machine()
    machine.cards["GPU-aaaa"] = 99
    Recorder().keep(Look(node, later(machine, 1), cards=True, whole=True))
    card = inside.gpus.get(uuid="GPU-aaaa")
    assert (card.used_mib, card.read_at) == (99, later(machine, 1).measured_at)
    assert elsewhere.gpus.get().used_mib == 1, "a host behind a jump host has cards of its own"
    theirs.refresh_from_db()
    assert theirs.used_mib == 2


def test_a_container_that_was_not_asked_for_its_cards_keeps_them() -> None:
    inside, machine = held(), idle_machine()
    make_gpu(inside, uuid="GPU-aaaa", used_mib=5)
    keeper = CardKeeper(inside)
    looks = [keeper.look(replace(later(machine, at), gpus=NOT_ASKED)) for at in (0, 1, 2)]
    assert [look.cards for look in looks] == [True, False, True] and not any(look.whole or look.news for look in looks)
    Recorder().keep(looks[2])
    assert inside.gpus.get().used_mib == 5
    inside.refresh_from_db()
    assert inside.last_seen_at == looks[2].facts.measured_at
