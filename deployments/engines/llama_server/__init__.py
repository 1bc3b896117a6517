"""llama-server of llama.cpp. PURE."""

from __future__ import annotations

import re

from deployments.engines.base import COMMON_SIGNATURES, Engine, completion_request, signature
from deployments.engines.llama_server.effective import ALIASES, PAGES, effective

LLAMA_SERVER = Engine(
    key="llama_server",
    label="llama-server (llama.cpp)",
    default_port=8080,
    model_flags=("-m", "--model"),
    serves=re.compile(r"llama-server\b"),
    image=re.compile(r"(?:^|/)llama\.cpp:(?:server|full)"),
    ready=(re.compile(r"(?:server is )?listening on "),),
    completion=completion_request(),
    metrics_path="/metrics",
    metrics_flag="--metrics",
    running_metric="llamacpp:requests_processing",
    api_key_variable="LLAMA_API_KEY",
    pages=PAGES,
    aliases=ALIASES,
    configuration=effective,
    signatures=(
        signature(
            r"exiting due to model loading error|failed to load model",
            "llama.cpp could not load the model file.",
            "Check that the GGUF file at the model path is there and complete.",
        ),
        signature(
            r"exiting due to HTTP server error",
            "The port is already taken by another process.",
            "Stop the other server, or give this deployment another port.",
        ),
        *COMMON_SIGNATURES,
    ),
)
