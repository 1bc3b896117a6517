"""Who has the port, by name: from one look at the host."""

import pytest

from deployments.decisions.port import Having, PortHolder
from deployments.plan.port import port_verdict
from tests.deployments.machine import SGLANG, Proc, idle_machine, serving_machine

LAUNCH = "11111111-2222-3333-4444-555555555555"


def test_nobody() -> None:
    assert port_verdict(idle_machine().facts(), 30000).free is True


def test_a_listener_is_named_with_its_command() -> None:
    verdict = port_verdict(serving_machine().facts(), 30000)
    assert verdict.free is False
    assert verdict.holders == (PortHolder(Having.LISTENS, "0.0.0.0", 100, SGLANG, "root"),)


def test_of_two_that_share_it_both_are_named() -> None:
    """One socket each (SO_REUSEPORT): ours does not make the other's ours."""
    machine = serving_machine().add(Proc(900, 9000, command="vllm serve m", port=30000, log=LAUNCH))
    verdict = port_verdict(machine.facts(), 30000, launches={LAUNCH: "other"})
    assert verdict.free is False
    assert [(one.pid, one.deployment) for one in verdict.holders] == [(100, ""), (900, "other")]


def test_a_socket_that_children_have_inherited_is_the_eldest_ones() -> None:
    machine = serving_machine()
    text = machine.sections()["fds"]
    machine.broken["fds"] = str(text).replace(
        "/proc/103/fd:\n", "/proc/103/fd:\nlrwx------ 1 root root 64 Jan 1 00:00 3 -> socket:[700100]\n"
    )
    assert [one.pid for one in port_verdict(machine.facts(), 30000).holders] == [100]


def test_one_whose_files_this_login_may_not_see() -> None:
    machine = serving_machine()
    machine.broken["fds"] = "/proc/1/fd:\nls: cannot open directory '/proc/100/fd': Permission denied\n"
    verdict = port_verdict(machine.facts(), 30000)
    assert verdict.free is False and "which this login may not see" in verdict.text


def test_one_that_has_bound_it_and_does_not_listen() -> None:
    machine = idle_machine().add(Proc(77, 700, command="vllm serve m"))
    machine.broken["port.30000"] = "taken\nsocket 7 2 00000000 1001 4242\n"
    machine.broken["fds"] = "/proc/77/fd:\nlrwx------ 1 root root 64 Jan 1 00:00 3 -> socket:[4242]\n"
    verdict = port_verdict(machine.facts(), 30000)
    assert verdict.holders == (PortHolder(Having.BOUND, "0.0.0.0", 77, "vllm serve m", "uid 1001"),)
    assert verdict.free is False and "still loads" in verdict.text


def test_a_connection_that_nobody_has_open() -> None:
    machine = idle_machine()
    machine.broken["port.30000"] = "taken\nsocket 4 2 7f000001 0 0\n"
    verdict = port_verdict(machine.facts(), 30000)
    assert verdict.free is False and not verdict.holders and "no process has open" in verdict.text


@pytest.mark.parametrize(("section", "text"), [("port.30000", None), ("port.30000", "fre"), ("listeners", None)])
def test_half_an_answer_is_not_free(section: str, text: str | None) -> None:
    machine = idle_machine()
    machine.broken[section] = text
    verdict = port_verdict(machine.facts(), 30000)
    assert verdict.free is None and "could not be measured" in verdict.text


def test_another_ports_answer_is_not_this_ones() -> None:
    assert port_verdict(idle_machine().facts(), 30001).free is None
