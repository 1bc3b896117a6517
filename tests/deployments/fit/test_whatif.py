"""The settings that people try, as flags; and where the model's files stand."""

from __future__ import annotations

import pytest

from deployments.engines.registry import ENGINES
from deployments.fit.whatif import Wanted, as_launched, cards_needed, flags_for, tokens_of
from deployments.fit.where import draft_place, model_place
from hosts.probe.frames import Unknown

ALL = Wanted(context=65536, precision="fp8", fraction=0.8, cards=4)
SGLANG = ("python", "-m", "sglang.launch_server", "--model-path", "/m", "--tp", "2", "--mem-fraction=0.88")


@pytest.mark.parametrize(
    ("engine", "wanted", "flags"),
    [
        ("sglang", ALL, "--context-length 65536 --mem-fraction-static 0.8 --tp-size 4 --kv-cache-dtype fp8_e4m3"),
        (
            "vllm", ALL,
            "--max-model-len 65536 --gpu-memory-utilization 0.8 --tensor-parallel-size 4 --kv-cache-dtype fp8",
        ),
        ("llama_server", Wanted(4096, "q8_0", 0.5, 3), "-c 4096 -ctk q8_0 -ctv q8_0"),
        ("sglang", Wanted(), ""),
        ("sglang", Wanted(precision="moon"), ""),
    ],
)  # fmt: skip
def test_settings_as_flags(engine: str, wanted: Wanted, flags: str) -> None:
    assert flags_for(ENGINES[engine], wanted) == tuple(flags.split())


def test_what_the_command_says_already() -> None:
    assert as_launched(ENGINES["sglang"], SGLANG) == {"context": "", "fraction": "0.88", "cards": "2", "precision": ""}
    llama = ("llama-server", "-m", "/m.gguf", "--ctx-size", "8192", "-ctk", "q8_0")
    assert as_launched(ENGINES["llama_server"], llama) == {"context": "8192", "precision": "q8_0"}


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("131072", 131072), ("128K", 131072), (" 32k ", 32768), ("131,072", 131072), ("0", None), ("x", None), ("", None)],
)
def test_a_length_as_people_write_it(text: str, tokens: int | None) -> None:
    assert tokens_of(text) == tokens


@pytest.mark.parametrize(
    ("engine", "flags", "cards"),
    [
        ("sglang", "--tp 2", 2), ("sglang", "--tp 2 --tp-size 8", 8), ("sglang", "--tp 2 --dp 2", 4),
        ("sglang", "--tp x", None), ("sglang", "", 1), ("vllm", "-tp 4 -pp 2", 8), ("llama_server", "-m x", None),
    ],
)  # fmt: skip
def test_how_many_cards_a_command_uses(engine: str, flags: str, cards: int | None) -> None:
    assert cards_needed(ENGINES[engine], flags.split()) == cards


@pytest.mark.parametrize(
    ("argv", "container", "says"),
    [
        (SGLANG, {"tool": "docker"}, "in a container of its own image"),
        (("x", "--model-path", "Qwen/Qwen3-8B"), {}, "names the model Qwen/Qwen3-8B"),
        (("x",), {}, "does not name the path"),
    ],
)
def test_without_a_path_on_the_host_there_is_nothing_to_read(
    argv: tuple[str, ...], container: dict[str, object], says: str
) -> None:
    found = model_place(ENGINES["sglang"], argv, container)
    assert isinstance(found, Unknown) and says in found.reason
    assert draft_place(ENGINES["sglang"], (*argv, "--speculative-draft-model-path", "/d"), {"a": 1}) is None


def test_the_places_of_a_model_and_its_draft() -> None:
    assert model_place(ENGINES["sglang"], SGLANG, {}) == "/m"
    assert draft_place(ENGINES["sglang"], (*SGLANG, "--speculative-draft-model-path", "/d"), {}) == "/d"
    assert draft_place(ENGINES["sglang"], (*SGLANG, "--speculative-draft-model-path", "hub/d"), {}) is None
