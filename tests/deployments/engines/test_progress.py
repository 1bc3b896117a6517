"""How far a start has come, from its log as it grows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.engines.progress import Phases, Progress, Reached
from deployments.engines.registry import ENGINES
from tests.deployments.engines.logs import llama_start, sglang_start, vllm_line, vllm_start


def stages(engine: str, lines: list[str]) -> list[str]:
    """Every stage that a log passes through, in order, each once."""
    progress = Progress(ENGINES[engine].stages)
    seen: list[str] = []
    for line in lines:
        for state in line.split("\r"):
            progress.read(state + "\r")
            if progress.reached is not None and str(progress.reached) not in seen[-1:]:
                seen.append(str(progress.reached))
    return seen


@pytest.mark.parametrize("version", ["0.5.9", "0.5.11", "0.5.23"])
def test_the_stages_of_sglang(version: str) -> None:
    seen = stages("sglang", sglang_start(version, ranks=("TP0",)))
    assert seen[:4] == [
        "starting its worker processes",
        "connecting the cards",
        "loading the weights",
        "loading the weights, 0 of 7",
    ]
    for stage in ("loading the weights, 7 of 7", "setting up the memory for requests", "capturing CUDA graphs, 3 of 4"):
        assert stage in seen
    assert seen[-3:] == ["opening its port", "answering its first request to itself", "ready"]


def test_the_stages_of_vllm() -> None:
    seen = stages("vllm", vllm_start())
    assert seen[0] == "starting its worker processes" and seen[-2:] == ["opening its port", "ready"]
    assert {"loading the weights, 3 of 3", "compiling", "capturing CUDA graphs, 17 of 34"} <= {*seen}


def test_the_stages_of_llama_server() -> None:
    assert stages("llama_server", llama_start()) == [
        "opening the model file",
        "loading the weights",
        "setting up the memory for requests",
        "warming up",
        "opening its port",
        "ready",
    ]


def test_a_command_of_ones_own_has_no_stages() -> None:
    assert stages("custom", ["loading 1/2", "ready"]) == []


def reached(engine: str, line: str) -> Reached | None:
    progress = Progress(ENGINES[engine].stages)
    progress.read(line + "\n")
    return progress.reached


@pytest.mark.parametrize(
    ("engine", "line", "words", "done", "total"),
    [
        ("sglang", "Multi-thread loading shards: 100% Completed | 5/5 [00:01<00:00,  3.08it/s]", "loading", 5, 5),
        ("sglang", "Fetching 17 files:  41%|####      | 7/17 [00:09<00:12,  1.2s/it]", "downloading", 7, 17),
        ("sglang", "Capturing batches (bs=1 avail_mem=23.54 GB): 23%|##| 12/52 [00:03<00:10]", "capturing", 12, 52),
        ("sglang", "Compiling num tokens (num_tokens=4): 100%|###| 74/74 [00:09<00:00]", "compiling", 74, 74),
        ("vllm", vllm_line("INFO", "Starting to load model /models/q..."), "loading the weights", None, None),
        ("sglang", "Loading safetensors checkpoint shards:   0% Completed | 0/0", "loading the weights", None, None),
    ],
)
def test_the_numbers_of_a_progress_bar(engine: str, line: str, words: str, done: int | None, total: int | None) -> None:
    found = reached(engine, line)
    assert found is not None and found.words.startswith(words)
    assert (found.done, found.total) == (done, total)


def test_of_many_states_the_last_counts() -> None:
    bars = "".join(f"Loading safetensors checkpoint shards: | {n}/17\r" for n in range(8))
    assert reached("sglang", bars) == Reached("loading the weights", 7, 17)


def test_a_line_that_comes_in_two_pieces_is_read_whole() -> None:
    progress = Progress(ENGINES["sglang"].stages)
    progress.read("[..] Load weight begin\nLoading safetensors check")
    assert progress.reached == Reached("loading the weights")
    progress.read("point shards:  41% Completed | 7/17\r")
    assert progress.reached == Reached("loading the weights", 7, 17)


def test_a_rank_that_begins_later_takes_no_count_away() -> None:
    bar, other = "Loading safetensors checkpoint shards: | 5/10\r", "[.. TP1] Load weight begin. avail mem=46 GB\n"
    together, apart = Progress(ENGINES["sglang"].stages), Progress(ENGINES["sglang"].stages)
    together.read(bar + other)
    apart.read(bar)
    apart.read(other)
    assert together.reached == apart.reached == Reached("loading the weights", 5, 10)


@pytest.mark.parametrize(
    ("late", "behind"),
    [
        ("[2026-11-30 09:00:12 TP1] Load weight begin. avail mem=46 GB", "TP1: loading the weights"),
        ("[2026-11-30 09:00:12 DP1 TP3] Init torch distributed begin.", "DP1 TP3: connecting the cards"),
        ("Loading safetensors checkpoint shards: | 2/7", "loading the weights, 2 of 7"),
    ],
)
def test_a_stage_never_goes_back_and_what_is_behind_is_named(late: str, behind: str) -> None:
    bars = ["Capturing batches (bs=4): | 3/4\r", "Capturing batches (bs=1): | 4/4\r"]
    together, apart = Progress(ENGINES["sglang"].stages), Progress(ENGINES["sglang"].stages)
    together.read(f"{bars[0]}{late}\n")
    for piece in (bars[0], f"{late}\n"):
        apart.read(piece)
    assert together.reached == apart.reached == Reached("capturing CUDA graphs", 3, 4, behind)
    assert str(apart.reached) == f"capturing CUDA graphs, 3 of 4 (meanwhile {behind})"
    apart.read(bars[1])
    assert apart.reached == Reached("capturing CUDA graphs", 4, 4), "the first goes on"


def test_the_ranks_of_vllm_are_named_too() -> None:
    progress = Progress(ENGINES["vllm"].stages)
    progress.read(vllm_line("INFO", "Model loading took 15.28 GiB memory", "Worker_TP0") + "\n")
    progress.read(vllm_line("INFO", "Starting to load model /models/q...", "Worker_TP1") + "\n")
    assert progress.reached == Reached("measuring how much memory is left", behind="TP1: loading the weights")


LOG = "\n".join(sglang_start()[:9]) + "\n"


@settings(max_examples=30)
@given(st.integers(0, len(LOG)))
def test_it_is_the_same_however_the_log_is_cut(at: int) -> None:
    progress = Progress(ENGINES["sglang"].stages)
    progress.read(LOG[:at])
    progress.read(LOG[at:])
    assert progress.reached == reached("sglang", LOG.rstrip("\n"))


def test_how_long_a_start_was_at_each_stage() -> None:
    phases = Phases()
    phases.saw(None, at=5.0)
    for at, words in enumerate(["connecting", "loading", "loading", "opening its port", "loading", "ready"]):
        phases.saw(Reached(words), at=10.0 * at)
    assert phases.lengths(end=50.0) == [("connecting", 10.0), ("loading", 20.0), ("opening its port", 20.0)]
    assert Phases().lengths(end=9.0) == []
