"""Whatever a host prints, nothing raises, and what was not measured is never free."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.plan.cards import Card, Held, cards_seen, holders
from deployments.plan.port import port_verdict
from deployments.plan.serving import port_owners
from hosts.probe.facts import HostFacts, read_facts
from hosts.probe.fake import frame_bytes
from hosts.probe.frames import FrameReader, parse_frame
from tests.deployments.machine import CARDS, Proc, idle_machine
from tests.deployments.plan.test_plan import plan
from tests.hosts.recorded import all_recorded, recorded

UUID = "GPU-00000000-1111-2222-3333-444444440000"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TOKEN = "5ec1e7"
FREE = {
    "host": "boot_id x\n",
    "gpus": recorded("nvidia_smi/h200_idle").content,
    "apps": recorded("nvidia_smi/apps_none").content,
    "procs": recorded("proc/stat").content,
    "listeners": recorded("proc/listeners").content,
    "fds": b"/proc/1/fd:\n",
    "markers": (b"", 1),
    "paths": b"0 yes\n",
    "disk.0": b"Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/sda1 1000 1 999 1% /\n",
    "pids": b"/proc/600/status:NSpid:\t600\n",
    "commands": b"/proc/600/cmdline:python3\0",
}
OUTPUT = frame_bytes(TOKEN, FREE)


def look(output: bytes) -> HostFacts:
    return read_facts(parse_frame(output, token=TOKEN), measured_at=NOW, paths=("/",))


def free(facts: HostFacts) -> dict[str, bool]:
    """Which of the three counts as free, by the section that it needs most."""
    return {
        "gpus": all(card.is_free for card in cards_seen(facts, [Card(UUID, "GPU 0", 0)])),
        "listeners": port_owners(facts, 30001) == frozenset(),
        "fds": holders(facts, labels={UUID: "GPU 0"}) == Held(()),
    }


def test_the_whole_frame_is_free() -> None:
    assert all(free(look(OUTPUT)).values())
    assert look(OUTPUT).paths == {"/": True}


@settings(deadline=None, max_examples=300)
@given(st.integers(min_value=0, max_value=len(OUTPUT) - 1))
def test_a_frame_cut_anywhere_frees_only_what_had_arrived(cut: int) -> None:
    output = OUTPUT[:cut]
    for name, is_free in free(look(output)).items():
        section = f"section {name}\n".encode()
        assert not is_free or (section in output and b"status 0\n" in output.split(section)[1])


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=400))
def test_garbage_is_never_free(garbage: bytes) -> None:
    assert not any(free(look(garbage)).values())


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(["gpus", "listeners"]), st.binary(max_size=200), st.sampled_from([0, 1, 2, 124, 255]))
@pytest.mark.long
def test_garbage_in_one_section_is_not_free(name: str, garbage: bytes, status: int) -> None:
    facts = look(frame_bytes(TOKEN, {**FREE, name: (garbage, status)}))
    if b"GPU-" not in garbage and b"local_address" not in garbage:
        assert not free(facts)[name]


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(st.data())
def test_recorded_output_cut_anywhere_is_never_free(data: st.DataObject) -> None:
    section = data.draw(st.sampled_from(all_recorded("nvidia_smi")))
    cut = data.draw(st.integers(min_value=0, max_value=len(section.content)))
    whole = free(look(frame_bytes(TOKEN, {**FREE, "gpus": (section.content, section.status)})))["gpus"]
    part = free(look(frame_bytes(TOKEN, {**FREE, "gpus": (section.content[:cut], section.status)})))["gpus"]
    assert whole or not part


@pytest.mark.parametrize("command", [b" ", b"\n \t", b"\xff", b"'' ''"])
@pytest.mark.parametrize("comm", ["   ", "python"])
@pytest.mark.parametrize("kind", ["start", "restart"])
def test_a_stranger_may_call_itself_anything(command: bytes, comm: str, kind: str) -> None:
    """Who holds a card and the port, with a command line and a name of blanks."""
    machine = idle_machine().add(Proc(9, 90, comm, cards=(0,), port=30000))
    machine.broken["commands"] = b"/proc/9/cmdline:" + command + b"\0"
    made = plan(machine, kind=kind, launch=None)
    (row,) = made.data["untouched"]
    assert row["name"].strip() and row["command"].strip()
    assert any("pid 9" in warning["text"] for warning in made.data["warnings"])
    held = holders(machine.facts(), labels={CARDS[0]: "GPU 0"})
    assert isinstance(held, Held) and not str(held.strangers[0]).startswith(" ")
    having = port_verdict(machine.facts(), 30000)
    assert having.free is False and having.holders[0].who.strip().startswith(held.strangers[0].name)


@pytest.mark.slow
@given(st.lists(st.integers(min_value=1, max_value=50), max_size=30))
def test_frames_are_found_however_the_output_is_cut_up(sizes: list[int]) -> None:
    reader, found, position = FrameReader(TOKEN), [], 0
    for size in [*sizes, 2 * len(OUTPUT)]:
        found += reader.feed((OUTPUT * 2)[position : position + size])
        position += size
    assert [set(frame.sections) for frame in found] == [set(FREE)] * 2


def test_another_token_is_not_ours() -> None:
    frame = parse_frame(frame_bytes("other", FREE), token=TOKEN)
    assert not frame.sections
    assert not frame.complete
