"""nvidia-smi's words in, values out."""

import pytest

from hosts.probe.frames import Section, Unknown
from hosts.probe.gpus import AppList, GpuList, GpuReading, parse_apps, parse_gpus, parse_number
from tests.hosts.recorded import recorded

FIRST = "GPU-00000000-1111-2222-3333-444444440000"
SECOND = "GPU-00000000-1111-2222-3333-444444440001"


def cards(stem: str) -> GpuList:
    parsed = parse_gpus({"gpus": recorded(f"nvidia_smi/{stem}")})
    assert isinstance(parsed, GpuList)
    return parsed


def card(stem: str) -> GpuReading:
    (only,) = cards(stem).gpus
    return only


def test_an_idle_card() -> None:
    gpu = card("h200_idle")
    assert (gpu.index, gpu.uuid, gpu.name, gpu.bus_id) == (0, FIRST, "NVIDIA H200", "00000000:83:00.0")
    assert (gpu.memory_total, gpu.memory_used, gpu.memory_reserved) == (143771, 0, 614)
    assert (gpu.utilization_percent, gpu.temperature_c, gpu.power_watts) == (0, 28, 77.71)
    assert (gpu.driver_version, gpu.mig) == ("590.48.01", False)


def test_cards_are_found_by_uuid() -> None:
    found = cards("h200_one_busy")
    busy, idle = found.by_uuid(FIRST), found.by_uuid(SECOND)
    assert isinstance(busy, GpuReading) and isinstance(idle, GpuReading)
    assert (busy.memory_used, idle.memory_used) == (32362, 0)
    assert isinstance(found.by_uuid("GPU-none"), Unknown)


def test_a_card_that_is_named_twice_is_unknown() -> None:
    text = recorded("nvidia_smi/h200_idle").content
    twice = Section("gpus", text + text.splitlines()[1] + b"\n", 0)
    parsed = parse_gpus({"gpus": twice})
    assert isinstance(parsed, GpuList)
    assert isinstance(parsed.by_uuid(FIRST), Unknown)


def test_mig_has_memory_and_no_utilization() -> None:
    gpu = card("h200_mig")
    assert (gpu.mig, gpu.memory_used) == (True, 55)
    assert isinstance(gpu.utilization_percent, Unknown)


def test_unified_memory_is_unknown_and_not_zero() -> None:
    gpu = card("gb10")
    for cell in gpu.memory_total, gpu.memory_used:
        assert isinstance(cell, Unknown) and "does not report it" in cell.reason
    assert gpu.power_watts == 11.17


def test_a_card_that_needs_a_reset_says_so_in_its_cells() -> None:
    gpu = card("reset_cells")
    assert isinstance(gpu.memory_used, Unknown)
    assert "needs a reset" in gpu.memory_used.reason


def test_a_name_with_commas_keeps_them() -> None:
    gpu = card("comma_name")
    assert (gpu.name, gpu.memory_used) == ("NVIDIA, Weird <b>Name</b>, Rev 2", 0)


@pytest.mark.parametrize("stem", ["negative", "too_much"])
def test_figures_that_cannot_be_are_unknown(stem: str) -> None:
    gpu = card(stem)
    assert isinstance(gpu.memory_used, Unknown) or isinstance(gpu.memory_total, Unknown)


def test_a_row_that_was_cut_is_no_reading() -> None:
    parsed = cards("cut_row")
    assert parsed.gpus == ()
    assert parsed.faults


def test_the_short_query_gives_memory_alone() -> None:
    gpu = card("memory_only")
    assert (gpu.memory_used, gpu.memory_total, gpu.name) == (0, 143771, "")


@pytest.mark.parametrize(
    ("stem", "words"),
    [
        ("no_library", "library (libnvidia-ml) is not installed"),
        ("no_driver", "driver is not loaded"),
        ("mismatch", "needs a reboot"),
        ("unknown_error", "taken away"),
        ("blocked", "operating system blocks"),
        ("not_permitted", "not permitted"),
        ("none", "sees no card"),
        ("lost", "is lost"),
        ("needs_reset", "needs a reset"),
        ("handle", "does not answer the driver"),
        ("no_count", "cannot even count"),
        ("in_use", "in use by another client"),
        ("old_driver", "does not know a field"),
        ("missing", "no nvidia-smi"),
    ],
)
def test_a_fatal_message_is_put_into_plain_words(stem: str, words: str) -> None:
    parsed = parse_gpus({"gpus": recorded(f"nvidia_smi/{stem}")})
    assert isinstance(parsed, Unknown)
    assert words in parsed.reason


@pytest.mark.parametrize("status", [124, 137])
def test_a_time_out_is_unknown(status: int) -> None:
    parsed = parse_gpus({"gpus": Section("gpus", b"", status)})
    assert isinstance(parsed, Unknown)
    assert "did not answer" in parsed.reason


def test_rows_with_a_bad_status_do_not_count() -> None:
    text = recorded("nvidia_smi/h200_idle").content
    assert isinstance(parse_gpus({"gpus": Section("gpus", text, 255)}), Unknown)


@pytest.mark.parametrize("text", [b"", b"\n\n", b"[]", b"Segmentation fault"])
def test_success_without_a_table_is_unknown(text: bytes) -> None:
    assert isinstance(parse_gpus({"gpus": Section("gpus", text, 0)}), Unknown)


def test_one_lost_card_does_not_hide_the_others() -> None:
    sections = {
        "gpus": recorded("nvidia_smi/lost"),
        "gpus.0": recorded("nvidia_smi/h200_idle", name="gpus.0"),
        "gpus.1": recorded("nvidia_smi/lost", name="gpus.1"),
    }
    parsed = parse_gpus(sections)
    assert isinstance(parsed, GpuList)
    assert [gpu.uuid for gpu in parsed.gpus] == [FIRST]
    missing = parsed.by_uuid(SECOND)
    assert isinstance(missing, Unknown) and "is lost" in missing.reason


def apps(stem: str) -> AppList:
    parsed = parse_apps(recorded(f"nvidia_smi/{stem}", name="apps"))
    assert isinstance(parsed, AppList)
    return parsed


def test_compute_processes() -> None:
    found = apps("apps_busy")
    assert [(app.pid, app.memory_used, app.name) for app in found.apps] == [
        (10291, 2566, "/root/tools/memhog"),
        (10309, 28234, "./gpu_burn"),
    ]
    assert found.hidden == ()


def test_no_compute_process() -> None:
    assert apps("apps_none") == AppList(())


def test_processes_that_are_kept_from_us_are_not_none() -> None:
    found = apps("apps_hidden")
    assert found.apps == ()
    assert "may not read" in found.hidden[0]


def test_a_process_whose_memory_is_not_told_is_still_one() -> None:
    (app,) = apps("apps_no_memory").apps
    assert app.pid == 4242
    assert isinstance(app.memory_used, Unknown)


@pytest.mark.parametrize(
    "cell", ["", "N/A", "[N/A]", "[Not Supported]", "[GPU is lost]", "[Weird]", "-1", "1e9", "٣", "0x10", "1 2", "ERR!"]
)
def test_what_is_no_number_is_unknown(cell: str) -> None:
    assert isinstance(parse_number(cell, "it"), Unknown)


@pytest.mark.parametrize(("cell", "value"), [("0", 0), ("614 MiB", 614), ("77.71 W", 77.71), ("0 %", 0)])
def test_numbers_with_and_without_units(cell: str, value: float) -> None:
    assert parse_number(cell, "it") == value
