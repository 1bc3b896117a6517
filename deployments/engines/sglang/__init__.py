"""SGLang 0.5.9 and newer. PURE. Facts: its launch_server, server_args and http_server modules."""

from __future__ import annotations

import re

from deployments.engines.base import COMMON_SIGNATURES, Engine, completion_request, signature
from deployments.engines.sglang.effective import ALIASES, PAGES, effective

SGLANG = Engine(
    key="sglang",
    label="SGLang",
    default_port=30000,
    model_flags=("--model-path", "--model"),
    serves=re.compile(r"sglang\.launch_server|sglang serve\b|sglang/launch_server\.py"),
    image=re.compile(r"(?:^|/)sglang(?=[:@-]|$)"),
    # The ready line alone lies on a port conflict: the warm-up may have talked to the old server. So both
    # lines must stand in this log, and the check step adds whose socket it is.
    ready=(re.compile(r"The server is fired up and ready to roll!"), re.compile(r"Uvicorn running on ")),
    completion=completion_request(),
    metrics_path="/metrics",
    metrics_flag="--enable-metrics",
    running_metric="sglang:num_running_reqs",
    # No variable: prepare_server_args puts what the YAML file says in front of the command line's own words, once.
    api_key_setting="api-key",
    api_key_shown="SGLang itself writes its API key into its log (server_args=) and shows it in /server_info to "
    "whoever has the key. The panel masks it in all that it stores and shows.",
    package="sglang",
    pages=PAGES,
    aliases=ALIASES,
    configuration=effective,
    signatures=(
        signature(
            r"Not enough memory\. Please try to increase --mem-fraction-static",
            "The model does not fit: its weights leave no room for the KV cache.",
            "Use more cards, a smaller quantization, a shorter context, or another memory fraction.",
            about_memory=True,
        ),
        signature(
            r"The memory capacity is unbalanced\. Some GPUs may be occupied",
            "One of the cards has much less free memory than the others.",
            "Look at who holds that card; free it, then start again.",
            about_memory=True,
        ),
        signature(
            r"Capture cuda graph failed",
            "Capturing CUDA graphs failed, most often because too little memory was left.",
            "Lower --mem-fraction-static or --cuda-graph-max-bs.",
            about_memory=True,
        ),
        signature(
            r"Model architectures \[.*\] are not supported",
            "This SGLang version does not know the model's architecture.",
            "Use a newer SGLang on this host.",
        ),
        signature(
            r"Scheduler hit an exception: (?P<what>.*)",
            "A worker process failed: {what}",
            "Read the lines below it in the log: they name the place in the engine.",
        ),
        *COMMON_SIGNATURES,
        signature(
            r"Received sigquit from a child|SIGQUIT received",
            "A worker process of the server died.",
            "Read the lines above this one in the log: the first error is the cause.",
        ),
    ),
)
