"""What to ask a server that says it is ready, and whether its answer is one a person would accept. PURE."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from deployments.engines.base import Engine
from deployments.engines.request import HttpRequest
from deployments.engines.streamed import as_whole, is_streamed

PROMPT = "The capital city of France is"
TOKENS = 16
ANSWER_SECONDS = 120.0
SHOWN = 300
"""Characters of an answer that cannot be read as one."""
NEEDS_A_KEY = (401, 403)
NOT_SERVED = (400, 404, 405, 422, 501)
"""Said by a server that knows no such request: one for chats only, without the form of plain text."""
CUT = "\ufffd"
"""What stands for bytes that are no letter. At the end of a text it only means that a letter was cut."""


class Verdict(StrEnum):
    """What an answer says of the server."""

    GOOD = "good"
    BAD = "bad"
    NOT_SERVED = "not served"
    """This form is not for it: ask in the next one."""
    NEEDS_A_KEY = "needs a key"
    """Whether it answers cannot be said."""


@dataclass(frozen=True)
class Judged:
    """``text`` is what it answered, ``why`` what is wrong with that."""

    verdict: Verdict
    text: str = ""
    why: str = ""


def _post(path: str, body: dict[str, object]) -> HttpRequest:
    """It names no model: vLLM refuses a name that it does not serve."""
    return HttpRequest("POST", path, body, timeout=ANSWER_SECONDS)


COMPLETION = _post("/v1/completions", {"prompt": PROMPT, "max_tokens": TOKENS, "temperature": 0, "stream": True})
CHAT = _post(
    "/v1/chat/completions",
    {
        "messages": [{"role": "user", "content": "What is the capital city of France?"}],
        "max_tokens": TOKENS,
        "temperature": 0,
        "stream": True,
    },
)
EMBEDDING = _post("/v1/embeddings", {"input": f"{PROMPT} Paris."})


def questions(engine: Engine, argv: Sequence[str]) -> tuple[HttpRequest, ...]:
    """What a server with this command is asked, one after the other until it knows the form."""
    return (EMBEDDING,) if engine.embeds(argv) else (COMPLETION, CHAT)


def judge(request: HttpRequest, status: int, body: bytes) -> Judged:
    """Whether this is a real answer to ``request``."""
    if status in NEEDS_A_KEY:
        return Judged(Verdict.NEEDS_A_KEY, why=f"it was refused with status {status}")
    if status != 200:
        verdict = Verdict.NOT_SERVED if status in NOT_SERVED else Verdict.BAD
        return Judged(verdict, shown(body), f"it was answered with status {status}")
    try:
        told = as_whole(body) if is_streamed(body) else json.loads(body)
    except (ValueError, RecursionError):
        return Judged(Verdict.BAD, shown(body), "the answer is not JSON")
    if request is EMBEDDING:
        return _judge_vector(told, body)
    text = _text_of(told)
    if text is None and is_streamed(body) and "error" in told:
        return Judged(Verdict.BAD, str(told["error"])[:SHOWN], "it broke off its answer with an error")
    if text is None:
        return Judged(Verdict.BAD, shown(body), "the answer holds no text")
    wrong = what_is_wrong(text)
    return Judged(Verdict.BAD, text, wrong) if wrong else Judged(Verdict.GOOD, text)


def said_so_far(body: bytes) -> str:
    """The text of an answer of which more may come; empty for one that comes at once."""
    return (_text_of(as_whole(body)) or "") if is_streamed(body) else ""


def shown(body: bytes) -> str:
    """The beginning of an answer, as far as it is text."""
    return body[: 4 * SHOWN].decode(errors="replace").replace("\0", CUT)[:SHOWN]


def _text_of(told: object) -> str | None:
    """The text of a completion or a chat; of a model that thinks first, its thoughts."""
    try:
        choice = told["choices"][0]  # type: ignore[index]
        message = choice.get("message") or {}
        found = [choice.get("text"), *(message.get(key) for key in ("content", "reasoning_content", "reasoning"))]
    except (LookupError, TypeError, AttributeError):
        return None
    texts = [text for text in found if isinstance(text, str)]
    return next((text for text in texts if text), texts[0] if texts else None)


def _judge_vector(told: object, body: bytes) -> Judged:
    try:
        vector = told["data"][0]["embedding"]  # type: ignore[index]
        numbers = [float(number) for number in vector]
    except (LookupError, TypeError, ValueError):
        return Judged(Verdict.BAD, shown(body), "the answer holds no vector")
    if not numbers or not all(math.isfinite(number) for number in numbers):
        return Judged(Verdict.BAD, shown(body), "the vector is empty, or holds what is no number")
    if not any(numbers):
        return Judged(Verdict.BAD, shown(body), "the vector is nothing but zeros")
    return Judged(Verdict.GOOD, f"A vector of {len(numbers):,} numbers.")


def what_is_wrong(text: str) -> str:
    """Why a text is not one a person would accept; empty when it looks real."""
    if not text.strip():
        return "the answer is empty"
    if _is_broken(text):
        return "the answer is not text: it holds signs that are no letters"
    words = text.split()
    if len(words) >= 6 and len(set(words)) == 1:
        return f"the answer only repeats {words[0]!r}"
    phrase = _repeats(words, longest=3, times=4)
    letters = "".join(words)
    sign = _repeats(letters, longest=4, times=8)
    if phrase or sign:
        return f"the answer only repeats {' '.join(phrase) or ''.join(sign)!r}"
    return ""


def _is_broken(text: str) -> bool:
    odd = sum(
        letter == CUT or unicodedata.category(letter) == "Cc" for letter in text.rstrip(CUT) if letter not in "\t\r\n"
    )
    return odd > 1 or not text.strip().strip(CUT)


def _repeats(items: Sequence[str], *, longest: int, times: int) -> Sequence[str]:
    """What is repeated from the beginning to the end, at least so many times. A longer piece is no sign of a fault:
    small models say their sentence again.
    """
    for length in range(1, longest + 1):
        if len(items) >= length * times and all(items[n] == items[n + length] for n in range(len(items) - length)):
            return items[:length]
    return ()
