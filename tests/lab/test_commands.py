"""The lab's command line, without a fleet."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import commands
from lab.faults import verbs


def test_help_lists_every_fault_with_its_arguments(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert commands.fault(tmp_path, name="gpu1", verb="help", words=()) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == verbs()
    by_verb = {line.split()[0]: " ".join(line.split()) for line in lines}
    assert by_verb["gpu-leak"] == "gpu-leak CARD MIB Memory in use that no process holds"
    assert by_verb["gpu-stuck"].startswith("gpu-stuck CARD MIB [SECONDS] A holder in state D")
    assert by_verb["gpu"].startswith("gpu WORDS... What nvidia-smi")
