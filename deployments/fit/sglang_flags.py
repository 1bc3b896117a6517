"""SGLang's settings as they come out of a command, and the defaults that it works out from the cards. PURE.

SGLang 0.5.9 (server_args.py, from line 911) and 0.5.11 (from line 1294). Of newer versions only the flags are known.
"""

from __future__ import annotations

from dataclasses import dataclass

from deployments.fit.arguments import SGLANG_UNITS, Arguments
from deployments.fit.asked import Asked
from deployments.fit.model import Latent, Model
from deployments.fit.span import MIB, CannotTell, Span
from deployments.fit.speculative import Speculation, of_sglang

PRECISIONS = {
    "bf16": "bf16", "bfloat16": "bf16", "fp8_e5m2": "fp8", "fp8_e4m3": "fp8", "fp4_e2m1": "fp4", "nvfp4": "fp4",
}  # fmt: skip
NO_PIECEWISE = {"Qwen3NextForCausalLM", "DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM"}
PIECEWISE_OFF = (
    "--disable-piecewise-cuda-graph", "--enable-dp-attention", "--enable-torch-compile", "--enable-lora",
    "--lora-paths", "--enable-hierarchical-cache", "--enable-deterministic-inference", "--moe-a2a-backend",
    "--cpu-offload-gb",
)  # fmt: skip
NEWER = (0, 5, 10)
"""From here graphs of prefills are on by default, 4096 MiB instead of 2048 are kept for drafts, and a hybrid model may
have both drafts and a radix cache; read in 0.5.9 and 0.5.11."""
STEPS = ((20, 2048, 8, 8), (35, 2048, 24, 80), (60, 4096, 32, 160), (160, 8192, 256, 512))
"""Below so many GiB: chunk of a prefill in tokens, largest batch with graphs below and from 4 cards."""
SPECULATIVE_RUNNING = 48


@dataclass(frozen=True)
class Settings:
    """Of one command, with every default that does not depend on what is left."""

    cards: int
    stages: int
    replicas: int
    attention_cards: int
    context: int
    precision: str
    fraction: Span
    fraction_given: bool
    work: Span
    """Bytes that graphs and activations need on a card, besides drafts and tables."""
    speculation: Speculation | None
    running: int | None
    slots_per_request: int
    state_ratio: float
    state_slots: int | None
    state_dtype: str
    page: int
    most_tokens: int | None
    swa_ratio: float


def read_settings(asked: Asked, model: Model) -> Settings:
    """Raises CannotTell, naming the flag or field."""
    flags = Arguments(asked.engine, asked.argv, SGLANG_UNITS)
    cards = flags.positive("--tp-size", "--tensor-parallel-size", "--tp") or 1
    stages = flags.positive("--pp-size", "--pipeline-parallel-size") or 1
    replicas = flags.positive("--dp-size", "--data-parallel-size", "--dp") or 1
    shared = flags.has("--enable-dp-attention")
    speculation = of_sglang(flags)
    running = flags.positive("--max-running-requests")
    if speculation is not None and running is None:
        running = SPECULATIVE_RUNNING
    old = asked.release is not None and asked.release < NEWER
    radix = not flags.has("--disable-radix-cache")
    if old and model.linear is not None and speculation is not None and not _extra_buffer(flags):
        radix = False  # 0.5.9 quietly switches it off for hybrid models with drafts
    return Settings(
        cards=cards,
        stages=stages,
        replicas=replicas,
        attention_cards=max(1, cards // replicas) if shared else cards,
        context=_context(flags, model),
        precision=_precision(flags, model),
        fraction=_fraction(flags, asked, model, cards, stages, replicas if shared else 1, speculation),
        fraction_given=flags.has("--mem-fraction-static", "--mem-fraction"),
        work=work_memory(flags, asked, cards, stages),
        speculation=speculation,
        running=None if running is None else max(1, running // replicas),
        slots_per_request=_slots_per_request(flags, radix, drafts_in_old=old and speculation is not None),
        state_ratio=_or(flags.ratio("--mamba-full-memory-ratio"), 0.9),
        state_slots=_state_slots(flags, replicas if shared else 1, running=None if radix else running),
        state_dtype=flags.text("--mamba-ssm-dtype") or "",
        page=flags.positive("--page-size") or 1,
        most_tokens=flags.positive("--max-total-tokens"),
        swa_ratio=_or(flags.share("--swa-full-tokens-ratio"), 0.8),
    )


def processes(asked: Asked) -> int:
    """Cards that the command uses. With DP attention the replicas share them."""
    flags = Arguments(asked.engine, asked.argv, SGLANG_UNITS)
    cards = flags.positive("--tp-size", "--tensor-parallel-size", "--tp") or 1
    stages = flags.positive("--pp-size", "--pipeline-parallel-size") or 1
    replicas = flags.positive("--dp-size", "--data-parallel-size", "--dp") or 1
    return cards * stages * (1 if flags.has("--enable-dp-attention") else replicas)


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


def _context(flags: Arguments, model: Model) -> int:
    length = flags.positive("--context-length") or model.context
    if length is None:
        raise CannotTell("config.json does not say max_position_embeddings, and the flags give no --context-length.")
    return length


def _precision(flags: Arguments, model: Model) -> str:
    """``auto`` is FP8 where the checkpoint asks for it, else the model's own type, which is of 2 bytes."""
    asked = flags.text("--kv-cache-dtype") or "auto"
    if asked == "auto":
        return "fp8" if model.fp8_kv else "bf16"
    if asked not in PRECISIONS:
        raise CannotTell(f"The size of a KV cache in {asked} (--kv-cache-dtype) is not known.")
    return PRECISIONS[asked]


def _slots_per_request(flags: Arguments, radix: bool, *, drafts_in_old: bool) -> int:
    """State slots that a request may need: its own, and those that the radix cache keeps of it."""
    if not radix:
        return 1
    if _extra_buffer(flags):
        return 4 if drafts_in_old or flags.has("--disable-overlap-schedule") else 5
    return 3


def _extra_buffer(flags: Arguments) -> bool:
    strategy = flags.text("--mamba-scheduler-strategy", "--mamba-radix-cache-strategy")
    return strategy is not None and strategy.startswith("extra_buffer")


def _state_slots(flags: Arguments, sharing: int, *, running: int | None) -> int | None:
    """None when the ratio decides. ``running``: without a radix cache each request has one, and no more."""
    slots = flags.positive("--max-mamba-cache-size") or running
    return None if slots is None else max(1, slots // sharing)


def batches(flags: Arguments, total_mib: float, cards: int) -> tuple[int, int]:
    """Tokens of a prefill chunk, and the largest batch with graphs: as given, or by the size of the cards."""
    chunk, few, many = next((row[1:] for row in STEPS if total_mib < row[0] * 1024), (16384, 512, 512))
    given = flags.text("--chunked-prefill-size")
    asked = -1 if given == "-1" else flags.count("--chunked-prefill-size")
    names = ("--cuda-graph-max-bs", "--cuda-graph-max-bs-decode")
    tokens = chunk if asked is None else asked
    if tokens <= 0:
        tokens = flags.positive("--max-prefill-tokens") or 16384
    return tokens, flags.positive(*names) or (few if cards < 4 else many)


def piecewise_sizes(largest: int) -> int:
    """How many sizes of a prefill get a graph each, up to ``largest`` tokens."""
    steps = ((4, 33, 4), (48, 257, 16), (288, 513, 32), (576, 1025, 64), (1280, 4097, 256), (4608, largest + 1, 512))
    return sum(1 for step in steps for tokens in range(*step) if tokens <= largest)


def work_memory(flags: Arguments, asked: Asked, cards: int, stages: int) -> Span:
    """What graphs and activations take. ``high``: nearly what SGLang itself would keep free; ``low``: the least seen
    of graphs (0.3 GiB), without activations.
    """
    chunk, batch = batches(flags, asked.total / MIB, cards)
    own = (512 + 1.5 * max(chunk, 2048) + 2 * batch + 128 * cards * stages) * MIB
    least = 0.0 if flags.has("--disable-cuda-graph") else 307 * MIB
    return Span(least, max(least, 0.4 * own), max(least, 0.85 * own))


def _fraction(
    flags: Arguments, asked: Asked, model: Model, cards: int, stages: int, sharing: int, speculation: Speculation | None
) -> Span:
    given = flags.share("--mem-fraction-static", "--mem-fraction")
    if given is not None:
        return Span.exactly(given)
    versions = [asked.release] if asked.release else [(0, 5, 9), (0, 5, 11)]
    found = [_automatic(flags, asked, model, cards, stages, sharing, speculation, version) for version in versions]
    return Span(min(found), found[-1], max(found))


def _automatic(
    flags: Arguments, asked: Asked, model: Model, cards: int, stages: int, sharing: int,
    speculation: Speculation | None, version: tuple[int, ...],
) -> float:  # fmt: skip
    """What SGLang chooses: all but what it reserves, in MiB, for activations, graphs and drafts."""
    total = asked.total / MIB
    chunk, batch = batches(flags, total, cards)
    reserved = 512 + 1.5 * max(chunk, 2048) + 2 * batch + 128 * cards * stages
    if sharing > 1:
        reserved += batch * sharing * (4.5 if batch > 300 else 3)
    if _piecewise(flags, model, stages, version):
        latent = isinstance(model.full, Latent)
        reserved += (
            1536 if latent else 8 * piecewise_sizes(flags.positive("--piecewise-cuda-graph-max-tokens") or chunk)
        )
    if total > 60 * 1024:
        reserved = max(reserved, 10 * 1024)
    if speculation is not None and speculation.algorithm != "NGRAM":
        newer = 4096 if version >= NEWER else 2048
        reserved += 6144 if speculation.algorithm == "STANDALONE" else newer
    fraction = max(0.0, round((total - reserved) / total, 3))
    return fraction * _vision_factor(model) if model.multimodal and not flags.has("--language-only") else fraction


def _piecewise(flags: Arguments, model: Model, stages: int, version: tuple[int, ...]) -> bool:
    if flags.has("--enforce-piecewise-cuda-graph"):
        return True
    if version < NEWER and not flags.has("--enable-piecewise-cuda-graph"):
        return False
    return not (flags.has(*PIECEWISE_OFF) or stages > 1 or model.multimodal or model.architecture in NO_PIECEWISE)


def _vision_factor(model: Model) -> float:
    """Models that see get less, by the size of their eye."""
    base = 1 - 0.1 * (model.vision_layers * model.vision_hidden**2 / (24 * 1024**2) - 1)
    return 0.95 * min(1.05, max(0.8, base))
