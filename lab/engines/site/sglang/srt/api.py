"""The endpoints of SGLang that a panel or a client of it uses."""

import asyncio
import json
import sys
import time
from argparse import Namespace
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from . import VERSION, logs, traits
from .manager import Generation, Manager
from .metrics import loads, render
from .model import Model
from .settings import scaled
from .web import Request, Response, json_response

HEALTH_SECONDS = 1.0
HEALTH_LIMIT = 20.0
GIB = 1024
OPEN = ("/health", "/metrics", *(("/ready",) if traits.HAS_READY else ()))
ADMIN = frozenset(["/flush_cache", "/abort_request", "/pause_generation", "/continue_generation"])


class Api:
    """Routes, keys and answers."""

    def __init__(self, args: Namespace, model: Model, manager: Manager) -> None:
        self.args, self.model, self.manager = args, model, manager
        routes: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "GET /health": self.health,
            "GET /health_generate": self.health,
            "GET /ping": self.empty,
            "GET /model_info": self.model_info,
            "GET /get_model_info": self.model_info,
            "GET /server_info": self.server_info,
            "GET /get_server_info": self.server_info,
            "GET /v1/models": self.models,
            "GET /v1/loads": self.loads,
            "GET /get_load": self.get_load,
            "GET /flush_cache": self.flush_cache,
            "POST /flush_cache": self.flush_cache,
            "POST /abort_request": self.abort_request,
            "POST /generate": self.generate,
            "POST /v1/completions": self.completions,
            "POST /v1/chat/completions": self.chat,
        }
        if args.enable_metrics:
            routes["GET /metrics"] = routes["GET /metrics/"] = self.metrics
        if not traits.HAS_GET_LOAD:
            del routes["GET /get_load"]
        if traits.HAS_READY:
            routes["GET /ready"] = self.ready
        self.routes = routes

    async def __call__(self, request: Request) -> Response:
        if not self._allowed(request):
            return json_response({"error": "Unauthorized"}, status=401)
        handler = self.routes.get(f"{request.method} {request.path}")
        if handler is None:
            known = any(route.endswith(f" {request.path}") for route in self.routes)
            text = "Method Not Allowed" if known else "Not Found"
            return json_response({"detail": text}, status=405 if known else 404)
        if request.path in ("/get_model_info", "/get_server_info", "/get_load"):
            logs.log(f"Endpoint '{request.path}' is deprecated and will be removed in a future version.", prefix="")
        return await handler(request)

    def _allowed(self, request: Request) -> bool:
        """Health and metrics are open; an admin key, where there is one, is the only key of an admin endpoint."""
        if request.method == "OPTIONS" or request.path.startswith(OPEN):
            return True
        key = self.args.api_key
        if request.path in ADMIN and self.args.admin_api_key:
            key = self.args.admin_api_key
        return not key or request.headers.get("authorization") == f"Bearer {key}"

    async def empty(self, request: Request) -> Response:
        return Response()

    async def health(self, request: Request) -> Response:
        """Generates one token, so it takes a second; silence of the schedulers is an answer only after twenty."""
        self.manager.install()
        if self.manager.draining:
            logs.log("Health check request received during shutdown. Returning 503.", prefix="")
        if self.manager.draining or self.manager.status == "Starting":
            return Response(503)
        begun = time.strftime("%H:%M:%S")
        try:
            async with asyncio.timeout(scaled(HEALTH_LIMIT)):
                await asyncio.gather(self.manager.ask_workers(), asyncio.sleep(scaled(HEALTH_SECONDS)))
        except TimeoutError:
            self.manager.status = "UnHealthy"
            logs.log(
                "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. "
                f"tic start time: {begun}. last_heartbeat time: {begun}",
                prefix="",
            )
            return Response(503)
        self.manager.status = "Up"
        return Response()

    async def ready(self, request: Request) -> Response:
        return Response(200 if self.manager.status == "Up" and not self.manager.draining else 503)

    async def model_info(self, request: Request) -> Response:
        return json_response(
            {
                "model_path": self.args.model_path,
                "tokenizer_path": self.args.tokenizer_path,
                "is_generation": True,
                "preferred_sampling_params": None,
                "weight_version": "default",
                "has_image_understanding": self.model.is_multimodal,
                "has_audio_understanding": False,
                "model_type": "qwen3",
                "architectures": [self.model.architecture],
            }
        )

    async def server_info(self, request: Request) -> Response:
        """Keys in clear included, as in the real one; needs the schedulers."""
        self.manager.install()
        await self.manager.ask_workers()
        report = self.manager.workers.report
        state = {
            **vars(self.args),
            "kv_cache_dtype": report["kv_dtype"],
            "last_gen_throughput": self.manager.totals.last_throughput,
            "memory_usage": {
                "weight": round(report["weight_mib"] / GIB, 2),
                "kvcache": round(report["kv_mib"] / GIB, 2),
                "token_capacity": report["tokens"],
                "graph": self._graph_memory(report["graph_mib"]),
            },
            "effective_max_running_requests_per_dp": report["max_running"],
        }
        if self.args.speculative_algorithm and self.manager.totals.generated_tokens:
            state["avg_spec_accept_length"] = self.manager.accept_length
        more = {"launch_command": " ".join(sys.argv)} if traits.DICT_ARGUMENTS else {}
        return json_response(
            {
                **more,
                **vars(self.args),
                "status": "ready",
                "max_total_num_tokens": report["tokens"],
                "max_req_input_len": min(report["context"], report["tokens"]) - 6,
                "internal_states": [state],
                "version": VERSION,
            }
        )

    def _graph_memory(self, mib: int) -> float | dict[str, float]:
        """GiB; newer versions tell it by phase."""
        gib = round(mib / GIB, 2)
        return {"decode": gib, "prefill": 0.0} if traits.GRAPH_MEMORY_BY_PHASE else gib

    async def models(self, request: Request) -> Response:
        card = {
            "id": self.args.served_model_name,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "sglang",
            "root": self.args.served_model_name,
            "parent": None,
            "max_model_len": self.manager.workers.report["context"],
        }
        return json_response({"object": "list", "data": [card]})

    async def loads(self, request: Request) -> Response:
        return json_response(loads(self.manager, version=VERSION))

    async def get_load(self, request: Request) -> Response:
        running, waiting = len(self.manager.running), self.manager.queued
        row = {"dp_rank": 0, "num_reqs": running, "num_waiting_reqs": waiting, "num_tokens": 0}
        return json_response([row | {"ts_tic": time.time()}])

    async def metrics(self, request: Request) -> Response:
        return Response(body=render(self.manager).encode(), kind="text/plain; version=0.0.4")

    async def flush_cache(self, request: Request) -> Response:
        text = (
            "Cache flushed.\nPlease check backend logs for more details. (When there are running or waiting "
            "requests, the operation will not be performed.)\n"
        )
        return Response(400 if self.manager.running else 200, text.encode())

    async def abort_request(self, request: Request) -> Response:
        body = request.json()
        self.manager.abort(body.get("rid", ""), everything=bool(body.get("abort_all")))
        return Response()

    async def generate(self, request: Request) -> Response:
        body = request.json()
        sampling = body.get("sampling_params", {})
        prompt = body.get("text") or " ".join(map(str, body.get("input_ids", [])))
        growing = self.manager.generate(
            prompt=prompt, max_tokens=int(sampling.get("max_new_tokens", 128)), rid=body.get("rid") or ""
        )
        if body.get("stream"):
            return _events(self._generated(item) async for item in growing)
        return json_response(self._generated(await _last(growing)))

    def _generated(self, item: Generation) -> dict[str, Any]:
        finished = item.aborted or item.done >= item.max_tokens
        meta: dict[str, Any] = {
            "id": item.rid,
            "finish_reason": {"type": _reason(item), "length": item.done} if finished else None,
            "prompt_tokens": item.prompt_tokens,
            "completion_tokens": item.done,
            "cached_tokens": 0,
            "weight_version": "default",
            "total_retractions": 0,
        }
        if finished:
            meta["e2e_latency"] = time.monotonic() - item.begun
        if self.args.speculative_algorithm:
            meta["spec_accept_length"] = self.manager.accept_length
        return {"text": self.manager.text_of(item), "output_ids": [11] * item.done, "meta_info": meta}

    async def completions(self, request: Request) -> Response:
        return await self._openai(request, chat=False)

    async def chat(self, request: Request) -> Response:
        return await self._openai(request, chat=True)

    async def _openai(self, request: Request, *, chat: bool) -> Response:
        body = request.json()
        limit = body.get("max_completion_tokens") or body.get("max_tokens") or (64 if chat else 16)
        prompt = str(body.get("messages" if chat else "prompt", ""))
        growing = self.manager.generate(prompt=prompt, max_tokens=int(limit))
        if body.get("stream"):
            return _events(self._chunks(growing, chat=chat))
        item = await _last(growing)
        text = self.manager.text_of(item)
        usage = {"prompt_tokens": item.prompt_tokens, "completion_tokens": item.done}
        choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": _reason(item), "matched_stop": None}
        choice |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        kind = "chat.completion" if chat else "text_completion"
        total = {"total_tokens": item.prompt_tokens + item.done}
        return json_response(self._envelope(item, kind) | {"choices": [choice], "usage": usage | total})

    def _envelope(self, item: Generation, kind: str) -> dict[str, Any]:
        return {"id": item.rid, "object": kind, "created": int(time.time()), "model": self.args.served_model_name}

    async def _chunks(self, growing: AsyncIterator[Generation], *, chat: bool) -> AsyncIterator[dict[str, Any]]:
        sent = ""
        async for item in growing:
            text = self.manager.text_of(item)
            fresh, sent = text[len(sent) :], text
            finished = item.aborted or item.done >= item.max_tokens
            choice: dict[str, Any] = {"index": 0, "finish_reason": _reason(item) if finished else None}
            choice |= {"delta": {"role": "assistant", "content": fresh}} if chat else {"text": fresh}
            kind = "chat.completion.chunk" if chat else "text_completion"
            usage = {"prompt_tokens": item.prompt_tokens, "completion_tokens": item.done}
            yield self._envelope(item, kind) | {"choices": [choice], "usage": usage}


def _reason(item: Generation) -> str:
    return "abort" if item.aborted else "length"


async def _last(growing: AsyncIterator[Generation]) -> Generation:
    last = Generation("", 0, 0)
    async for item in growing:
        last = item
    return last


def _events(items: AsyncIterator[dict[str, Any]]) -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        async for item in items:
            yield b"data: " + json.dumps(item).encode() + b"\n\n"
        yield b"data: [DONE]\n\n"

    return Response(kind="text/event-stream; charset=utf-8", stream=pieces())
