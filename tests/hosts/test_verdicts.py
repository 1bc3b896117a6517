"""Measured against limits; and nothing that was not measured is ever ok."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hosts.probe.facts import HostFacts, read_facts
from hosts.probe.fake import frame_bytes
from hosts.probe.frames import FrameReader, Section, Unknown, parse_frame
from hosts.probe.gpus import AppList, GpuList, parse_apps, parse_gpus
from hosts.probe.holders import OpenFiles, parse_open_files
from hosts.probe.listeners import parse_listeners
from hosts.verdicts import (
    Check,
    Status,
    baseline_ceiling,
    check_holders,
    check_memory,
    check_port,
    clean_in_a_row,
    propose_baseline,
)
from tests.hosts.recorded import all_recorded, recorded

UUID = "GPU-00000000-1111-2222-3333-444444440000"
SECOND = "GPU-00000000-1111-2222-3333-444444440001"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TOKEN = "5ec1e7"


def gpus(stem: str) -> GpuList | Unknown:
    return parse_gpus({"gpus": recorded(f"nvidia_smi/{stem}")})


def memory(stem: str, *, baseline: int | None = 0, uuid: str = UUID) -> Check:
    return check_memory(gpus(stem), uuid, baseline=baseline)


@pytest.mark.parametrize(
    ("stem", "baseline", "status"),
    [
        ("h200_idle", 0, Status.OK),
        ("l40s_idle", 0, Status.OK),
        ("h200_mig", 55, Status.OK),
        ("desktop", 596, Status.OK),
        ("h200_one_busy", 0, Status.NOT_OK),
        ("desktop", 0, Status.NOT_OK),
        ("h200_idle", None, Status.UNKNOWN),
        ("gb10", 0, Status.UNKNOWN),
        ("reset_cells", 0, Status.UNKNOWN),
        ("negative", 0, Status.UNKNOWN),
        ("too_much", 0, Status.UNKNOWN),
        ("cut_row", 0, Status.UNKNOWN),
        ("lost", 0, Status.UNKNOWN),
        ("no_driver", 0, Status.UNKNOWN),
        ("none", 0, Status.UNKNOWN),
    ],
)
def test_memory(stem: str, baseline: int | None, status: Status) -> None:
    check = memory(stem, baseline=baseline)
    assert check.status is status
    assert check.reason
    assert (check.value is None) == (status is Status.UNKNOWN)


def test_a_memory_check_shows_value_and_limit() -> None:
    check = memory("h200_one_busy")
    assert (check.value, check.limit, check.unit) == (32362, 64, "MiB")


def test_a_card_that_did_not_answer_is_unknown() -> None:
    assert memory("h200_idle", uuid=SECOND).status is Status.UNKNOWN


def test_only_the_cards_asked_for_count() -> None:
    assert memory("h200_one_busy", uuid=SECOND).ok


@pytest.mark.parametrize(
    ("readings", "clean"),
    [("ooo", True), ("xooo", True), ("oo", False), ("oox", False), ("ouo", False), ("oxoo", False), ("", False)],
)
def test_clean_needs_three_in_a_row(readings: str, clean: bool) -> None:
    kinds = {"o": Status.OK, "x": Status.NOT_OK, "u": Status.UNKNOWN}
    assert clean_in_a_row([Check("memory", kinds[letter]) for letter in readings]) is clean


def test_a_free_port_and_a_taken_one() -> None:
    listeners = parse_listeners(recorded("proc/listeners"))
    files = parse_open_files(recorded("proc/open_files"))
    assert check_port(listeners, 9999).ok
    taken = check_port(listeners, 30000, files=files)
    assert taken.status is Status.NOT_OK
    assert "process 600" in taken.reason
    assert "user 1000" in check_port(listeners, 8080, files=files).reason
    assert check_port(Unknown("gone"), 9999) == Check("port 9999", Status.UNKNOWN, reason="gone")


def holders(files: str, apps: str, *, minors: tuple[int, ...] = (0,), allowed: tuple[int, ...] = ()) -> Check:
    return check_holders(
        parse_open_files(recorded(f"proc/{files}")),
        parse_apps(recorded(f"nvidia_smi/{apps}")),
        uuids=[UUID],
        minors=minors,
        allowed=allowed,
    )


def test_holders_by_file_and_by_the_drivers_list() -> None:
    assert holders("open_files", "apps_none").reason == "Held by process 601."
    assert holders("open_files", "apps_busy").value == 3
    assert holders("open_files", "apps_none", minors=(7,)).ok
    assert holders("open_files", "apps_none", allowed=(601,)).ok


def test_a_partial_look_is_never_ok_but_may_be_not_ok() -> None:
    assert holders("open_files_partial", "apps_none", minors=(7,)).status is Status.UNKNOWN
    assert holders("open_files_partial", "apps_none").status is Status.NOT_OK
    assert holders("open_files", "apps_hidden", minors=(7,)).status is Status.UNKNOWN


def test_holders_that_were_not_looked_at_are_unknown() -> None:
    gap = Unknown("cut off")
    assert check_holders(gap, AppList(()), uuids=[UUID], minors=[0]).status is Status.UNKNOWN
    files = OpenFiles((), (), partial=False)
    assert check_holders(files, gap, uuids=[UUID], minors=[0]).status is Status.UNKNOWN


def propose(stem: str, *, display: bool, held: bool | Unknown = False, count: int = 3) -> object:
    found = gpus(stem)
    assert isinstance(found, GpuList)
    return propose_baseline([found.gpus[0]] * count, held=held, display=display)


def test_a_baseline_is_learnt_below_its_ceiling_only() -> None:
    headless, with_display = propose("desktop", display=False), propose("desktop", display=True)
    assert (headless.value, headless.trusted) == (596, False)  # type: ignore[attr-defined]
    assert (with_display.value, with_display.trusted) == (596, True)  # type: ignore[attr-defined]


def test_no_baseline_from_a_held_card_or_too_few_readings() -> None:
    assert isinstance(propose("h200_idle", display=False, held=True), Unknown)
    assert isinstance(propose("h200_idle", display=False, held=Unknown("closed to us")), Unknown)
    assert isinstance(propose("h200_idle", display=False, count=2), Unknown)
    assert isinstance(propose("gb10", display=False), Unknown)


def test_ceilings() -> None:
    found = gpus("h200_mig")
    assert isinstance(found, GpuList)
    assert baseline_ceiling(found.gpus[0], display=False, mig_instances=4) == 256
    assert baseline_ceiling(found.gpus[0], display=True) == 1024


# Whatever arrives, nothing raises, and what was not measured is never free.

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
    "pid.600.facts": b"Tgid:\t600\n",
    "pid.600.cmdline": b"python3\0",
}


def verdicts(facts: HostFacts) -> list[Check]:
    return [
        check_memory(facts.gpus, UUID, baseline=0),
        check_port(facts.listeners, 30001, files=facts.files),
        check_holders(facts.files, facts.apps, uuids=[UUID], minors=[0]),
    ]


def test_the_whole_frame_is_free() -> None:
    facts = read_facts(parse_frame(frame_bytes(TOKEN, FREE), token=TOKEN), measured_at=NOW, paths=("/",))
    assert all(check.ok for check in verdicts(facts))
    assert facts.paths == {"/": True}


@settings(deadline=None, max_examples=300)
@given(st.integers(min_value=0, max_value=len(frame_bytes(TOKEN, FREE)) - 1))
def test_a_frame_cut_anywhere_frees_only_what_had_arrived(cut: int) -> None:
    output = frame_bytes(TOKEN, FREE)[:cut]
    facts = read_facts(parse_frame(output, token=TOKEN), measured_at=NOW, paths=("/",))
    for name, check in zip(("gpus", "listeners", "apps"), verdicts(facts), strict=True):
        section = f"section {name}\n".encode()
        arrived = section in output and b"status 0\n" in output.split(section)[1]
        assert not check.ok or arrived


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=400))
def test_garbage_is_never_free(garbage: bytes) -> None:
    facts = read_facts(parse_frame(garbage, token=TOKEN), measured_at=NOW, paths=("/",))
    assert not any(check.ok for check in verdicts(facts))


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(sorted(FREE)), st.binary(max_size=200), st.sampled_from([0, 1, 2, 124, 255]))
def test_garbage_in_one_section_never_raises(name: str, garbage: bytes, status: int) -> None:
    output = frame_bytes(TOKEN, {**FREE, name: (garbage, status)})
    facts = read_facts(parse_frame(output, token=TOKEN), measured_at=NOW, paths=("/",))
    free = dict(zip(("gpus", "listeners", "fds"), verdicts(facts), strict=True))
    if name in free and b"GPU-" not in garbage and b"local_address" not in garbage and b"/proc/" not in garbage:
        assert not free[name].ok


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_recorded_output_cut_anywhere_is_never_free(data: st.DataObject) -> None:
    section = data.draw(st.sampled_from(all_recorded("nvidia_smi")))
    cut = data.draw(st.integers(min_value=0, max_value=len(section.content)))
    parsed = parse_gpus({"gpus": Section("gpus", section.content[:cut], section.status)})
    whole = check_memory(parse_gpus({"gpus": section}), UUID, baseline=0)
    assert whole.ok or not check_memory(parsed, UUID, baseline=0).ok


@given(st.lists(st.integers(min_value=1, max_value=50), max_size=30))
def test_frames_are_found_however_the_output_is_cut_up(sizes: list[int]) -> None:
    output = frame_bytes(TOKEN, FREE) * 2
    reader, found, position = FrameReader(TOKEN), [], 0
    for size in [*sizes, len(output)]:
        found += reader.feed(output[position : position + size])
        position += size
    assert [set(frame.sections) for frame in found] == [set(FREE)] * 2


def test_another_token_is_not_ours() -> None:
    frame = parse_frame(frame_bytes("other", FREE), token=TOKEN)
    assert not frame.sections
    assert not frame.complete
