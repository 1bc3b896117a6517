"""Why SGLang (0.5.9 to 0.5.23) did not start, in its own words: its managers, server_args, model_runner. PURE."""

from __future__ import annotations

from deployments.engines.common.signatures import COMMON_SIGNATURES
from deployments.engines.signature import Signature, cause, harmless, vague

MEMORY: tuple[Signature, ...] = (
    cause(
        "Not enough memory. Please try to increase --mem-fraction-static",
        says="After the weights were loaded no memory was left for the KV cache (memory fraction {what}).",
        fix="Use more cards, a smaller quantization or another --mem-fraction-static. Raising the fraction does not "
        "help against memory that others hold.",
        pattern=r"mem_fraction_static=(?P<what>[\d.]+)",
        about_memory=True,
    ),
    cause(
        "Not enough memory. Please try to increase --mem-fraction-static",
        says="After the weights were loaded no memory was left for the KV cache.",
        fix="Use more cards, a smaller quantization or another --mem-fraction-static. Raising the fraction does not "
        "help against memory that others hold.",
        about_memory=True,
    ),
    cause(
        "Not enough GPU memory for hybrid (mamba/linear-attention) state cache",
        says="No memory was left for the state that this kind of model keeps for each request.",
        fix="Lower --max-running-requests or the draft tokens, take --mamba-ssm-dtype bfloat16, or raise "
        "--mem-fraction-static.",
        about_memory=True,
    ),
    cause(
        "The memory capacity is unbalanced. Some GPUs may be occupied",
        says="One of the cards has much less free memory than the others.",
        fix="Look at who holds that card; free it, then start again.",
        about_memory=True,
    ),
    cause(
        "Capture cuda graph failed",
        "Capture CUDA graph failed",
        says="Too little memory was left to capture CUDA graphs.",
        fix="Lower --mem-fraction-static or --cuda-graph-max-bs, or go without torch compile.",
        pattern=r"out of memory|OutOfMemory",
        about_memory=True,
    ),
    cause(
        "Capture cuda graph failed",
        "Capture CUDA graph failed",
        says="Capturing CUDA graphs failed.",
        fix="Lower --mem-fraction-static or --cuda-graph-max-bs, go without torch compile, or as a last resort without "
        "CUDA graphs (--disable-cuda-graph: much slower).",
        about_memory=True,
    ),
    cause(
        "Prefill out of memory. Try to lower your batch size",
        "Decode out of memory",
        "alloc_req_slots runs out of memory",
        says="The server lost count of its own KV cache: it wanted more of it than there is.",
        fix="Lower --max-running-requests, and tell SGLang's makers.",
    ),
    cause(
        "memory leak detected!",
        says="SGLang's own check found that requests had not given back their part of the KV cache, and ended it.",
        fix="Use a newer SGLang, or go back to the proven revision; tell SGLang's makers.",
    ),
    harmless(
        "KV cache pool is full. Retract requests",
        says="The KV cache was full for a while: some requests had to be done again.",
        fix="Fewer requests at a time, or more memory for the KV cache.",
    ),
    harmless(
        "exceeds the maximum allowed length",
        "Requested token count exceeds the model's maximum context length",
        "is longer than the model's context length",
        says="A request was longer than the server takes, and was refused.",
        fix="If the limit is far below the model's context, its KV cache is too small: look at the memory flags.",
    ),
)

WORKERS: tuple[Signature, ...] = (
    cause(
        "scheduler died during initialization (exit code: -9)",
        says="Worker {rank} was killed from outside while it loaded: most often the host's memory (RAM) was full.",
        fix="Ask who looks after the host to look for “Out of memory” in the kernel's log; more RAM, or fewer servers "
        "that load at the same time.",
        pattern=r"Rank (?P<rank>\d+) scheduler",
    ),
    cause(
        "Port is already in use. dist_init_port=",
        "is not available in 30 seconds",
        says="A port that the server's own worker processes need is already taken: {what}.",
        fix="Give another one with --dist-init-addr, or stop what has it.",
        pattern=r"(?:dist_init_port=|[Pp]ort )(?P<what>\d+)",
    ),
    vague(
        "Could not load any common_ops library",
        says="SGLang's own kernels do not fit the installed torch.",
        fix="Read “Error details” below the line; install libnuma1 on the host, or reinstall sgl-kernel.",
    ),
    cause(
        "libnuma.so.1: cannot open shared object file",
        says="A library is missing on this host: libnuma.",
        fix="Install it there (apt install libnuma1).",
    ),
    vague(
        "could finish the model loading, but there are other ranks that didn't finish loading",
        says="Some worker processes had loaded their part of the model and waited in vain for the others.",
        fix="Look in the log for the worker that failed. Slow storage: put the model on a local disk.",
    ),
    vague(
        "Scheduler watchdog timeout",
        "Watchdog timeout (self.watchdog_timeout=",
        says="The server made no progress for {what} s and ended itself.",
        fix="Look above it in the log for what hung; where it only is slow, raise --watchdog-timeout.",
        pattern=r"watchdog_timeout=(?P<what>\d+)",
    ),
    vague(
        "Initialization failed. warmup error",
        says="The server came up, but its first request to itself failed.",
        fix="Read the lines below it in the log.",
    ),
    vague(
        "scheduler died during initialization",
        "scheduler is dead",
        says="Worker {rank} of the server died while it loaded.",
        fix="Read the lines above it in the log. If nothing stands there, the host's memory (RAM) may have been full.",
        pattern=r"Rank (?P<rank>\d+) scheduler",
    ),
    vague(
        "crashed with exit code",
        says="A worker process of the server died: {what}.",
        fix="Read the lines above it in the log. If nothing stands there, the host's memory (RAM) may have been full.",
        pattern=r"Subprocess (?P<what>\w+) \(pid=\d+\) crashed with exit code -?\d+",
    ),
    vague(
        "hit an exception:",
        says="A worker process of the server failed.",
        fix="Read the lines below it in the log: they name the place in the engine.",
        pattern=r"(?:Scheduler|DetokenizerManager|DataParallelController) hit an exception:",
    ),
    vague(
        "Received sigquit from a child",
        "SIGQUIT received",
        says="A worker process of the server died.",
        fix="Read the lines above this one in the log: the first error is the cause.",
    ),
)

ARGUMENTS: tuple[Signature, ...] = (
    cause(
        "is not compatible with radix cache when using --mamba-scheduler-strategy no_buffer",
        says="For this kind of model, speculative decoding and the prefix cache do not go together as they are set.",
        fix="Add --mamba-scheduler-strategy extra_buffer (0.5.10 also SGLANG_ENABLE_SPEC_V2=1), or "
        "--disable-radix-cache.",
    ),
    cause(
        "mamba extra_buffer is not compatible with --disable-radix-cache",
        says="Two flags contradict each other: --mamba-scheduler-strategy extra_buffer and --disable-radix-cache.",
        fix="Drop one of them.",
    ),
    cause(
        "requires at least one encoder urls to be set via --encoder-urls",
        says="--language-only does not mean “text only”: it splits off a part of the model, and needs --encoder-urls.",
        fix="Remove --language-only (from 0.5.18 on --language-model-only is the flag for text only).",
    ),
    cause(
        "served_model_name cannot contain a colon",
        "chunked_prefill_size must be divisible by page_size",
        "tp_size must be divisible by number of nodes",
        says="The engine refuses a flag's value: {what}.",
        fix="Correct the value in a new revision of the profile.",
        pattern=r"(?P<what>(?:served_model_name|chunked_prefill_size|tp_size) [a-z_ ]+)",
    ),
)

SIGNATURES: tuple[Signature, ...] = (*MEMORY, *ARGUMENTS, *WORKERS, *COMMON_SIGNATURES)
