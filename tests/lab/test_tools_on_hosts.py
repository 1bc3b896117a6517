"""gpustat and nvitop, as their authors ship them, on simulated hosts: they do not crash, and they tell what
nvidia-smi and the panel's own probe tell, in every mode in which their real libraries let them."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest

from hosts.probe.facts import HostFacts
from hosts.probe.gpus import AppList, GpuList, GpuReading
from hosts.probe.probe import probe
from hosts.transport.pct import PctTransport
from lab.fleet import Container, Fleet, Host, Node
from tests.lab.conftest import wait_for
from tests.lab.test_ports import connect

pytestmark = [pytest.mark.lab, pytest.mark.slow]

SCREEN = {"LINES": "80", "COLUMNS": "100", "TERM": "dumb"}
CRASH = re.compile(r"Traceback|Segmentation|core dumped")
SIZE = re.compile(r"\|\s+([\d.]+)([MG]iB|B) / +[\d.]+[MG]iB \|")
PROCESS = re.compile(r"^\|\s+\d+(?::\d+)?\s+(\d+) [CGX]+ ", re.M)

# The fault, and which of the two cards it takes away.
MODES = {
    "healthy": ("none", ()),
    "lost": ("lost 1", (1,)),
    "unknown error": ("broken 1", (1,)),
    "no utilization": ("cell * utilization.gpu [Unknown Error]", ()),
    "no temperature": ("cell 1 temperature.gpu [N/A]", ()),
    "no power": ("cell 0 power.draw [GPU requires reset]", ()),
    "busy when idle": ("cell 1 utilization.gpu 100", ()),
    "no name": ("cell 1 name [Unknown Error]", (1,)),
    "unknown sizes": ("cell * used_gpu_memory [N/A]", ()),
    "thread ids": ("thread-ids", ()),
    "no processes": ("hide", ()),
}
SILENT = {
    "processes refused": "apps [Insufficient Permissions]",
    "processes not supported": "apps 0 [N/A]",
    "a pid that is not there": "app 0 31999 900 [Not Found]",
    "no memory": "cell * memory.* [N/A]",
    "no devices": "no-devices",
}
REFUSED = {
    "no-driver": "Driver Not Loaded",
    "mismatch": "version mismatch",
    "unknown-error": "Unknown Error",
    "no-permission": "Insufficient Permissions",
    "no-library": "NVML Shared Library Not Found",
}

Place = Host | Container


def run(place: Place, module: str, *words: str) -> "subprocess.CompletedProcess[str]":
    done = place.exec([sys.executable, "-m", module, *words], timeout=30, env=SCREEN)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def gpustat(place: Place) -> list[dict[str, object]]:
    done = run(place, "gpustat", "--json")
    assert done.returncode == 0, done.stderr
    assert not CRASH.search(done.stdout + done.stderr)
    found: list[dict[str, object]] = json.loads(done.stdout)["gpus"]
    return found


def nvitop(place: Place) -> str:
    done = run(place, "nvitop", "-1", "--ascii")
    assert done.returncode == 0, done.stderr
    assert not CRASH.search(done.stdout + done.stderr), done.stdout + done.stderr
    return done.stdout


def query(place: Place, *words: str) -> list[list[str]]:
    done = place.exec(["nvidia-smi", "--format=csv,noheader,nounits", *words], timeout=10)
    assert done.returncode == 0, done.stdout
    return [line.split(", ") for line in done.stdout.decode().splitlines()]


def looked(fleet: Fleet, place: Place) -> HostFacts:
    """What the panel's own probe finds there, over its own way to it."""
    with closing(connect(fleet, place.node if isinstance(place, Container) else place)) as link:
        transport = PctTransport(link, vmid=place.vmid) if isinstance(place, Container) else link
        return probe(transport, sections=("gpus", "apps"), timeout=30)


def ours_agrees(facts: HostFacts, told: dict[object, dict[str, object]], indices: list[int]) -> set[int] | None:
    """The panel's reading says of these cards what gpustat says; who holds them, by number.

    None: not known, as nvidia-smi names no process at all while a card of the machine has no handle.
    """
    assert isinstance(facts.gpus, GpuList), facts.gpus
    for index in indices:
        card = facts.gpus.by_uuid(str(told[index]["uuid"]))
        assert isinstance(card, GpuReading), card
        assert (card.index, card.memory_used) == (index, told[index]["memory.used"])
        assert (card.memory_total, card.name) == (told[index]["memory.total"], told[index]["name"])
    uuids = {told[index]["uuid"] for index in indices}
    return {app.pid for app in facts.apps.apps if app.gpu_uuid in uuids} if isinstance(facts.apps, AppList) else None


def agree(fleet: Fleet, place: Place, indices: list[int]) -> None:
    """The two tools, nvidia-smi and the panel's probe say the same of these cards."""
    facts = looked(fleet, place)
    told: dict[object, dict[str, object]] = {gpu["index"]: gpu for gpu in gpustat(place)}
    screen = nvitop(place)
    sizes = [round(float(size) * {"B": 1 / 2**20, "MiB": 1, "GiB": 1024}[unit]) for size, unit in SIZE.findall(screen)]
    pids = set()
    for place_in_list, index in enumerate(indices):
        (row,) = query(place, "--query-gpu=uuid,memory.used", "-i", str(index))
        assert (told[index]["uuid"], told[index]["memory.used"]) == (row[0], int(row[1]))
        assert sizes[place_in_list] == int(row[1]), screen
        apps = {int(pid) for (pid,) in query(place, "--query-compute-apps=pid", "-i", str(index))}
        processes = told[index]["processes"]
        assert isinstance(processes, list)
        assert {process["pid"] for process in processes} == apps
        pids |= apps
    assert {int(pid) for pid in PROCESS.findall(screen)} == pids, screen
    ours = ours_agrees(facts, told, indices)
    assert ours == pids or (ours is None and len(indices) == 1)


@pytest.fixture(autouse=True)
def clean(fleet: Fleet) -> Iterator[None]:
    yield
    for name in ("swapped", "odd", "pve2"):
        host = fleet.host(name)
        fleet.faults.gpu(host, "none")
        host.exec(["pkill", "-9", "-f", "^sleep 86400"], timeout=10)
        wait_for(lambda host=host: not [p for p in host.processes() if p.title == "sleep 86400"])


@pytest.fixture
def swapped(fleet: Fleet) -> Host:
    host = fleet.host("swapped")
    fleet.faults.gpu_hold(host, 0, 600)
    return host


@pytest.mark.parametrize("mode", MODES)
def test_they_agree(fleet: Fleet, swapped: Host, mode: str) -> None:
    fault, away = MODES[mode]
    fleet.faults.gpu(swapped, fault)
    agree(fleet, swapped, [index for index in (0, 1) if index not in away])


@pytest.mark.parametrize("mode", SILENT)
def test_they_do_not_crash_where_they_show_less(fleet: Fleet, swapped: Host, mode: str) -> None:
    """gpustat leaves out what it cannot ask or find, nvitop puts the machine's own memory for a card's."""
    fleet.faults.gpu(swapped, SILENT[mode])
    assert len(gpustat(swapped)) == (0 if mode == "no devices" else 2)
    nvitop(swapped)


@pytest.mark.parametrize("fault", REFUSED)
def test_they_say_why_nothing_is_known(fleet: Fleet, swapped: Host, fault: str) -> None:
    fleet.faults.gpu(swapped, fault)
    first, second = run(swapped, "gpustat"), run(swapped, "nvitop", "-1", "--ascii")
    assert (first.returncode, second.returncode) == (1, 1)
    assert REFUSED[fault] in first.stderr
    assert not CRASH.search(second.stdout + second.stderr)
    assert swapped.exec(["nvidia-smi"], timeout=10).returncode != 0


@pytest.mark.parametrize(
    ("fault", "error"), [("reset 1", "ResetRequired"), ("denied 1", "NoPermission")], ids=["reset", "denied"]
)
def test_some_codes_of_a_handle_are_too_much_for_them(fleet: Fleet, swapped: Host, fault: str, error: str) -> None:
    """These versions expect a lost card and an unknown error only: they end with the library's own exception."""
    fleet.faults.gpu(swapped, fault)
    first, second = run(swapped, "gpustat"), run(swapped, "nvitop", "-1", "--ascii")
    assert (first.returncode, second.returncode) == (1, 1)
    assert f"NVMLError_{error}" in second.stderr


def test_in_a_container_with_the_last_two_cards(fleet: Fleet) -> None:
    box, node = fleet.container(231), fleet.node("pve2")
    assert isinstance(node, Node)
    start = "setsid -f /lab/bin/gpu-hold --gpu 1 --mib 900 -- sleep 86400 >/dev/null 2>&1"
    box.exec(["sh", "-c", start], timeout=10)
    wait_for(lambda: query(box, "--query-compute-apps=pid"))
    fleet.faults.gpu_hold(node, 2, 300)
    agree(fleet, box, [0, 1])
    agree(fleet, node, [0, 1, 2, 3])


def test_mig_desktop_and_unified_memory(fleet: Fleet) -> None:
    host = fleet.host("odd")
    for slot, mib in ((0, 500), (1, 700), (2, 60)):
        fleet.faults.gpu_hold(host, slot, mib)
    told = gpustat(host)
    screen = nvitop(host)
    assert [gpu["uuid"] for gpu in told] == [row[0] for row in query(host, "--query-gpu=uuid")]
    used = [row[0] for row in query(host, "--query-gpu=memory.used")]
    assert used == ["555", "656", "[N/A]"]
    assert [gpu["memory.used"] for gpu in told] == [555, 656, None]
    pids = {int(row[0]) for row in query(host, "--query-compute-apps=pid")}
    assert len(pids) == 3
    assert {process["pid"] for gpu in told for process in gpu["processes"]} == pids  # type: ignore[attr-defined]
    assert {int(pid) for pid in PROCESS.findall(screen)} == pids, screen
    assert re.search(r"0:0 +3g\.71gb", screen), screen
    assert "555.0MiB / 140.4GiB" in screen
    assert "656.0MiB / " in screen
