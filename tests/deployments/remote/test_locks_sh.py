"""The card locks for real: one holder a card over all panels of the machine."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployments.remote.locks import LockedByOther, locked_by
from deployments.remote.script import Said
from tests.deployments.remote.shell import Host, said_of, words

pytestmark = pytest.mark.process

PLACES = (Path("/run/lock/relaunch"), Path("/tmp/relaunch-locks"))
OURS = "panel|7|12|ana|2026-01-01T00:00:00Z"
OUR_NEXT_JOB = "panel|7|13|ana|2026-01-01T01:00:00Z"
THEIRS = "panel|8|99|Ben B.|2026-01-01T00:00:00Z"


@pytest.fixture
def cards() -> Iterator[list[str]]:
    """Uuids that no other test has; the places are the machine's own."""
    made = [f"GPU-test-{uuid.uuid4()}" for _ in range(2)]
    yield made
    for place in PLACES:
        for card in made:
            (place / card).unlink(missing_ok=True)


def locks(
    host: Host, mode: str, cards: list[str], holder: str = OURS, fence: int = 1, live: str = "12 13 99"
) -> list[Said]:
    """``live``: the jobs of the panel that go on."""
    values = {"cards": cards, "holder": holder, "deployment": holder.split("|")[1], "live": live}
    return host.run(host.script("locks", mode=mode, fence=fence, **values))


def held(card: str) -> list[str]:
    return [(place / card).read_text().strip() for place in PLACES if (place / card).exists()]


def test_taken_and_given_back(host: Host, cards: list[str]) -> None:
    assert words(locks(host, "take", cards)) == ["take", "end"]
    assert [held(card) for card in cards] == [[OURS], [OURS]]
    assert words(locks(host, "release", cards)) == ["release", "end"]
    assert [held(card) for card in cards] == [[], []]


def test_another_deployment_is_told_who_holds_it(host: Host, cards: list[str]) -> None:
    locks(host, "take", cards[:1], THEIRS)
    said = locks(host, "take", cards)
    assert "take" not in words(said)
    (line,) = [line for line in said if line.word == "locked"]
    assert locked_by(line) == LockedByOther(cards[0], "panel", "8", "99", "Ben B.", "2026-01-01T00:00:00Z")
    assert "locked by Ben B. since 2026-01-01T00:00:00Z" in str(locked_by(line))
    locks(host, "release", cards)
    assert held(cards[0]) == [THEIRS], "what is another's is not given back"


@pytest.mark.parametrize("place", PLACES)
def test_a_lock_counts_at_either_place(host: Host, cards: list[str], place: Path) -> None:
    locks(host, "take", cards[1:])  # makes the places
    (place / cards[0]).write_text(THEIRS + "\n")
    assert said_of(locks(host, "take", cards), "locked") == [f"{cards[0]} {THEIRS}"]


def test_our_own_lock_of_an_earlier_job_is_taken_over(host: Host, cards: list[str]) -> None:
    locks(host, "take", cards)
    assert words(locks(host, "take", cards, OUR_NEXT_JOB)) == ["take", "end"]
    assert held(cards[0]) == [OUR_NEXT_JOB]


def test_what_an_ended_job_of_another_deployment_of_ours_has_left_is_taken_over(host: Host, cards: list[str]) -> None:
    locks(host, "take", cards, THEIRS)
    assert "locked" in words(locks(host, "take", cards, live="12 99 100"))
    assert words(locks(host, "take", cards, live="12 199")) == ["take", "end"]
    assert held(cards[0]) == [OURS]


def test_another_panels_deployment_of_the_same_number_is_not_ours(host: Host, cards: list[str]) -> None:
    locks(host, "take", cards, "other|7|1|x|y")
    assert "locked" in words(locks(host, "take", cards))


def test_an_older_worker_neither_takes_nor_gives_back(host: Host, cards: list[str]) -> None:
    locks(host, "take", cards, OUR_NEXT_JOB, fence=5)
    assert words(locks(host, "release", cards, fence=4)) == ["fenced", "end"]
    assert held(cards[0]) == [OUR_NEXT_JOB]
    locks(host, "release", cards, fence=5)
    assert words(locks(host, "take", cards, fence=4)) == ["fenced", "end"]
    assert held(cards[0]) == []


def test_a_lock_without_a_word_is_still_a_lock() -> None:
    told = str(locked_by(Said("locked", ("GPU-1",))))
    assert "somebody" in told and "unknown time" in told


def test_what_this_call_has_taken_is_given_back_when_another_has_the_second_card(host: Host, cards: list[str]) -> None:
    locks(host, "take", cards[1:], THEIRS)
    assert "locked" in words(locks(host, "take", cards))
    assert [held(card) for card in cards] == [[], [THEIRS]]


def test_what_an_earlier_call_of_the_job_has_taken_stays(host: Host, cards: list[str]) -> None:
    locks(host, "take", cards[:1])
    locks(host, "take", cards[1:], THEIRS)
    assert "locked" in words(locks(host, "take", cards))
    assert [held(card) for card in cards] == [[OURS], [THEIRS]], "the job's end gives it back"
