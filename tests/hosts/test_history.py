"""The memory of the cards over time: what the monitor writes, what stays, and what the page gets."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from hosts.history.keeping import Due, MemoryHistory, forget_old, read_block, store
from hosts.history.showing import Window, memory
from hosts.history.thinning import STEPS, Block, block_start, pack, thin
from hosts.models import Host, MemoryBlock
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.gpus import GpuList
from hosts.readings import store_cards
from tests.deployments.machine import Machine
from tests.factories import make_gpu, make_host

pytestmark = pytest.mark.django_db
START = block_start(1_800_000_123, 60)
"""An hour."""
CARDS = Machine(cards={"GPU-a": 1, "GPU-b": 7}).facts().gpus.gpus  # type: ignore[union-attr]


def held(**values: object) -> Host:
    until = timezone.now() + timedelta(seconds=60)
    return make_host(monitor_owner="us", monitor_lease_until=until, **values)


def at(second: int, used: int | str) -> HostFacts:
    """A look so many seconds after START; a text is a reason."""
    value = Unknown(used) if isinstance(used, str) else used
    gpus = GpuList((replace(CARDS[0], memory_used=value), CARDS[1]))
    return HostFacts(measured_at=datetime.fromtimestamp(START + second + 0.4, UTC), gpus=gpus)


def stored(host: Host, step: int) -> dict[int, int]:
    """The most in use of the first card, by second after START, where something was read."""
    found: dict[int, int] = {}
    for row in host.memory_blocks.filter(step=step):
        found |= {moment - START: most for moment, (_, most) in read_block(row).cards.get("GPU-a", {}).items()}
    return found


class Written(MemoryHistory):
    """What is due is in the database at once, as it is once the recorder has had it."""

    def add(self, facts: HostFacts) -> None:  # type: ignore[override]
        self._write(super().add(facts))

    def write(self, second: int) -> None:
        self._write(self.due(START + second))

    def _write(self, due: Due | None) -> None:
        if due is not None:
            store([due])
            self.written(due)


def test_each_second_is_kept_and_the_longer_steps_have_its_peak() -> None:
    host = held()
    history = Written(host)
    for second in range(131):
        history.add(at(second, 9000 if second == 37 else second))
    seconds = stored(host, 1)
    assert (seconds[36], seconds[37]) == (36, 9000)
    assert max(seconds) >= 120, "the minute that goes on is written too"
    assert stored(host, 10)[30] == 9000 and stored(host, 10)[110] == 119
    assert stored(host, 60) == {0: 9000, 60: 119}, "the minutes that are over"


def test_it_is_written_in_batches() -> None:
    host = held()
    history = Written(host)
    for second in range(60):
        history.add(at(second, second))
    assert host.memory_blocks.count() == 1, "one row for a minute of all cards"
    missing = set(range(60)) - stored(host, 1).keys()
    assert missing <= set(range(50, 60)), "what was read last is written within ten seconds"


def test_the_next_monitor_goes_on_where_one_was_cut_off() -> None:
    host = held()
    first = Written(host)
    for second in range(45):
        first.add(at(second, 9000 if second == 5 else 1))
    first.write(45)
    second_one = Written(host)
    for second in range(50, 75):
        second_one.add(at(second, 2))
    second_one.write(75)
    assert stored(host, 1)[5] == 9000 and stored(host, 1)[52] == 2 and 47 not in stored(host, 1)
    assert stored(host, 60)[0] == 9000


def test_a_minute_that_nobody_ended_is_ended_after_a_pause() -> None:
    host = held()
    first = Written(host)
    first.add(at(5, 9000))
    first.write(5)
    later = Written(host)
    later.add(at(4000, 1))
    later.write(4000)
    assert stored(host, 60)[0] == 9000 and stored(host, 10)[0] == 9000


def test_what_could_not_be_read_is_a_gap_and_no_zero() -> None:
    host = held()
    history = Written(host)
    for second in range(12):
        history.add(at(second, "Not told." if second < 6 else 3))
    history.write(12)
    assert min(stored(host, 1)) == 6


def test_old_blocks_are_deleted_each_after_its_time() -> None:
    host = make_host()
    now = datetime.fromtimestamp(START + 100 * 86400, UTC)
    for step, kept in ((1, 900), (10, 86400), (60, 30 * 86400)):
        newest = block_start(int(now.timestamp()) - kept, step)
        for start in (newest - 60 * step, newest):
            MemoryBlock.objects.create(host=host, step=step, start=start, cards=pack(Block(step, start)))
    forget_old(now)
    left = MemoryBlock.objects.values_list("step", "start")
    assert sorted(left) == [(step, block_start(int(now.timestamp()) - kept, step)) for step, kept in
                            ((1, 900), (10, 86400), (60, 30 * 86400))]  # fmt: skip


def drawn(host: Host, since: int, until: int, *, now: int) -> tuple[int, list[int | None]]:
    """The step, and the most of the first card."""
    told = memory(host, Window(START + since, START + until), now=START + now)
    assert told["start"] == START + since and all(len(card["most"]) == told["points"] for card in told["cards"])
    return told["step"], told["cards"][0]["most"]


@pytest.fixture
def recorded() -> Host:
    """A host of which an hour and a half was kept; the peak of a second lies in the third minute."""
    host = held()
    store_cards(host, at(0, 1), source="test")
    values = {START + second: (9000, 9000) if second == 125 else (1, 1) for second in range(0, 5400, 5)}
    for step in STEPS:
        blocks: dict[int, Block] = {}
        for moment, value in thin(values, step).items():
            block = blocks.setdefault(block_start(moment, step), Block(step, block_start(moment, step)))
            block.add("GPU-a", moment, value)
            block.add("GPU-b", moment, (7, 7))
        MemoryBlock.objects.bulk_create(
            MemoryBlock(host=host, step=step, start=block.start, cards=pack(block)) for block in blocks.values()
        )
    return host


def test_the_last_minutes_are_drawn_second_by_second(recorded: Host) -> None:
    step, most = drawn(recorded, 5100, 5399, now=5400)
    assert step == 1 and most[5] == 1 and most[6] is None


def test_a_peak_of_a_second_is_on_the_curve_of_the_month(recorded: Host) -> None:
    step, most = drawn(recorded, 3600 - 30 * 86400, 3600, now=5400)
    assert step == 1800 and max(value for value in most if value is not None) == 9000
    least = memory(recorded, Window(START, START + 3599), now=START + 5400)["cards"][0]["least"]
    assert min(value for value in least if value is not None) == 1


def test_older_times_are_drawn_from_what_is_kept_longer(recorded: Host) -> None:
    MemoryBlock.objects.filter(step=1).delete()
    step, most = drawn(recorded, 0, 599, now=5400)
    assert step == 10 and most[12] == 9000


def test_the_curve_of_a_day_ends_with_the_last_reading(recorded: Host) -> None:
    history = Written(recorded)
    history.add(at(5403, 777))
    history.write(5403)
    step, most = drawn(recorded, 5400 - 86400, 5405, now=5405)
    assert step == 60 and most[-1] == 777


def test_a_container_shows_the_curve_that_its_node_was_read_for(recorded: Host) -> None:
    inside = make_host(transport=Host.TransportKind.PCT, via=recorded, vmid=101)
    make_gpu(inside, uuid="GPU-b", index=0)
    told = memory(inside, Window(START, START + 599), now=START + 600)
    assert [card["uuid"] for card in told["cards"]] == ["GPU-b"] and 7 in told["cards"][0]["most"]


def test_a_block_that_cannot_be_read_is_a_gap(recorded: Host) -> None:
    recorded.memory_blocks.filter(start=START).update(cards=b"rubbish")
    step, most = drawn(recorded, 0, 4000, now=5400)
    assert step == 10 and most[12] is None
