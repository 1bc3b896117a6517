"""llama-server of llama.cpp. PURE."""

from __future__ import annotations

import re

from deployments.engines.base import Engine
from deployments.engines.llama_server.bench import BENCH
from deployments.engines.llama_server.effective import ALIASES, PAGES, effective
from deployments.engines.llama_server.progress import STAGES
from deployments.engines.llama_server.signatures import SIGNATURES

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
    generated_metric="llamacpp:tokens_predicted_total",
    api_key_variable="LLAMA_API_KEY",
    pages=PAGES,
    aliases=ALIASES,
    configuration=effective,
    bench=BENCH,
    signatures=SIGNATURES,
    stages=STAGES,
)
