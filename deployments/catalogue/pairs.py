"""Flags that do not go together, or that mean less than they seem to. PURE.

Facts: the checks that SGLang and vLLM make after parsing (``srt/server_args.py`` of 0.5.9 and 0.5.11,
``vllm/entrypoints/openai/cli_args.py`` of 0.19.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from deployments.catalogue.finding import ERROR, NOTE, WARN, Finding
from deployments.catalogue.versions import before, number

Given = Mapping[str, tuple[str, ...]]
"""Full name, each spelling of it -> its values."""
Pair = Callable[[Given, str], Iterator[Finding]]
SPECULATIVE = ("--speculative-num-steps", "--speculative-eagle-topk", "--speculative-num-draft-tokens")
ALGORITHM = "--speculative-algorithm"
STRATEGIES = ("--mamba-scheduler-strategy", "--mamba-radix-cache-strategy")


def _one(given: Given, name: str) -> str:
    values = given.get(name, ())
    return values[-1] if values else ""


def _whole(given: Given, name: str) -> int | None:
    text = _one(given, name)
    return int(text) if text.lstrip("-").isdecimal() else None


def _mamba(given: Given, version: str) -> Iterator[Finding]:
    for flag in STRATEGIES:
        if _one(given, flag).startswith("extra_buffer") and "--disable-radix-cache" in given:
            yield Finding(
                ERROR, flag,
                f"{flag} {_one(given, flag)} needs the radix cache, and --disable-radix-cache switches it off.",
                "Leave out one of the two.",
            )  # fmt: skip


def _speculation(given: Given, version: str) -> Iterator[Finding]:
    there = [flag for flag in SPECULATIVE if flag in given]
    missing = [flag for flag in SPECULATIVE if flag not in given]
    algorithm = _one(given, ALGORITHM)
    if there and not algorithm:
        yield Finding(
            WARN, there[0], f"{there[0]} has no effect: nothing says how to speculate.",
            f"Add {ALGORITHM}, or leave it out.",
        )  # fmt: skip
    elif there and missing and algorithm in ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE"):
        yield Finding(
            ERROR, there[0], f"{' and '.join(missing)} must be given too: it is all three or none.",
            "Add them, or leave all three to the engine.",
        )  # fmt: skip
    steps, drafts = _whole(given, SPECULATIVE[0]), _whole(given, SPECULATIVE[2])
    if algorithm and _whole(given, SPECULATIVE[1]) == 1 and None not in (steps, drafts) and drafts != (steps or 0) + 1:
        yield Finding(
            WARN, SPECULATIVE[2],
            f"With --speculative-eagle-topk 1 the engine takes {(steps or 0) + 1} draft tokens, not {drafts}.",
            f"Write {SPECULATIVE[2]} {(steps or 0) + 1}.",
        )  # fmt: skip
    pipeline = _whole(given, "--pipeline-parallel-size") or _whole(given, "--pp-size") or 1
    if algorithm and pipeline > 1:
        yield Finding(
            WARN, ALGORITHM, "Speculative decoding does not work together with pipeline parallelism.",
            "Leave out one of the two.",
        )  # fmt: skip


def _encoders(given: Given, version: str) -> Iterator[Finding]:
    if "--language-only" in given and "--encoder-urls" not in given:
        better = (
            "" if before(version, "0.5.18") else " For a model without its vision part write --language-model-only."
        )
        yield Finding(
            ERROR, "--language-only", "--language-only is for an encoder on other machines and needs --encoder-urls.",
            f"Leave it out.{better}",
        )  # fmt: skip


def _divisible(given: Given, version: str) -> Iterator[Finding]:
    pairs = (
        ("--chunked-prefill-size", "--page-size"), ("--mamba-track-interval", "--page-size"), ("--tp-size", "--nnodes"),
    )  # fmt: skip
    for flag, by in pairs:
        whole, part = _whole(given, flag), _whole(given, by)
        if whole and part and whole > 0 and part > 0 and whole % part:
            yield Finding(
                ERROR, flag, f"{flag} {whole} cannot be divided by {by} {part}.",
                f"Write a multiple of {part}, or change {by}.",
            )  # fmt: skip


def _cache_type(given: Given, version: str) -> Iterator[Finding]:
    if _one(given, "--kv-cache-dtype") == "fp8_e5m2" and _one(given, "--attention-backend") == "fa3":
        yield Finding(
            WARN, "--attention-backend", "fa3 does not read fp8_e5m2: the engine takes triton instead.",
            "Write --kv-cache-dtype fp8_e4m3, or another attention backend.",
        )  # fmt: skip


def _names(given: Given, version: str) -> Iterator[Finding]:
    if ":" in _one(given, "--served-model-name"):
        yield Finding(
            ERROR, "--served-model-name", "The served model name holds a colon, which the engine refuses.",
            "Write it without one.",
        )  # fmt: skip


def _lossy(given: Given, version: str) -> Iterator[Finding]:
    for flag in ("--speculative-accept-threshold-single", "--speculative-accept-threshold-acc"):
        try:
            threshold = float(_one(given, flag) or 1)
        except ValueError:
            continue
        if threshold < 1:
            yield Finding(
                NOTE, flag, f"{flag} below 1 accepts drafts that the model itself would not have written.",
                "Leave it out where the answers must be the model's own.",
            )  # fmt: skip


def _units(given: Given, version: str) -> Iterator[Finding]:
    text = _one(given, "--context-length")
    if text.endswith(("k", "m")) and number(version) and not before(version, "0.5.10"):
        yield Finding(
            NOTE, "--context-length", f"{text} counts in thousands: 256k is 256,000, and 256Ki is 262,144.",
            "Write the number in full if you mean the other.",
        )  # fmt: skip


def _vllm(given: Given, version: str) -> Iterator[Finding]:
    needs = (("--enable-auto-tool-choice", "--tool-call-parser"), ("--enable-log-outputs", "--enable-log-requests"))
    for flag, needed in needs:
        if flag in given and needed not in given:
            yield Finding(ERROR, flag, f"{flag} needs {needed}.", f"Add {needed}, or leave {flag} out.")


PAIRS: dict[str, tuple[Pair, ...]] = {
    "sglang": (_mamba, _speculation, _encoders, _divisible, _cache_type, _names, _lossy, _units),
    "vllm": (_vllm,),
}


def pairs_of(engine: str, given: Given, version: str) -> list[Finding]:
    """What an engine's flags say to each other."""
    return [finding for pair in PAIRS.get(engine, ()) for finding in pair(given, version)]
