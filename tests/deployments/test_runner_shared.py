"""Two servers on one card: who was planned beside it stays, and is counted; anybody else is asked about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User

from controlpanel.refusal import Refused
from deployments.lifecycle import JobKind, JobState
from deployments.models import CardClaim, Check, Deployment, Effect, Gate, Job, JobStep, Launch
from deployments.services.deployments import update_deployment
from hosts.models import Gpu
from hosts.services import confirm_baseline
from tests.deployments.machine import CARDS, Proc
from tests.deployments.support import Story
from tests.factories import make_deployment, make_launch

pytestmark = [pytest.mark.django_db, pytest.mark.jobs]

EMBEDDING_MIB = 5_000
FREE_BESIDE = 49_140 - 4 - EMBEDDING_MIB


@pytest.fixture
def embedder(serving: Story) -> Deployment:
    """Another deployment of ours, whose server holds 5,000 MiB of GPU 1 beside the one that is restarted."""
    place = serving.deployment.placement
    other = make_deployment(host=place.host, gpus=[place.gpus[1]], name="embedder")
    joins(serving, other, pid=9)
    serving.host.machine.cards[CARDS[1]] = 40_000 + EMBEDDING_MIB
    Deployment.objects.filter(pk=serving.deployment.pk).update(shared_need_mib=40_000)
    serving.deployment.shares_with.add(other)
    return other


def joins(story: Story, other: Deployment, *, pid: int, memory: int = EMBEDDING_MIB) -> None:
    """A server of ``other`` holds GPU 1 from now on."""
    other.launches.update(state="ended")
    launch = make_launch(other, pid=pid, start_time=pid * 10, boot_id=story.host.machine.boot)
    story.host.machine.add(Proc(pid, pid * 10, "embed", "embed --big", cards=(1,), log=str(launch.pk), memory=memory))


def beside(story: Story, *, then: Callable[[], object] | None = None, **limits: int) -> Job:
    """An approved restart, up to its next question or its end; ``then`` happens while the server stops."""
    usual = {"memory_seconds": 0, "stuck_seconds": 0, "port_seconds": 0}
    Deployment.objects.filter(pk=story.deployment.pk).update(**(usual | limits))
    story.request()
    story.approve()
    if then is not None:
        story.host.after["stop TERM"] = then  # type: ignore[assignment]
    return story.work()


def shown(key: str) -> tuple[str, str, str]:
    check = Check.objects.filter(key=key).latest("id")
    return check.status, check.value, check.limit


def choices(story: Story) -> list[str]:
    return [choice["key"] for choice in story.gate.choices]


def reasons(story: Story) -> str:
    return str(story.gate.evidence)


def signalled() -> set[int]:
    return {who[0] for effect in Effect.objects.all() for who in effect.target.get("processes", [])}


def test_a_restart_beside_a_co_tenant(serving: Story, embedder: Deployment) -> None:
    assert beside(serving).state == JobState.SUCCEEDED, serving.job.summary
    (row,) = serving.job.plan["co_tenants"]  # type: ignore[index]
    assert (row["pid"], row["deployment"], row["gpus"]) == (9, "embedder", ["GPU 1"])
    assert shown(f"memory {CARDS[0]}") == ("ok", "4 MiB", "68 MiB")
    assert shown(f"memory {CARDS[1]}") == ("ok", f"{FREE_BESIDE:,} MiB", "at least 40,000 MiB")
    assert shown("co-tenants") == ("ok", "0", "0")
    step = serving.job.steps.get(name="verify")
    assert "GPU 1 has 44,136 MiB free beside its co-tenants, GPU 0 is at the baseline" in step.summary
    assert 9 in serving.host.machine.procs and 9 not in signalled()
    assert serving.job.launches.get().memory_used == dict.fromkeys(CARDS, 40_000)


@pytest.mark.slow
def test_what_a_revision_was_measured_to_use_is_what_it_needs(serving: Story, embedder: Deployment) -> None:
    serving.host.uses = 30_000
    beside(serving)
    assert beside(serving, shared_need_mib=48_000).state == JobState.SUCCEEDED, serving.job.summary
    assert shown(f"memory {CARDS[1]}")[2] == "at least 30,000 MiB", "measured, not what was stated"


def test_without_a_known_need_a_person_is_asked(serving: Story, embedder: Deployment) -> None:
    Deployment.objects.filter(pk=serving.deployment.pk).update(shared_need_mib=None)
    assert beside(serving).state == JobState.WAITING
    assert "is not known" in serving.job.plan["warnings"][0]["text"]  # type: ignore[index]
    assert "how much memory this revision needs there" in reasons(serving)
    assert choices(serving) == ["again", "leave", "anyway"] and "launch start" not in serving.host.sent
    Deployment.objects.filter(pk=serving.deployment.pk).update(shared_need_mib=40_000)
    serving.answer("again")
    assert serving.work().state == JobState.SUCCEEDED, serving.job.summary


def test_what_cannot_fit_is_not_launched_by_anybody(serving: Story, embedder: Deployment) -> None:
    assert beside(serving, shared_need_mib=FREE_BESIDE + 1).state == JobState.WAITING
    assert f"{FREE_BESIDE:,} MiB free beside its co-tenants; {FREE_BESIDE + 1:,} MiB are needed" in reasons(serving)
    assert choices(serving) == ["again", "leave"]
    assert "launch start" not in serving.host.sent


def test_who_is_not_allowed_is_a_stranger_also_when_it_is_ours(serving: Story, embedder: Deployment) -> None:
    embedder.shares_with.clear()
    assert beside(serving).state == JobState.WAITING
    assert serving.job.plan["co_tenants"] == []  # type: ignore[index]
    assert "embed (pid 9, root, of deployment embedder) holds GPU 1" in reasons(serving)
    assert "accept" not in choices(serving) and "kill" in choices(serving)


def test_one_more_is_asked_about_and_never_killed(serving: Story, embedder: Deployment) -> None:
    assert beside(serving, then=lambda: joins(serving, embedder, pid=11, memory=10)).state == JobState.WAITING
    assert "embed (pid 11, root, of deployment embedder) holds GPU 1" in reasons(serving)
    assert choices(serving) == ["again", "accept", "leave", "anyway"], "a co-tenant is not killed"
    serving.answer("again")
    assert serving.work().state == JobState.WAITING
    serving.answer("accept")
    assert serving.work().state == JobState.SUCCEEDED, serving.job.summary
    assert "agreed to these co-tenants: embed (pid 9, of deployment embedder), embed (pid 11" in serving.log()
    assert not {9, 11} & signalled()


def test_the_secrets_of_a_co_tenant_are_not_kept(serving: Story, embedder: Deployment) -> None:
    def joins_with_a_key() -> None:
        joins(serving, embedder, pid=11, memory=10)
        serving.host.machine.procs[11].command = "embed --api-key vault-of-embed"

    assert beside(serving, then=joins_with_a_key).state == JobState.WAITING
    serving.answer("accept")
    assert serving.work().state == JobState.SUCCEEDED, serving.job.summary
    kept = serving.job.steps.get(name="verify").data
    assert [row["command"] for row in kept["co_tenants"]] == ["embed --big", "embed --api-key ********"]
    assert "vault-of-embed" not in str([*JobStep.objects.values("data"), *Gate.objects.values("evidence", "choices")])


@pytest.mark.slow
def test_one_less_is_asked_about_and_the_card_is_then_measured_as_ones_own(
    serving: Story, embedder: Deployment
) -> None:
    assert beside(serving, then=lambda: serving.host.end(9)).state == JobState.WAITING
    assert "embed (pid 9, of deployment embedder) shared the cards when the plan was made" in reasons(serving)
    assert "accept" in choices(serving)
    serving.answer("accept")
    assert serving.work().state == JobState.SUCCEEDED, serving.job.summary
    assert shown(f"memory {CARDS[1]}") == ("ok", "4 MiB", "68 MiB")


def test_another_process_in_the_place_of_a_co_tenant_is_not_that_one(serving: Story, embedder: Deployment) -> None:
    def replaced() -> None:
        serving.host.machine.procs[9].start += 1

    assert beside(serving, then=replaced).state == JobState.WAITING
    assert "does so no more" in reasons(serving) and "(pid 9, root, of deployment embedder) holds GPU 1" in reasons(
        serving
    )


@pytest.mark.slow
def test_a_stranger_beside_a_co_tenant(serving: Story, embedder: Deployment) -> None:
    def comes() -> None:
        serving.host.machine.add(Proc(12, 120, "miner", cards=(1,), memory=100))

    assert beside(serving, then=comes).state == JobState.WAITING
    assert choices(serving) == ["again", "kill", "leave", "anyway"]
    serving.answer("kill")
    assert serving.work().state == JobState.SUCCEEDED, serving.job.summary
    assert 12 not in serving.host.machine.procs and 9 in serving.host.machine.procs


def test_a_plan_with_other_co_tenants_is_out_of_date(serving: Story, embedder: Deployment) -> None:
    serving.request()
    serving.approve()
    joins(serving, embedder, pid=11)
    assert serving.work().state == JobState.WAITING
    assert "'Co-tenants', '1 in both plans', 'embed (pid 11, " in reasons(serving)
    assert not signalled()


def test_who_holds_a_shared_card_must_be_seen(serving: Story, embedder: Deployment) -> None:
    assert beside(serving, then=lambda: setattr(serving.host.machine, "partial", True)).state == JobState.WAITING
    assert serving.gate.title == "Whether the cards are free could not be measured"
    assert "sudo" in reasons(serving) and "launch start" not in serving.host.sent


def test_a_stop_minds_no_co_tenant_that_may_be_there(serving: Story, embedder: Deployment) -> None:
    serving.request(JobKind.STOP)
    serving.approve()
    serving.host.after["stop TERM"] = lambda: joins(serving, embedder, pid=11, memory=30_000)
    assert serving.work().state == JobState.SUCCEEDED, serving.job.summary


@pytest.mark.slow
def test_too_little_at_the_very_start_is_measured_again(serving: Story, embedder: Deployment) -> None:
    short = {"times": 1}
    begin = serving.host._launch

    def launch(values: dict[str, str]) -> list[str]:
        assert (values["LIMITS"], values["NEEDS"]) == (f"{CARDS[0]}=68", f"{CARDS[1]}=40000")
        if short["times"]:
            short["times"] = 0
            return [f"notenough {CARDS[1]} 39999 40000"]
        return begin(values)

    serving.host._launch = launch  # type: ignore[method-assign]
    job = beside(serving)
    while job.state == JobState.QUEUED:
        job = serving.work()
    assert job.state == JobState.SUCCEEDED, job.summary
    assert "39999 MiB free beside its co-tenants, 40000 MiB are needed" in serving.log()


@pytest.mark.slow
def test_a_strangers_program_that_is_allowed(serving: Story) -> None:
    serving.host.machine.add(Proc(9, 90, "Xorg", uid=0, cards=(0,), memory=300))
    serving.host.machine.cards[CARDS[0]] = 40_300
    Deployment.objects.filter(pk=serving.deployment.pk).update(co_tenants=["root:Xorg"], shared_need_mib=40_000)
    assert beside(serving).state == JobState.SUCCEEDED, serving.job.summary
    assert 9 in serving.host.machine.procs and 9 not in signalled()


# --- Baseline and tolerance


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fields", "used", "learnt"),
    [
        ({"baseline_mib": None}, 64, 64),
        ({"baseline_mib": None, "display": True}, 596, 596),
        ({"baseline_mib": 70}, 64, 70),
    ],
)
def test_a_baseline_is_learnt_under_its_ceiling(serving: Story, fields: dict[str, Any], used: int, learnt: int) -> None:
    Gpu.objects.filter(uuid=CARDS[0]).update(**fields)
    serving.host.uses = 20_000
    then = {CARDS[0]: used, CARDS[1]: 4}
    assert beside(serving, then=lambda: serving.host.machine.cards.update(then)).state == JobState.SUCCEEDED
    assert Gpu.objects.get(uuid=CARDS[0]).baseline_mib == learnt


@pytest.mark.slow
@pytest.mark.parametrize(("display", "used"), [(False, 65), (True, 1025)])
def test_above_the_ceiling_a_leak_would_be_learnt(serving: Story, display: bool, used: int) -> None:
    Gpu.objects.filter(uuid=CARDS[0]).update(baseline_mib=None, display=display)
    then = {CARDS[0]: used, CARDS[1]: 4}
    assert beside(serving, then=lambda: serving.host.machine.cards.update(then)).state == JobState.WAITING
    assert Gpu.objects.get(uuid=CARDS[0]).baseline_mib is None


@pytest.mark.slow
def test_what_co_tenants_hold_is_no_baseline(serving: Story, embedder: Deployment) -> None:
    Gpu.objects.filter(uuid=CARDS[1]).update(baseline_mib=None)
    assert beside(serving).state == JobState.SUCCEEDED, serving.job.summary
    assert Gpu.objects.get(uuid=CARDS[1]).baseline_mib is None


@pytest.mark.slow
def test_a_baseline_is_not_learnt_where_nobody_can_be_seen(serving: Story) -> None:
    Gpu.objects.filter(uuid=CARDS[0]).update(baseline_mib=None)
    assert beside(serving, then=lambda: setattr(serving.host.machine, "partial", True)).state == JobState.SUCCEEDED
    assert Gpu.objects.get(uuid=CARDS[0]).baseline_mib is None
    assert "Memory alone says so" in serving.job.steps.get(name="verify").summary
    assert shown("holders")[0] == "unknown"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tolerance", "state"), [(0, JobState.WAITING), (95, JobState.WAITING), (96, JobState.SUCCEEDED)]
)
def test_the_tolerance_of_the_deployment_is_the_limit(serving: Story, tolerance: int, state: JobState) -> None:
    left = {"limits": ""}
    begin = serving.host._launch

    def launch(values: dict[str, str]) -> list[str]:
        left["limits"] = values["LIMITS"]
        return begin(values)

    serving.host._launch = launch  # type: ignore[method-assign]
    then = dict.fromkeys(CARDS, 100)
    job = beside(serving, then=lambda: serving.host.machine.cards.update(then), tolerance_mib=tolerance)
    assert job.state == state
    assert left["limits"] == ("" if state == JobState.WAITING else f"{CARDS[0]}=100 {CARDS[1]}=100")


def test_two_deployments_on_one_card_are_started_one_after_the_other(
    serving: Story, embedder: Deployment, ask: Callable[..., Job]
) -> None:
    """Sharing is not for jobs: while one is at work, the other's is refused."""
    from controlpanel.refusal import Refused

    serving.request()
    with pytest.raises(Refused, match="holds a card of embedder"):
        ask(embedder)
    assert not Launch.objects.filter(job=serving.job).exists()


def test_a_baseline_stays_while_a_job_goes_on_with_its_card(serving: Story, administrator: User) -> None:
    serving.request()
    assert serving.work().state == JobState.WAITING
    for gpu in Gpu.objects.all():
        with pytest.raises(Refused, match="goes on with this card"):
            confirm_baseline(gpu, mib=30_000, confirmed_mib=30_000, actor=administrator, address="")
    CardClaim.objects.all().delete()  # as the job's end does
    confirm_baseline(Gpu.objects.all()[0], mib=5, actor=administrator, address="")


def test_a_need_of_nothing_is_refused(serving: Story, administrator: User) -> None:
    place = serving.deployment.placement
    serving.deployment.shared_need_mib = 0
    with pytest.raises(Refused, match="cannot be what a server needs"):
        update_deployment(
            serving.deployment, host=place.host, gpu_uuids=place.gpu_uuids, actor=administrator, address=""
        )
