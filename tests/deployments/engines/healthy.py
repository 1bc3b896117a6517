"""Logs of servers that came up and served, with all that looks like a failure and is none."""

from __future__ import annotations

from tests.deployments.engines.failures import HARMLESS
from tests.deployments.engines.logs import llama_start, sglang_start, stamp, vllm_line, vllm_start

WORDS = "CUDA out of memory; address already in use; No space left on device; error: unrecognized arguments: --x"
ERROR = "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Killed sigquit"


def text(*lines: str) -> str:
    return "\n".join(lines) + "\n"


def served(path: str, who: str = "") -> str:
    return f'{who}INFO:     10.0.0.7:51022 - "{path} HTTP/1.1" 200 OK'


SGLANG = {
    **{f"sglang {version}": text(*sglang_start(version)) for version in ("0.5.9", "0.5.11", "0.5.23")},
    "sglang on one card": text(*sglang_start("0.5.11", ranks=("",))),
    "sglang without peer access": text(*sglang_start()[:8], HARMLESS[0].line, *sglang_start()[8:]),
    "sglang with a full cache": text(*sglang_start(), *[HARMLESS[1].line] * 40),
    "sglang refuses a long request": text(
        *sglang_start(), HARMLESS[2].line, served("POST /generate").replace("200", "400")
    ),
    "sglang with deprecated endpoints": text(
        *sglang_start(),
        *[
            f"{stamp(50)} Endpoint '{path}' is deprecated and will be removed in a future version."
            for path in ("/get_server_info", "/get_model_info", "/get_load")
        ],
    ),
    "sglang shows a question that quotes errors": text(
        *sglang_start(),
        f"{stamp(50)} Receive: obj=GenerateReqInput(rid='1', text='Why do I get {WORDS}?')",
        f"{stamp(51)} Finish: obj=GenerateReqInput(rid='1', text='{ERROR}'), out={{'text': 'Because {WORDS}'}}",
    ),
    "sglang's access log quotes errors": text(*sglang_start(), served(f"GET /v1/models?why={WORDS}", f"{stamp(50)} ")),
    "sglang's arguments quote errors": text(
        f"{stamp(2)} server_args=ServerArgs(chat_template='{WORDS}')", *sglang_start()
    ),
    "sglang drains": text(
        *sglang_start(),
        f"{stamp(90)} SIGTERM received. signum=None frame=None. Draining requests and shutting down...",
        f"{stamp(95)} Gracefully exiting... Remaining number of requests 0. Remaining requests remaining_rids=[].",
    ),
    "sglang that warns": text(
        "Ignored error: libmlx5.so: cannot open shared object file: No such file or directory",
        "WARNING: No module named 'flash_attn', going on without it",
        "WARNING: /etc/numa.conf: Permission denied, using defaults",
        f"{stamp(3)} WARNING: {ERROR}",
        "[rank0]:[W1130 09:00:31.112 ProcessGroupNCCL.cpp:1] Warning: NCCL error in: destroy, unhandled system error",
        *sglang_start(),
    ),
    "sglang whose lines end as on Windows": text(*sglang_start()).replace("\n", "\r\n"),
}

VLLM = {
    "vllm": text(*vllm_start()),
    "vllm on two cards": text(*vllm_start("Worker_TP0"), *vllm_start("Worker_TP1")),
    "vllm without peer access": text(
        *vllm_start(),
        vllm_line(
            "WARNING", "Custom allreduce is disabled because your platform lacks GPU P2P capability", "Worker_TP1"
        ),
    ),
    "vllm refuses a long request": text(*vllm_start(), HARMLESS[-1].line),
    "vllm shows a question that quotes errors": text(
        *vllm_start(),
        vllm_line(
            "INFO", f"Received request cmpl-1: prompt: 'What is {WORDS} and {ERROR}', params: None.", "APIServer"
        ),
        vllm_line("INFO", f"Generated response cmpl-1: output: '{WORDS}'", "APIServer"),
    ),
    "vllm's access log quotes errors": text(
        *vllm_start(), served(f"POST /v1/completions?x={WORDS}", "(APIServer pid=7) ")
    ),
    "vllm that warns of what it tries again": text(
        vllm_line("WARNING", f"Could not compile, going on without: {WORDS}"), *vllm_start()
    ),
}

LLAMA = {
    "llama-server": text(*llama_start()),
    "llama-server with a notice": text(
        "NOTICE: server default port will be changed to :9931 in a future release", *llama_start()
    ),
    "llama-server shows a question that quotes errors": text(
        *llama_start(), f'srv  log_server_r: request:  {{"prompt": "{WORDS}, failed to load model"}}'
    ),
}

CUSTOM = {"a command of one's own": text("starting", served(f"GET /?q={WORDS}"), "ready")}

HEALTHY = [
    (engine, name, log)
    for engine, logs in (("sglang", SGLANG), ("vllm", VLLM), ("llama_server", LLAMA), ("custom", CUSTOM))
    for name, log in logs.items()
]
