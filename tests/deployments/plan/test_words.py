"""Commands as they are shown: never blank, and no piece of a secret at their end."""

from __future__ import annotations

import pytest

from deployments.plan.cards import Held, holders
from deployments.plan.port import port_verdict
from deployments.plan.words import LETTERS, UNNAMED, command_of, shortened
from hosts.probe.frames import Unknown
from tests.deployments.machine import CARDS, Machine, Proc, idle_machine
from tests.deployments.plan.test_plan import plan

TOKEN = "hf_abcdefghijklmnopqrstuvwxyz012345"


def command_that_cuts_the_token(*, letters: int) -> str:
    """Cut first, the token is too short to be known as one."""
    command = "train.py ".ljust(letters - 6, "x") + " "
    return command + TOKEN


@pytest.mark.parametrize("letters", [120, LETTERS])
def test_secrets_are_masked_before_the_command_is_cut(letters: int) -> None:
    assert "hf_" not in shortened(command_that_cuts_the_token(letters=letters), letters)


def machine() -> Machine:
    return idle_machine().add(
        Proc(9, 90, "train", command_that_cuts_the_token(letters=LETTERS), cards=(0,)),
        Proc(8, 80, "train", command_that_cuts_the_token(letters=LETTERS), port=30000),
        Proc(7, 70, "train", command_that_cuts_the_token(letters=120), port=30001),
    )


def test_no_piece_of_a_secret_in_what_is_said_of_holders() -> None:
    held = holders(machine().facts(), labels={CARDS[0]: "GPU 0"})
    assert isinstance(held, Held)
    assert "train.py" in held.strangers[0].name and "hf_" not in held.strangers[0].name
    assert "train.py" in port_verdict(machine().facts(), 30000).text
    assert "hf_" not in port_verdict(machine().facts(), 30000).text


def test_no_piece_of_a_secret_in_a_warning_about_the_port() -> None:
    made = plan(machine(), kind="start", launch=None, port=30001)
    told = [warning["text"] for warning in made.data["warnings"] if "Port 30001" in warning["text"]]
    assert "train.py" in told[0] and "hf_" not in told[0]


def test_a_command_is_never_blank() -> None:
    facts = idle_machine().add(Proc(9, 90, "  ", ""), Proc(8, 80, "python", "")).facts()
    assert not isinstance(facts.processes, Unknown)
    assert command_of(facts.processes.by_pid[9], facts.details.get(9)) == UNNAMED
    assert command_of(facts.processes.by_pid[8], facts.details.get(8)) == "python"


def test_a_command_is_cut_behind_a_whole_word() -> None:
    """Who knows the deployment's own secrets looks later, and finds them whole or not at all."""
    command = "serve --name plain-horse-battery " + "x" * 300
    assert shortened(command, 25) == "serve --name" and shortened(command, 32) == "serve --name plain-horse-battery"
    assert shortened("x" * 300, 25) == "x" * 25
