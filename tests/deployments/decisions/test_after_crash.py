"""After a crash: started again, waited for, or left down; every row of the table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deployments.decisions.after_crash import AGAIN_SECONDS, SETTLE_SECONDS, Crash, LeaveDown, Start, Wait, decide

USUAL = Crash(since=10.0, was_ready=True, allowed=2, why_not_approved="", within_hour=0)


@pytest.mark.parametrize(
    ("facts", "decision"),
    [
        ({}, Start()),
        ({"since": SETTLE_SECONDS - 0.1}, Wait()),
        ({"within_hour": 1}, Start()),
        ({"within_hour": 1, "tries": 1, "last_try": AGAIN_SECONDS - 1}, Wait()),
        ({"within_hour": 1, "tries": 1, "last_try": AGAIN_SECONDS}, Start()),
    ],
)
def test_it_is_started_again_or_waited_for(facts: dict[str, object], decision: object) -> None:
    assert decide(replace(USUAL, **facts)) == decision  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (
            {"within_hour": 2},
            "Not started again for now: it was tried 2 times within an hour, as often as is allowed.",
        ),
        ({"within_hour": 1, "allowed": 1}, "Not started again for now: it was tried once within an hour,"),
        ({"tries": 2, "within_hour": 0, "last_try": 4000.0}, "it was tried 2 times, and the host or its cards"),
        ({"was_ready": False}, "this start had never become ready."),
        ({"why_not_approved": "ana has revoked it"}, "Not started again: ana has revoked it."),
        ({"why_not_approved": "it has run out", "since": 0.0}, "Not started again: it has run out."),
        ({"tries": 1, "last_acted": True, "last_try": 100.0}, "it did not come up."),
        ({"taken_over": "Not started again: olga has cancelled job 4."}, "olga has cancelled job 4."),
    ],
)
def test_it_is_left_down_and_said_why(facts: dict[str, object], why: str) -> None:
    decision = decide(replace(USUAL, **facts))  # type: ignore[arg-type]
    assert isinstance(decision, LeaveDown) and why in decision.why
