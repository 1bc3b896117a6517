"""What a server is asked once it says that it is ready, and which answers a person would accept."""

from __future__ import annotations

import json

import pytest

from deployments.engines.answers import (
    CHAT,
    COMPLETION,
    EMBEDDING,
    Judged,
    Verdict,
    judge,
    questions,
    said_so_far,
    what_is_wrong,
)
from deployments.engines.registry import ENGINES
from deployments.engines.request import HttpRequest


@pytest.mark.parametrize(
    ("engine", "flags", "asked"),
    [
        ("sglang", "--model-path /m", (COMPLETION, CHAT)),
        ("sglang", "--model-path /m --is-embedding", (EMBEDDING,)),
        ("sglang", "--served-model-name x--is-embedding-not", (COMPLETION, CHAT)),
        ("vllm", "serve /m --task embed", (EMBEDDING,)),
        ("vllm", "serve /m --task=embedding --port 1", (EMBEDDING,)),
        ("vllm", "serve /m --runner pooling", (EMBEDDING,)),
        ("vllm", "serve /m --task generate", (COMPLETION, CHAT)),
        ("llama_server", "-m /m.gguf --embedding", (EMBEDDING,)),
        ("llama_server", "-m /m.gguf --embeddings", (EMBEDDING,)),
        ("custom", "--embedding", (COMPLETION, CHAT)),
    ],
)
def test_what_is_asked(engine: str, flags: str, asked: tuple[HttpRequest, ...]) -> None:
    assert questions(ENGINES[engine], ["serve", *flags.split()]) == asked


def answer(request: HttpRequest, told: object, status: int = 200) -> Judged:
    return judge(request, status, told if isinstance(told, bytes) else json.dumps(told).encode())


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ({"choices": [{"text": " Paris"}]}, " Paris"),
        ({"choices": [{"message": {"content": "Paris"}}]}, "Paris"),
        ({"choices": [{"message": {"content": None, "reasoning_content": "Well,"}}]}, "Well,"),
        ({"choices": [{"message": {"content": "", "reasoning": "Hm"}}]}, "Hm"),
    ],
)
def test_a_real_answer(told: object, text: str) -> None:
    assert answer(CHAT, told) == Judged(Verdict.GOOD, text)


def stream(*pieces: object, end: bytes = b"data: [DONE]\n\n") -> bytes:
    """As a server sends an answer in pieces."""
    return b"".join(b"data: " + json.dumps(piece).encode() + b"\r\n\r\n" for piece in pieces) + end


def chunk(**choice: object) -> object:
    return {"choices": [{"index": 0, **choice}]}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (stream(chunk(text=" Paris"), chunk(text=", and"), {"choices": [], "usage": {}}), " Paris, and"),
        (stream(chunk(delta={"role": "assistant", "content": None}), chunk(delta={"content": "Paris"})), "Paris"),
        (stream(chunk(delta={"content": ""}), chunk(delta={"reasoning_content": "Well"})), "Well"),
        (b": a comment\n\n" + stream(chunk(text="Pa"), chunk(text="ris")), "Paris"),
        (stream(chunk(text="Paris"), end=b""), "Paris"),
    ],
)
def test_an_answer_that_came_in_pieces_is_read_as_one(body: bytes, text: str) -> None:
    assert judge(CHAT, 200, body) == Judged(Verdict.GOOD, text)


@pytest.mark.parametrize(
    ("body", "text", "why"),
    [
        (stream(), "data: [DONE]", "no text"),
        (stream(chunk(text=""), chunk(text=" ")), " ", "empty"),
        (stream(*[chunk(text=" the")] * 9), " the" * 9, "repeats"),
        (stream(chunk(delta={"role": "assistant"})), "data: ", "no text"),
        (stream(chunk(text="Pa"), {"error": {"message": "out of memory"}}), "out of memory", "broke off"),
        (stream("a text", 3, None, {"choices": [None]}, chunk(delta=[1]), chunk(text=7)), "data: ", "no text"),
    ],
)
def test_pieces_that_make_no_answer_are_shown(body: bytes, text: str, why: str) -> None:
    found = judge(COMPLETION, 200, body)
    assert found.verdict is Verdict.BAD and why in found.why and text in found.text


def test_what_was_said_so_far_leaves_out_what_has_not_come_whole() -> None:
    assert said_so_far(stream(chunk(text="Pa"), end=b'data: {"choices": [{"te')) == "Pa"
    assert said_so_far(b'{"choices": [{"text": "at once"}]}') == ""
    assert said_so_far(b"") == ""


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (b"<html>Hello</html>", "not JSON"),
        ({"choices": []}, "no text"),
        ({"choices": [{"message": {"content": None}}]}, "no text"),
        ({"error": "model not loaded"}, "no text"),
        ([], "no text"),
        ("x", "no text"),
        ({"choices": [{"text": "  "}]}, "empty"),
        ({"choices": [{"text": "the the the the the the"}]}, "repeats"),
    ],
)
def test_an_answer_that_is_none_is_shown_as_it_came(told: object, why: str) -> None:
    found = answer(COMPLETION, told)
    assert found.verdict is Verdict.BAD and why in found.why
    if isinstance(told, bytes):
        assert found.text == "<html>Hello</html>"


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (401, Verdict.NEEDS_A_KEY),
        (403, Verdict.NEEDS_A_KEY),
        (400, Verdict.NOT_SERVED),
        (404, Verdict.NOT_SERVED),
        (405, Verdict.NOT_SERVED),
        (500, Verdict.BAD),
        (503, Verdict.BAD),
    ],
)
def test_what_another_status_means(status: int, verdict: Verdict) -> None:
    found = answer(COMPLETION, {"message": "no"}, status)
    assert found.verdict is verdict and str(status) in found.why


def test_a_long_page_is_shown_in_part_and_as_text() -> None:
    assert len(answer(COMPLETION, b"\xff\0" * 9_000, 500).text) == 300
    assert "\0" not in answer(COMPLETION, b"\xff\0", 500).text


@pytest.mark.parametrize(
    ("vector", "why"),
    [
        ([0.1, -0.2], ""),
        ([], "empty"),
        ([0.1, float("nan")], "no number"),
        ([float("inf")], "no number"),
        ([0.0, 0.0], "zeros"),
        (["x"], "no vector"),
        (None, "no vector"),
        (3, "no vector"),
    ],
)
def test_a_vector_is_made_of_finite_numbers(vector: object, why: str) -> None:
    found = answer(EMBEDDING, {"data": [{"embedding": vector}]})
    assert found.verdict is (Verdict.BAD if why else Verdict.GOOD)
    assert why in found.why
    if not why:
        assert found.text == "A vector of 2 numbers."


@pytest.mark.parametrize(
    "text",
    [
        " Paris, and",
        "a a a",
        " Paris. The capital city of France is Paris. The capital city of France is Paris.",
        "No, no, no.",
        "1 2 1 2 1 2",
        "哈哈",
        "Ha ha ha!",
        "cut in the middle of a letter \ufffd\ufffd\ufffd",
        "one odd \ufffd letter",
        "two\nlines\tand a tab",
        "------",
    ],
)
def test_a_text_that_a_person_would_accept(text: str) -> None:
    assert what_is_wrong(text) == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ("the the the the the the", "repeats 'the'"),
        (" of the of the of the of the", "repeats 'of the'"),
        ("is it so is it so is it so is it so is", "repeats 'is it so'"),
        ("!!!!!!!!!!!!!!!!", "repeats '!'"),
        ("! ! ! ! ! ! ! !", "repeats '!'"),
        ("abababababababab", "repeats 'ab'"),
        ("\ufffd\ufffd\ufffd", "no letters"),
        ("a\ufffdb\ufffdc", "no letters"),
        ("\x00\x01\x02x", "no letters"),
    ],
)
def test_a_text_that_nobody_would_accept(text: str, why: str) -> None:
    assert why in what_is_wrong(text)


def test_an_answer_that_nests_without_end_is_a_bad_one() -> None:
    assert judge(COMPLETION, 200, b"[" * 200_000).verdict is Verdict.BAD
