"""Numbers that no version of an engine can start with, known without a look at a host. PURE.

From the engines' own argument files (SGLang server_args.py 0.5.9, vLLM arg_utils.py 0.11, llama.cpp common/arg.cpp):
only what all of them refuse or fail of, so that nothing is refused here that works there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

WITH_UNIT = re.compile(r"\d+(\.\d+)?\s*[kKmMgGtT]i?")


@dataclass(frozen=True)
class Range:
    """What one flag takes. ``least`` and ``most`` count themselves unless ``open`` says that they do not.

    ``also``: words with a meaning of their own, such as ``-1`` for *work it out*.
    """

    names: tuple[str, ...]
    least: float
    most: float = float("inf")
    whole: bool = True
    open: bool = False
    also: tuple[str, ...] = ()

    def problem_of(self, value: str) -> str | None:
        """What is wrong with ``value``, as the end of a sentence; None when nothing is."""
        if value in self.also or (self.whole and WITH_UNIT.fullmatch(value)):
            return None
        kind = "a whole number" if self.whole else "a number"
        try:
            number = int(value) if self.whole else float(value)
        except ValueError:
            return f"takes {kind}, and “{value}” is none"
        below = number <= self.least if self.open else number < self.least
        above = number > self.most or (self.open and self.most == number)
        return f"takes {kind} {self._bounds()}, and {value} is not" if below or above or number != number else None

    def _bounds(self) -> str:
        if self.most == float("inf"):
            return f"of {self.least:g} or more"
        return f"between {self.least:g} and {self.most:g}" if self.open else f"from {self.least:g} to {self.most:g}"


PORT = Range(("--port",), 1, 65535)
RANGES: dict[str, tuple[Range, ...]] = {
    "sglang": (
        PORT,
        Range(("--context-length",), 1),
        Range(("--tensor-parallel-size", "--tp-size", "--tp"), 1),
        Range(("--pipeline-parallel-size", "--pp-size"), 1),
        Range(("--data-parallel-size", "--dp-size", "--dp"), 1),
        Range(("--mem-fraction-static",), 0, 1, whole=False, open=True),
        Range(("--max-running-requests",), 1),
        Range(("--max-total-tokens",), 1),
    ),
    "vllm": (
        PORT,
        Range(("--max-model-len",), 1, also=("-1", "auto")),
        Range(("--tensor-parallel-size", "-tp"), 1),
        Range(("--pipeline-parallel-size", "-pp"), 1),
        Range(("--data-parallel-size", "-dp"), 1),
        Range(("--gpu-memory-utilization",), 0, 1, whole=False),
        Range(("--max-num-seqs",), 1),
    ),
    "llama_server": (PORT, Range(("--ctx-size", "-c"), 0, also=("-1",))),
}


def out_of_range(engine: str, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each flag of ``engine`` among ``words`` whose value cannot be, with the end of a sentence that says why.

    The last value of a flag counts, as it does for the engines.
    """
    for known in RANGES.get(engine, ()):
        last = None
        for word, following in zip(words, [*words[1:], ""], strict=False):
            name, equals, value = word.partition("=")
            if name.replace("_", "-") in known.names and (equals or (following and not following.startswith("--"))):
                last = (name, value if equals else following)
        problem = known.problem_of(last[1]) if last is not None else None
        if last is not None and problem is not None:
            yield last[0], problem
