"""The serving phase: uvicorn's lines and signals, the warm-up, and what happens when the port is taken."""

import asyncio
import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
from argparse import Namespace
from errno import EADDRINUSE

from . import logs
from .api import Api
from .engine import Workers
from .manager import Manager
from .model import Model
from .process import kill_tree
from .settings import Hints, scaled
from .web import WebServer

WARMUP_WAIT_SECONDS = 120
BIND_EXIT = 3
MODEL_INFO_SECONDS = 5
WARMUP_SECONDS = 600


class WarmupError(RuntimeError):
    """The first request failed."""


def serve(args: Namespace, model: Model, hints: Hints, workers: Workers) -> None:
    """Serve until a signal; ends the process."""
    asyncio.run(_serve(args, model, hints, workers))


async def _serve(args: Namespace, model: Model, hints: Hints, workers: Workers) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    if not hints.has("ignore-sigterm"):
        signal.signal(signal.SIGTERM, lambda *_: loop.call_soon_threadsafe(stop.set))
    manager = Manager(args, hints, workers)
    manager.listen_to_workers()
    web = WebServer(Api(args, model, manager))
    logs.web(f"Started server process [{os.getpid()}]")
    logs.web("Waiting for application startup.")
    warmup = threading.Thread(target=_warm_up, args=(args, hints, manager))
    warmup.start()  # before the port is known to be ours: this is why the ready line can lie
    logs.web("Application startup complete.")
    try:
        await web.start(args.host, args.port)
    except OSError as error:
        await _give_up(args, error, warmup)
    logs.web(f"Uvicorn running on http://{args.host}:{args.port} (Press CTRL+C to quit)")
    await stop.wait()
    await _shut_down(web, workers)


async def _give_up(args: Namespace, error: OSError, warmup: threading.Thread) -> None:
    """The port is taken. The exit waits for the warm-up, which is talking to whoever has the port."""
    if error.errno != EADDRINUSE:
        raise error
    logs.web(
        f"[Errno {error.errno}] error while attempting to bind on address ('{args.host}', {args.port}): "
        "address already in use",
        level="ERROR",
    )
    logs.web("Waiting for application shutdown.")
    logs.web("Application shutdown complete.")
    await asyncio.to_thread(warmup.join)
    kill_tree(itself=False)
    sys.stdout.flush()
    os._exit(BIND_EXIT)  # no exit handlers: multiprocessing would wait for what was just killed


async def _shut_down(web: WebServer, workers: Workers) -> None:
    """uvicorn's own end: no drain; the signal is raised again and kills the process."""
    logs.web("Shutting down")
    await web.stop()
    logs.web("Waiting for application shutdown.")
    logs.web("Application shutdown complete.")
    logs.web(f"Finished server process [{os.getpid()}]")
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


def _warm_up(args: Namespace, hints: Hints, manager: Manager) -> None:
    """In a thread of its own: wait for /model_info, send one request, say that the server is ready."""
    if args.skip_server_warmup:
        manager.status = "Up"
        logs.log("The server is fired up and ready to roll!", prefix="")
        return
    try:
        _wait_for_model_info(args)
        if hints.has("warmup-failed"):
            raise WarmupError("CUDA error: no kernel image is available for execution on the device")
        time.sleep(scaled(hints.warmup_seconds))
        body = {"text": "The capital city of France is", "sampling_params": {"temperature": 0, "max_new_tokens": 8}}
        status = _request(args, "POST /generate", json.dumps(body), timeout=WARMUP_SECONDS)
        if status != 200:
            raise WarmupError(f"status {status}")
    except Exception:  # as in the real one: whatever goes wrong here ends the server
        logs.log(f"Initialization failed. warmup error: {traceback.format_exc()}", prefix="")
        kill_tree(spare=manager.workers.spared)
    manager.status = "Up"
    logs.log("The server is fired up and ready to roll!", prefix="")


def _wait_for_model_info(args: Namespace) -> None:
    for _ in range(WARMUP_WAIT_SECONDS):
        time.sleep(scaled(1.0))
        try:
            if _request(args, "GET /model_info", timeout=scaled(MODEL_INFO_SECONDS)) == 200:
                return
        except OSError:
            continue
    raise WarmupError("no answer from /model_info")


def _request(args: Namespace, line: str, body: str = "", *, timeout: float) -> int:
    """Status of one request to whoever listens on our port. Raises OSError."""
    host = "127.0.0.1" if args.host in ("0.0.0.0", "::") else args.host
    key = f"Authorization: Bearer {args.api_key}\r\n" if args.api_key else ""
    head = f"{line} HTTP/1.1\r\nHost: {host}\r\n{key}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    with socket.create_connection((host, args.port), timeout=timeout) as connection:
        connection.sendall((head + body).encode())
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    words = answer.split(b" ", 2)
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
