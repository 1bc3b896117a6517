"""Several monitors: each has its share of the hosts, and what one leaves, by its end or its death, the others take."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from hosts.claims import Claims
from hosts.models import Host, MonitorProcess
from tests.factories import make_host

pytestmark = pytest.mark.django_db


def some_hosts(count: int) -> None:
    for _ in range(count):
        make_host()


def test_one_monitor_has_all() -> None:
    some_hosts(5)
    assert len(Claims("a").renew()) == 5


def test_a_second_one_gets_half_within_two_rounds_of_each() -> None:
    some_hosts(5)
    first, second = Claims("a"), Claims("b")
    first.renew()
    assert second.renew() == {}, "all are held"
    kept = first.renew()
    taken = second.renew()
    assert (len(kept), len(taken)) == (3, 2) and not kept.keys() & taken.keys()
    assert (first.renew(), second.renew()) == (kept, taken), "and so it stays"


def test_no_host_has_two_monitors_however_they_take_turns() -> None:
    some_hosts(7)
    monitors = [Claims(name) for name in "abc"]
    for _ in range(4):
        held = [set(monitor.renew()) for monitor in monitors]
        assert sum(map(len, held)) == len(set.union(*held))
    assert sorted(map(len, held)) == [1, 3, 3] or sorted(map(len, held)) == [2, 2, 3]


def test_what_a_dead_one_had_is_taken_when_its_lease_is_over() -> None:
    some_hosts(4)
    first, second = Claims("a"), Claims("b")
    for _ in range(2):
        first.renew(), second.renew()
    ago = timezone.now() - timedelta(seconds=1)
    MonitorProcess.objects.filter(owner="a").update(alive_until=ago)
    Host.objects.filter(monitor_owner__startswith="a:").update(monitor_lease_until=ago)
    assert len(second.renew()) == 4


def test_what_one_gives_back_at_its_end_is_free_at_once() -> None:
    some_hosts(4)
    first, second = Claims("a"), Claims("b")
    for _ in range(2):
        first.renew(), second.renew()
    first.release_all()
    assert len(second.renew()) == 4


def test_who_comes_back_from_the_dead_has_another_name() -> None:
    """What it has read before must not be taken for what it reads now."""
    host = make_host()
    claims = Claims("a")
    before = claims.renew()[host.pk]
    Host.objects.update(monitor_lease_until=timezone.now() - timedelta(seconds=1))
    assert claims.renew()[host.pk] != before


def test_hosts_in_maintenance_and_untested_ones_are_nobodys() -> None:
    make_host(maintenance="new driver")
    make_host(reach=Host.Reach.UNKNOWN)
    assert Claims("a").renew() == {}
