"""The arithmetic of a benchmark: from the moments of single answers to tokens per second and their spread. PURE.

tokens per second   all tokens of a level / seconds from its first request to the end of its last answer, without what
                    its places have waited for their connections: 30 ms each into a container, which is not the server's
of one request      tokens / seconds from the request to the end of its answer
first token         seconds from the request to the first piece that brings text
between tokens      seconds from the first to the last piece / tokens that came after the first piece
acceptance length   tokens per step of speculative decoding, as the engine tells it
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

SHOWN_ERRORS = 300
ALONE = 0.02
"""Up to this part of a level's own tokens, what was made for others does not count."""


@dataclass(frozen=True)
class Sample:
    """One request, its moments in seconds of one clock. None: there was no such moment, or nobody told.

    ``first_tokens``: how many tokens had come with the first piece; speculative decoding brings several at once.
    ``connecting``: seconds before ``sent`` in which its place had no connection, and so the server had less to do.
    """

    sent: float
    ended: float
    first: float | None = None
    last: float | None = None
    first_tokens: int | None = None
    tokens: int | None = None
    acceptance: float | None = None
    error: str = ""
    connecting: float = 0.0

    @property
    def rate(self) -> float | None:
        """Tokens per second of this request, the wait for its first token included."""
        took = self.ended - self.sent
        return self.tokens / took if self.tokens and took > 0 else None

    @property
    def wait(self) -> float | None:
        """Seconds to its first token."""
        return None if self.first is None else self.first - self.sent

    @property
    def between(self) -> float | None:
        """Seconds from one token to the next, on average; None for an answer that came in one piece."""
        if self.first is None or self.last is None or self.tokens is None or self.first_tokens is None:
            return None
        later = self.tokens - self.first_tokens
        return (self.last - self.first) / later if later > 0 and self.last > self.first else None


@dataclass(frozen=True)
class Spread:
    """The middle of some figures, the least and the most of them."""

    middle: float
    least: float
    most: float


@dataclass(frozen=True)
class Level:
    """What was measured with ``at_once`` requests at a time. ``seconds``: how long all of it took.

    ``beside``: tokens that the server made for others meanwhile; None when the engine does not tell.
    """

    at_once: int
    answered: int
    failed: int
    seconds: float
    tokens: int | None
    tokens_per_second: float | None
    each: Spread | None
    first: Spread | None
    between: Spread | None
    acceptance: Spread | None
    beside: int | None = None
    error: str = ""

    @property
    def disturbed(self) -> bool:
        """Others kept the server so busy meanwhile that the figures are lower than they could be."""
        return bool(self.beside and self.tokens and self.beside > ALONE * self.tokens)

    def as_data(self) -> dict[str, Any]:
        """As it is stored."""
        return asdict(self)


def spread(values: Iterable[float | None]) -> Spread | None:
    """Of what is known; None when nothing is."""
    known = [value for value in values if value is not None]
    return Spread(median(known), min(known), max(known)) if known else None


def level(samples: Sequence[Sample], *, at_once: int, beside: int | None, accepted: float | None = None) -> Level:
    """The figures of one level. ``accepted``: the acceptance length of all of it, where the engine tells only that."""
    good = [sample for sample in samples if not sample.error]
    errors = [sample.error for sample in samples if sample.error]
    seconds = max(sample.ended for sample in samples) - min(sample.sent for sample in samples) if samples else 0.0
    at_work = seconds - _connecting(samples, at_once=at_once)
    counts = [sample.tokens for sample in good]
    tokens = None if None in counts else sum(count or 0 for count in counts)
    told = spread(sample.acceptance for sample in good)
    return Level(
        at_once=at_once,
        answered=len(good),
        failed=len(errors),
        seconds=seconds,
        tokens=tokens,
        tokens_per_second=tokens / at_work if tokens and at_work > 0 else None,
        each=spread(sample.rate for sample in good),
        first=spread(sample.wait for sample in good),
        between=spread(sample.between for sample in good),
        acceptance=told if told or accepted is None else Spread(accepted, accepted, accepted),
        beside=beside,
        error=errors[0][:SHOWN_ERRORS] if errors else "",
    )


def _connecting(samples: Sequence[Sample], *, at_once: int) -> float:
    """Seconds of a level that went into connections, as an average of its places. Before its first request none do."""
    if not samples:
        return 0.0
    began = min(sample.sent for sample in samples)
    within = (min(sample.connecting, max(0.0, sample.sent - began)) for sample in samples)
    return sum(within) / min(at_once, len(samples))


def level_from(data: Mapping[str, Any]) -> Level:
    """A level as it was stored."""
    spreads = {
        name: Spread(**data[name]) if data.get(name) else None for name in ("each", "first", "between", "acceptance")
    }
    return Level(**{**data, **spreads})


def others(before: float | None, after: float | None, *, own: int | None) -> int | None:
    """Tokens made for others between two readings of the engine's own counter."""
    if before is None or after is None or own is None or after < before:
        return None
    return max(0, round(after - before) - own)


def ratio(now: float | None, then: float | None) -> float | None:
    """How ``now`` stands to ``then``; None when one is not known."""
    return now / then if now is not None and then else None
