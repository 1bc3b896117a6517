"""Which /dev/nvidiaN is which card, from what the kernel says of each, or else from the files that are here."""

import pytest

from hosts.probe.frames import Section, Unknown
from hosts.probe.gpus import GpuList, GpuReading
from hosts.probe.minors import DeviceFiles, parse_minors

EIGHT_CARDS = "".join(
    f"/proc/driver/nvidia/gpus/0000:{bus}:00.0/information:GPU UUID: \t GPU-{n}\n"
    f"/proc/driver/nvidia/gpus/0000:{bus}:00.0/information:Device Minor: \t {minor}\n"
    for n, (bus, minor) in enumerate([("1a", 0), ("43", 1), ("8e", 3), ("a3", 2)])
)


def files(text: str) -> DeviceFiles:
    return parse_minors(Section("minors", text.encode(), 0))


def card(index: int | Unknown, *, uuid: str = "", bus: str = "") -> GpuReading:
    unread = Unknown("not asked")
    return GpuReading(
        index, uuid or f"GPU-{index}", "L40S", bus, 1, 1, unread, unread, unread, unread, "550", mig=False
    )


def test_the_kernel_names_the_file_of_each_card() -> None:
    inside = GpuList((card(0, uuid="GPU-2"), card(1, uuid="GPU-3")))
    found = files(EIGHT_CARDS + "/dev/nvidia2\n/dev/nvidia3\n")
    assert [found.minor_of(gpu, inside) for gpu in inside.gpus] == [3, 2]


@pytest.mark.parametrize("bus", ["00000000:8E:00.0", "0000:8e:00.0"])
def test_a_card_whose_uuid_the_driver_does_not_show_is_found_by_its_bus(bus: str) -> None:
    found = files(EIGHT_CARDS.replace("GPU-2", "GPU-????????-????-????-????-????????????"))
    gpu = card(0, uuid="GPU-2", bus=bus)
    assert found.minor_of(gpu, GpuList((gpu,))) == 3


def test_another_pci_domain_is_another_bus() -> None:
    found = files("/proc/driver/nvidia/gpus/10000:01:00.0/information:Device Minor: \t 5\n")
    assert found.minor_of(card(0, bus="00010000:01:00.0"), GpuList(())) == 5
    assert found.minor_of(card(0, bus="00000000:01:00.0"), GpuList(())) is None


def test_without_the_kernels_word_as_many_files_as_cards_belong_to_them_in_order() -> None:
    inside = GpuList((card(0), card(1)))
    found = files("/dev/nvidia7\n/dev/nvidia6\n/dev/nvidiactl\n")
    assert [found.minor_of(gpu, inside) for gpu in inside.gpus] == [6, 7]


@pytest.mark.parametrize(
    ("text", "gpu"),
    [
        ("/dev/nvidia0\n/dev/nvidia1\n", card(0)),
        ("", card(0)),
        ("/dev/nvidia0\n", card(Unknown("?"))),
        ("/proc/driver/nvidia/gpus/0000:1a:00.0/information:Device Minor: \t N/A\n", card(0, bus="0000:1a:00.0")),
        ("/proc/driver/nvidia/gpus/0000:1a:00.0/information:GPU UUID: \t GPU-0\n", card(0)),
    ],
)
def test_anything_else_is_not_known(text: str, gpu: GpuReading) -> None:
    assert files(text).minor_of(gpu, GpuList((gpu,))) is None
