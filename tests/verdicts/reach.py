"""Is it free? When the machine, or the way to it, does not answer; and once it does again."""

from __future__ import annotations

from lab.host import wait_until
from tests.verdicts.looks import AT_ONCE
from tests.verdicts.scene import Scene
from tests.verdicts.situation import FREE, PCT, SSH, UNMEASURED, Outcome, Table

TABLE = Table(policy=AT_ONCE, on=(SSH, PCT))
row = TABLE.row


@row("the cable is pulled", UNMEASURED, "Users may still be served")
def link_down(s: Scene) -> Outcome:
    s.faults.link_down(s.place.node)
    s.way_back.append(lambda: s.faults.link_up(s.place.node))
    return s.lost_and_found(lambda: s.faults.link_up(s.place.node))


@row("sshd accepts and says nothing more", UNMEASURED)
def sshd_frozen(s: Scene) -> Outcome:
    s.faults.sshd_freeze(s.place.node)
    s.way_back.append(lambda: s.faults.sshd_thaw(s.place.node))
    return s.lost_and_found(lambda: s.faults.sshd_thaw(s.place.node))


@row("the sessions were cut, and sshd takes no new ones", UNMEASURED)
def sshd_stopped(s: Scene) -> Outcome:
    s.faults.sshd_stop(s.place.node)
    s.faults.sessions_drop(s.place.node)
    s.way_back.append(lambda: s.faults.sshd_start(s.place.node))
    return s.lost_and_found(lambda: s.faults.sshd_start(s.place.node))


@row("another machine answers in its place", UNMEASURED, "key")
def other_key(s: Scene) -> Outcome:
    s.faults.host_key_swap(s.place.node)
    s.faults.sessions_drop(s.place.node)
    s.way_back.append(lambda: s.faults.host_key_restore(s.place.node))
    first = s.look()
    return first if first.verdict != UNMEASURED else s.look_again()


@row("the container is frozen", UNMEASURED, on=(PCT,))
def container_frozen(s: Scene) -> Outcome:
    s.faults.ct_freeze(s.machine)
    return s.lost_and_found(lambda: thaw(s))


def thaw(s: Scene) -> None:
    """The lab freezes by signals: they are nobody's but its own."""
    s.faults.ct_thaw(s.machine)
    for who in s.standing:
        if who.book.is_relative_to(s.machine.seen("/")):
            wait_until(lambda who=who: who.signals, timeout=10, what=f"{who.name} goes on")
            who.forget()


@row("the container is locked by a backup", FREE, on=(PCT,))
def container_locked(s: Scene) -> Outcome:
    s.faults.ct_lock(s.machine)
    s.way_back.append(lambda: s.faults.ct_unlock(s.machine))
    return s.look()
