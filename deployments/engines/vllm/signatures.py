"""Why vLLM did not start, in its own words. PURE. Facts: its v1 worker, engine core and multiprocess executor."""

from __future__ import annotations

from deployments.engines.common.signatures import COMMON_SIGNATURES
from deployments.engines.signature import Signature, cause, harmless, vague

SIGNATURES: tuple[Signature, ...] = (
    cause(
        "on startup is less than desired GPU memory utilization",
        says="Card {card} is not as free as the memory fraction asks for: {free} of {total} GiB.",
        fix="Look at who holds the card, or lower --gpu-memory-utilization.",
        pattern=r"Free memory on device (?:cuda:)?(?P<card>\d+)? ?\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\)",
        about_memory=True,
    ),
    cause(
        "No available memory for the cache blocks",
        says="After the weights were loaded no memory was left for the KV cache.",
        fix="Raise --gpu-memory-utilization, use more cards or a smaller quantization.",
        about_memory=True,
    ),
    cause(
        "To serve at least one request with the model",
        says="Not even one request of {length} tokens fits: it needs {need} GiB of KV cache, and {have} GiB are left.",
        fix="Lower --max-model-len, raise --gpu-memory-utilization, or use more cards.",
        pattern=r"max seq len \((?P<length>\d+)\).*?\((?P<need>[\d.]+) GiB KV.*?\((?P<have>[\d.]+) GiB\)",
        about_memory=True,
    ),
    harmless(
        "is longer than the maximum model length",
        "This model's maximum context length is",
        says="A request was longer than the server takes, and was refused.",
        fix="Raise --max-model-len if the model was made for more.",
    ),
    vague(
        "EngineCore encountered an issue. See stack trace",
        says="The part of vLLM that computes has failed.",
        fix="Read the lines above it in the log: the first error is the cause.",
    ),
    vague(
        "WorkerProc initialization failed",
        says="A worker process of the server failed while it started.",
        fix="Read the lines above it in the log: the first error is the cause.",
    ),
    vague(
        "died unexpectedly",
        says="A process of the server died: {what}.",
        fix="Read the lines above it in the log. If nothing stands there, the host's memory (RAM) may have been full.",
        pattern=r"(?P<what>Engine core proc \S+|Worker proc \S+) died unexpectedly",
    ),
    vague(
        "Engine core initialization failed. See root cause above",
        says="The part of vLLM that computes did not start.",
        fix="Read the lines above it in the log: the first error is the cause.",
    ),
    *COMMON_SIGNATURES,
)
