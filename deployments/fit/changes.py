"""The smallest change to the flags that would make it fit. PURE.

Each kind of change is tried by itself, from the least to the most; a change counts only when the estimate with it says
that it fits. First those that cost nothing, then those that cost requests, length, precision, and more cards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from deployments.fit.asked import Asked
from deployments.fit.estimate import KV_FLAGS, Verdict, verdict_of, work_out
from deployments.fit.explain import context as length_words
from deployments.fit.outcome import Outcome

FRACTION_FLAGS = {"sglang": "--mem-fraction-static", "vllm": "--gpu-memory-utilization"}
CONTEXT_FLAGS = {"sglang": "--context-length", "vllm": "--max-model-len", "llama_server": "-c"}
CARDS_FLAGS = {"sglang": "--tp-size", "vllm": "--tensor-parallel-size"}
LESS_KV = {"sglang": "fp8", "vllm": "fp8", "llama_server": "q8_0"}
FRACTIONS = [step / 100 for step in range(50, 97)]
SHORTEST, STEP = 4096, 1024
"""Tokens: no shorter context is proposed, and only multiples."""
MOST_CARDS = 16


@dataclass(frozen=True)
class Change:
    """``flags``: what to add to the command, or to put in place of what it says. ``words``: for a person."""

    flags: tuple[str, ...]
    words: str
    cards: int | None = None
    """How many cards it takes, when more than there are."""


def changes_that_fit(asked: Asked) -> tuple[Change, ...]:
    """One of each kind that makes it fit, the least costly first; none when nothing alone does, or it fits already."""
    now = work_out(asked)
    if not isinstance(now, Outcome) or verdict_of(now)[0] is Verdict.FITS:
        return ()
    kinds = (
        _fraction(asked),
        _running(asked, now),
        _context(asked, now),
        _precision(asked),
        _layers(asked),
        _cards(asked),
    )
    return tuple(found for kind in kinds if (found := next(kind, None)) is not None)


def _fits(asked: Asked, flags: tuple[str, ...]) -> bool:
    outcome = work_out(replace(asked, argv=(*asked.argv, *flags)))
    return isinstance(outcome, Outcome) and verdict_of(outcome)[0] is Verdict.FITS


def _fraction(asked: Asked) -> Iterator[Change]:
    """Up or down: more for the pools, or more for what is outside."""
    flag = FRACTION_FLAGS.get(asked.engine.key)
    if flag is None:
        return
    given = asked.engine.flag(asked.argv, (flag, "--mem-fraction"))
    middle = float(given) if given is not None else 0.85
    for value in sorted(FRACTIONS, key=lambda value: abs(value - middle)):
        if _fits(asked, (flag, f"{value:g}")):
            yield Change((flag, f"{value:g}"), f"Set the memory fraction to {value:g}.")


def _running(asked: Asked, now: Outcome) -> Iterator[Change]:
    """Fewer requests at once: each keeps states of its drafts, and a line of the request table."""
    if asked.engine.key != "sglang":
        return
    most = now.pools.running or 0
    for value in (value for value in (512, 256, 128, 64, 48, 32, 24, 16, 12, 8, 4, 2, 1) if value < most):
        if _fits(asked, ("--max-running-requests", str(value))):
            yield Change(("--max-running-requests", str(value)), f"Let at most {value} requests run at once.")


def _context(asked: Asked, now: Outcome) -> Iterator[Change]:
    """The longest that fits: a longer one never fits where a shorter one does not."""
    flag = CONTEXT_FLAGS.get(asked.engine.key)
    low, high = SHORTEST // STEP, now.context // STEP
    if flag is None or low >= high or not _fits(asked, (flag, str(low * STEP))):
        return
    while high - low > 1:
        middle = (low + high) // 2
        fits = _fits(asked, (flag, str(middle * STEP)))
        low, high = (middle, high) if fits else (low, middle)
    yield Change((flag, str(low * STEP)), f"Shorten the context to {length_words(low * STEP)}.")


def _precision(asked: Asked) -> Iterator[Change]:
    name = LESS_KV.get(asked.engine.key, "")
    flags = KV_FLAGS.get(asked.engine.key, {}).get(name)
    if flags is not None and _fits(asked, flags):
        yield Change(flags, f"Keep the KV cache in {name}, which is less exact.")


def _layers(asked: Asked) -> Iterator[Change]:
    """llama.cpp can leave layers in the host's memory."""
    if asked.engine.key != "llama_server":
        return
    low, high = 0, 1024
    if not _fits(asked, ("-ngl", "0")) or _fits(asked, ("-ngl", str(high))):
        return
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _fits(asked, ("-ngl", str(middle))) else (low, middle)
    yield Change(("-ngl", str(low)), f"Put {low} layers on the cards and leave the others to the processor: slow.")


def _cards(asked: Asked) -> Iterator[Change]:
    """More cards of the kind that the fullest is."""
    flag = CARDS_FLAGS.get(asked.engine.key)
    if flag is None or not asked.cards:
        return
    fullest = min(asked.cards, key=lambda card: card.free)
    given = asked.engine.flag(asked.argv, (flag, "--tp", "-tp", "--tensor-parallel-size"))
    cards = int(given) if given is not None and given.isdecimal() else 1
    others = len(asked.cards) // max(1, cards)
    while (cards := cards * 2) <= MOST_CARDS:
        more = replace(asked, cards=(fullest,) * (cards * others))
        if _fits(more, (flag, str(cards))):
            yield Change(
                (flag, str(cards)),
                f"Split the model over {cards} cards, and give the deployment as many.",
                cards * others,
            )
