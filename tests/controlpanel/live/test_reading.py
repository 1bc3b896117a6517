"""Pages at the same place share one read; a hint, time and another place each make a new one."""

import threading

import pytest

from controlpanel.live.reading import MOST_SHARED, SHARE_SECONDS, SharedReads
from controlpanel.live.streams import Batch


class Source:
    """Counts its reads."""

    def __init__(self) -> None:
        self.reads = 0

    def __call__(self) -> Batch:
        self.reads += 1
        return Batch([{"read": self.reads}], cursor=self.reads)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def shared(clock: Clock) -> SharedReads:
    return SharedReads(clock=clock)


@pytest.fixture
def source() -> Source:
    return Source()


def test_the_same_place_is_read_once_for_a_moment(shared: SharedReads, clock: Clock, source: Source) -> None:
    first = shared.read("gpus", 1, read=source)
    clock.now += SHARE_SECONDS / 2

    assert shared.read("gpus", 1, read=source) is first
    clock.now += SHARE_SECONDS
    assert shared.read("gpus", 1, read=source) is not first


def test_other_places_and_streams_are_read_for_themselves(shared: SharedReads, source: Source) -> None:
    for stream, cursor in (("gpus", 1), ("gpus", 2), ("gpus", None), ("overview", 1)):
        shared.read(stream, cursor, read=source)

    assert source.reads == 4


def test_a_hint_makes_a_new_read(shared: SharedReads, clock: Clock, source: Source) -> None:
    shared.read("gpus", 1, read=source)
    clock.now += 0.01
    shared.forget("gpus")
    clock.now += 0.01

    assert shared.read("gpus", 1, read=source).cursor == 2
    assert shared.read("gpus", 1, read=source).cursor == 2


def test_a_hint_during_a_read_makes_another_one(shared: SharedReads, clock: Clock, source: Source) -> None:
    def slow() -> Batch:
        clock.now += 0.1
        shared.forget("gpus")
        return source()

    shared.read("gpus", 1, read=slow)
    clock.now += 0.01

    assert shared.read("gpus", 1, read=source).cursor == 2


def test_a_read_that_fails_is_not_kept(shared: SharedReads, source: Source) -> None:
    def broken() -> Batch:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        shared.read("gpus", 1, read=broken)
    assert shared.read("gpus", 1, read=source).cursor == 1


def test_of_many_at_once_one_reads(shared: SharedReads, source: Source) -> None:
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait(10)
        shared.read("gpus", 1, read=source)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert source.reads == 1


def test_the_memory_of_results_is_bounded(shared: SharedReads, source: Source) -> None:
    for cursor in range(MOST_SHARED + 10):
        shared.read("gpus", cursor, read=source)

    assert len(shared._results) == MOST_SHARED
