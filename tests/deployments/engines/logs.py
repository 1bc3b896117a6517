"""Logs as the engines write them: whole starts by version, and starts that fail in the middle of their noise."""

from __future__ import annotations

from collections.abc import Sequence


def stamp(second: int, rank: str = "") -> str:
    """SGLang's prefix."""
    return f"[2026-11-30 09:{second // 60 % 60:02}:{second % 60:02}{rank and ' ' + rank}]"


def sglang_args(version: str) -> str:
    """The line of all arguments, whose form changed with 0.5.20."""
    values = {
        "model_path": "/models/qwen-27b",
        "tp_size": 2,
        "port": 30000,
        "mem_fraction_static": 0.85,
        "api_key": None,
    }
    if version == "0.5.23":
        return f"server_args={values!r}"
    return f"server_args=ServerArgs({', '.join(f'{name}={value!r}' for name, value in values.items())})"


def sglang_weights(version: str, rank: str) -> list[str]:
    kind = "dtype=torch.bfloat16, " if version == "0.5.9" else "quant=fp8, "
    bars = "".join(
        f"Loading safetensors checkpoint shards: {100 * n // 7:3}% Completed | {n}/7 [00:0{n}<00:0{7 - n},  1.02it/s]\r"
        for n in range(8)
    )
    return [
        f"{stamp(10, rank)} Init torch distributed begin.",
        "[Gloo] Rank 0 is connected to 1 peer ranks. Expected number of connected peer ranks is : 1",
        f"{stamp(11, rank)} Init torch distributed ends. elapsed=1.02 s, mem usage=0.21 GB",
        f"{stamp(12, rank)} Load weight begin. avail mem=46.71 GB",
        bars + "\n",
        f"{stamp(20, rank)} Load weight end. elapsed=8.12 s, type=Qwen3ForCausalLM, {kind}avail mem=18.02 GB, "
        "mem usage=28.69 GB.",
    ]


def sglang_memory(version: str, rank: str) -> list[str]:
    dtype = "" if version in ("0.5.9", "0.5.11") else "dtype: torch.bfloat16, "
    role = ("Capture cuda graph", "Time elapsed: 3.74 s. mem usage=0.60 GB. avail mem=4.54 GB.")
    if version == "0.5.23":
        role = ("Capture target decode CUDA graph", "elapsed=3.74 s, mem usage=0.60 GB, avail mem=4.54 GB.")
    bars = "".join(
        f"Capturing batches (bs={n} avail_mem=5.0{n} GB): {25 * (4 - n)}%|##| {4 - n}/4\r" for n in (4, 3, 2, 1)
    )
    return [
        f"{stamp(21, rank)} Using KV cache dtype: torch.bfloat16",
        f"{stamp(21, rank)} KV Cache is allocated. {dtype}#tokens: 228520, K size: 6.90 GB, V size: 6.90 GB",
        f"{stamp(21, rank)} Memory pool end. avail mem=5.13 GB",
        f"{stamp(22, rank)} {role[0]} begin. This can take up to several minutes. avail mem=5.13 GB",
        bars + "\n",
        f"{stamp(26, rank)} {role[0]} end. {role[1]}",
        f"{stamp(26, rank)} max_total_num_tokens=228520, chunked_prefill_size=4096, max_prefill_tokens=16384, "
        "max_running_requests=256, context_len=131072, available_gpu_mem=4.54 GB",
    ]


def sglang_head(version: str) -> list[str]:
    lines = ["<frozen runpy>:128: RuntimeWarning: a module found in sys.modules; this may result in odd behaviour"]
    if version != "0.5.9":
        lines.append("/opt/e/launch_server.py:51: UserWarning: `sglang serve` is the recommended entrypoint.")
    return [
        *lines,
        f"{stamp(1)} WARNING: Attention backend not specified. Use flashinfer backend by default.",
        f"{stamp(2)} {sglang_args(version)}",
        f"{stamp(3)} Using default HuggingFace chat template with detected content format: string",
    ]


def sglang_up(second: int = 30) -> list[str]:
    at = stamp(second)
    return [
        f"{at} INFO:     Started server process [4711]",
        f"{at} INFO:     Waiting for application startup.",
        f"{at} INFO:     Application startup complete.",
        f"{at} INFO:     Uvicorn running on http://0.0.0.0:30000 (Press CTRL+C to quit)",
        f'{at} INFO:     127.0.0.1:34908 - "GET /model_info HTTP/1.1" 200 OK',
        f"{at} Prefill batch, #new-seq: 1, #new-token: 6, #cached-token: 0, token usage: 0.00, #running-req: 0, "
        "#queue-req: 0, input throughput (token/s): 0.00, cuda graph: False",
        f'{at} INFO:     127.0.0.1:34916 - "POST /generate HTTP/1.1" 200 OK',
        f"{at} The server is fired up and ready to roll!",
    ]


def sglang_start(version: str = "0.5.11", ranks: Sequence[str] = ("TP0", "TP1")) -> list[str]:
    """A start that goes well, the lines of its ranks mixed."""
    load = [line for pair in zip(*(sglang_weights(version, rank) for rank in ranks), strict=True) for line in pair]
    pool = [line for pair in zip(*(sglang_memory(version, rank) for rank in ranks), strict=True) for line in pair]
    return [*sglang_head(version), *load, *pool, *sglang_up()]


def vllm_line(level: str, text: str, who: str = "EngineCore", second: int = 0) -> str:
    return f"\x1b[0;36m({who} pid=71)\x1b[0;0m {level} 11-30 09:00:{second:02} [core.py:97] {text}"


def vllm_start(who: str = "EngineCore") -> list[str]:
    """vLLM 0.19's."""
    return [
        vllm_line("INFO", "vLLM API server version 0.19.1, args: {'model': '/models/q', 'api_key': None}", "APIServer"),
        vllm_line("WARNING", "The model's config has a sliding window; it is disabled.", "APIServer"),
        vllm_line("INFO", "Initializing a V1 LLM engine (v0.19.1) with config: model='/models/q'", who),
        "\rLoading safetensors checkpoint shards:   0% Completed | 0/3 [00:00<?, ?it/s]"
        "\rLoading safetensors checkpoint shards: 100% Completed | 3/3 [00:02<00:00,  1.30it/s]\n",
        vllm_line("INFO", "Model loading took 15.28 GiB memory and 2.7 seconds", who),
        vllm_line("INFO", "Using cache directory: /root/.cache/vllm/torch_compile_cache for torch.compile", who),
        vllm_line("INFO", "Available KV cache memory: 22.84 GiB", who),
        vllm_line("INFO", "GPU KV cache size: 166,320 tokens", who),
        vllm_line("INFO", "Maximum concurrency for 40,960 tokens per request: 4.06x", who),
        "\rCapturing CUDA graphs (mixed prefill-decode, PIECEWISE):  50%|#####     | 17/34 [00:01<00:01, 12.1it/s]\n",
        vllm_line("INFO", "Graph capturing finished in 3 secs, took 0.57 GiB", who),
        vllm_line("INFO", "init engine (profile, create kv cache, warmup model) took 21.53 seconds", who),
        vllm_line("INFO", "Starting vLLM server on http://0.0.0.0:8000", "APIServer"),
        "\x1b[0;36m(APIServer pid=7)\x1b[0;0m INFO:     Started server process [7]",
        "\x1b[0;36m(APIServer pid=7)\x1b[0;0m INFO:     Application startup complete.",
    ]


def llama_start() -> list[str]:
    return [
        "build: 6912 (a1b2c3d) with cc (Debian 14.2.0) for x86_64-linux-gnu",
        "system info: n_threads = 16, n_threads_batch = 16, total_threads = 32",
        "main: binding port with default address family",
        "main: HTTP server is listening, hostname: 0.0.0.0, port: 8080, http threads: 31",
        "main: loading model",
        "srv    load_model: loading model '/models/tiny.gguf'",
        "llama_model_loader: loaded meta data with 33 key-value pairs and 398 tensors from /models/tiny.gguf",
        "load: control-looking token: 151659 was not control-type; this is probably a bug in the model",
        "load_tensors: offloading 36 repeating layers to GPU",
        "..........................................................................................",
        "llama_context: n_ctx_per_seq (4096) < n_ctx_train (40960) -- the full capacity will not be utilized",
        "llama_params_fit: failed to fit params to free device memory: n_gpu_layers already set by user",
        "common_init_from_params: warming up the model with an empty run - please wait ...",
        "main: model loaded",
        "main: server is listening on http://0.0.0.0:8080 - starting the main loop",
        "srv  update_slots: all slots are idle",
        "srv  log_server_r: request: GET /health 127.0.0.1 200",
    ]


STARTS = {"sglang": sglang_start, "vllm": vllm_start, "llama_server": llama_start, "custom": sglang_start}
GIVES_UP = {
    "sglang": ["", f"{stamp(40)} Received sigquit from a child process. It usually means the child failed.", "Killed"],
    "vllm": [
        vllm_line("ERROR", "WorkerProc initialization failed due to an exception in a background process."),
        "Traceback (most recent call last):",
        '  File "/opt/e/vllm/entrypoints/cli/main.py", line 73, in main',
        "    args.dispatch_function(args)",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}",
    ],
    "llama_server": ["main: exiting due to model loading error"],
    "custom": ["Killed"],
}


def fails(engine: str, *lines: str, after: int | None = None) -> str:
    """A start of ``engine`` that gets ``after`` lines far (half of them), then fails with ``lines``, then gives up."""
    start = STARTS[engine]()
    before = start[: len(start) // 2 if after is None else after]
    return "\n".join([*before, *lines, *GIVES_UP[engine]]) + "\n"


def traceback(error: str, *, before: str = "", frames: int = 3) -> list[str]:
    """A Python traceback that ends in ``error``."""
    lines = [f"{before}Traceback (most recent call last):"]
    for n in range(frames):
        lines += [f'  File "/opt/engine/part_{n}.py", line {n + 10}, in step_{n}', f"    self.go_on_with_{n}(batch)"]
    return [*lines, error]
