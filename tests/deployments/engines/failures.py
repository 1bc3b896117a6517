"""One failed start for each thing that a log can say: the line, and words that the diagnosis must have."""

from __future__ import annotations

from dataclasses import dataclass

from tests.deployments.engines.logs import stamp, traceback, vllm_line


@dataclass(frozen=True)
class Failure:
    """``line`` is where the cause must be found; ``lines`` what is written, which is ``line`` if there is no more."""

    engine: str
    line: str
    says: str
    lines: tuple[str, ...] = ()

    @property
    def written(self) -> tuple[str, ...]:
        return self.lines or (self.line,)

    def __str__(self) -> str:
        return f"{self.engine}: {self.line[:60]}"


def raised(engine: str, error: str, says: str) -> Failure:
    """It ends a traceback in a worker process, which the engine shows in its own way."""
    if engine == "vllm":
        lines = traceback(error)
        return Failure(
            engine,
            f"(EngineCore pid=71) ERROR 11-30 09:00:09 [core.py:97] {error}",
            says,
            tuple(vllm_line("ERROR", line, second=9) for line in lines),
        )
    return Failure(
        engine, error, says, tuple(traceback(error, before=f"{stamp(33, 'TP1')} Scheduler hit an exception: "))
    )


OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity "
    "of 47.37 GiB of "
    "which 1.37 GiB is free. Including non-PyTorch memory, this process has 45.90 GiB memory in use. Of the allocated "
    "memory 44.80 GiB is allocated by PyTorch, and 120.00 MiB is reserved by PyTorch but unallocated."
)
SIGQUIT = f"{stamp(40)} Received sigquit from a child process. It usually means the child failed."

SGLANG = [
    raised(
        "sglang",
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: "
        "self.server_args.mem_fraction_static=0.85",
        "no memory was left for the KV cache (memory fraction 0.85)",
    ),
    raised("sglang", "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", "KV cache."),
    raised(
        "sglang",
        "RuntimeError: Not enough GPU memory for hybrid (mamba/linear-attention) state cache. Computed "
        "max_mamba_cache_size=-3",
        "the state that this kind of model keeps",
    ),
    raised("sglang", OOM, "it wanted 2.00 GiB more"),
    raised("sglang", "torch.OutOfMemoryError: Allocation on device", "A card ran out of memory"),
    raised("sglang", "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 1 GiB", "Too little"),
    raised("sglang", "Exception: Capture cuda graph failed: CUDA error: unspecified", "Capturing CUDA graphs failed"),
    raised(
        "sglang",
        "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. "
        "min_per_gpu_memory=12.51, local_gpu_memory=46.71, local_gpu_memory * 0.9=42.04",
        "much less free memory than the others",
    ),
    Failure(
        "sglang",
        f"{stamp(31)} ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 30000): address "
        "already in use",
        "Port 30000 is already taken",
    ),
    raised("sglang", "OSError: [Errno 98] Address already in use", "The port is already taken"),
    raised(
        "sglang", "ValueError: Port is already in use. dist_init_port=30233", "worker processes need is already taken"
    ),
    raised(
        "sglang",
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network "
        "address. port: "
        "29511, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
        "meet (29511) is already taken",
    ),
    Failure(
        "sglang",
        "gpu1:4711:4790 [0] NCCL WARN Error while creating shared memory segment /dev/shm/nccl-GAnxqI (size 9637888), "
        "error: No space left on device (28)",
        "share memory at /dev/shm/nccl-GAnxqI",
    ),
    raised(
        "sglang",
        "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:77, "
        "unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.5",
        "could not talk to each other",
    ),
    raised("sglang", "torch.AcceleratorError: CUDA error: an illegal memory access was encountered", "touched memory"),
    raised(
        "sglang",
        "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device",
        "does not support this kind of card",
    ),
    raised("sglang", "RuntimeError: CUDA error: invalid device ordinal", "more cards than it can see"),
    raised("sglang", "RuntimeError: No CUDA GPUs are available", "sees no card at all"),
    raised(
        "sglang",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 12080). Please update it.",
        "it knows CUDA 12.8 at most",
    ),
    raised(
        "sglang", "RuntimeError: CUDA driver version is insufficient for CUDA runtime version", "driver of this host"
    ),
    raised(
        "sglang",
        "ImportError: libcudart.so.13: cannot open shared object file: No such file or directory",
        "built for CUDA 13",
    ),
    raised(
        "sglang",
        "ImportError: libnuma.so.1: cannot open shared object file: No such file or directory",
        "A library is missing on this host: libnuma",
    ),
    raised(
        "sglang",
        "Exception: flashinfer_python is installed with version 0.2.14, which is less than the minimum "
        "required version "
        "0.6.3. Please reinstall the latest version.",
        "flashinfer_python is too old on this host: 0.2.14 is installed, 0.6.3 is needed",
    ),
    raised(
        "sglang", "RuntimeError: Could not find nvcc and default cuda_home='/usr/local/cuda' doesn't exist", "compile"
    ),
    raised(
        "sglang",
        "subprocess.CalledProcessError: Command '['ninja', '-v', '-C', '/root/.cache']' returned non-zero "
        "exit status 1.",
        "wanted to compile code",
    ),
    raised(
        "sglang",
        "ValueError: Model architectures ['Qwen9ForCausalLM'] are not supported for now. Supported architectures: "
        "dict_keys(['LlamaForCausalLM'])",
        "does not know the model's architecture: Qwen9ForCausalLM",
    ),
    raised(
        "sglang",
        "ValueError: The checkpoint you are trying to load has model type `qwen3_5` but Transformers does "
        "not recognize "
        "this architecture. This could be because of an issue with the checkpoint.",
        "too old for this kind of model: qwen3_5",
    ),
    raised(
        "sglang",
        "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': "
        "'/models/qwen-72b'. Use `repo_type` argument if needed.",
        "not found at /models/qwen-72b",
    ),
    raised(
        "sglang", "OSError: Incorrect path_or_model_id: 'models/qwen'. Please provide a local folder", "was not found"
    ),
    raised("sglang", "RuntimeError: Cannot find any model weights with `/models/empty`", "no weights: /models/empty"),
    raised(
        "sglang",
        "OSError: /models/half does not appear to have a file named config.json. Checkout 'https://x.org' for files.",
        "config.json is missing",
    ),
    raised("sglang", "safetensors_rust.SafetensorError: Error while deserializing header: header too large", "damaged"),
    raised("sglang", "FileNotFoundError: [Errno 2] No such file or directory: '/models/x.jinja'", "/models/x.jinja"),
    Failure(
        "sglang",
        "assert param_data.shape == loaded_weight.shape",
        "have another shape",
        (
            *traceback("", before=f"{stamp(33, 'TP1')} Scheduler hit an exception: ")[:-1],
            '  File "/opt/engine/linear.py", line 418, in weight_loader',
            "    assert param_data.shape == loaded_weight.shape",
            "           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
            "AssertionError",
        ),
    ),
    raised(
        "sglang",
        "ValueError: Weight output_partition_size = 192 is not divisible by weight quantization block_n = 128.",
        "Weight output_partition_size = 192",
    ),
    raised("sglang", "AssertionError: 28 is not divisible by 3", "28 is not divisible by 3"),
    raised(
        "sglang",
        "ValueError: User-specified context_length (262144) is greater than the derived context_length "
        "(131072). This may "
        "lead to incorrect model outputs or CUDA errors. Set the env var SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1",
        "(262144 tokens) is longer than the model was made for (131072)",
    ),
    raised(
        "sglang",
        "ValueError: Speculative decoding for Qwen3_5MoeForConditionalGeneration is not compatible with "
        "radix cache when "
        "using --mamba-scheduler-strategy no_buffer. To use radix cache, use extra_buffer.",
        "the prefix cache do not go together",
    ),
    raised("sglang", "AssertionError: mamba extra_buffer is not compatible with --disable-radix-cache", "contradict"),
    raised(
        "sglang", "ValueError: requires at least one encoder urls to be set via --encoder-urls", "needs --encoder-urls"
    ),
    raised("sglang", "AssertionError: served_model_name cannot contain a colon", "served_model_name cannot contain"),
    raised(
        "sglang", "AssertionError: chunked_prefill_size must be divisible by page_size", "must be divisible by page"
    ),
    Failure("sglang", "launch_server.py: error: unrecognized arguments: --mamba-x 3", "does not know a flag of this"),
    Failure(
        "sglang", "launch_server.py: error: ambiguous option: --mem could match --mem-a, --mem-b", "could mean several"
    ),
    Failure(
        "sglang", "launch_server.py: error: argument --dtype: invalid choice: 'fp3'", "refuses a flag's value: --dtype"
    ),
    Failure(
        "sglang", "launch_server.py: error: the following arguments are required: --model-path", "is missing without"
    ),
    Failure("sglang", "/usr/bin/python3: No module named sglang", "does not have the engine: sglang"),
    Failure(
        "sglang",
        "/usr/bin/python3.11: Error while finding module specification for 'sglang.launch_server' (x)",
        "does not have the engine: sglang.launch_server",
    ),
    raised(
        "sglang",
        "OSError: You are trying to access a gated repo. Make sure to have access to it at https://huggingface.co/x/y.",
        "accepted its licence",
    ),
    raised(
        "sglang",
        "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://huggingface.co/x/y/config.json",
        "download was refused",
    ),
    raised("sglang", "OSError: [Errno 28] No space left on device", "disk is full"),
    raised("sglang", "RuntimeError: Data processing error: File reconstruction error: os error 28", "disk is full"),
    raised("sglang", "RuntimeError: Prefill out of memory. Try to lower your batch size.", "lost count of its own KV"),
    raised(
        "sglang", "ValueError: token_to_kv_pool_allocator memory leak detected! available=11, evictable=0", "own check"
    ),
    raised(
        "sglang",
        "RuntimeError: Rank 1 scheduler died during initialization (exit code: -9). If exit code is -9 (SIGKILL), a "
        "common cause is the OS OOM killer. Run `dmesg -T | grep -i oom` to check.",
        "Worker 1 was killed from outside while it loaded",
    ),
]

VLLM = [
    raised(
        "vllm",
        "ValueError: Free memory on device cuda:0 (3.21/47.37 GiB) on startup is less than desired GPU "
        "memory utilization "
        "(0.9, 42.63 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
        "Card 0 is not as free as the memory fraction asks for: 3.21 of 47.37 GiB",
    ),
    raised(
        "vllm",
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
        "initializing "
        "the engine.",
        "no memory was left for the KV cache",
    ),
    raised(
        "vllm",
        "ValueError: To serve at least one request with the models's max seq len (131072), (18.00 GiB KV "
        "cache is needed, "
        "which is larger than the available KV cache memory (9.31 GiB). Based on the available memory, the estimated "
        "maximum model length is 67776.",
        "one request of 131072 tokens fits: it needs 18.00 GiB of KV cache, and 9.31 GiB are left",
    ),
    raised("vllm", OOM, "it wanted 2.00 GiB more"),
    raised("vllm", "ValueError: Model architectures ['NewLM'] are not supported for now.", "architecture: NewLM"),
    raised(
        "vllm",
        "ValueError: Total number of attention heads (28) must be divisible by tensor parallel size (3).",
        "Total number of attention heads (28) must be divisible by tensor parallel size (3)",
    ),
    raised(
        "vllm",
        "ValueError: User-specified max_model_len (262144) is greater than the derived max_model_len "
        "(max_position_embeddings=40960 or model_max_length=None in model's config.json).",
        "(262144 tokens) is longer than the model was made for (40960)",
    ),
    Failure("vllm", "OSError: [Errno 98] Address already in use", "The port is already taken"),
    Failure(
        "vllm", "vllm serve: error: unrecognized arguments: --tp-size 2", "does not know a flag of this revision: --tp"
    ),
    raised("vllm", "RuntimeError: Ninja build failed. Ninja output:", "wanted to compile code"),
]

LLAMA = [
    Failure(
        "llama_server",
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 6000.00 MiB on device 0: cudaMalloc failed: "
        "out of memory",
        "Card 0 ran out of memory: it wanted 6000.00 MiB more",
    ),
    Failure("llama_server", "llama_init_from_model: unable to allocate CUDA0 buffer", "A card ran out of memory"),
    Failure(
        "llama_server",
        "start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 8080",
        "Port 8080 is already taken",
    ),
    Failure(
        "llama_server",
        "llama_model_load: error loading model: failed to open /models/none.gguf: No such file or directory",
        "The model file is not there: /models/none.gguf",
    ),
    Failure(
        "llama_server",
        "llama_model_load: error loading model: error loading model architecture: unknown model architecture: 'qwen9'",
        "does not know the model's architecture: qwen9",
    ),
    Failure(
        "llama_server",
        "llama_model_load: error loading model: tensor 'blk.11.ffn_up.weight' data is not within the file "
        "bounds, model "
        "is corrupted or incomplete",
        "damaged, not complete",
    ),
    Failure("llama_server", "error: invalid argument: --n-predictt", "does not know a flag of this revision: --n-pr"),
]

CUSTOM = [Failure("custom", "bash: line 1: serve-it: command not found", "could not be started")]

OTHERWISE = [
    raised("sglang", "Exception: Capture CUDA graph failed: CUDA error: out of memory", "Too little memory was left"),
    raised(
        "sglang", "Exception: Capture CUDA graph failed: unspecified launch failure", "Capturing CUDA graphs failed"
    ),
    raised("sglang", "RuntimeError: Decode out of memory. Try to lower your batch size.", "lost count of its own KV"),
    raised("sglang", "RuntimeError: alloc_req_slots runs out of memory. Please set a smaller number", "lost count"),
    raised("sglang", "AssertionError: tp_size must be divisible by number of nodes", "tp_size must be divisible by"),
    raised("sglang", "ValueError: Port 30234 is not available in 30 seconds.", "need is already taken: 30234"),
    raised("sglang", "torch.cuda.OutOfMemoryError: Allocation on device 0 would exceed it", "A card ran out of memory"),
    raised("sglang", "RuntimeError: CUDA error: out of memory", "A card ran out of memory"),
    raised("sglang", "RuntimeError: CUDA error: no CUDA-capable device is detected", "sees no card at all"),
    Failure("sglang", "attn.cu:12: fatal error: curand_kernel.h: No such file or directory", "wanted to compile code"),
    raised(
        "sglang",
        "ValueError: For quantized MoE models, please make sure (moe_intermediate_size=768 / moe_tp_size=8) % "
        "weight_block_size_n=128 == 0",
        "cannot be cut into so many parts: moe_intermediate_size=768",
    ),
    raised(
        "sglang",
        "OSError: Cannot access gated repo for url https://huggingface.co/x/y/resolve/main/config.json.",
        "accepted its licence",
    ),
    raised("sglang", "OSError: x/y is gated. You must be authenticated to access it.", "accepted its licence"),
    raised(
        "vllm", "ValueError: Model architectures ['A'] are not supported. Supported architectures: x", "architecture: A"
    ),
    raised("vllm", "ValueError: NewLM has no vLLM implementation and it is not compatible.", "architecture: NewLM"),
    Failure("custom", "sh: 1: exec: /opt/serve: Permission denied", "could not be started"),
    Failure("custom", "python3: can't open file '/opt/serve.py': [Errno 2] No such file", "could not be started"),
    Failure(
        "llama_server", "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 9", "A card ran out of memory"
    ),
    Failure(
        "llama_server", "gguf_init_from_file_impl: invalid magic characters: '<htm', expected 'GGUF'", "no GGUF file"
    ),
]
"""The same in other words, as other versions write it."""

FAILURES = [*SGLANG, *VLLM, *LLAMA, *CUSTOM, *OTHERWISE]

VAGUE = [
    Failure(
        "sglang",
        "[rank0]:[E1130 09:00:31.112 ProcessGroupNCCL.cpp:685] [Rank 0] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=3, OpType=ALLREDUCE, Timeout(ms)=600000)",
        "waited in vain for another",
    ),
    Failure(
        "sglang", "RuntimeError: [../third_party/gloo] Connection closed by peer [10.0.0.4]:51122", "lost another one"
    ),
    Failure("sglang", "ImportError: [sgl_kernel] CRITICAL: Could not load any common_ops library!", "do not fit"),
    raised(
        "sglang",
        "ValueError: TP rank 0 could finish the model loading, but there are other ranks that didn't finish "
        "loading. It is "
        "likely due to unexpected failures (e.g., OOM) or a slow node.",
        "waited in vain for the others",
    ),
    Failure(
        "sglang",
        f"{stamp(36, 'TP0')} Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
        "no progress for 300 s",
    ),
    Failure("sglang", f"{stamp(36)} Initialization failed. warmup error:", "its first request to itself failed"),
    Failure(
        "sglang", "Rank 1 scheduler is dead. Please check if there are relevant logs.", "Worker 1 of the server died"
    ),
    Failure(
        "sglang",
        f"{stamp(36)} Subprocess scheduler_1 (pid=4790) crashed with exit code -6. Triggering SIGQUIT for cleanup...",
        "A worker process of the server died: scheduler_1",
    ),
    Failure("sglang", f"{stamp(36)} Scheduler hit an exception: ", "A worker process of the server failed"),
    Failure("sglang", SIGQUIT, "A worker process of the server died."),
    Failure("custom", "Killed", "was killed, by itself or from outside"),
    Failure(
        "vllm",
        "(APIServer pid=7) ERROR 11-30 09:00:09 [async_llm.py:1] EngineCore encountered an issue. See stack "
        "trace (above) "
        "for the root cause.",
        "The part of vLLM that computes has failed",
    ),
    Failure(
        "vllm", "(EngineCore pid=71) ERROR 11-30 09:00:09 [core.py:9] WorkerProc initialization failed", "A worker"
    ),
    Failure("vllm", "RuntimeError: Engine core proc EngineCore_DP0 died unexpectedly, shutting down", "EngineCore_DP0"),
    Failure("vllm", "RuntimeError: Engine core initialization failed. See root cause above.", "did not start"),
    Failure("llama_server", "main: exiting due to HTTP server error", "Its port could not be had"),
    Failure(
        "llama_server", "common_init_from_params: failed to create context with model 'x'", "no room for the context"
    ),
    Failure("llama_server", "main: exiting due to model loading error", "could not load the model file"),
]

VAGUE += [
    Failure("sglang", f"{stamp(36)} Watchdog timeout (self.watchdog_timeout=300)", "no progress for 300 s"),
    Failure(
        "sglang", f"{stamp(36)} SIGQUIT received. signum=None, frame=None. It usually means one", "A worker process"
    ),
    Failure("sglang", "RuntimeError: TCPStore: Connection reset by peer", "lost another one"),
    Failure("llama_server", "llama_init_from_model: failed to initialize the context: x", "no room for the context"),
    Failure(
        "llama_server", "srv    load_model: failed to load model, '/models/x.gguf'", "could not load the model file"
    ),
]

HARMLESS = [
    Failure(
        "sglang",
        f"{stamp(12, 'TP0')} Setup Custom allreduce failed with CUDART error: peer access is not supported between "
        "these two devices. To silence this warning, specify --disable-custom-all-reduce explicitly.",
        "cannot read each other's memory",
    ),
    Failure(
        "sglang",
        f"{stamp(12, 'TP0')} KV cache pool is full. Retract requests. #retracted_reqs: 3, #new_tokens_gained: 912",
        "full for a while",
    ),
    Failure(
        "sglang",
        f"{stamp(12)} Input length (140210 tokens) exceeds the maximum allowed length (131071 tokens).",
        "A request was longer",
    ),
    Failure(
        "sglang",
        f"{stamp(12)} Requested token count exceeds the model's maximum context length of 131072 tokens.",
        "A request was longer",
    ),
    Failure(
        "sglang",
        f"{stamp(12)} The input (140210 tokens) is longer than the model's context length",
        "A request was longer",
    ),
    Failure(
        "vllm",
        "(APIServer pid=7) ERROR 11-30 09:00:09 [serving.py:1] The prompt is longer than the maximum model length",
        "A request was longer",
    ),
    Failure(
        "vllm",
        "(Worker_TP0 pid=9) WARNING 11-30 09:00:09 [custom_all_reduce.py:1] Custom allreduce is disabled because your "
        "platform lacks GPU P2P capability.",
        "cannot read each other's memory",
    ),
    Failure(
        "vllm",
        "(APIServer pid=7) ERROR 11-30 09:00:09 [serving.py:1] This model's maximum context length is 40960 tokens. "
        "However, you requested 50000 tokens.",
        "A request was longer",
    ),
]
