"""The six settings that people change first, beside the command line that they stand in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django import forms
from django.http import QueryDict

from controlpanel.forms import PlainIntegerField
from deployments.commandline import Command, parse, write
from deployments.engines.base import Engine
from deployments.engines.knob import CARDS, CONTEXT, FRACTION, MODEL, NAMES, PORT, PRECISION
from deployments.engines.knobs import first_command, own_words, set_knob
from deployments.fit.whatif import tokens_of
from deployments.forms import PLAIN

PREFIX, BEFORE = "knob", "knobs-before"
MOST_CARDS = 1024
DECIDES = "automatic"
NUMBER = PLAIN | {"inputmode": "numeric"}
"""No number input: a browser would empty it of what it takes for no number, as if the person had done so."""


class KnobForm(forms.Form):
    """One field for each setting that the engine has a flag for. Empty: the engine decides.

    ``before``: what the command said when the page was shown. Only a field that differs from that was changed by the
    person; all others follow the command line.
    """

    model = forms.CharField(label="Model", required=False, max_length=500, widget=forms.TextInput(attrs=PLAIN))
    cards = PlainIntegerField(
        label="Cards to split over", required=False, min_value=1, max_value=MOST_CARDS, widget=forms.TextInput(NUMBER)
    )
    context = forms.CharField(label="Context", required=False, max_length=12, widget=forms.TextInput(attrs=PLAIN))
    fraction = forms.FloatField(
        label="Memory fraction",
        required=False,
        min_value=0.01,
        max_value=1,
        widget=forms.TextInput(attrs=PLAIN | {"inputmode": "decimal"}),
    )
    precision = forms.ChoiceField(label="KV cache", required=False)
    port = PlainIntegerField(
        label="Listens on port", required=False, min_value=1, max_value=65535, widget=forms.TextInput(NUMBER)
    )

    def __init__(self, data: QueryDict | None, *, engine: Engine, says: Mapping[str, str]) -> None:
        self.before = _before(data)
        super().__init__(data, prefix=PREFIX, initial=dict(says))
        knobs = engine.knobs
        for name in NAMES:
            if name not in knobs:
                del self.fields[name]
        for name in {CARDS, CONTEXT, FRACTION, PORT} & knobs.keys():
            usual = str(engine.default_port) if name == PORT else DECIDES
            self.fields[name].widget.attrs |= {"placeholder": usual}
        chosen = self.fields[PRECISION]
        assert isinstance(chosen, forms.ChoiceField)
        offered = dict.fromkeys(
            filter(None, (*knobs[PRECISION].choices, says.get(PRECISION), self.before.get(PRECISION)))
        )
        chosen.choices = [("", DECIDES), *((word, word) for word in offered)]

    def clean_context(self) -> str:
        """Tokens. What the command says already is left as it is: 0 and -1 have a meaning of their own."""
        text: str = self.cleaned_data[CONTEXT].strip()
        if not text or text == self.before.get(CONTEXT):
            return text
        tokens = tokens_of(text)
        if tokens is None:
            raise forms.ValidationError("Write a number of tokens, as 131072 or 128K.")
        return str(tokens)

    def clean(self) -> dict[str, Any]:
        """What the person has not touched is the command line's affair, and no error here."""
        for name in [name for name in self.errors if name in self.fields and not self._is_touched(name)]:
            del self.errors[name]
        return super().clean() or self.cleaned_data

    def _is_touched(self, name: str) -> bool:
        """Was it sent, and another than the page had shown?"""
        sent = self.data.get(self.add_prefix(name))
        return sent is not None and sent.strip() != self.before.get(name, "")

    @property
    def changed(self) -> dict[str, str]:
        """Name -> new value, as it is written into the command; those that the person has changed, and validly."""
        found = {}
        for name in self.fields.keys() & self.cleaned_data.keys():
            value = self.cleaned_data[name]
            text = "" if value is None else f"{value:g}" if name == FRACTION else str(value)
            if self._is_touched(name):
                found[name] = text
        return found


def _before(data: QueryDict | None) -> dict[str, str]:
    try:
        told = json.loads(data.get(BEFORE, "") if data is not None else "{}")
    except (ValueError, RecursionError):
        return {}
    return {name: value for name, value in told.items() if isinstance(value, str)} if isinstance(told, dict) else {}


def read_command(engine: Engine, text: str) -> tuple[Command, int] | None:
    """The command and where the engine's own words begin in it; None where that cannot be told."""
    try:
        command = parse(text)
    except ValueError:
        return None
    begin = own_words(engine, command.argv, in_image=bool(command.container))
    return None if begin is None else (command, begin)


def with_knobs(engine: Engine, text: str, changed: Mapping[str, Any]) -> str | None:
    """The command line with these settings; None where it cannot be told where they would stand."""
    if not text.strip():
        if not changed.get(MODEL):
            return None
        text = write(Command(first_command(engine, changed[MODEL])))
    found = read_command(engine, text)
    if found is None:
        return None
    command, begin = found
    argv = command.argv
    for name in (name for name in NAMES if name in changed):
        argv = set_knob(engine, argv, begin, name, changed[name])
    return write(Command(argv, command.env, command.workdir, command.container))
