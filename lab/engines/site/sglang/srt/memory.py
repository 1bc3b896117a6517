"""SGLang's memory arithmetic for one card: the automatic fraction, the KV pool, the number of requests."""

from argparse import Namespace
from dataclasses import asdict, dataclass

from . import traits
from .model import MIB, Model
from .settings import Hints

GIB = 1024
_STEPS = ((20, 2048, 8, 8), (35, 2048, 24, 80), (60, 4096, 32, 160), (160, 8192, 256, 512))
SPECULATIVE_RUNNING = 48
_LARGEST = (0, 16384, 512, 512)


@dataclass(frozen=True)
class Pool:
    """The outcome of sizing: MiB per card, tokens, requests."""

    kv_dtype: str
    kv_mib: int
    state_mib: int
    tokens: int
    slots: int
    max_running: int
    context: int

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def fill_defaults(args: Namespace, *, card_mib: int) -> None:
    """Set the arguments that SGLang derives from the size of the smallest card."""
    _, chunk, graphs, graphs_wide = next((row for row in _STEPS if card_mib < row[0] * GIB), _LARGEST)
    if args.chunked_prefill_size is None:
        args.chunked_prefill_size = chunk
    graph_flag = traits.largest_graph(args)
    if getattr(args, graph_flag) is None:
        setattr(args, graph_flag, graphs_wide if args.tp_size >= 4 else graphs)
    if args.mem_fraction_static is None:
        reserved = 512 + 1.5 * max(args.chunked_prefill_size, 2048) + 2 * getattr(args, graph_flag)
        reserved += 128 * args.tp_size * args.pp_size
        if card_mib > 60 * GIB:
            reserved = max(reserved, 10240)
        if args.speculative_algorithm:
            reserved += 4096 if traits.WATCHES_CHILDREN else 2048
        args.mem_fraction_static = round((card_mib - reserved) / card_mib, 3)


def effective_kv_dtype(args: Namespace, model: Model) -> str:
    """What "auto" becomes: FP8 when the checkpoint asks for it."""
    if args.kv_cache_dtype != "auto":
        return str(args.kv_cache_dtype)
    return "fp8_e4m3" if model.fp8_kv else "bfloat16"


def size_pool(args: Namespace, model: Model, hints: Hints, *, before_mib: int, after_mib: int) -> Pool:
    """Sizes from the free memory before and after the weights. Raises RuntimeError when nothing is left."""
    rest = after_mib - before_mib * (1 - args.mem_fraction_static) - _kept_for_drafts(args, model)
    if hints.kv_mib:
        rest = min(rest, hints.kv_mib)
    if rest <= 0 or hints.has("oom-pool"):
        raise RuntimeError(
            "Not enough memory. Please try to increase --mem-fraction-static. "
            f"Current value: self.server_args.mem_fraction_static={args.mem_fraction_static}"
        )
    dtype = effective_kv_dtype(args, model)
    slots, state = _state_slots(args, model, rest_mib=rest)
    cell = model.kv_bytes_per_token(tp=args.tp_size, width=1 if dtype.startswith("fp8") else 2)
    tokens = int((rest - state) * MIB / cell)
    if args.max_total_tokens:
        tokens = min(tokens, args.max_total_tokens)
    context = args.context_length or model.max_context
    running = min(args.max_running_requests or 4096, max(2048, tokens * 512 // context))
    if slots:
        running = min(running, max(1, slots // 3))
    return Pool(dtype, int(tokens * cell / MIB), int(state), tokens, slots, running, context)


def _kept_for_drafts(args: Namespace, model: Model) -> float:
    """MiB of states that a hybrid model keeps for each running request while its drafts are verified."""
    if not (args.speculative_algorithm and model.linear_layers):
        return 0.0
    drafts = args.speculative_num_draft_tokens or 0
    return model.state_bytes(tp=args.tp_size) / MIB * (args.max_running_requests or SPECULATIVE_RUNNING) * drafts


def _state_slots(args: Namespace, model: Model, *, rest_mib: float) -> tuple[int, float]:
    """Slots of a hybrid model's state pool and their MiB (one slot more is allocated than used)."""
    if not model.linear_layers:
        return 0, 0.0
    slot_mib = model.state_bytes(tp=args.tp_size) / MIB
    ratio = args.mamba_full_memory_ratio or 0.9
    slots = args.max_mamba_cache_size or int(rest_mib * ratio / (1 + ratio) / slot_mib)
    return slots, (slots + 1) * slot_mib
