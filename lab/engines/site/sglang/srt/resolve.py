"""What SGLang changes of its arguments by itself once it knows the model, and what it then refuses."""

from argparse import Namespace

from . import logs, traits
from .model import Model


def resolve(args: Namespace, model: Model) -> str:
    """Change the arguments as the real one does; returns why it cannot start with them, or ""."""
    _choose_attention(args)
    problem = _hybrid(args, model) if model.linear_layers else ""
    if args.speculative_algorithm and args.max_running_requests is None:
        args.max_running_requests = 48
        logs.log("Max running requests is reset to 48 for speculative decoding.")
    _piecewise(args, model)
    return problem


def _choose_attention(args: Namespace) -> None:
    if args.attention_backend is None:
        args.attention_backend = "flashinfer"
        logs.log("Attention backend not specified. Use flashinfer backend by default.")


def _strategy(args: Namespace) -> str:
    name = "mamba_radix_cache_strategy" if traits.RENAMED_GRAPH_FLAGS else "mamba_scheduler_strategy"
    return str(getattr(args, name))


def _hybrid(args: Namespace, model: Model) -> str:
    """Rules for models with recurrent state."""
    keeps = _strategy(args) in ("auto", "no_buffer") and not args.disable_radix_cache
    if args.speculative_algorithm and keeps and not traits.WATCHES_CHILDREN:
        args.disable_radix_cache = True
        logs.log(
            f"Disabling radix cache since speculative decoding for {model.architecture} is not supported with radix "
            "cache yet."
        )
    elif args.speculative_algorithm and keeps:
        return (
            f"ValueError: Speculative decoding for {model.architecture} is not compatible with radix cache when using "
            "--mamba-scheduler-strategy no_buffer."
        )
    elif keeps and not args.disable_overlap_schedule:
        args.disable_overlap_schedule = True
        logs.log(
            "Disabling overlap schedule since mamba no_buffer is not compatible with overlap schedule, try to use "
            "--disable-radix-cache if overlap schedule is necessary"
        )
    return ""


def _piecewise(args: Namespace, model: Model) -> None:
    """Piecewise graphs are given up for many reasons; only the arguments show it."""
    against = model.is_multimodal or args.enable_torch_compile or args.pp_size > 1 or args.enable_dp_attention
    if not traits.PIECEWISE_BY_ITSELF or not against:
        return
    if traits.RENAMED_GRAPH_FLAGS:
        args.cuda_graph_backend_prefill = args.cuda_graph_backend_prefill or "disabled"
    elif not args.enforce_piecewise_cuda_graph:
        args.disable_piecewise_cuda_graph = True


def has_piecewise(args: Namespace) -> bool:
    """Are piecewise graphs captured?"""
    if not traits.PIECEWISE_BY_ITSELF or args.disable_cuda_graph:
        return False
    if traits.RENAMED_GRAPH_FLAGS:
        return bool(args.cuda_graph_backend_prefill != "disabled")
    return not args.disable_piecewise_cuda_graph
