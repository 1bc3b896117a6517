"""The tokenizer manager: which requests run, what they produce, and how the server drains."""

import asyncio
import os
import signal
import time
import uuid
from argparse import Namespace
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field

from . import logs, traits
from .engine import Workers
from .process import kill_tree
from .settings import Hints, scaled

POLL_SECONDS = 5.0
PIECE_SECONDS = 0.02
ACCEPT_CHANCE = 0.8
DRAFT_COST = 0.1
WORDS = (" Paris", ",", " which", " is", " the", " seat", " of", " government", " and", " a", " large", " city", ".")


@dataclass
class Generation:
    """One running request."""

    rid: str
    prompt_tokens: int
    max_tokens: int
    begun: float = field(default_factory=time.monotonic)
    done: int = 0
    aborted: bool = False


@dataclass
class Totals:
    """What /metrics counts."""

    requests: int = 0
    aborted: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    last_throughput: float = 0.0
    first_token_seconds: float = 0.0


class Manager:
    """One per server. Signal handlers are installed by its first request, as in the real one."""

    def __init__(self, args: Namespace, hints: Hints, workers: Workers) -> None:
        self.args, self.hints, self.workers = args, hints, workers
        self.status = "Starting"
        self.draining = False
        self.installed = False
        self.running: dict[str, Generation] = {}
        self.totals = Totals()
        self.room = asyncio.Semaphore(workers.report["max_running"])
        self.queued = 0
        self._number = 0
        self._answers = [0] * len(workers.lines)
        self._answered = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    def listen_to_workers(self) -> None:
        """Let answers of the schedulers wake those who wait for them."""
        loop = asyncio.get_running_loop()
        for index, line in enumerate(self.workers.lines):
            loop.add_reader(line.fileno(), self._read_answer, index)

    def install(self) -> None:
        """From the first request on SIGTERM drains and SIGQUIT ends."""
        if self.installed:
            return
        self.installed = True
        loop = asyncio.get_running_loop()
        if not self.hints.has("ignore-sigterm"):
            loop.add_signal_handler(signal.SIGTERM, self._drain)
        loop.add_signal_handler(signal.SIGQUIT, self._child_failed)
        self._start(self._watch())
        if traits.WATCHES_CHILDREN:
            self._start(self._watch_workers())

    @property
    def accept_length(self) -> float:
        """Tokens per step of speculative decoding; 1 without it."""
        steps = self.args.speculative_num_steps or 0 if self.args.speculative_algorithm else 0
        return sum(ACCEPT_CHANCE**n for n in range(steps + 1))

    @property
    def tokens_per_second(self) -> float:
        steps = self.args.speculative_num_steps or 0 if self.args.speculative_algorithm else 0
        return self.hints.tokens_per_second * self.accept_length / (1 + DRAFT_COST * steps)

    async def ask_workers(self) -> None:
        """Wait until every scheduler has answered once more; for ever when one is stuck or dead."""
        self._number += 1
        number = self._number
        for line in self.workers.lines:
            line.send(number)
        async with self._answered:
            await self._answered.wait_for(lambda: min(self._answers) >= number)

    async def generate(self, *, prompt: str, max_tokens: int, rid: str = "") -> AsyncIterator[Generation]:
        """Yield the request as it grows; its end is `max_tokens` or an abort."""
        self.install()
        request = Generation(rid or uuid.uuid4().hex, max(1, len(prompt.split())), max_tokens)
        self.running[request.rid] = request
        self.totals.requests += 1
        self.totals.prompt_tokens += request.prompt_tokens
        try:
            self.queued += 1
            async with self.room:
                self.queued -= 1
                await self.ask_workers()
                self._log_prefill(request)
                async for _ in self._grow(request):
                    yield request
        finally:
            del self.running[request.rid]

    async def _grow(self, request: Generation) -> AsyncIterator[None]:
        begun, logged = time.monotonic(), 0
        while request.done < request.max_tokens and not request.aborted:
            await asyncio.sleep(scaled(max(PIECE_SECONDS, self.accept_length / self.tokens_per_second)))
            elapsed = (time.monotonic() - begun) / scaled(1)
            fresh = min(request.max_tokens, max(1, int(elapsed * self.tokens_per_second))) - request.done
            if request.done == 0:
                self.totals.first_token_seconds = time.monotonic() - request.begun
            request.done += fresh
            self.totals.generated_tokens += fresh
            self.totals.last_throughput = self.tokens_per_second * len(self.running)
            if request.done - logged >= self.args.decode_log_interval:
                logged = request.done
                self._log_decode(request)
            if fresh:
                yield

    def text_of(self, request: Generation) -> str:
        """What the request has said so far."""
        if self.hints.has("empty"):
            return ""
        words = (" the",) if self.hints.has("repeating") else WORDS
        return "".join(words[n % len(words)] for n in range(request.done))

    def abort(self, rid: str, *, everything: bool) -> None:
        for request in self.running.values():
            if everything or request.rid == rid:
                request.aborted = True
                self.totals.aborted += 1

    def _read_answer(self, index: int) -> None:
        try:
            self._answers[index] = self.workers.lines[index].recv()
        except (EOFError, OSError):
            asyncio.get_running_loop().remove_reader(self.workers.lines[index].fileno())
            return
        self._start(self._announce())

    async def _announce(self) -> None:
        async with self._answered:
            self._answered.notify_all()

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)  # the loop itself keeps only a weak reference
        task.add_done_callback(self._tasks.discard)

    def _drain(self) -> None:
        logs.log("SIGTERM received. signum=None frame=None. Draining requests and shutting down...", prefix="")
        self.draining = True

    def _child_failed(self) -> None:
        logs.log("SIGQUIT received. signum=None, frame=None. It usually means one child failed.", prefix="")
        kill_tree(spare=self.workers.spared)

    async def _watch(self) -> None:
        """Looks every five seconds; new requests keep coming in meanwhile, and there is no deadline."""
        while not self.draining:
            await asyncio.sleep(scaled(POLL_SECONDS))
        while True:
            logs.log(
                f"Gracefully exiting... Remaining number of requests {len(self.running)}. "
                f"Remaining requests remaining_rids={list(self.running)}.",
                prefix="",
            )
            if not self.running:
                break
            await asyncio.sleep(scaled(POLL_SECONDS))
        kill_tree(spare=self.workers.spared, itself=not traits.EXITS_BY_ITSELF)
        os._exit(0)  # only a version that does not kill itself gets here

    async def _watch_workers(self) -> None:
        """Newer versions look each second whether a worker has died, and end then."""
        names = [f"scheduler_{rank}" for rank in range(len(self.workers.lines))] + ["detokenizer_0"]
        while True:
            await asyncio.sleep(scaled(1.0))
            for name, process in zip(names, self.workers.processes, strict=True):
                if process.exitcode is not None and not self.draining:
                    logs.log(
                        f"Subprocess {name} (pid={process.pid}) crashed with exit code {process.exitcode}. "
                        "Triggering SIGQUIT for cleanup...",
                        prefix="",
                    )
                    self._child_failed()

    def _log_prefill(self, request: Generation) -> None:
        logs.log(
            f"Prefill batch, #new-seq: 1, #new-token: {request.prompt_tokens}, #cached-token: 0, "
            f"token usage: 0.00, #running-req: {len(self.running) - 1}, #queue-req: {self.queued}, "
            "input throughput (token/s): 0.00, cuda graph: False",
            prefix=self._rank,
        )

    def _log_decode(self, request: Generation) -> None:
        spec = ""
        if self.args.speculative_algorithm:
            rate = self.accept_length / (self.args.speculative_num_draft_tokens or 1)
            spec = f"accept len: {self.accept_length:.2f}, accept rate: {rate:.2f}, "
        logs.log(
            f"Decode batch, #running-req: {len(self.running)}, #token: {request.prompt_tokens + request.done}, "
            f"token usage: 0.00, {spec}cuda graph: {not self.args.disable_cuda_graph}, "
            f"gen throughput (token/s): {self.totals.last_throughput:.2f}, #queue-req: {self.queued}",
            prefix=self._rank,
        )

    @property
    def _rank(self) -> str:
        return " TP0" if self.args.tp_size > 1 else ""
