"""Follow one launch on its host: its log into the job's, how far it is, who listens, whether it lives."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Generator, Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from django.utils import timezone

from deployments.decisions.readiness import Listener, Readiness
from deployments.engines.progress import Phases, Progress
from deployments.joblog import LogReplaced, ServerLog, pieces_of
from deployments.lifecycle import CheckStatus
from deployments.models import Launch
from deployments.remote import run as remote
from deployments.remote.script import Said
from deployments.steps.base import StepContext
from hosts.transport.base import Transport

SHOW_SECONDS = 1.0
"""How often at most the page is drawn anew because the start has come further."""
LAST_LOOK_SECONDS = 1


class ServerEnded(Exception):
    """The process is gone; ``code`` is its exit code, None when it was not recorded."""

    def __init__(self, code: int | None) -> None:
        super().__init__(f"exit code {code}")
        self.code = code


class NotReadyInTime(Exception):
    """The limit has passed and the server still lives."""


@dataclass
class Start:
    """One launch as it comes up: what was seen of it so far."""

    ctx: StepContext
    row: Launch
    log: ServerLog
    readiness: Readiness
    progress: Progress
    phases: Phases | None = field(default_factory=Phases)
    """None: it was not followed from its beginning, so how long it was where is not known."""
    _shown_at: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, ctx: StepContext, row: Launch) -> Start:
        """With what an earlier worker has stored of its log."""
        own = ctx.revision.ready_pattern
        patterns = [re.compile(re.escape(own))] if own else list(ctx.engine.ready)
        log = ctx.log.server(row, step=ctx.step.name)
        start = cls(ctx, row, log, Readiness(patterns), Progress(ctx.engine.stages))
        if "until" in ctx.step.data:  # somebody has followed it before
            start.phases = None
        for _, text in stored(ctx, row):
            start.read(text)
            start.phases = None
        return start

    def read(self, text: str) -> None:
        """The next piece of its log."""
        self.readiness.read(text)
        self.progress.read(text)

    def follow(self, transport: Transport, *, until: datetime) -> None:
        """Until it may be ready. Raises ServerEnded, or NotReadyInTime."""
        while True:
            script = _script(self, transport, seconds=int((until - timezone.now()).total_seconds()))
            with contextlib.suppress(LogReplaced), contextlib.closing(script) as lines:
                for said in lines:
                    self._take(said)
                    if self.readiness.may_be_ready:
                        self.show()
                        return
                raise NotReadyInTime

    def look_once_more(self, transport: Transport) -> None:
        """Raises ServerEnded when it has ended meanwhile: what it did not answer is then no wonder."""
        script = _script(self, transport, seconds=LAST_LOOK_SECONDS)
        with contextlib.suppress(LogReplaced), contextlib.closing(script) as lines:
            for said in lines:
                self._take(said)

    def _take(self, said: Said) -> None:
        self.read(self.log.take(said))
        if self.phases is not None:
            self.phases.saw(self.progress.reached, at=time.monotonic())
        match said.word:
            case "listen":
                before = self.readiness.listener
                self.readiness.listener = Listener(said.rest[0])
                if self.readiness.listener != before and not self.readiness.may_be_ready:
                    self.show()
            case "gpu":
                self.ctx.reading_said(said.rest)
            case "rebooted":
                raise ServerEnded(None)
            case "exited":
                self.read(self.log.flush())
                raise ServerEnded(int(said.rest[0]) if said.rest[0].lstrip("-").isdigit() else None)
        self._show_progress()

    def timings(self) -> dict[str, Any]:
        """How long it was at each stage, up to now; empty where that is not known. For a JSON field."""
        found = self.phases.lengths(end=time.monotonic()) if self.phases is not None else []
        return {"phases": found} if found else {}

    def _show_progress(self) -> None:
        reached = self.progress.reached
        if reached is None or time.monotonic() - self._shown_at < SHOW_SECONDS:
            return
        facts = asdict(reached)
        if facts != self.ctx.step.data.get("reached"):
            self._shown_at = time.monotonic()
            self.ctx.remember(reached=facts)

    def show(self) -> None:
        """What is needed to be ready, and how much of it was seen."""
        ctx, said, listener = self.ctx, self.readiness.said_ready, self.readiness.listener
        words = {Listener.OURS: "this server", Listener.OTHER: "another process", Listener.NOBODY: "nobody yet"}
        line = ctx.measured(
            "ready line",
            "Says ready in its own log",
            CheckStatus.OK if said else CheckStatus.NOT_OK,
            value="yes" if said else "not yet",
            source="log",
        )
        owner = ctx.measured(
            "listener",
            f"Who listens on port {ctx.revision.port}",
            CheckStatus.OK if listener == Listener.OURS else CheckStatus.NOT_OK,
            value=words[listener],
            limit="this server",
            source="/proc/net/tcp",
        )
        ctx.show([line, owner])


def stored(ctx: StepContext, row: Launch) -> Iterator[tuple[int, str]]:
    """The launch's log as far as it is stored; of a large one the reading takes its time."""
    for piece in pieces_of(row):
        ctx.tick()
        yield piece


def _script(start: Start, transport: Transport, *, seconds: int) -> Generator[Said, None, None]:
    ctx, row = start.ctx, start.row
    script = remote.script_for(
        ctx.deployment,
        "follow",
        fence=ctx.claim.fence,
        boot_id=row.boot_id,
        launch=str(row.pk),
        pid=row.pid,
        start_was=row.start_time,
        port=row.revision.port if row.revision else ctx.deployment.port,
        **start.log.asked,
        cards=ctx.placement.gpu_uuids,
        seconds_max=max(1, seconds),
    )
    return remote.follow(transport, script, tick=ctx.tick)
