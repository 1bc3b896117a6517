"""Why a start failed: the earliest cause, and never "left over" when the cards were clean."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.engines.base import Engine
from deployments.engines.diagnosis import Diagnosis, diagnose, search
from deployments.engines.logtext import ESCAPE, Place
from deployments.engines.registry import ENGINES
from deployments.engines.signature import Worth
from tests.deployments.engines.failures import FAILURES, HARMLESS, OOM, SIGQUIT, VAGUE, Failure
from tests.deployments.engines.healthy import HEALTHY
from tests.deployments.engines.logs import GIVES_UP, fails, sglang_start, stamp, traceback, vllm_line

SGLANG, VLLM = ENGINES["sglang"], ENGINES["vllm"]
TOO_LARGE = "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: 0.85"


def found_in(log: str, engine: Engine = SGLANG, clean: bool | None = True, code: int | None = None) -> Diagnosis:
    return diagnose([(1, log)], engine=engine, cards_were_clean=clean, exit_code=code)


def line_of(log: str, place: Place | None) -> str:
    """As the log viewer counts lines, of its last states only."""
    assert place is not None
    return log.split("\n")[place.line]


# --- Each thing that a log can say


@pytest.mark.parametrize("failure", FAILURES, ids=str)
def test_a_cause_is_found_amid_the_noise_of_a_start(failure: Failure) -> None:
    log = fails(failure.engine, *failure.written)
    found = found_in(log, ENGINES[failure.engine])
    assert failure.says in found.cause
    assert found.line == failure.line
    assert failure.line in ESCAPE.sub("", line_of(log, found.place))
    assert found.recognised and found.fix and not found.block


@pytest.mark.parametrize("failure", VAGUE, ids=str)
def test_who_gives_up_is_said_when_nothing_else_is_known(failure: Failure) -> None:
    found = found_in("\n".join(["loading", *failure.written, "bye"]), ENGINES[failure.engine])
    assert failure.says in found.cause
    assert found.line == failure.line.strip()
    assert not found.recognised


@pytest.mark.parametrize("failure", HARMLESS, ids=str)
def test_what_is_harmless_is_never_the_cause_and_is_said_to_be(failure: Failure) -> None:
    log = fails(failure.engine, failure.line, *traceback(OOM))
    found = found_in(log, ENGINES[failure.engine])
    assert found.line == OOM
    assert any(failure.says in note for note in found.notes)


@pytest.mark.parametrize("key", ENGINES)
def test_every_signature_of_an_engine_has_a_log(key: str) -> None:
    engine, shown = ENGINES[key], set()
    for failure in (*FAILURES, *VAGUE, *HARMLESS):
        found = search([(1, "\n".join(failure.written))], engine)
        shown |= {hit.signature for hit in (found.cause, found.vague) if hit is not None}
        shown |= {hit.signature for hit in found.found.values() if hit.signature.worth is Worth.HARMLESS}
    assert [signature.texts for signature in engine.signatures if signature not in shown] == []
    written = "\n".join(line for failure in (*FAILURES, *VAGUE, *HARMLESS) for line in failure.written)
    assert [text for signature in engine.signatures for text in signature.texts if text not in written] == []


@pytest.mark.parametrize(
    ("engine", "log"), [(key, log) for key, _, log in HEALTHY], ids=[name for _, name, _ in HEALTHY]
)
def test_the_log_of_a_healthy_server_names_no_failure(engine: str, log: str) -> None:
    found = search([(1, log)], ENGINES[engine])
    assert found.cause is None and found.vague is None
    assert "names no cause that Relaunch knows" in found_in(log, ENGINES[engine]).cause


def test_there_are_twenty_healthy_logs() -> None:
    assert len({log for _, _, log in HEALTHY}) >= 20


def test_what_the_shell_says_of_a_program_that_is_not_there(tmp_path: Path) -> None:
    script = tmp_path / "run"
    script.write_text("exec no-such-engine --port 1\n")
    said = subprocess.run(["sh", script], capture_output=True, text=True, check=False).stderr
    assert "could not be started" in found_in(said).cause


# --- The earliest cause


def test_the_earliest_cause_wins_over_what_follows_from_it() -> None:
    log = "\n".join(["start", TOO_LARGE, *["  File x"] * 300, "Scheduler hit an exception: boom", SIGQUIT, "Killed"])
    found = found_in(log)
    assert (found.line, found.place) == (TOO_LARGE, Place(1, 1))


@pytest.mark.parametrize("apart", [1, 2_000])
def test_a_line_that_gives_up_hides_no_cause_above_or_below_it(apart: int) -> None:
    noise = [f"{stamp(n)} Prefill batch, #new-seq: 1" for n in range(apart)]
    assert found_in("\n".join([SIGQUIT, *noise, OOM])).line == OOM
    assert found_in("\n".join([OOM, *noise, SIGQUIT, "Killed"])).line == OOM


def test_of_two_ranks_the_first_to_fail_is_named() -> None:
    first = f"{stamp(33, 'TP1')} Scheduler hit an exception: {TOO_LARGE}"
    second = f"{stamp(33, 'TP0')} Scheduler hit an exception: RuntimeError: NCCL error in: x, unhandled system error"
    found = found_in("\n".join([*sglang_start()[:12], first, second, SIGQUIT]))
    assert found.line == first
    assert found.who == "TP1"


def test_a_cause_behind_a_progress_bar_is_found_in_its_line() -> None:
    bar = "Loading safetensors checkpoint shards:  41% Completed | 7/17 [00:01<00:02]"
    log = f"start\n{bar}\r{bar}\r{stamp(3, 'TP1')} {TOO_LARGE}\nbye\n"
    found = found_in(log)
    assert found.line == f"{stamp(3, 'TP1')} {TOO_LARGE}"
    assert found.place == Place(1, 1)


def test_out_of_memory_while_capturing_graphs_is_said_as_that() -> None:
    """torch says it first; the line that wraps it knows in which stage."""
    chain = [
        *traceback(OOM, before=f"{stamp(33, 'TP0')} Scheduler hit an exception: "),
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        *traceback(f"Exception: Capture cuda graph failed: {OOM}"),
        "Possible solutions:",
        "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)",
    ]
    found = found_in(fails("sglang", *chain))
    assert "capture CUDA graphs" in found.cause and "Capture cuda graph failed" in found.line


def test_another_failure_in_another_stage_does_not_rename_the_first() -> None:
    later = "Exception: Capture cuda graph failed: CUDA error: unspecified"
    assert found_in(f"{TOO_LARGE}\n{later}\n").line == TOO_LARGE
    assert found_in(f"{OOM}\n{later}\n").line == OOM


# --- What is not known


def test_an_unknown_error_is_shown_from_its_traceback() -> None:
    error = "KeyError: 'model.layers.61.mlp.up_proj'"
    log = fails("sglang", *traceback(error, before=f"{stamp(33, 'TP1')} Scheduler hit an exception: "))
    found = found_in(log)
    assert found.cause == f"Relaunch does not know this error: {error}"
    assert not found.recognised
    assert found.block[0].endswith("Traceback (most recent call last):") and found.block[-1] == error
    assert "hit an exception" in line_of(log, found.place)


def test_vllms_own_traceback_that_points_elsewhere_is_not_the_error() -> None:
    error = "KeyError: 'lm_head.weight'"
    lines = [vllm_line("ERROR", line, "Worker_TP1") for line in traceback(error)]
    found = found_in(fails("vllm", *lines), VLLM)
    assert found.line == error
    assert "Engine core initialization" not in "".join(found.block)


def test_of_a_chain_the_first_error_is_shown() -> None:
    first, second = "ZeroDivisionError: division by zero", "RuntimeError: could not build the model"
    during = ["", "During handling of the above exception, another exception occurred:", ""]
    found = found_in("\n".join([*traceback(first), *during, *traceback(second), SIGQUIT]))
    assert found.line == first


def test_a_long_traceback_is_shown_with_its_end() -> None:
    found = found_in("\n".join(traceback("KeyError: 'x'", frames=60)))
    assert len(found.block) <= 30 and found.block[-1] == "KeyError: 'x'"


def test_without_a_traceback_the_last_lines_that_speak_of_errors_are_shown() -> None:
    errors = [f"fatal: disk {n} is odd" for n in range(40)]
    found = found_in("\n".join(["begin", *errors, *["quiet"] * 50]), ENGINES["custom"])
    assert found.block == tuple(errors[-30:])
    assert found.line == errors[-1] and "names no cause" in found.cause


def test_without_any_error_the_end_is_shown() -> None:
    found = found_in("one\ntwo\n\n", clean=None)
    assert (found.line, found.place, found.block) == ("two", Place(1, 1), ("one", "two"))
    assert "names no cause that Relaunch knows" in found.cause
    empty = found_in("", clean=None)
    assert (empty.line, empty.place, empty.block) == ("", None, ())


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (137, "killed from outside"),
        (139, "crashed in its own code"),
        (127, "not found"),
        (1, "names no cause"),
        (0, "no"),
    ],
)
def test_what_the_exit_code_says_when_the_log_says_nothing(code: int, words: str) -> None:
    assert words in found_in("loading\n", code=code).cause


def test_a_server_that_kills_itself_is_not_said_to_be_killed_from_outside() -> None:
    assert "worker process" in found_in(f"loading\n{SIGQUIT}\n", code=137).cause


# --- In pieces


def cut(text: str, cuts: Iterable[int]) -> list[tuple[int, str]]:
    ends = sorted({0, *cuts, len(text)})
    return [(seq, text[begin:end]) for seq, (begin, end) in enumerate(pairwise(ends), 1)]


CUT = fails("sglang", f"{stamp(33, 'TP1')} Scheduler hit an exception: {TOO_LARGE}", *traceback("KeyError: 'x'"))


@settings(max_examples=15)
@given(st.sets(st.integers(0, len(CUT)), max_size=12))
def test_it_is_the_same_however_the_log_is_cut(cuts: set[int]) -> None:
    pieces = cut(CUT, cuts)
    found = diagnose(pieces, engine=SGLANG, cards_were_clean=True)
    assert found.line.endswith(TOO_LARGE)
    assert found.place is not None
    piece = dict(pieces)[found.place.seq]
    begins = piece.split("\n")[found.place.line]
    assert begins and found.line.startswith(begins[:20].rpartition("\r")[2].lstrip()[:5])


@settings(max_examples=15)
@given(st.sets(st.integers(0, len(CUT)), max_size=12))
def test_an_unknown_error_is_the_same_however_the_log_is_cut(cuts: set[int]) -> None:
    unknown = CUT.replace("Not enough memory", "Something else ")
    found = diagnose(cut(unknown, cuts), engine=SGLANG, cards_were_clean=True)
    assert found.line == "KeyError: 'x'"


def test_a_line_without_an_end_is_read_too() -> None:
    assert diagnose([(1, "x" * 300_000), (2, TOO_LARGE)], engine=SGLANG, cards_were_clean=True).line.endswith(TOO_LARGE)


def test_a_log_is_read_no_further_than_is_needed() -> None:
    read: list[int] = []

    def pieces() -> Iterable[tuple[int, str]]:
        for seq, text in enumerate([TOO_LARGE + "\n", *["noise\n" * 5_000] * 100]):
            read.append(seq)
            yield seq, text

    assert diagnose(pieces(), engine=SGLANG, cards_were_clean=True).line == TOO_LARGE
    assert len(read) < 10


# --- The memory before the start


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
    assert words in found_in(line, clean=clean).memory


HELD = OOM.replace("this process has 45.90 GiB", "this process has 5.90 GiB")
UNBALANCED = (
    "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. "
    "min_per_gpu_memory=12.51, local_gpu_memory=46.71, local_gpu_memory * 0.9=42.04"
)
NOT_FREE = (
    "ValueError: Free memory on device cuda:0 (3.21/47.37 GiB) on startup is less than desired GPU memory utilization"
)


@pytest.mark.parametrize(
    ("engine", "line", "said"),
    [
        ("sglang", HELD, "others held 40.1 GiB of the 47.4 GiB of its card 1"),
        ("sglang", UNBALANCED, "one card had 12.5 GiB free, another 46.7 GiB"),
        ("vllm", NOT_FREE, "of the 47.4 GiB of its card 0 only 3.2 GiB were free before it took any"),
    ],
)
def test_a_log_that_contradicts_the_measurement_is_said_to(engine: str, line: str, said: str) -> None:
    for clean, words in (
        (True, "That contradicts what was measured"),
        (False, "something else held"),
        (None, "not known"),
    ):
        memory = found_in(line, ENGINES[engine], clean=clean).memory
        assert said in memory and words in memory
        assert "does not fit" not in memory


def test_what_is_the_servers_own_is_no_contradiction() -> None:
    assert "contradicts" not in found_in(OOM).memory


def test_on_a_shared_card_what_others_hold_is_no_contradiction() -> None:
    found = diagnose([(1, HELD)], engine=SGLANG, cards_were_clean=True, shared=True)
    assert "it took more than that" in found.memory and "others held 40.1 GiB" in found.memory
    assert "contradicts" not in found.memory


def test_of_cards_that_were_not_free_the_first_thing_to_do_is_to_free_them() -> None:
    assert found_in(TOO_LARGE, clean=False).fix.startswith("First free the cards")
    assert not found_in(TOO_LARGE, clean=True).fix.startswith("First")
    assert not found_in("OSError: No space left on device", clean=False).fix.startswith("First")


pieces = st.lists(
    st.sampled_from(
        ["", "{}", "%s", "{what}", "Killed", SIGQUIT, OOM, TOO_LARGE, "error: argument {0}: x", *GIVES_UP["vllm"]]
    )
    | st.text()
)


@pytest.mark.slow
@given(pieces, st.sampled_from(list(ENGINES.values())), st.sampled_from([True, False, None]))
def test_any_log_has_a_diagnosis_that_never_mixes_up_the_two_causes(
    lines: list[str], engine: Engine, clean: bool | None
) -> None:
    found = found_in("\n".join(lines), engine, clean)
    assert found.cause
    assert ("something else held" in found.memory) == (clean is False)
    assert clean is True or "does not fit" not in found.memory
