"""The pool: one link a host, probed when idle, never lent twice after it broke."""

import os
import threading
from dataclasses import dataclass, field

import pytest

from hosts.links import LinkPool
from hosts.transport.base import CommandTimeout, ConnectRefused, LinkDown, LinkLost
from hosts.transport.fake import FakeTransport, Reply


@dataclass
class Row:
    """As much of a host as the pool looks at."""

    pk: int = 1
    address: str = "gpu1"


@dataclass
class Opener:
    """Opens fakes and remembers them; `now` is the pool's clock."""

    opened: list[FakeTransport] = field(default_factory=list)
    now: float = 100.0
    refuses: bool = False

    def __call__(self, host: Row, *, timeout: float) -> FakeTransport:
        if self.refuses:
            raise ConnectRefused("nothing listens")
        fake = FakeTransport().on("true", reply=Reply()).on("lost", reply=LinkLost("gone"))
        fake.on("slow", reply=Reply(hangs=True))
        self.opened.append(fake)
        return fake


@pytest.fixture
def opener() -> Opener:
    return Opener()


@pytest.fixture
def pool(opener: Opener) -> LinkPool:
    return LinkPool(open_link=opener, signature=lambda host: (host.address,), clock=lambda: opener.now)


def use(pool: LinkPool, host: Row, word: str = "true") -> None:
    with pool.borrow(host) as transport:
        transport.run([word], timeout=1)


def test_a_link_is_opened_once(pool: LinkPool, opener: Opener) -> None:
    use(pool, Row())
    use(pool, Row())
    assert (len(opener.opened), pool.counters.probed) == (1, 0)


def test_each_host_has_its_own(pool: LinkPool, opener: Opener) -> None:
    use(pool, Row(1))
    use(pool, Row(2))
    assert len(opener.opened) == 2


def test_an_idle_link_is_probed_before_it_is_lent(pool: LinkPool, opener: Opener) -> None:
    use(pool, Row())
    opener.now += 3
    use(pool, Row())
    assert (len(opener.opened), pool.counters.probed) == (1, 1)
    assert opener.opened[0].commands() == [("true",), ("true",)]


def test_a_dead_idle_link_is_replaced(pool: LinkPool, opener: Opener) -> None:
    use(pool, Row())
    opener.opened[0].alive = False
    opener.now += 3
    use(pool, Row())
    assert len(opener.opened) == 2
    assert opener.opened[0].closed


def test_a_lost_link_is_thrown_away(pool: LinkPool, opener: Opener) -> None:
    with pytest.raises(LinkLost):
        use(pool, Row(), "lost")
    assert opener.opened[0].closed
    use(pool, Row())
    assert len(opener.opened) == 2


def test_a_link_that_is_dead_before_a_command_was_sent_is_exchanged(pool: LinkPool, opener: Opener) -> None:
    with pool.borrow(Row()) as transport:
        opener.opened[0].on("true", reply=LinkDown("gone"))
        transport.run(["true"], timeout=1)
        assert opener.opened[0].closed
        transport.run(["true"], timeout=1)
    use(pool, Row())
    assert len(opener.opened) == 2
    assert opener.opened[1].commands() == [("true",)] * 3


def test_it_is_exchanged_once_only(pool: LinkPool, opener: Opener) -> None:
    with pytest.raises(LinkDown), pool.borrow(Row()) as transport:
        opener.opened[0].on("true", reply=LinkDown("gone"))
        transport.run(["true"], timeout=1)
        opener.opened[1].on("true", reply=LinkDown("gone again"))
        transport.run(["true"], timeout=1)
    assert [fake.closed for fake in opener.opened] == [True, True]


def test_no_new_link_to_be_had_is_told(pool: LinkPool, opener: Opener) -> None:
    with pytest.raises(ConnectRefused), pool.borrow(Row()) as transport:
        opener.opened[0].on("true", reply=LinkDown("gone"))
        opener.refuses = True
        transport.run(["true"], timeout=1)
    opener.refuses = False
    use(pool, Row())
    assert len(opener.opened) == 2 and opener.opened[0].closed


def test_a_command_that_was_sent_is_never_sent_again(pool: LinkPool, opener: Opener) -> None:
    with pytest.raises(LinkLost), pool.borrow(Row()) as transport:
        transport.run(["lost"], timeout=1)
    assert len(opener.opened) == 1


def test_a_time_out_makes_the_next_borrower_look(pool: LinkPool, opener: Opener) -> None:
    with pytest.raises(CommandTimeout):
        use(pool, Row(), "slow")
    use(pool, Row())
    assert (len(opener.opened), pool.counters.probed) == (1, 1)


def test_a_changed_address_opens_a_new_link(pool: LinkPool, opener: Opener) -> None:
    use(pool, Row(address="gpu1"))
    use(pool, Row(address="gpu2"))
    assert len(opener.opened) == 2
    assert opener.opened[0].closed


def test_a_refused_connection_leaves_nothing_behind(pool: LinkPool, opener: Opener) -> None:
    opener.refuses = True
    with pytest.raises(ConnectRefused):
        use(pool, Row())
    opener.refuses = False
    use(pool, Row())


def test_threads_share_one_link(pool: LinkPool, opener: Opener) -> None:
    threads = [threading.Thread(target=use, args=(pool, Row())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(opener.opened) == 1


def test_a_retired_link_serves_its_borrowers_to_the_end(pool: LinkPool, opener: Opener) -> None:
    with pool.borrow(Row()) as transport:
        pool.evict(1)
        use(pool, Row())
        assert transport.run(["true"], timeout=1).ok
        assert not opener.opened[0].closed
    assert opener.opened[0].closed
    assert not opener.opened[1].closed


def test_closing_all_closes_each(pool: LinkPool, opener: Opener) -> None:
    use(pool, Row(1))
    use(pool, Row(2))
    pool.close_all()
    assert all(fake.closed for fake in opener.opened)


def test_a_forked_child_opens_its_own(pool: LinkPool, opener: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    use(pool, Row())
    monkeypatch.setattr(os, "getpid", lambda: -1)
    use(pool, Row())
    assert len(opener.opened) == 2
    assert not opener.opened[0].closed  # it belongs to the parent
