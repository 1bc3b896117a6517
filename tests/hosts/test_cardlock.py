"""Whoever asks the driver of this machine: never two at a time, and nobody queues up behind one that hangs."""

import fcntl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from hosts import nvml
from hosts.probe import cardlock
from hosts.probe.frames import Unknown, parse_frame
from hosts.probe.probe import probe
from lab.build import BUILD, build
from lab.gpus import state
from lab.specs import CardSpec
from tests.deployments.remote.shell import Host, said_of, temporary_host
from tests.hosts.conftest import wait_until
from tests.hosts.test_probe import LabMachine

pytestmark = pytest.mark.process

PATIENCE = b"CARDS_PATIENCE=13"
SLEEP = ["/bin/sleep", "60"]
SMI = 'touch "$HOME/asked"; echo "GPU-a, 4, 900, 0"'


@contextmanager
def asking() -> Iterator[None]:
    """Somebody on this machine asks the driver meanwhile."""
    lock = next(path for place in cardlock.PLACES if (path := place / cardlock.NAME).is_file())
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with temporary_host(tmp_path) as made:
        made.program("nvidia-smi", SMI)
        subprocess.run(["sh", "-c", f"{cardlock.script()}\nfind_card_lock"], check=True)
        yield made


def asked(host: Host) -> bool:
    return (host.home / "asked").exists()


def launch(host: Host, patience: bytes) -> list[str]:
    made = host.launch_script(SLEEP, limits=["GPU-a=68"])
    assert made.stdin.count(PATIENCE) == 1
    return said_of(host.run(replace(made, stdin=made.stdin.replace(PATIENCE, patience))), "unmeasured")


def test_a_launch_starts_nothing_while_another_question_hangs(host: Host) -> None:
    with asking():
        assert launch(host, b"CARDS_PATIENCE=0") == [f"GPU-a {cardlock.BUSY}"]
        assert not asked(host)
    assert launch(host, PATIENCE) == [] and asked(host)


def test_a_launch_waits_for_a_question_that_ends(host: Host) -> None:
    said: list[list[str]] = []
    starting = threading.Thread(target=lambda: said.append(launch(host, PATIENCE)))
    with asking():
        starting.start()
        starting.join(0.3)
        assert starting.is_alive() and not asked(host)
    starting.join(10)
    assert said == [[]] and asked(host)


def test_the_curve_goes_without_a_reading_meanwhile(host: Host) -> None:
    """It is what draws the memory while a server ends or starts, and must never wait."""
    parts = [Path(nvml.ROOT / "deployments/remote" / name) for name in ("process.sh", "common.sh")]
    sources = "\n".join([cardlock.script(), *(part.read_text() for part in parts)])
    code = f'TOKEN=t; {sources}\nREADING={host.home}/reading; (read_memory > "$READING.new"); cat "$READING"'

    def read() -> str:
        ran = subprocess.run(
            ["sh", "-c", code], env=host.env(), capture_output=True, text=True, timeout=20, check=False
        )
        return ran.stdout.partition("@t")[0]

    with asking():
        assert read() == "" and not asked(host)
    assert read() == "GPU-a, 4, 900, 0\n"


def test_nvml_says_so_too(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    monkeypatch.setattr(cardlock, "SECONDS", 0.05)
    subprocess.run(["sh", "-c", f"{cardlock.script()}\nfind_card_lock"], check=True)
    with asking():
        assert nvml.main(["t", "memory,apps,usable"]) == 0
    frame = parse_frame(capfdbinary.readouterr().out, token="t")
    assert {name: (part.text.strip(), part.status) for name, part in frame.sections.items()} == {
        "memory": (cardlock.BUSY, cardlock.BUSY_STATUS),
        "apps": (cardlock.BUSY, cardlock.BUSY_STATUS),
    }


@pytest.mark.slow
def test_behind_a_driver_that_hangs_nobody_queues_up(host: Host) -> None:
    """One nvidia-smi hangs, deaf to SIGTERM. A probe, NVML and a launch each say so; none starts a second one."""
    build()
    cards = host.home / "cards"
    cards.mkdir()
    state.write_cards(cards, [CardSpec().placed("gpu1", 0)])
    state.set_fault(cards, "hang 30")
    host.program("nvidia-smi", f'exec env FAKEGPU_DIR={cards} LD_LIBRARY_PATH={BUILD} {BUILD}/nvidia-smi "$@"')
    hung = threading.Thread(target=probe, args=(LabMachine(cards, kind="ssh"),), kwargs=EVERYTHING)
    hung.start()
    wait_until(lambda: len(smis(cards)) == 1, seconds=10, what="nvidia-smi")
    found: list[object] = []
    others = [
        threading.Thread(target=lambda kind=kind: found.append(probe(LabMachine(cards, kind=kind), **EVERYTHING).gpus))
        for kind in ("ssh", "local")
    ]
    # The real one waits until the hung one is killed, and then asks itself.
    others.append(threading.Thread(target=lambda: found.append(launch(host, b"CARDS_PATIENCE=5"))))
    for thread in others:
        thread.start()
    while any(thread.is_alive() for thread in others):
        assert len(smis(cards)) == 1
        others[0].join(0.02)
    hung.join(30)
    assert [f"GPU-a {cardlock.BUSY}"] in found
    reasons = [part.reason for part in found if isinstance(part, Unknown)]
    assert len(reasons) == 2 and all("has not ended" in reason for reason in reasons)


EVERYTHING = {"sections": ["memory"], "timeout": 30}


def smis(cards: Path) -> list[int]:
    """Those that ask these cards."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                name = (entry / "exe").readlink().name
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            if name == "nvidia-smi" and f"FAKEGPU_DIR={cards}".encode() in environment:
                found.append(int(entry.name))
    return found
