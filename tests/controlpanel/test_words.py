"""What an audit entry tells, in words."""

from __future__ import annotations

import pytest

from controlpanel.templatetags.words import told


@pytest.mark.parametrize(
    ("detail", "says"),
    [
        ({"at_once": [1, 4], "reason": "", "job": 4}, [("at once", "1, 4"), ("job", "4")]),
        ({"plan": "9df3" * 16, "comment": None}, [("plan", "9df39df39df3…")]),
        ({"at_once": True, "off": False, "zero": 0}, [("at once", "yes"), ("off", "no"), ("zero", "0")]),
        ({"before": {"port": 1, "name": ""}, "empty": {}}, [("before", "port 1")]),
    ],
)
def test_details_of_an_entry(detail: dict[str, object], says: list[tuple[str, str]]) -> None:
    assert told(detail) == says
