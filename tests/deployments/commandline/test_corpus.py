"""Each command line of the corpus becomes what it says, or is refused in words."""

from __future__ import annotations

import pytest

from deployments.commandline import Command, check_command, parse, write
from deployments.commandline.ports import port_of
from deployments.engines.registry import ENGINES, engine_of
from tests.deployments.commandline.corpus import NO_PORT, REFUSED, TAKEN, Refused, Taken


def test_there_are_enough_of_them() -> None:
    assert len(TAKEN) >= 60 and len(REFUSED) >= 50
    names = [case.name for case in [*TAKEN, *REFUSED]]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("case", TAKEN, ids=lambda case: case.name)
def test_what_is_understood(case: Taken) -> None:
    found = parse(case.text)
    assert found == Command(case.argv, case.env, case.workdir, case.container)
    assert any(note.startswith(case.note) for note in found.notes) if case.note else True
    engine = engine_of(found)
    assert (engine.key if engine else None) == case.engine
    assert port_of(found, engine or ENGINES["custom"]) == case.port
    check_command(found)
    assert parse(write(found)) == found


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_what_is_refused(case: Refused) -> None:
    with pytest.raises(ValueError) as refused:
        parse(case.text)
    said = str(refused.value)
    assert case.says in said
    assert said[0].isupper() or not said[0].isalpha() or said.split()[0].islower()
    assert said.endswith(".") or "for example" in said
    assert "abc123" not in said, "a secret is not repeated"


@pytest.mark.parametrize("case", NO_PORT, ids=lambda case: case.name)
def test_a_container_that_nobody_can_reach(case: Refused) -> None:
    command = parse(case.text)
    with pytest.raises(ValueError) as refused:
        port_of(command, ENGINES["vllm"])
    assert case.says in str(refused.value)
