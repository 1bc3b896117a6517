"""``make verdicts``: every situation at every place, as a table; what is wrong or missing; and the score."""

from __future__ import annotations

import re
import sys
from collections import defaultdict

import pytest

from tests.verdicts.situation import ALL

CELL = re.compile(r"::test_verdict\[(\w+)-(ssh|pct|local)\]")
LEAST = 130
"""So many cells the table must have."""


class Score:
    """A plugin that remembers how each cell went, and what was done to bystanders."""

    def __init__(self) -> None:
        self.right: dict[str, dict[str, bool]] = defaultdict(dict)
        self.why: dict[tuple[str, str], str] = {}
        self.false_free = 0
        self.harmed = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found = CELL.search(report.nodeid)
        if found is None or (report.when != "call" and report.passed):
            return
        key, where = found.groups()
        self.right[key][where] = report.passed and self.right[key].get(where, True)
        if not report.passed:
            lines = [line[1:].strip() for line in str(report.longrepr).splitlines() if line.startswith("E ")]
            self.why[key, where] = lines[0][:300] if lines else str(report.longrepr)[-300:]
        told = dict(report.user_properties)
        self.false_free += bool(told.get("false free"))
        self.harmed += len(told.get("harm", []))  # type: ignore[arg-type]  # a list, see test_verdicts.py


def main(arguments: list[str]) -> int:
    """The exit status of pytest, or 1 when something is wrong or the table is too small."""
    score = Score()
    options = ["-q", "--no-header", "--tb=short", "--show-capture=no", "-m", "lab"]
    status = int(pytest.main([*options, *(arguments or ["tests/verdicts"])], plugins=[score]))
    if status in (2, 3, 4):  # interrupted, or not even begun
        return status
    from tests.verdicts.table import MISSING, ROWS  # they need Django, which pytest sets up

    print(f"\n{'':74} {'must be':18} {'  '.join(f'{where:5}' for where in ALL)}")
    for row in ROWS:
        cells = [_shown(score.right[row.key].get(where), where in row.on) for where in ALL]
        print(f"{row.title[:73]:74} {row.expect:18} {'  '.join(cells)}".rstrip())
    for (key, where), reason in score.why.items():
        print(f"WRONG    {key} ({where}): {reason}")
    for title, reason in MISSING.items():
        print(f"missing  {title}: {reason}")
    total = sum(len(row.on) for row in ROWS)
    right = sum(value for cells in score.right.values() for value in cells.values())
    print(f"false free: {score.false_free}, signals and targets beside the approved: {score.harmed}")
    print(f"VERDICTS {right}/{total}")
    small = not arguments and total < LEAST
    return status or int(small or score.false_free or score.harmed or (right < total and not arguments))


def _shown(right: bool | None, there: bool) -> str:
    if not there:
        return "  -  "
    return {True: "ok   ", False: "WRONG", None: "?    "}[right]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
