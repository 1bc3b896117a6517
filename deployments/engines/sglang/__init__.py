"""SGLang 0.5.9 and newer. PURE. Facts: its launch_server, server_args and http_server modules."""

from __future__ import annotations

import re

from deployments.engines.base import Engine
from deployments.engines.knob import CARDS, CONTEXT, FRACTION, MODEL, PORT, PRECISION, Knob
from deployments.engines.sglang.bench import BENCH
from deployments.engines.sglang.effective import ALIASES, PAGES, effective
from deployments.engines.sglang.progress import STAGES
from deployments.engines.sglang.signatures import SIGNATURES

KNOBS = {
    MODEL: Knob((("--model-path", "--model"),)),
    CARDS: Knob((("--tp-size", "--tensor-parallel-size", "--tp"),)),
    CONTEXT: Knob((("--context-length",),)),
    FRACTION: Knob((("--mem-fraction-static",),)),
    PRECISION: Knob((("--kv-cache-dtype",),), ("bf16", "fp8_e4m3", "fp8_e5m2")),
    PORT: Knob((("--port",),)),
}

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
    embedding=re.compile(r" --is-embedding "),
    metrics_path="/metrics",
    metrics_flag="--enable-metrics",
    running_metric="sglang:num_running_reqs",
    waiting_metric="sglang:num_queue_reqs",
    told_to_end="SGLang takes new requests even while it waits for those that run, and sets itself no limit.",
    # Its wheels are built for CUDA 12.8, which drivers from 525 on take, and from 0.5.23 on for CUDA 13.
    drivers=(("0.5.23", 580), ("0.5.9", 525)),
    generated_metric="sglang:generation_tokens_total",
    # No variable: prepare_server_args puts what the YAML file says in front of the command line's own words, once.
    api_key_setting="api-key",
    api_key_shown="SGLang itself writes its API key into its log (server_args=) and shows it in /server_info to "
    "whoever has the key. The panel masks it in all that it stores and shows.",
    package="sglang",
    pages=PAGES,
    aliases=ALIASES,
    configuration=effective,
    knobs=KNOBS,
    first_command=("python3", "-m", "sglang.launch_server", "--model-path", "{model}", "--host", "0.0.0.0"),
    bench=BENCH,
    signatures=SIGNATURES,
    stages=STAGES,
)
