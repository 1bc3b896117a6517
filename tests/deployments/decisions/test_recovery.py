"""When to try again after contact was lost, and when to ask."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.decisions.recovery import must_ask, retry_in


@pytest.mark.parametrize(("lost", "retry"), [(0, 5), (19, 5), (40, 10), (120, 30), (240, 60), (86_400, 60)])
def test_retries_grow_from_five_to_sixty_seconds(lost: int, retry: int) -> None:
    assert retry_in(timedelta(seconds=lost)) == timedelta(seconds=retry)


@given(st.timedeltas(timedelta(0), timedelta(days=9)), st.timedeltas(timedelta(0), timedelta(days=9)))
def test_retries_never_get_shorter(one: timedelta, other: timedelta) -> None:
    assert (one <= other) <= (retry_in(one) <= retry_in(other))


@pytest.mark.parametrize(
    ("minutes", "booted", "asks"), [(0, False, False), (14.9, False, False), (15, False, True), (0, True, True)]
)
def test_a_person_is_asked_after_a_boot_or_a_quarter_of_an_hour(minutes: float, booted: bool, asks: bool) -> None:
    assert must_ask(timedelta(minutes=minutes), boot_changed=booted) is asks
