"""The form's six settings: what was changed there goes into the command line before anything else reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict

from deployments.commandline import parse
from deployments.engines.base import Engine
from deployments.engines.knobs import read_knobs
from deployments.engines.registry import ENGINES, engine_of
from deployments.knob_form import KnobForm, read_command, with_knobs

SHOW = "knobs"
"""The button that puts them into the command line and saves nothing."""
NOT_TOLD = (
    "Where these would stand in the command line cannot be told. Write them there, or write the engine's own command, "
    "without a script around it."
)


@dataclass(frozen=True)
class Knobs:
    """``data``: the form as sent, with the settings in its command line. ``form`` None: the engine is not known, or
    none whose flags are. ``refused``: they cannot be put there, so nothing may be saved."""

    data: QueryDict | None = None
    form: KnobForm | None = None
    refused: bool = False


def asks_of_knobs(data: Mapping[str, Any]) -> bool:
    """Was the form sent only to put the settings into the command?"""
    return data.get("do") == SHOW


def taken(data: QueryDict, engine_key: str = "") -> Knobs:
    """The form that was sent, once what was changed in the settings stands in its command line."""
    text = data.get("command", "")
    engine = _engine(engine_key or data.get("engine", ""), text)
    if engine is None:
        return Knobs(data)
    form = KnobForm(data, engine=engine, says=_says(engine, text))
    valid = form.is_valid()
    changed = form.changed
    if not changed:
        return Knobs(data, form, refused=not valid)
    command = with_knobs(engine, text, changed)
    if command is None:
        form.add_error(None, NOT_TOLD)
        return Knobs(data, form, refused=True)
    new = data.copy()
    new["command"] = command
    return Knobs(new, form, refused=not valid)


def context(knobs: Knobs, *, engine_key: str, command: str) -> dict[str, Any]:
    """For the form's page: the settings as the command line now says them; one that was refused stays as typed."""
    engine = _engine(engine_key, command)
    if engine is None:
        return {"knobs": None}
    says = _says(engine, command)
    form = KnobForm(None, engine=engine, says=says)
    if knobs.refused and knobs.form is not None:
        form = knobs.form
    return {"knobs": form, "knobs_before": json.dumps(says)}


def _engine(key: str, text: str) -> Engine | None:
    """The profile's, or the one that the command starts; None for one without such settings."""
    if not key and text.strip():
        try:
            found = engine_of(parse(text))
        except ValueError:
            return None
        key = found.key if found is not None else ""
    engine = ENGINES.get(key)
    return engine if engine is not None and engine.knobs else None


def _says(engine: Engine, text: str) -> dict[str, str]:
    found = read_command(engine, text) if text.strip() else None
    return read_knobs(engine, found[0].argv, found[1]) if found is not None else {}
