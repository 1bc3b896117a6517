"""vLLM. PURE."""

from __future__ import annotations

import re

from deployments.engines.base import COMMON_SIGNATURES, Engine, completion_request, signature
from deployments.engines.vllm.effective import ALIASES, PAGES, effective

VLLM = Engine(
    key="vllm",
    label="vLLM",
    default_port=8000,
    model_flags=("--model",),
    serves=re.compile(r"vllm serve\b|vllm\.entrypoints\.openai\.api_server"),
    image=re.compile(r"(?:^|/)vllm(?:-openai)?(?=[:@-]|$)"),
    ready=(re.compile(r"Application startup complete\."),),
    completion=completion_request(),
    metrics_path="/metrics",
    running_metric="vllm:num_requests_running",
    api_key_variable="VLLM_API_KEY",
    package="vllm",
    pages=PAGES,
    aliases=ALIASES,
    configuration=effective,
    signatures=(
        signature(
            r"Free memory on device .* on startup is less than desired",
            "The card is not as free as the memory fraction asks for.",
            "Look at who holds the card, or lower --gpu-memory-utilization.",
            about_memory=True,
        ),
        signature(
            r"No available memory for the cache blocks|To serve at least one request with the model",
            "The model does not fit with this context length.",
            "Lower --max-model-len, raise --gpu-memory-utilization, or use more cards.",
            about_memory=True,
        ),
        *COMMON_SIGNATURES,
    ),
)
