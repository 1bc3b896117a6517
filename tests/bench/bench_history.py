"""How long the pages of the history take when it is long: list, filter and search, as a browser asks for them."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from statistics import median, quantiles

from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from controlpanel import preparation
from tests.bench.figures import tell

JOBS = 200_000
LINES = 2_000_000
CHUNK_LINES = 20
BATCH = 5_000
GOAL_MS = 150
NAMES = [f"chat-{number}" for number in range(200)]
PEOPLE = ["ana", *(f"person-{number}" for number in range(30))]
KINDS = ["restart", "restart", "start", "stop"]
STATES = ["succeeded"] * 90 + ["failed"] * 8 + ["cancelled", "expired"]
WORDS = ["loading", "weights", "shard", "server", "ready", "request", "batch", "token", "cache", "graph", "warning"]
NEEDLE = "NCCL timeout"
"""In one log of a thousand."""


def run(directory: Path, *, jobs: int = 0, lines: int = 0) -> dict[str, list[float]]:
    """Fill the panel's tables, ask for pages, print; returns the milliseconds of each kind of page."""
    jobs = jobs or int(os.environ.get("JOBS") or JOBS)
    lines = lines or int(os.environ.get("LINES") or LINES)
    call_command("migrate", verbosity=0)
    began = time.monotonic()
    fill(jobs=jobs, lines=lines)
    preparation.analyse()  # as at each start of the panel
    print(f"history: {jobs} jobs and {lines} lines of log written in {time.monotonic() - began:.0f} s")
    taken = measure(reader(), jobs=jobs, runs=int(os.environ.get("RUNS") or "40"))
    for kind, milliseconds in taken.items():
        p95 = quantiles(milliseconds, n=20)[-1]
        print(f"  {kind}: median {median(milliseconds):.0f} ms, most {max(milliseconds):.0f} ms")
        tell(f"history_{kind}_p95", round(p95, 1), "ms", goal=f"<={GOAL_MS}", peer="none", ok=p95 <= GOAL_MS)
    return taken


def fill(*, jobs: int, lines: int) -> None:
    """Jobs over three years, two steps each, and their logs."""
    from deployments.models import Job, JobStep, LogChunk

    chance = random.Random(7)
    last = Job.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    chunks_each = max(1, lines // CHUNK_LINES // jobs)
    now = timezone.now()
    for first in range(last + 1, last + jobs + 1, BATCH):
        keys = range(first, min(first + BATCH, last + jobs + 1))
        ages = {key: timedelta(days=1000) * (last + jobs - key) / jobs for key in keys}
        Job.objects.bulk_create(_job(key, chance, now - ages[key]) for key in keys)
        JobStep.objects.bulk_create(
            JobStep(job_id=key, position=at, name=name, state="done")
            for key in keys
            for at, name in enumerate(("stop", "launch"))
        )
        LogChunk.objects.bulk_create(
            LogChunk(job_id=key, seq=seq, source="server", step="launch", text=_text(key, chance))
            for key in keys
            for seq in range(1, chunks_each + 1)
        )
        _set_times({key: now - age for key, age in ages.items()})


def _job(key: int, chance: random.Random, at: object) -> object:
    from deployments.models import Job

    name = chance.choice(NAMES)
    return Job(
        pk=key, deployment_name=name, host_name=f"gpu-{NAMES.index(name) % 40}", kind=chance.choice(KINDS),
        state=chance.choice(STATES), requested_by_name=chance.choice(PEOPLE), approved_by_name=chance.choice(PEOPLE),
        reason="More context", summary="It serves.", started_at=at, ended_at=at, plan={"text": "x" * 3000},
    )  # fmt: skip


def _set_times(times: dict[int, object]) -> None:
    """The moment of a job is set by the database's own rule when it is made."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.executemany(
            "UPDATE deployments_job SET created_at = %s WHERE id = %s", [(at, key) for key, at in times.items()]
        )


def _text(key: int, chance: random.Random) -> str:
    lines = [f"[2026-11-30 12:00:00] INFO {' '.join(chance.choices(WORDS, k=8))} {key}" for _ in range(CHUNK_LINES)]
    if key % 1000 == 7:
        lines[3] = f"[rank0] {NEEDLE} after 600 s"
    return "\n".join(lines) + "\n"


def reader() -> Client:
    """Somebody who may look, signed in."""
    user, _ = User.objects.get_or_create(username="bench")
    user.groups.add(Group.objects.get(name="viewer"))
    client = Client(headers={"host": "localhost"})
    client.force_login(user)
    return client


def measure(client: Client, *, jobs: int, runs: int) -> dict[str, list[float]]:
    """Milliseconds of each page, by kind."""
    chance = random.Random(11)
    client.get("/jobs/")  # templates are compiled once
    asked = {"list": _lists(chance, jobs), "filter": _filters(chance), "search": _searches(chance, jobs)}
    return {kind: [_milliseconds(client, next(paths)) for _ in range(runs)] for kind, paths in asked.items()}


def _milliseconds(client: Client, path: str) -> float:
    began = time.perf_counter()
    answer = client.get(path)
    taken = 1000 * (time.perf_counter() - began)
    assert answer.status_code == 200, path
    if os.environ.get("TELL"):
        print(f"    {taken:6.1f} ms {path}")
    return taken


def _lists(chance: random.Random, jobs: int) -> Iterator[str]:
    while True:
        yield "/jobs/"
        yield f"/jobs/?before={chance.randint(1, jobs)}"


def _filters(chance: random.Random) -> Iterator[str]:
    today = timezone.now().date()
    while True:
        name, person = chance.choice(NAMES), chance.choice(PEOPLE)
        long_ago = today - timedelta(days=chance.randint(100, 900))
        yield f"/jobs/?deployment={name}"
        yield f"/jobs/?deployment={name}&state=expired&kind=stop"
        yield f"/jobs/?host=gpu-{chance.randint(0, 39)}&person={person}"
        yield f"/jobs/?person={person}"
        yield f"/jobs/?state=failed&until={long_ago}"
        yield f"/jobs/?since={long_ago}&until={long_ago + timedelta(days=3)}&kind=stop"
        yield f"/jobs/?person={person}&state=cancelled&since={long_ago}"
        yield "/jobs/?deployment=nobody&state=failed"


def _searches(chance: random.Random, jobs: int) -> Iterator[str]:
    while True:
        yield "/jobs/?text=weights"
        yield f"/jobs/?text={NEEDLE.replace(' ', '+')}"
        yield "/jobs/?text=nobody+ever+said+this"
        yield f"/jobs/?text=NCCL&before={chance.randint(1, jobs)}"
        yield f"/jobs/?text=NCCL&deployment={chance.choice(NAMES)}"
