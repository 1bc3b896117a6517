"""The two ways to ask the cards, `nvidia-smi` by the script and pynvml for `local`, side by side on the same cards."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import pytest

from hosts.probe.frames import Unknown
from lab.gpus import state
from lab.specs import CardSpec
from tests.hosts.test_probe import LabMachine, look

pytestmark = pytest.mark.process

HOLD = """
import sys
from lab.gpus import hold
hold.take(int(sys.argv[1]), mib=int(sys.argv[2]))
print("held", flush=True)
sys.stdin.read()
"""
CARDS = {
    "plain": [CardSpec(), CardSpec(memory_mib=16376, reserved_mib=434)],
    "mig and a screen": [CardSpec(mig=("3g.71gb", "1g.18gb")), CardSpec(kind="desktop")],
    "memory shared with the machine": [CardSpec(kind="unified")],
    "an old driver": [CardSpec(driver="535.261.03"), CardSpec(driver="535.261.03")],
    "a new driver": [CardSpec(driver="590.48.01"), CardSpec(driver="590.48.01")],
}
FAULTS = {
    "none": "",
    "no memory": "cell * memory.* [N/A]",
    "memory needs a reset": "cell 0 memory.* [GPU requires reset]",
    "no utilization": "cell * utilization.gpu [Unknown Error]",
    "no temperature": "cell 0 temperature.gpu [N/A]",
    "no power": "cell 0 power.draw [N/A]",
    "unknown sizes": "cell * used_gpu_memory [N/A]",
    "processes hidden": "hide",
    "processes refused": "apps [Insufficient Permissions]",
    "a pid that is not there": "app 0 31999 900 [Not Found]",
    "a card left out": "denied 0",
    "recovery": "cell * gpu_recovery_action GPU Reset",
}
ONLY_ONE_TELLS = {"recovery", "tells_recovery", "fabric_state", "fabric_status", "driver_version"}
"""nvidia-smi is asked these in other sections, or by drivers that NVML does not need to know."""
MOVES = {"utilization_percent", "temperature_c", "power_watts"}
"""Another number a moment later; whether there is one is the same."""
MACHINE = ("no-driver", "mismatch", "blocked", "unknown-error", "no-devices", "lost 0", "hang 60")


@contextmanager
def held(directory: Path, card: int, mib: int) -> Iterator[None]:
    """A process that holds so much of a card."""
    words = [sys.executable, "-c", HOLD, str(card), str(mib)]
    environment = {**os.environ, "FAKEGPU_DIR": str(directory)}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as child:
        assert child.stdout is not None and child.stdout.readline() == b"held\n"
        yield
        child.kill()


def told(value: object) -> object:
    """A value, or that it is not known: each way says so in its own words."""
    return "unknown" if isinstance(value, Unknown) else value


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("cards", CARDS)
def test_they_agree_reading_for_reading(tmp_path: Path, cards: str, fault: str) -> None:
    state.write_cards(tmp_path, [card.placed("gpu1", slot) for slot, card in enumerate(CARDS[cards])])
    with held(tmp_path, 0, 700):
        state.set_fault(tmp_path, FAULTS[fault] or None)
        script, library = look(LabMachine(tmp_path, kind="smi")), look(LabMachine(tmp_path, kind="local"))
    if isinstance(script.gpus, Unknown) or isinstance(library.gpus, Unknown):
        assert (fault, len(CARDS[cards])) == ("a card left out", 1)  # the only one
        assert told(script.gpus) == told(library.gpus) == "unknown"
        return
    assert len(script.gpus.gpus) == len(library.gpus.gpus)
    for one, other in zip(script.gpus.gpus, library.gpus.gpus, strict=True):
        for field in fields(one):
            first, second = told(getattr(one, field.name)), told(getattr(other, field.name))
            if field.name in MOVES:
                assert (first == "unknown") == (second == "unknown"), field.name
            elif field.name not in ONLY_ONE_TELLS:
                assert first == second, field.name
    if isinstance(script.apps, Unknown) or isinstance(library.apps, Unknown):
        assert told(script.apps) == told(library.apps)
    else:
        rows = [
            sorted((app.gpu_uuid, app.pid, str(told(app.memory_used))) for app in seen.apps)
            for seen in (script.apps, library.apps)
        ]
        assert rows[0] == rows[1]


@pytest.mark.parametrize("fault", MACHINE)
def test_what_one_cannot_tell_the_other_does_not_call_free(
    tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hosts.nvml.DEADLINE_SECONDS", 1.0)
    cards = [CardSpec().placed("gpu1", slot) for slot in range(2)]
    state.write_cards(tmp_path, cards)
    state.set_fault(tmp_path, fault)
    for kind in ("smi", "local"):
        if kind == "smi" and fault.startswith("hang"):
            continue  # the script gives up after seconds of its own: tests/lab does that one
        gpus = look(LabMachine(tmp_path, kind=kind)).gpus
        reading = gpus if isinstance(gpus, Unknown) else gpus.by_uuid(cards[0].uuid)
        assert isinstance(reading, Unknown), (kind, reading)
