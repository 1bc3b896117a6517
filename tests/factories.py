"""Rows for tests: each function makes one thing with sensible values; keywords override them."""

from __future__ import annotations

from datetime import timedelta
from itertools import count
from typing import Any

from django.utils import timezone

from deployments.joblog import pieces_of
from deployments.lifecycle import JobKind, JobState, StepState
from deployments.loglines import LineCount
from deployments.models import (
    Benchmark,
    Check,
    Deployment,
    Effect,
    Gate,
    Job,
    JobReading,
    JobStep,
    Launch,
    LogChunk,
    Placement,
    Profile,
    Revision,
)
from hosts.history.thinning import STEPS as STEPS_OF_MEMORY
from hosts.history.thinning import Block, block_start, pack
from hosts.models import Gpu, Host, HostKey, HostTest, MemoryBlock

_numbers = count(1)
STEPS = ("plan", "drain", "stop", "verify", "launch", "check")
ARGV = [
    "/opt/sglang/bin/python", "-m", "sglang.launch_server", "--model-path", "/models/qwen-27b", "--tp", "2",
    "--mem-fraction-static", "0.88", "--context-length", "131072", "--kv-cache-dtype", "auto", "--port", "30000",
]  # fmt: skip


def make_host(**values: Any) -> Host:
    """A reachable host by SSH."""
    number = next(_numbers)
    usual = {
        "name": f"gpu-{number}", "address": f"10.0.0.{number % 250 + 1}", "user": "root", "reach": Host.Reach.REACHABLE,
        "reach_since": timezone.now(), "last_seen_at": timezone.now(),
    }  # fmt: skip
    return Host.objects.create(**(usual | values))


def make_gpu(host: Host, **values: Any) -> Gpu:
    """A card with a fresh reading."""
    number = next(_numbers)
    index = values.get("index", host.gpus.count())
    usual = {
        "uuid": f"GPU-{number:08d}-aaaa-bbbb-cccc-1234567890ab", "index": index, "name": "NVIDIA RTX 6000 Ada",
        "bus_id": f"00000000:{index + 1:02X}:00.0", "total_mib": 49140, "driver_version": "580.95.05",
        "baseline_mib": 4, "used_mib": 4,
        "utilization_percent": 0, "temperature_c": 34, "read_at": timezone.now(), "source": "nvidia-smi",
    }  # fmt: skip
    return Gpu.objects.create(host=host, **(usual | values))


def make_memory(host: Host, seconds: int = 3600) -> None:
    """Readings of the host's cards until now: each goes up and down in its own time, with a peak of a second."""
    now = int(timezone.now().timestamp())
    for step in STEPS_OF_MEMORY:
        blocks: dict[int, Block] = {}
        for at in range(now - min(seconds, 60 * 60 * step), now, step):
            start = block_start(at, step)
            block = blocks.setdefault(start, Block(step, start))
            for gpu in host.gpus.all():
                used = 400 + at // (300 * (gpu.index + 1)) % 7 * 5000
                block.add(gpu.uuid, at, (used, used + 9000 if at // step % 97 == 0 else used))
        MemoryBlock.objects.bulk_create(
            MemoryBlock(host=host, step=step, start=start, cards=pack(block)) for start, block in blocks.items()
        )


def make_key(host: Host, **values: Any) -> HostKey:
    """A key that was offered and is not trusted yet."""
    usual = {
        "key_type": "ssh-ed25519", "key_base64": "AAAAC3NzaC1lZDI1NTE5AAAAIK",
        "fingerprint": "SHA256:3Rv0ZqJ7yVnYQf1mQx0m4X2hQm1bq8v0nJ5kX9wT2uE",
    }  # fmt: skip
    return HostKey.objects.create(host=host, **(usual | values))


def make_host_test(host: Host, **values: Any) -> HostTest:
    """A finished test of a connection."""
    now = timezone.now()
    usual = {"started_at": now - timedelta(seconds=3), "finished_at": now, "findings": []}
    return HostTest.objects.create(host=host, **(usual | values))


def make_profile(**values: Any) -> Profile:
    """A profile with its first revision."""
    profile = Profile.objects.create(**({"name": f"profile-{next(_numbers)}", "engine": "sglang"} | values))
    make_revision(profile)
    return profile


def make_revision(profile: Profile, **values: Any) -> Revision:
    """The next revision of a profile."""
    newest = profile.revisions.order_by("-number").first()
    usual = {"number": newest.number + 1 if newest else 1, "argv": ARGV, "env": {}, "port": 30000}
    return Revision.objects.create(profile=profile, **(usual | values))


def make_deployment(*, host: Host | None = None, gpus: list[Gpu] | None = None, **values: Any) -> Deployment:
    """A deployment on two cards. Each job of it is approved by a person: most tests walk that way."""
    host = host or make_host()
    gpus = [make_gpu(host), make_gpu(host)] if gpus is None else gpus
    revision = values.pop("revision", None) or make_profile().newest
    usual = {
        "name": f"chat-{next(_numbers)}", "port": revision.port, "state": "serving", "state_since": timezone.now(),
        "clean_start_by_itself": False,
    }  # fmt: skip
    made = Deployment.objects.create(revision=revision, profile=revision.profile, **(usual | values))
    Placement.objects.create(deployment=made, host=host, gpu_uuids=[gpu.uuid for gpu in gpus])
    return made


def make_job(deployment: Deployment, *, at_step: int | None = None, failed: bool = False, **values: Any) -> Job:
    """A job with its steps; those before ``at_step`` are done, that one is at work or failed."""
    usual = {
        "kind": JobKind.RESTART, "state": JobState.RUNNING, "deployment_name": deployment.name,
        "host_name": deployment.placement.host.name, "requested_by_name": "olga", "revision": deployment.revision,
        "reason": "More context", "started_at": timezone.now(),
    }  # fmt: skip
    job = Job.objects.create(deployment=deployment, **(usual | values))
    for position, name in enumerate(STEPS):
        make_step(job, position=position, name=name, state=_step_state(position, at_step=at_step, failed=failed))
    return job


def _step_state(position: int, *, at_step: int | None, failed: bool) -> StepState:
    if at_step is None or position > at_step:
        return StepState.PENDING
    if position < at_step:
        return StepState.DONE
    return StepState.FAILED if failed else StepState.RUNNING


def make_step(job: Job, **values: Any) -> JobStep:
    """A step of a job, with times where its state has them."""
    now = timezone.now()
    times = {
        StepState.DONE: {"started_at": now - timedelta(seconds=40), "ended_at": now - timedelta(seconds=30)},
        StepState.FAILED: {"started_at": now - timedelta(seconds=40), "ended_at": now},
        StepState.RUNNING: {"started_at": now - timedelta(seconds=20)},
    }
    return JobStep.objects.create(job=job, **(times.get(values["state"], {}) | values))


def make_check(step: JobStep, **values: Any) -> Check:
    """A measured fact that is all right."""
    usual = {
        "key": f"check-{next(_numbers)}", "label": "Memory of GPU 0", "status": "ok", "value": "4 MiB",
        "limit": "at most 68 MiB", "source": "nvidia-smi", "measured_at": timezone.now(),
    }  # fmt: skip
    return Check.objects.create(step=step, **(usual | values))


def make_effect(step: JobStep, **values: Any) -> Effect:
    """A signal that was sent."""
    usual = {
        "kind": "signal",
        "command": "kill -TERM 4242",
        "outcome": "sent",
        "fence": 1,
        "finished_at": timezone.now(),
    }
    return Effect.objects.create(job=step.job, step=step, **(usual | values))


def make_choice(key: str, **values: Any) -> dict[str, Any]:
    """One answer that a gate offers."""
    usual = {"label": key.capitalize(), "detail": "", "action": "ask", "danger": False, "needs_reason": False}
    return {"key": key, **usual, **values}


PLAN_CHOICES = [
    make_choice("approve", label="Approve and restart", action="approve"),
    make_choice("discard", detail="Nothing is touched."),
]


def make_gate(job: Job, **values: Any) -> Gate:
    """An open question of a job: the approval of its plan."""
    usual = {
        "kind": "plan", "title": "Approve the restart", "choices": PLAN_CHOICES, "plan_hash": "a" * 64,
        "expires_at": timezone.now() + timedelta(minutes=30), "step": job.steps.all()[0],
    }  # fmt: skip
    return Gate.objects.create(job=job, **(usual | values))


def make_launch(deployment: Deployment, **values: Any) -> Launch:
    """A launch that serves."""
    now = timezone.now()
    usual = {
        "revision": deployment.revision, "host": deployment.placement.host, "state": "serving", "started_at": now,
        "ready_at": now, "requested": {"argv": deployment.revision.argv, "port": deployment.port},
    }  # fmt: skip
    return Launch.objects.create(deployment=deployment, **(usual | values))


def make_log(job: Job, *texts: str, source: str = "server", step: str = "launch") -> list[LogChunk]:
    """Pieces of a job's log, numbered after those it has."""
    count = LineCount()
    for chunk in job.log.order_by("seq"):
        count.take(chunk.source, chunk.text)
    first = job.log.count() + 1
    chunks = []
    for seq, text in enumerate(texts, first):
        line, lines = count.take(source, text)
        chunks.append(LogChunk(job=job, seq=seq, source=source, text=text, step=step, line=line, lines=lines))
    return LogChunk.objects.bulk_create(chunks)


def make_readings(job: Job, gpu: Gpu, *used: int | None) -> None:
    """Memory readings of a card, one a second, the last one now."""
    now = timezone.now()
    JobReading.objects.bulk_create(
        JobReading(job=job, gpu_uuid=gpu.uuid, used_mib=mib, at=now - timedelta(seconds=len(used) - number))
        for number, mib in enumerate(used)
    )


def text_of(launch: Launch) -> str:
    """All that is stored of a launch's own log."""
    return "".join(text for _, text in pieces_of(launch))


LEVEL = {
    "at_once": 1, "answered": 3, "failed": 0, "seconds": 2.0, "tokens": 384, "tokens_per_second": 70.0,
    "each": {"middle": 70.0, "least": 69.0, "most": 71.0}, "first": {"middle": 0.2, "least": 0.1, "most": 0.4},
    "between": {"middle": 0.014, "least": 0.014, "most": 0.014},
    "acceptance": {"middle": 3.2, "least": 3.0, "most": 3.5}, "beside": 0, "error": "",
}  # fmt: skip


def make_benchmark(launch: Launch, *levels: dict[str, Any], **values: Any) -> Benchmark:
    """What was measured of a launch; each of ``levels`` says what is not as usual."""
    assert launch.revision is not None
    usual = {
        "revision": launch.revision, "engine_version": "0.5.9", "tokens": 128, "measured_at": timezone.now(),
        "cards": [{"uuid": "GPU-1", "label": "GPU 0", "name": "NVIDIA L40S"}],
        "levels": [{**LEVEL, **level} for level in levels or ({},)],
    }  # fmt: skip
    return Benchmark.objects.create(launch=launch, **(usual | values))
