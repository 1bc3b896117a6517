"""The whole table, and the rows that it does not have yet."""

from tests.verdicts import driver, logins, looks, reach, stops
from tests.verdicts.situation import Situation

ROWS: list[Situation] = [*looks.TABLE.rows, *driver.TABLE.rows, *reach.TABLE.rows, *stops.TABLE.rows, *logins.ROWS]
assert len({row.key for row in ROWS}) == len(ROWS), "two rows have one key"

MISSING = {
    "only one thread of a stranger has the card open, with little memory": "the driver is not asked for processes",
    "allowed co-tenants on a shared card: exactly those of the plan, and one too many": "needs shared cards",
    "a card that is at its baseline and waits for a reset; a fatal Xid; no device files after a boot": "needs *usable*",
    "a server under a systemd unit, docker, supervisord, or a loop: through it, nobody else": "needs the managers",
    "a session or cgroup that we did not make, ended as a whole after its own confirmation": "needs that choice",
    "a stranger in a container, killed after its own confirmation": "that choice is not offered there",
}
"""What is still to be a row, and why it is none."""
