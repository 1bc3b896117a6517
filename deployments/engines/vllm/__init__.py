"""vLLM. PURE."""

from __future__ import annotations

import re

from deployments.engines.base import Engine
from deployments.engines.knob import CARDS, CONTEXT, FRACTION, MODEL, PORT, PRECISION, Knob
from deployments.engines.vllm.bench import BENCH
from deployments.engines.vllm.effective import ALIASES, PAGES, effective
from deployments.engines.vllm.progress import STAGES
from deployments.engines.vllm.signatures import SIGNATURES

KNOBS = {
    MODEL: Knob((("--model",),)),
    CARDS: Knob((("--tensor-parallel-size", "-tp"),)),
    CONTEXT: Knob((("--max-model-len",),)),
    FRACTION: Knob((("--gpu-memory-utilization",),)),
    PRECISION: Knob((("--kv-cache-dtype",),), ("bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2")),
    PORT: Knob((("--port",),)),
}

VLLM = Engine(
    key="vllm",
    label="vLLM",
    default_port=8000,
    model_flags=("--model",),
    serves=re.compile(r"vllm serve\b|vllm\.entrypoints\.openai\.api_server"),
    image=re.compile(r"(?:^|/)vllm(?:-openai)?(?=[:@-]|$)"),
    ready=(re.compile(r"Application startup complete\."),),
    embedding=re.compile(r" --(?:task[= ]embed(?:ding)?|runner[= ]pooling|convert[= ]embed) "),
    metrics_path="/metrics",
    running_metric="vllm:num_requests_running",
    waiting_metric="vllm:num_requests_waiting",
    told_to_end="vLLM cuts off the requests that run as soon as it is told to end.",
    waits_with="--shutdown-timeout",
    generated_metric="vllm:generation_tokens_total",
    api_key_variable="VLLM_API_KEY",
    package="vllm",
    pages=PAGES,
    aliases=ALIASES,
    configuration=effective,
    knobs=KNOBS,
    first_command=("vllm", "serve", "{model}", "--host", "0.0.0.0"),
    bench=BENCH,
    signatures=SIGNATURES,
    stages=STAGES,
)
