"""One scheduler process: loads on its card, step by step and with SGLang's lines, then answers the parent."""

import multiprocessing
import os
import signal
import time
import traceback
from argparse import Namespace
from dataclasses import dataclass
from multiprocessing.connection import Connection

from lab.gpus import hold

from . import logs, traits
from .memory import Pool, size_pool
from .model import Model
from .process import die_with_parent
from .resolve import has_piecewise
from .settings import Hints, scaled

CONTEXT_MIB = 450
GRAPH_MIB = 600
LOAD_STEPS = 10
GIB = 1024
IMBALANCE = 0.9
TORCH_NAMES = {
    "bfloat16": "torch.bfloat16",
    "bf16": "torch.bfloat16",
    "fp8_e4m3": "torch.float8_e4m3fn",
    "fp8_e5m2": "torch.float8_e5m2",
}


@dataclass(frozen=True)
class Assignment:
    """What one scheduler is told at its start."""

    rank: int
    card: int
    free_mib: tuple[int, ...]
    """Free memory of every card of this server before anything was loaded."""


def title(args: Namespace, rank: int) -> str:
    """The process title; parts only where there is more than one."""
    parts = f"_TP{rank}" if args.tp_size > 1 else ""
    if args.ep_size > 1:
        parts += f"_EP{rank * args.ep_size // args.tp_size}"
    return f"sglang::scheduler{parts}"


def run_scheduler(args: Namespace, model: Model, hints: Hints, assigned: Assignment, pipe: Connection) -> None:
    """Main function of the process. A failure is logged and told to the parent by SIGQUIT."""
    time.sleep(scaled(hints.import_seconds))  # importing torch: still without a name, not yet tied to the parent
    import setproctitle

    setproctitle.setproctitle(title(args, assigned.rank))
    if not is_orphan(args, hints, assigned.rank):
        die_with_parent()
    if hints.has("ignore-sigterm"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logs.set_prefix(title(args, assigned.rank).removeprefix("sglang::scheduler").replace("_", " "))
    try:
        report = Loader(args, model, hints, assigned).load()
        pipe.send(report)
        serve(hints, pipe, orphan=is_orphan(args, hints, assigned.rank))
    except Exception:  # any failure of a scheduler ends the server, whatever it was
        logs.log(f"Scheduler hit an exception: {traceback.format_exc()}")
        for number in range(hints.noise_lines):
            logs.raw(f"  frame #{number}: c10::cuda::memory_guard + 0x{number * 64:x} (libc10_cuda.so)\n")
        tell_parent()


def tell_parent() -> None:
    """SIGQUIT to the server, if it still is our parent: an orphan must not hit whoever adopted it."""
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid == os.getppid():
        os.kill(os.getppid(), signal.SIGQUIT)


def is_orphan(args: Namespace, hints: Hints, rank: int) -> bool:
    """Whether this is the worker that outlives its server (the last one)."""
    return hints.has("orphan-worker") and rank == args.tp_size - 1


def serve(hints: Hints, pipe: Connection, *, orphan: bool) -> None:
    """Answer each ping of the parent until it is gone; a stuck scheduler reads nothing any more."""
    born = time.monotonic()
    while True:
        if hints.has("crash") and time.monotonic() - born > scaled(hints.crash_seconds):
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        try:
            if not pipe.poll(scaled(0.2) if hints.has("crash") else None):
                continue
            number = pipe.recv()
            if hints.has("health-stuck") and number > 1:  # the warm-up still passes
                break
            pipe.send(number)
        except (EOFError, OSError):
            break
    while orphan or hints.has("health-stuck"):
        signal.pause()


class Loader:
    """The start of one scheduler, in the order of the real one."""

    def __init__(self, args: Namespace, model: Model, hints: Hints, assigned: Assignment) -> None:
        self.args, self.model, self.hints, self.assigned = args, model, hints, assigned
        self.before_mib = 0

    def load(self) -> dict[str, object]:
        """Everything up to "ready"; returns what the parent publishes."""
        self._join()
        self._load_weights()
        pool = size_pool(self.args, self.model, self.hints, before_mib=self.before_mib, after_mib=self._free())
        logs.log(f"Using KV cache dtype: {TORCH_NAMES.get(pool.kv_dtype, pool.kv_dtype)}")
        if pool.slots:
            self._log_state(pool)
        self.held.grow(pool.kv_mib + pool.state_mib)
        half = pool.kv_mib / 2 / GIB
        dtype = f"dtype: {TORCH_NAMES.get(pool.kv_dtype, pool.kv_dtype)}, " if traits.DTYPE_IN_POOL_LINE else ""
        sizes = f"K size: {half:.2f} GB, V size: {half:.2f} GB"
        logs.log(f"KV Cache is allocated. {dtype}#tokens: {pool.tokens}, {sizes}")
        if self.args.speculative_algorithm:
            self._log_draft(pool, dtype)
        if self.args.kv_cache_dtype == "fp8_e4m3":
            logs.log(UNIT_SCALES)  # printed for the flag alone, whatever the checkpoint holds
        logs.log(f"Memory pool end. avail mem={self._free_gib():.2f} GB")
        graph_mib = 0 if self.args.disable_cuda_graph else self._capture()
        if self.assigned.rank == 0:
            logs.log(
                f"max_total_num_tokens={pool.tokens}, chunked_prefill_size={self.args.chunked_prefill_size}, "
                f"max_prefill_tokens={self.args.max_prefill_tokens}, max_running_requests={pool.max_running}, "
                f"context_len={pool.context}, available_gpu_mem={self._free_gib():.2f} GB"
            )
        return {"weight_mib": self.weights_mib, "graph_mib": graph_mib, **pool.as_dict()}

    def _join(self) -> None:
        begun = time.monotonic()
        logs.log("Init torch distributed begin.")
        lowest, highest = min(self.assigned.free_mib), max(self.assigned.free_mib)
        mode, delay = "normal", 0.0
        if self.hints.has("leak"):
            mode = "leak"
        elif self.hints.has("late-release"):
            mode, delay = "delay", scaled(self.hints.release_seconds)
        self.held = hold.take(self.assigned.card, mib=CONTEXT_MIB, mode=mode, delay=delay)
        self.before_mib = lowest - CONTEXT_MIB
        elapsed = time.monotonic() - begun
        logs.log(f"Init torch distributed ends. elapsed={elapsed:.2f} s, mem usage={CONTEXT_MIB / GIB:.2f} GB")
        if self.args.tp_size > 1 and lowest < highest * IMBALANCE:
            raise ValueError(
                "The memory capacity is unbalanced. Some GPUs may be occupied by other processes. "
                f"min_per_gpu_memory={lowest / GIB}, local_gpu_memory={self._free_gib()}, "
                f"local_gpu_memory * 0.9={self._free_gib() * IMBALANCE}"
            )

    def _load_weights(self) -> None:
        begun, before = time.monotonic(), self._free_gib()
        logs.log(f"Load weight begin. avail mem={before:.2f} GB")
        self.weights_mib = self.hints.weights_mib or max(1, self.model.weights_mib // self.args.tp_size)
        if self.hints.has("oom-load"):
            self.weights_mib = self._free() + 1024
        for step in range(1, LOAD_STEPS + 1):
            time.sleep(scaled(self.hints.load_seconds) / LOAD_STEPS)
            self.held.resize(CONTEXT_MIB + self.weights_mib * step // LOAD_STEPS)
            if self.assigned.rank == 0:
                percent, left = 100 * step // LOAD_STEPS, "\n" if step == LOAD_STEPS else "\r"
                logs.raw(f"Loading safetensors checkpoint shards: {percent:3d}% Completed | {step}/{LOAD_STEPS}{left}")
            if step == LOAD_STEPS // 2:
                self._go_wrong_half_way()
        dtype = "torch.bfloat16" if self.args.dtype == "auto" else f"torch.{self.args.dtype}"
        named = f"dtype={dtype}, " if traits.DTYPE_IN_WEIGHTS_LINE else ""
        logs.log(
            f"Load weight end. elapsed={time.monotonic() - begun:.2f} s, type={self.model.architecture}, "
            f"{named}avail mem={self._free_gib():.2f} GB, "
            f"mem usage={before - self._free_gib():.2f} GB."
        )

    def _go_wrong_half_way(self) -> None:
        last = self.assigned.rank == self.args.tp_size - 1
        if self.hints.has("child-killed") and last:
            os.kill(os.getpid(), signal.SIGKILL)  # as the kernel's out-of-memory killer would
        if self.hints.has("child-exception") and last:
            raise AssertionError("param_data.shape == loaded_weight.shape")
        while self.hints.has("never-ready"):
            time.sleep(3600)

    def _log_state(self, pool: Pool) -> None:
        conv_share, slot = 0.02, self.model.state_bytes(tp=self.args.tp_size) / 2**30
        size, more = (pool.slots + 1) * slot, ""
        if self.args.speculative_algorithm:
            steps = (pool.max_running + 1) * self.args.speculative_num_draft_tokens * slot
            more = f"intermediate_ssm_state_cache size: {steps:.2f}GB intermediate_conv_window_cache size: 0.01GB "
        logs.log(
            f"Mamba Cache is allocated. max_mamba_cache_size: {pool.slots}, "
            f"conv_state size: {size * conv_share:.2f}GB, ssm_state size: {size * (1 - conv_share):.2f}GB {more}"
        )

    def _log_draft(self, pool: Pool, dtype: str) -> None:
        """The draft model's own cache: as many tokens, one layer."""
        half = pool.kv_mib / max(1, self.model.attention_layers) / 2 / GIB
        logs.log(f"KV Cache is allocated. {dtype}#tokens: {pool.tokens}, K size: {half:.2f} GB, V size: {half:.2f} GB")

    def _capture(self) -> int:
        """Hold the memory of the graphs; returns it in MiB. Raises when that fails."""
        begun, before = time.monotonic(), self._free_gib()
        what = "target decode CUDA" if traits.RENAMED_GRAPH_FLAGS else "cuda"
        logs.log(f"Capture {what} graph begin. This can take up to several minutes. avail mem={before:.2f} GB")
        largest = getattr(self.args, traits.largest_graph(self.args))
        sizes = [size for size in (1, 2, 4, 8, 16, 24, 32, 64, 128, 256, 512) if size <= largest]
        logs.log(f"Capture cuda graph bs {sizes}")
        time.sleep(scaled(self.hints.capture_seconds))
        try:
            if self.hints.has("capture-failed"):
                raise hold.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.50 GiB.")
            self.held.grow(GRAPH_MIB)
        except hold.OutOfMemoryError as error:
            raise Exception(f"Capture cuda graph failed: {error}\n{SOLUTIONS}") from error  # as bare as the real one
        logs.raw(
            f"Capturing batches (bs=1 avail_mem={self._free_gib():.2f} GB): 100%|##########| "
            f"{len(sizes)}/{len(sizes)}\n"
        )
        self._log_captured(what, begun, before)
        if not has_piecewise(self.args) and getattr(self.args, "disable_piecewise_cuda_graph", False):
            # the line names the flag also where nobody has set it
            logs.log("Disable piecewise CUDA graph because --disable-piecewise-cuda-graph is set")
        return GRAPH_MIB

    def _log_captured(self, what: str, begun: float, before: float) -> None:
        seconds, used, left = time.monotonic() - begun, before - self._free_gib(), self._free_gib()
        if traits.RENAMED_GRAPH_FLAGS:
            text = f"elapsed={seconds:.2f} s, mem usage={used:.2f} GB, avail mem={left:.2f} GB."
        else:
            text = f"Time elapsed: {seconds:.2f} s. mem usage={used:.2f} GB. avail mem={left:.2f} GB."
        logs.log(f"Capture {what} graph end. {text}")
        if has_piecewise(self.args):
            logs.log(f"Capture piecewise CUDA graph begin. avail mem={left:.2f} GB")
            logs.log(f"Capture piecewise CUDA graph end. {text}")

    def _free(self) -> int:
        return hold.room(self.assigned.card).free

    def _free_gib(self) -> float:
        return self._free() / GIB


UNIT_SCALES = (
    "Using FP8 KV cache but no scaling factors provided. Defaulting to scaling factors of 1.0. This may lead to less "
    "accurate results!"
)
SOLUTIONS = """Possible solutions:
1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)
2. set --cuda-graph-max-bs to a smaller value (e.g., 16)
3. disable torch compile by not using --enable-torch-compile
4. disable CUDA graph by --disable-cuda-graph. (Not recommended. Huge performance loss)"""
