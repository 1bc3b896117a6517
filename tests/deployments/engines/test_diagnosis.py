"""Why a start failed: the earliest cause, and never "left over" when the cards were clean."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.engines.base import Engine
from deployments.engines.diagnosis import diagnose
from deployments.engines.registry import ENGINES

SGLANG = ENGINES["sglang"]
TOO_LARGE = "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: 0.85"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
SIGQUIT = "[2026-01-01 00:00:00] Received sigquit from a child process. It usually means the child failed."


@pytest.mark.parametrize(
    ("engine", "line", "cause"),
    [
        ("sglang", TOO_LARGE, "leave no room for the KV cache"),
        ("sglang", "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied", "less free memory"),
        ("sglang", "Exception: Capture cuda graph failed: CUDA error", "Capturing CUDA graphs"),
        ("sglang", "ValueError: Model architectures ['Foo'] are not supported", "does not know the model"),
        ("sglang", "Scheduler hit an exception: KeyError: 'x'", "KeyError: 'x'"),
        ("sglang", "launch_server.py: error: unrecognized arguments: --mamba-x 3", "--mamba-x 3"),
        ("sglang", "launch_server.py: error: argument --tp-size: invalid int value: 'two'", "invalid int value"),
        ("sglang", "/usr/bin/python3: No module named sglang", "does not have the engine: sglang"),
        (
            "sglang",
            "/usr/bin/python3.11: Error while finding module specification for 'sglang.launch_server' (x)",
            "does not have the engine: sglang.launch_server",
        ),
        ("sglang", "error: ambiguous option: --mem could match", "could match"),
        ("sglang", "[Errno 98] error while attempting to bind: address already in use", "port is already taken"),
        ("sglang", "OSError: [Errno 28] No space left on device", "disk is full"),
        ("sglang", "FileNotFoundError: [Errno 2] No such file or directory: '/models/x'", "model was not found"),
        ("vllm", "ValueError: Free memory on device (3.2/47 GiB) on startup is less than desired", "not as free"),
        ("vllm", "ValueError: No available memory for the cache blocks.", "does not fit"),
        ("llama_server", "main: exiting due to model loading error", "could not load the model file"),
        ("custom", "bash: foo: command not found", "could not be started"),
    ],
)
def test_known_causes(engine: str, line: str, cause: str) -> None:
    found = diagnose(f"loading\n{line}\nbye\n", engine=ENGINES[engine], cards_were_clean=True)
    assert cause in found.cause
    assert found.line == line
    assert found.line_number == 1
    assert found.fix


def test_what_the_shell_says_of_a_program_that_is_not_there(tmp_path: Path) -> None:
    script = tmp_path / "run"
    script.write_text("exec no-such-engine --port 1\n")
    said = subprocess.run(["sh", script], capture_output=True, text=True, check=False).stderr
    assert "could not be started" in diagnose(said, engine=SGLANG, cards_were_clean=True).cause


def test_the_earliest_cause_wins_over_what_follows_from_it() -> None:
    log = "\n".join(["start", TOO_LARGE, *["  File x"] * 300, "Scheduler hit an exception: boom", SIGQUIT, "Killed"])
    found = diagnose(log, engine=SGLANG, cards_were_clean=True)
    assert (found.line, found.line_number) == (TOO_LARGE, 1)


def test_a_line_that_gives_up_does_not_hide_another_ranks_cause_below_it() -> None:
    assert diagnose(f"{SIGQUIT}\n{OOM}\n", engine=SGLANG, cards_were_clean=True).line == OOM


def test_giving_up_alone_is_said_as_such() -> None:
    assert "worker process of the server died" in diagnose(SIGQUIT, engine=SGLANG, cards_were_clean=True).cause


@pytest.mark.parametrize(
    "harmless",
    [
        "Ignored error: libmlx5.so: cannot open shared object file: No such file or directory",
        "WARNING: No module named 'flash_attn', going on without it",
        "WARNING: /etc/numa.conf: Permission denied, using defaults",
    ],
)
def test_a_harmless_warning_is_not_the_cause(harmless: str) -> None:
    assert diagnose(f"{harmless}\n{OOM}\n", engine=SGLANG, cards_were_clean=True).line == OOM


def test_an_unknown_end_shows_the_last_line() -> None:
    found = diagnose("one\ntwo\n\n", engine=SGLANG, cards_were_clean=None)
    assert (found.line, found.line_number) == ("two", None)
    assert "no cause that Relaunch knows" in found.cause
    assert diagnose("", engine=SGLANG, cards_were_clean=None).line == ""


@pytest.mark.parametrize(
    ("clean", "line", "words"),
    [
        (True, OOM, "the model does not fit; nothing was left over"),
        (False, OOM, "something else held memory"),
        (None, OOM, "not known"),
        (True, "Repo id must be in the form", "were at their baseline"),
    ],
)
def test_what_the_memory_before_the_start_says(clean: bool | None, line: str, words: str) -> None:
    assert words in diagnose(line, engine=SGLANG, cards_were_clean=clean).memory


pieces = st.lists(
    st.sampled_from(["", "{}", "%s", "{what}", "Killed", SIGQUIT, OOM, TOO_LARGE, "error: argument {0}: x"]) | st.text()
)


@pytest.mark.slow
@given(pieces, st.sampled_from(list(ENGINES.values())), st.sampled_from([True, False, None]))
def test_any_log_has_a_diagnosis_that_never_mixes_up_the_two_causes(
    lines: list[str], engine: Engine, clean: bool | None
) -> None:
    found = diagnose("\n".join(lines), engine=engine, cards_were_clean=clean)
    assert found.cause
    assert ("something else held" in found.memory) == (clean is False)
    assert clean is True or "does not fit" not in found.memory
