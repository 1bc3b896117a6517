"""llama-server: the real llama.cpp with its own HTTP server, holding memory of a simulated card.

The memory it holds: LLAMA_LAB_MIB (default 6000 MiB, none with `-ngl 0`), free LLAMA_LAB_RELEASE seconds after
its death (default 0).
"""

import argparse
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

from lab.engines.ledger import note_start
from lab.engines.llama_words import PRINTS, tell
from lab.gpus import hold

DEFAULT_MIB = "6000"
ALL_LAYERS = "auto"


class _Parser(argparse.ArgumentParser):
    """llama.cpp exits 1 on a wrong argument, without usage."""

    def error(self, message: str) -> NoReturn:
        print(f"error: {message.replace('unrecognized arguments', 'invalid argument')}", file=sys.stderr)
        sys.exit(1)


def build_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="llama-server", allow_abbrev=False)
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("-a", "--alias", default="tiny-random")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("-c", "--ctx-size", type=int, default=512)
    parser.add_argument("-ngl", "--gpu-layers", "--n-gpu-layers", default=ALL_LAYERS)
    parser.add_argument("-np", "--parallel", type=int, default=2)
    parser.add_argument("-t", "--threads", type=int, default=1)
    parser.add_argument("-b", "--batch-size", type=int, default=2048)
    parser.add_argument("-ub", "--ubatch-size", type=int, default=512)
    parser.add_argument("-fa", "--flash-attn", default="auto")
    parser.add_argument("-ctk", "--cache-type-k", default="f16")
    parser.add_argument("-ctv", "--cache-type-v", default="f16")
    parser.add_argument("-mg", "--main-gpu", type=int, default=0)
    parser.add_argument("--api-key", default=os.environ.get("LLAMA_API_KEY", ""))
    parser.add_argument("--timeout", type=int, default=3600)
    for switch in ("--metrics", "--jinja", "--slots", "--no-slots", "--props", "--mlock", "--no-mmap"):
        parser.add_argument(switch, action="store_true")
    return parser


def main() -> None:
    """Serve until SIGTERM (exit 0). Port taken, model missing, no memory: exit 1 with llama.cpp's last line."""
    if asked := next((word for word in sys.argv[1:] if word in PRINTS), ""):
        tell(asked)
    args = build_parser().parse_args()
    note_start("llama-server", port=args.port)
    _check_port(args.host, args.port)
    print("main: loading model", flush=True)
    if not Path(args.model).is_file():
        print(f"llama_model_load: error loading model: failed to open {args.model}: No such file or directory")
        _fail("main: exiting due to model loading error")
    _take_memory(args)
    server = _start(args)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):  # before this line the default action ends the process
        signal.signal(number, lambda *_: stop.set())
    print(f"main: server is listening on {server.listening_address}", flush=True)
    stop.wait()
    del server


def _check_port(host: str, port: int) -> None:
    """llama.cpp opens its port before it loads, so a conflict shows at once."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            print(f"start: couldn't bind HTTP server socket, hostname: {host}, port: {port}", flush=True)
            _fail("main: exiting due to HTTP server error")


def _take_memory(args: argparse.Namespace) -> None:
    mib = int(os.environ.get("LLAMA_LAB_MIB", DEFAULT_MIB))
    cards = hold.visible_cards()
    if args.gpu_layers == "0" or not cards or not mib:
        return
    delay = float(os.environ.get("LLAMA_LAB_RELEASE", "0"))
    try:
        hold.take(cards[args.main_gpu], mib=mib, mode="delay" if delay else "normal", delay=delay)
    except (hold.HoldError, IndexError):
        print(f"ggml_backend_cuda_buffer_type_alloc_buffer: allocating {mib:.2f} MiB on device 0: "
              "cudaMalloc failed: out of memory")  # fmt: skip
        _fail("main: exiting due to model loading error")


def _start(args: argparse.Namespace) -> Any:
    """The real server, listening; an xllamacpp.Server."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = args.model
    params.hostnames = [args.host]
    params.port = args.port
    params.model_alias = {args.alias}
    params.n_ctx = args.ctx_size
    params.n_parallel = args.parallel
    params.cpuparams.n_threads = args.threads
    params.n_threads_http = 2
    params.endpoint_metrics = args.metrics
    params.warmup = False
    if args.api_key:
        params.api_keys = [args.api_key]
    try:
        return xllamacpp.Server(params)
    except RuntimeError as error:
        print(error, flush=True)
        _fail("main: exiting due to model loading error")


def _fail(line: str) -> NoReturn:
    print(line, flush=True)
    sys.exit(1)
