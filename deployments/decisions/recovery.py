"""When to try again, and when to ask a person, after contact with a host was lost. PURE."""

from __future__ import annotations

from datetime import timedelta

FIRST_RETRY = timedelta(seconds=5)
LAST_RETRY = timedelta(seconds=60)
ASK_AFTER = timedelta(minutes=15)


def retry_in(lost_for: timedelta) -> timedelta:
    """How long to wait before the next try: 5 s at first, growing with the time out of contact, 60 s at most."""
    return min(LAST_RETRY, max(FIRST_RETRY, lost_for / 4))


def must_ask(lost_for: timedelta, *, boot_changed: bool) -> bool:
    """Must a person agree before the next act? After 15 minutes, or when the host has booted meanwhile."""
    return boot_changed or lost_for >= ASK_AFTER
