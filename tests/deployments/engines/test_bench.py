"""How each engine is asked in a benchmark, and what is read from the pieces of its answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deployments.engines.bench import OPENAI, Piece, counter, number, whole
from deployments.engines.registry import ENGINES

SGLANG, VLLM, LLAMA = (ENGINES[key].bench for key in ("sglang", "vllm", "llama_server"))
META = {"id": "a", "finish_reason": None, "prompt_tokens": 12, "cached_tokens": 0}


@pytest.mark.parametrize("key", ENGINES)
def test_each_engine_is_asked_for_so_many_tokens_as_a_stream_and_never_to_forget_anything(key: str) -> None:
    request = ENGINES[key].bench.request("a prompt", 77)
    text = json.dumps(request.body)
    assert request.method == "POST" and '"stream": true' in text and ": 77" in text and "a prompt" in text
    assert "flush" not in request.path + text and "reset" not in request.path + text
    assert "cache" not in text, "what it keeps is left to the server"


def test_only_llama_server_is_asked_over_a_connection_of_its_own_each_time() -> None:
    assert [key for key, engine in ENGINES.items() if not engine.bench.keeps_open] == ["llama_server"]


@pytest.mark.parametrize(
    ("told", "piece"),
    [
        ({"text": "A", "meta_info": {**META, "completion_tokens": 3}}, Piece(3, says=True)),
        ({"text": "", "meta_info": {**META, "completion_tokens": 0}}, Piece(0, says=False)),
        (
            {"meta_info": {**META, "completion_tokens": 64, "spec_verify_ct": 20, "spec_accept_length": 9.0}},
            Piece(64, says=True, acceptance=3.2),
        ),
        ({"meta_info": {**META, "completion_tokens": 64, "spec_accept_length": 2.95}}, Piece(64, True, 2.95)),
        (
            {"meta_info": {"completion_tokens": 2, "finish_reason": {"type": "abort", "message": "Input too long"}}},
            Piece(2, says=True, error="SGLang broke it off: Input too long"),
        ),
        ({"error": {"message": "no room"}}, Piece(error="no room")),
        ({"meta_info": {"completion_tokens": "many", "spec_accept_length": "long"}}, Piece()),
    ],
)
def test_sglang(told: dict[str, Any], piece: Piece) -> None:
    assert SGLANG.read(told) == piece


@pytest.mark.parametrize(
    ("told", "piece"),
    [
        ({"choices": [{"text": " A"}], "usage": {"completion_tokens": 2}}, Piece(2, says=True)),
        ({"choices": [{"text": ""}], "usage": None}, Piece()),
        ({"choices": [], "usage": {"completion_tokens": 64}}, Piece(64)),
        ({"choices": [{"text": " A"}]}, Piece(None, says=True)),
        ({"error": {"message": "EngineCore died", "code": 500}}, Piece(error="EngineCore died")),
        ({"choices": "none", "usage": [1]}, Piece()),
        ({"choices": [{"text": "A"}], "usage": {"completion_tokens": -1}}, Piece(None, says=True)),
    ],
)
@pytest.mark.parametrize("bench", [VLLM, OPENAI])
def test_chunks_of_a_completion(bench: Any, told: dict[str, Any], piece: Piece) -> None:
    assert bench.read(told) == piece


@pytest.mark.parametrize(
    ("told", "piece"),
    [
        ({"content": "a", "stop": False, "tokens_predicted": 4}, Piece(4, says=True)),
        ({"content": "", "tokens": [17], "tokens_predicted": 5}, Piece(5, says=True)),
        ({"content": "", "stop": True, "tokens_predicted": 64, "timings": {"predicted_n": 64}}, Piece(64)),
        (
            {"content": "", "tokens_predicted": 64, "timings": {"draft_n": 60, "draft_n_accepted": 44}},
            Piece(64, acceptance=3.2),
        ),
        ({"tokens_predicted": 64, "timings": {"draft_n": 9, "draft_n_accepted": 64}}, Piece(64)),
        ({"error": {"code": 503, "message": "Loading model"}}, Piece(error="Loading model")),
    ],
)
def test_llama_server(told: dict[str, Any], piece: Piece) -> None:
    assert LLAMA.read(told) == piece


def page(drafts: int, accepted: int) -> str:
    return (
        "# TYPE vllm:spec_decode_num_drafts_total counter\n"
        f'vllm:spec_decode_num_drafts_total{{engine="0",model_name="m"}} {drafts}.0\n'
        f'vllm:spec_decode_num_drafts_created{{engine="0",model_name="m"}} 1.7e+09\n'
        f'vllm:spec_decode_num_accepted_tokens_total{{engine="0",model_name="m"}} {accepted}.0\n'
    )


@pytest.mark.parametrize(
    ("before", "after", "length"),
    [
        (page(100, 150), page(200, 370), 3.2),
        (page(100, 150), page(100, 150), None),  # nothing was drafted
        ("", page(200, 370), None),
        (page(100, 150), "", None),
        ("", "", None),
        (page(200, 370), page(10, 20), None),  # it has begun anew
    ],
)
def test_vllm_tells_its_acceptance_on_its_metrics_page(before: str, after: str, length: float | None) -> None:
    assert VLLM.accepted is not None
    found = VLLM.accepted(before, after)
    assert found == (length if length is None else pytest.approx(length))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a_total 3.0\n", 3.0),
        ('a_total{x="1"} 3.0\na_total{x="2"} 4e1\n', 43.0),
        ("# HELP a_total words\nb_total 3\n", None),
        ("aa_total 3\n", None),
        ("a_total nan\n", None),
        ("", None),
    ],
)
def test_a_counter_is_summed_over_its_labels(text: str, found: float | None) -> None:
    assert counter(text, "a_total") == found


def test_numbers_of_another_world_are_none() -> None:
    assert (whole(10**400), number(10**400), counter("a 1.2.3\n", "a")) == (None, None, None)
