"""Each choice of each question of a job is known, and is pressed by a test in a real browser."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployments.lifecycle import ANSWERS, GateKind
from deployments.models import Gate
from deployments.steps.base import GateOpened
from tests.e2e.questions import BUTTONS, TITLES

BROWSER = Path(__file__).resolve().parents[1] / "e2e"
ALL = {(kind, choice) for kind, choices in ANSWERS.items() for choice in choices}


def pressed() -> Iterator[tuple[GateKind, str]]:
    """Of each ``press(page, GateKind.X, "choice")`` in the tests of the browser."""
    for file in sorted(BROWSER.glob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("press") and len(node.args) == 3:
                yield GateKind[ast.unparse(node.args[1]).removeprefix("GateKind.")], ast.literal_eval(node.args[2])


def test_every_kind_of_question_has_its_choices_and_its_words() -> None:
    assert set(ANSWERS) == set(TITLES) == set(GateKind)
    assert set(BUTTONS) == ALL


def test_every_choice_is_pressed_in_a_browser() -> None:
    assert set(pressed()) == ALL


def test_a_choice_that_is_not_in_the_list_is_not_asked() -> None:
    with pytest.raises(AssertionError, match="new one"):
        GateOpened(Gate(kind=GateKind.KILL, title="Kill it?", choices=[{"key": "kill"}, {"key": "new one"}]))
