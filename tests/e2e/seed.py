"""Fills a panel with one of everything that pages show: ``python -m tests.e2e.seed``, on RELAUNCH_DATA_DIR.

Prints the addresses of the pages, by name, as JSON. Nothing of it is on a real host: nobody has its address. With the
number of a job and a text it adds that to the job's log.
"""

import json
import sys
from datetime import timedelta
from typing import Any


def main() -> None:
    """Make the rows, print where they are shown; or say something in a job's log."""
    import django

    django.setup()
    from deployments.models import Job
    from tests import factories

    if len(sys.argv) > 2:
        factories.make_log(Job.objects.get(pk=sys.argv[1]), sys.argv[2])
        return
    host = factories.make_host(name="gpu-9", address="192.0.2.9")
    factories.make_key(host)
    findings = [{"key": "login", "status": "ok", "label": "Login", "text": "root by SSH", "fix": ""}]
    factories.make_host_test(host, findings=findings)
    cards = [factories.make_gpu(host, used_mib=31000), factories.make_gpu(host), factories.make_gpu(host)]
    factories.make_memory(host)
    deployment = factories.make_deployment(host=host, gpus=cards[:2], name="chat-27b", production=True)
    revision = factories.make_revision(deployment.profile, argv=[*factories.ARGV, "--disable-radix-cache"])
    print(json.dumps(_pages(deployment, host, revision) | _jobs(deployment, cards[0])))


def _pages(deployment: Any, host: Any, revision: Any) -> dict[str, str]:
    profile = f"/profiles/{deployment.profile_id}/"
    own, machine = f"/deployments/{deployment.pk}/", f"/hosts/{host.pk}/"
    first = deployment.revision_id
    return {
        "overview": "/",
        "deployments": "/deployments/",
        "deployment_new": "/deployments/new/",
        "deployment": own,
        "deployment_edit": f"{own}edit/",
        "secrets": f"{own}secrets/",
        "standing_allow": f"{own}standing/",
        "lease": f"{machine}lease/",
        "plan_restart": f"{own}restart/",
        "plan_stop": f"{own}stop/",
        "benchmark_form": f"{own}benchmark/",
        "clone": f"{own}clone/",
        "clone_check": _clone_check(deployment),
        "replace": f"{own}replace/",
        "profiles": "/profiles/",
        "profile_new": "/profiles/new/",
        "profile_import": "/profiles/import/",
        "profile": profile,
        "revise": f"{profile}revise/",
        "profile_clone": f"{profile}clone/",
        "compare": f"{profile}compare/?left={first}&right={revision.pk}",
        "hosts": "/hosts/",
        "host_add": "/hosts/add/",
        "host": machine,
        "host_edit": f"{machine}edit/",
        "jobs": "/jobs/",
        "jobs_none": "/jobs/?deployment=nobody",
        "audit": "/audit/",
        "people": "/people/",
        "audit_verified": "/audit/?verify=1",
    }


def _clone_check(deployment: Any) -> str:
    """A finished look at another host, with its model read."""
    from django.utils import timezone

    from deployments.fit import store
    from deployments.models import CloneCheck
    from tests import factories
    from tests.deployments.fit.models import QWEN3_8B, files

    other = factories.make_host(name="gpu-8", address="192.0.2.8")
    cards = [factories.make_gpu(other, name="NVIDIA L40S") for _ in range(2)]
    revision = deployment.revision
    store.keep(other, "/models/qwen-27b", "", files(QWEN3_8B, 28e9))
    row = {
        "label": "Cards",
        "here": "2 x RTX",
        "there": "2 x L40S",
        "status": "info",
        "detail": "Another kind of card.",
    }
    check = CloneCheck.objects.create(
        deployment=deployment, revision=revision, name="moved", host=other, gpu_uuids=[card.uuid for card in cards],
        started_at=timezone.now(), finished_at=timezone.now(), rows=[row],
    )  # fmt: skip
    return check.get_absolute_url()


def _jobs(deployment: Any, card: Any) -> dict[str, str]:
    from django.utils import timezone

    from tests import factories

    now = timezone.now()
    done = factories.make_job(deployment, at_step=6, state="succeeded", ended_at=now, approved_by_name="ana")
    for step in done.steps.all():
        factories.make_check(step)
        factories.make_effect(step)
    factories.make_launch(
        deployment,
        job=done,
        memory_before={card.uuid: 4},
        timings={"phases": [["loading the weights", 41.5]]},
        completion="Hi",
    )
    factories.make_readings(done, card, 31000, 4, 4, 12000, 30500)
    factories.make_log(done, *_log())
    failed = factories.make_job(deployment, at_step=4, failed=True, state="failed", ended_at=now, diagnosis=DIAGNOSIS)
    factories.make_log(failed, "Starting.\n", source="panel")
    factories.make_log(failed, "torch.OutOfMemoryError: CUDA out of memory.\n")
    second = factories.make_deployment(host=card.host, gpus=[card], name="second")
    waiting = factories.make_job(second, at_step=0, state="waiting", plan=PLAN)
    factories.make_gate(waiting, expires_at=now + timedelta(days=9))
    third = factories.make_deployment(host=card.host, gpus=[card], name="third", state="crashed")
    asking = factories.make_job(third, at_step=3, state="waiting", touched=True)
    kill = factories.make_choice("kill", label="Kill these processes", action="confirm_kill", danger=True)
    factories.make_gate(
        asking, kind="not free", title="GPU 1 is not free", evidence=EVIDENCE, expires_at=now + timedelta(days=9),
        choices=[factories.make_choice("look", label="Look again"), kill],
    )  # fmt: skip
    long = factories.make_job(third, at_step=6, state="succeeded", ended_at=now)
    factories.make_log(long, "Plan.\n", source="panel", step="plan")
    factories.make_log(long, *long_log())
    jobs = _standing(third, second, card) | {
        "job_long": long,
        "job": done,
        "job_failed": failed,
        "job_plan": waiting,
        "job_gate": asking,
    }
    return {name: f"/jobs/{job.pk}/" for name, job in jobs.items()}


def _standing(crashed: Any, tuned: Any, card: Any) -> dict[str, Any]:
    """A standing approval of each kind, one that is asked for, and a host on which jobs had to ask often."""
    from django.contrib.auth.models import Group, User
    from django.utils import timezone

    from deployments.models import StandingApproval
    from tests import factories

    now = timezone.now()
    ben = User.objects.create(username="ben")
    ben.groups.set(Group.objects.filter(name="approver"))
    given = {"given_by": ben, "given_by_name": "ben", "given_at": now, "expires_at": now + timedelta(days=9)}
    type(crashed).objects.filter(pk=crashed.pk).update(crash_starts_per_hour=3)
    StandingApproval.objects.create(
        kind="after a crash", deployment=crashed, per_hour=3, reason="Nobody is there at night.", **given
    )
    lease = {
        "kind": "tuning",
        "host": card.host,
        "gpu_uuids": [card.uuid],
        "holder": ben,
        "holder_name": "olga",
        "hours": 4,
    }
    StandingApproval.objects.create(**lease, **given)
    StandingApproval.objects.create(**lease, reason="More context for the long documents of the legal team.")
    fourth = factories.make_deployment(host=card.host, gpus=[card], name="fourth")
    later = factories.make_job(fourth, at_step=0, state="waiting", plan=PLAN)
    factories.make_gate(later, kind="when idle", title="Waits until no request runs", expires_at=None)
    StandingApproval.objects.create(kind="when idle", job=later, begins_at=now + timedelta(hours=2), **given)
    for _ in range(3):
        asked = factories.make_job(fourth, at_step=6, state="succeeded", ended_at=now)
        factories.make_gate(asked, kind="not free", answer="anyway", answered_at=now)
    return {"job_later": later}


def _log() -> list[str]:
    colours = "".join(f"\x1b[{30 + n}mcolour {n}\x1b[0m and \x1b[1;{90 + n}mbold\x1b[0m\n" for n in range(8))
    bars = "".join(f"\rloading weights {n} %" for n in range(0, 101, 10)) + "\n"
    return [colours, bars, *(f"INFO line {n}: <b>{'x' * (n % 300)}</b>\n" for n in range(1, 400))]


def long_log() -> list[str]:
    """40,000 lines in chunks of a hundred; a chunk of ten ends in the middle of a line, which the next one ends."""
    lines = [f"[2026-11-30 12:00:00] INFO step {n}: loss {n % 97} <i>\n" for n in range(2, 40_002)]
    chunks = ["".join(lines[at : at + 100]) for at in range(0, len(lines), 100)]
    for number in range(0, len(chunks) - 1, 10):
        chunks[number], chunks[number + 1] = chunks[number][:-9], chunks[number][-9:] + chunks[number + 1]
    return chunks


DIAGNOSIS = {
    "cause": "The model does not fit on the card.",
    "fix": "Lower --mem-fraction-static or the context length.",
    "line": "torch.OutOfMemoryError: CUDA out of memory.",
    "log_seq": 2,
    "log_line": 0,
    "memory": "Memory was clean before the start.",
}
PROCESS = {
    "name": "sglang", "pid": 4242, "user": "root", "since": "2026-11-30T08:00:00+00:00", "gpus": [0, 1],
    "memory_mib": 31000, "command": "python -m sglang.launch_server --model-path /models/" + "qwen" * 20,
}  # fmt: skip
PLAN = {
    "stops": [PROCESS],
    "requests": 3,
    "flags": [{"flag": "--context-length", "running": "65536", "new": "131072", "proven": "65536"}],
    "flags_before": "Running",
    "warnings": [{"text": "The disk is nearly full.", "why": "2 GiB are left.", "todo": "Make room.", "blocks": False}],
    "sections": [{"title": "Place", "rows": [{"label": "Port", "value": "30000", "status": "ok", "detail": "free"}]}],
    "untouched": [PROCESS],
    "launch": {"command": "python -m sglang.launch_server --port 30000", "revision": "chat r2"},
    "way_back": {"possible": True, "text": "What was serving is started again."},
}
EVIDENCE = [
    {"text": "Ana's training, 14 h old, holds card 1."},
    {
        "table": {
            "head": ["Card", "In use", "Limit", "Holder"],
            "rows": [["GPU 1", "31 000 MiB", "68 MiB", "python3 train.py --very-long-argument=" + "x" * 60]],
        }
    },
]

if __name__ == "__main__":
    sys.exit(main())
