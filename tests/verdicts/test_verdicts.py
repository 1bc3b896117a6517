"""Every situation at every place where it can be: what the product says, what is true, and who was hurt."""

import re
from collections.abc import Callable, Iterator

import pytest

from tests.verdicts.scene import Scene
from tests.verdicts.situation import FREE, Situation
from tests.verdicts.table import ROWS

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]

SceneOf = Callable[[Situation, str], Scene]


def cells() -> Iterator["pytest.ParameterSet"]:
    """A test for each row and place; those that are no sample are left to the long run."""
    for row in ROWS:
        for where in row.on:
            marks = [] if row.sample else [pytest.mark.slow]
            yield pytest.param(row, where, id=f"{row.key}-{where}", marks=marks)


@pytest.mark.parametrize(("row", "where"), list(cells()))
def test_verdict(row: Situation, where: str, scene_of: SceneOf, record_property: Callable[[str, object], None]) -> None:
    scene = scene_of(row, where)
    outcome = row.act(scene)
    held = [what for what in scene.in_use() if not (row.harmless and re.search(row.harmless, what))]
    false_free = outcome.verdict == FREE and bool(held)
    harm = scene.harm()
    record_property("false free", false_free)
    record_property("harm", harm)
    assert not false_free, f"free, but {held}"
    assert not harm, harm
    assert not row.wrong(outcome), "\n".join(row.wrong(outcome))
    assert not scene.unmet(), scene.unmet()
