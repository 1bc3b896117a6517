"""``make scenarios``: run the scenarios, say which are missing, and count those that passed in this run."""

import re
import sys
from collections import defaultdict

import pytest

from tests.scenarios.register import TITLES

ALL = ("tests/scenarios", "tests/e2e/test_scenarios.py", "tests/e2e/test_engine_scenarios.py")
"""Those of the estimate and of the engines are told in a browser too."""
NUMBER = re.compile(r"::test_scenario_(\d\d)_")


class Score:
    """A plugin that remembers how the tests of each number went."""

    def __init__(self) -> None:
        self.outcomes: dict[int, list[bool]] = defaultdict(list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found = NUMBER.search(report.nodeid)
        if found is None:
            return
        if report.when == "call" or not report.passed:
            self.outcomes[int(found.group(1))].append(report.passed)

    @property
    def passed(self) -> list[int]:
        """Numbers with at least one test, all of which passed."""
        return sorted(number for number, outcomes in self.outcomes.items() if outcomes and all(outcomes))


def main(arguments: list[str]) -> int:
    """The exit status of pytest, or 1 when a story has no test."""
    score = Score()
    status = int(pytest.main(["-q", "-m", "lab", *(arguments or ALL)], plugins=[score]))
    forgotten = 0
    for number, title in TITLES.items():
        if number in score.passed:
            print(f"scenario {number:2}  passed   {title}")
        elif number in score.outcomes:
            print(f"scenario {number:2}  FAILED   {title}")
        else:
            forgotten += 1
            print(f"scenario {number:2}  missing  {title}: no test of it ran")
    print(f"SCENARIOS {len(score.passed)}/{len(TITLES)}")
    return status or bool(forgotten and not arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
