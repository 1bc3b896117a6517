"""llama-server of llama.cpp. PURE."""

from __future__ import annotations

import re

from deployments.engines.base import Engine
from deployments.engines.knob import CONTEXT, MODEL, PORT, PRECISION, Knob
from deployments.engines.llama_server.bench import BENCH
from deployments.engines.llama_server.effective import ALIASES, PAGES, effective
from deployments.engines.llama_server.progress import STAGES
from deployments.engines.llama_server.signatures import SIGNATURES

KNOBS = {
    MODEL: Knob((("-m", "--model"),)),
    CONTEXT: Knob((("-c", "--ctx-size"),)),
    PRECISION: Knob((("-ctk", "--cache-type-k"), ("-ctv", "--cache-type-v")), ("f16", "bf16", "q8_0", "q4_0")),
    PORT: Knob((("--port",),)),
}
"""It splits a model over all cards that it sees, and takes no share of their memory."""

LLAMA_SERVER = Engine(
    key="llama_server",
    label="llama-server (llama.cpp)",
    default_port=8080,
    model_flags=("-m", "--model"),
    serves=re.compile(r"llama-server\b"),
    image=re.compile(r"(?:^|/)llama\.cpp:(?:server|full)"),
    ready=(re.compile(r"(?:server is )?listening on "),),
    embedding=re.compile(r" --embeddings? "),
    metrics_path="/metrics",
    metrics_flag="--metrics",
    running_metric="llamacpp:requests_processing",
    waiting_metric="llamacpp:requests_deferred",
    told_to_end="llama-server cuts off the requests that run as soon as it is told to end.",
    generated_metric="llamacpp:tokens_predicted_total",
    api_key_variable="LLAMA_API_KEY",
    pages=PAGES,
    aliases=ALIASES,
    configuration=effective,
    knobs=KNOBS,
    first_command=("llama-server", "-m", "{model}", "--host", "0.0.0.0"),
    bench=BENCH,
    signatures=SIGNATURES,
    stages=STAGES,
)
