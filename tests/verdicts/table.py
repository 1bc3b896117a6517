"""The whole table, and the rows that it does not have yet."""

from tests.verdicts import driver, keepers, logins, looks, reach, shared, stops, usable
from tests.verdicts.situation import Situation

ROWS: list[Situation] = [
    *looks.TABLE.rows,
    *driver.TABLE.rows,
    *usable.TABLE.rows,
    *shared.TABLE.rows,
    *reach.TABLE.rows,
    *stops.TABLE.rows,
    *keepers.ROWS,
    *logins.ROWS,
]
assert len({row.key for row in ROWS}) == len(ROWS), "two rows have one key"

MISSING = {
    "a server under a systemd unit or docker": "needs machines with systemd: tests/managers has them",
    "a loop that starts the server again: it is named and left alone": "its number is new each time: tests/managers",
    "device files that only a container misses": "they come back only when it is started anew: tests/faults",
    "a session or cgroup that we did not make, ended as a whole": "never offered: what is left is named one by one",
}
"""What is still to be a row, and why it is none."""
