"""What people may do with profiles, deployments and jobs; each deed with its audit entry, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied

from controlpanel import audit
from controlpanel.models import AuditEntry
from deployments import services
from deployments.lifecycle import JobKind, JobState, LaunchState, StepState
from deployments.models import CardClaim, Deployment, Job, Launch, PortClaim, Profile, Revision
from deployments.services import Refused
from deployments.steps.recipes import RECIPES
from hosts.models import Host
from tests.deployments.test_claim import together
from tests.factories import make_deployment, make_gpu, make_host, make_job, make_launch, make_profile, make_revision

Ask = Callable[..., Job]
pytestmark = pytest.mark.django_db

REVISION: dict[str, Any] = {
    "argv": ["python", "-m", "sglang.launch_server", "--port", "31000"], "env": {"A": "1"}, "workdir": "",
    "port": 31000,
    "ready_pattern": "", "notes": "first",
}  # fmt: skip


def actions() -> list[str]:
    return list(AuditEntry.objects.order_by("number").values_list("action", flat=True))


@pytest.fixture
def no_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit entry cannot be written."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no audit entry")

    monkeypatch.setattr(audit, "record", fail)


# --- Profiles and deployments


def test_a_profile_comes_with_its_first_revision(administrator: User) -> None:
    profile = services.create_profile(
        name="qwen", engine="sglang", description="", actor=administrator, address="", **REVISION
    )
    assert (profile.newest.number, profile.newest.argv) == (1, REVISION["argv"])
    second = services.add_revision(profile, actor=administrator, address="", **(REVISION | {"notes": "second"}))
    assert second.number == 2
    assert actions() == ["add profile", "add revision", "add revision"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"argv": []}, "empty"),
        ({"env": {"HF_TOKEN": "x"}}, "secret"),
        ({"port": 1}, "The command says port 31000, the profile says 1."),
        ({"argv": ["python", "--api-key", "x"]}, "secret"),
    ],
)
def test_a_revision_that_cannot_be_right(administrator: User, values: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=words):
        services.add_revision(make_profile(), actor=administrator, address="", **(REVISION | values))
    assert actions() == []


def test_a_custom_command_must_say_when_it_is_ready(administrator: User) -> None:
    profile = make_profile(engine="custom")
    with pytest.raises(Refused, match="ready"):
        services.add_revision(profile, actor=administrator, address="", **REVISION)
    services.add_revision(profile, actor=administrator, address="", **(REVISION | {"ready_pattern": "Listening"}))


def test_names_and_engines(administrator: User) -> None:
    make_profile(name="qwen")
    values = REVISION | {"description": "", "actor": administrator, "address": ""}
    with pytest.raises(Refused, match="already a profile"):
        services.create_profile(name="qwen", engine="sglang", **values)
    with pytest.raises(Refused, match="no engine named 'x'"):
        services.create_profile(name="new", engine="x", **values)
    with pytest.raises(Refused, match="empty"):
        services.create_profile(name="new", engine="sglang", **(values | {"argv": []}))
    assert not Profile.objects.filter(name="new").exists(), "no profile without a revision"


def test_a_revision_never_changes() -> None:
    revision = make_profile().newest
    revision.notes = "other"
    with pytest.raises(TypeError, match="immutable"):
        revision.save()


def new_deployment(revision: Revision, name: str = "chat") -> Deployment:
    return Deployment(name=name, revision=revision)


def test_a_deployment_takes_profile_and_port_from_its_revision(administrator: User) -> None:
    host, revision = make_host(), make_profile().newest
    gpu = make_gpu(host)
    made = services.create_deployment(
        new_deployment(revision), host=host, gpu_uuids=[gpu.uuid], actor=administrator, address=""
    )
    assert (made.profile, made.port, made.placement.gpus) == (revision.profile, 30000, [gpu])
    assert actions() == ["add deployment"]


def test_places_that_are_refused(administrator: User) -> None:
    revision = make_profile().newest
    for host, uuids, words in (
        (make_host(look_only=True), [], "look-only"),
        (make_host(), ["GPU-x"], "has no card GPU-x"),
        (make_host(), [make_gpu(make_host()).uuid], "has no card"),
    ):
        with pytest.raises(Refused, match=words):
            services.create_deployment(
                new_deployment(revision), host=host, gpu_uuids=uuids, actor=administrator, address=""
            )


def update(deployment: Deployment, actor: User, host: Host | None = None) -> Deployment:
    place = deployment.placement
    return services.update_deployment(
        deployment, host=host or place.host, gpu_uuids=place.gpu_uuids if host is None else [], actor=actor, address=""
    )


def test_changing_a_deployment(administrator: User) -> None:
    deployment = make_deployment()
    deployment.drain_seconds = 5
    update(deployment, administrator)
    deployment.refresh_from_db()
    assert deployment.drain_seconds == 5
    job = make_job(deployment, state=JobState.WAITING)
    with pytest.raises(Refused, match="A job is at work"):
        update(deployment, administrator)
    Job.objects.filter(pk=job.pk).update(state=JobState.FAILED)
    make_launch(deployment)
    with pytest.raises(Refused, match="still runs"):
        update(deployment, administrator, make_host())
    deployment.revision = make_revision(deployment.profile, port=30001)
    with pytest.raises(Refused, match="still runs on port 30000"):
        update(deployment, administrator)
    assert actions() == ["change deployment"]


def test_marking_a_launch_as_proven(approver: User) -> None:
    launch = make_launch(make_deployment())
    services.mark_proven(launch, actor=approver, address="")
    launch.deployment.refresh_from_db()
    assert launch.deployment.proven_revision == launch.revision
    never = make_launch(make_deployment(), ready_at=None)
    with pytest.raises(Refused, match="has served"):
        services.mark_proven(never, actor=approver, address="")
    assert actions() == ["mark proven"]


# --- Asking for a job


@pytest.mark.parametrize("kind", JobKind)
def test_a_job_comes_with_its_steps_claims_and_audit_entry(ask: Ask, kind: JobKind) -> None:
    deployment = make_deployment()
    job = ask(deployment, kind=kind)
    assert (job.state, job.touched) == (JobState.QUEUED, False)
    assert tuple(job.steps.values_list("name", flat=True)) == RECIPES[kind]
    assert {claim.gpu_uuid for claim in job.card_claims.all()} == set(deployment.placement.gpu_uuids)
    assert [claim.port for claim in job.port_claims.all()] == [30000]
    assert job.revision == (None if kind == JobKind.STOP else deployment.revision)
    assert job.way_back == (kind == JobKind.RESTART)
    assert actions() == [f"ask for {kind}"]
    assert AuditEntry.objects.get().address == "10.0.0.9"


def test_the_worker_is_rung_after_the_commit(
    ask: Ask, rung: list[int], django_capture_on_commit_callbacks: Callable[..., Any]
) -> None:
    with django_capture_on_commit_callbacks() as callbacks:
        job = ask(make_deployment())
    assert rung == []
    for callback in callbacks:
        callback()
    assert rung == [job.pk]


@pytest.mark.usefixtures("no_audit")
def test_no_audit_entry_no_job(ask: Ask, rung: list[int]) -> None:
    with pytest.raises(RuntimeError):
        ask(make_deployment())
    assert not Job.objects.exists() and not CardClaim.objects.exists() and rung == []


def test_the_same_click_is_the_same_job(ask: Ask) -> None:
    deployment, key = make_deployment(), uuid4()
    assert ask(deployment, request_key=key) == ask(deployment, request_key=key)
    assert actions() == ["ask for restart"]


def test_a_second_click_names_the_first_job(ask: Ask) -> None:
    deployment = make_deployment()
    job = ask(deployment)
    with pytest.raises(Refused) as refused:
        ask(deployment, kind=JobKind.STOP)
    assert refused.value.message == (
        f"operator has already asked for a restart of {deployment} (job {job.pk}, queued)."
    )
    assert Job.objects.count() == 1


def test_a_card_that_another_job_works_with(ask: Ask) -> None:
    host = make_host()
    shared, own = make_gpu(host), make_gpu(host)
    one = make_deployment(host=host, gpus=[shared])
    other = make_deployment(
        host=host, gpus=[own, shared], port=31000, revision=make_revision(make_profile(), port=31000)
    )
    job = ask(one)
    with pytest.raises(Refused) as refused:
        ask(other)
    assert refused.value.message == f"Job {job.pk} (restart of {one}) works with one of its cards."
    assert CardClaim.objects.count() == 1 and PortClaim.objects.count() == 1
    assert Job.objects.count() == 1


def test_a_container_and_its_node_share_a_card(ask: Ask) -> None:
    node = make_host()
    container = make_host(transport=Host.TransportKind.PCT, via=node, vmid=129)
    other = make_host(transport=Host.TransportKind.PCT, via=node, vmid=130)
    for host in (node, container, other):
        make_gpu(host, uuid="GPU-shared")
    on_node, inside, beside = (
        make_deployment(host=host, gpus=list(host.gpus.all())) for host in (node, container, other)
    )
    job = ask(inside)
    for deployment in (on_node, beside):
        with pytest.raises(Refused, match=f"Job {job.pk} "):
            ask(deployment)


def test_a_port_that_another_job_works_with(ask: Ask) -> None:
    host = make_host()
    one = make_deployment(host=host, gpus=[make_gpu(host)])
    other = make_deployment(host=host, gpus=[make_gpu(host)])
    job = ask(one)
    with pytest.raises(Refused, match=rf"Job {job.pk} .* works with port 30000"):
        ask(other)


def test_cards_of_the_same_name_on_two_machines_do_not_meet(ask: Ask) -> None:
    deployments = []
    for _ in range(2):
        host = make_host()
        deployments.append(make_deployment(host=host, gpus=[make_gpu(host, uuid="GPU-same")]))
    assert ask(deployments[0]) != ask(deployments[1])


def test_a_card_named_twice_is_claimed_once(ask: Ask) -> None:
    host = make_host()
    gpu = make_gpu(host)
    assert ask(make_deployment(host=host, gpus=[gpu, gpu])).card_claims.count() == 1


def test_where_no_job_runs(ask: Ask) -> None:
    with pytest.raises(Refused, match="look-only"):
        ask(make_deployment(host=make_host(look_only=True)))
    deployment = make_deployment()
    with pytest.raises(Refused, match="listens on port 31000"):
        ask(deployment, revision=make_revision(deployment.profile, port=31000))
    assert not Job.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_eight_clicks_at_once_are_one_job(operator: User, ask: Ask) -> None:
    deployment, key = make_deployment(), uuid4()
    jobs = together(lambda _: ask(deployment, request_key=key).pk)
    assert len(set(jobs)) == 1
    assert Job.objects.count() == 1 and actions() == ["ask for restart"]


@pytest.mark.django_db(transaction=True)
def test_deployments_that_go_for_one_card_at_once_give_one_job(ask: Ask) -> None:
    host = make_host()
    gpu = make_gpu(host)
    deployments = [
        make_deployment(host=host, gpus=[gpu], revision=make_revision(make_profile(), port=31000 + n)) for n in range(6)
    ]

    def click(number: int) -> str:
        try:
            return f"job {ask(deployments[number]).pk}"
        except Refused as refused:
            return refused.message

    told = together(click, 6)
    (won,) = [text for text in told if text.startswith("job ")]
    assert all(won in text.lower() for text in told), told
    assert CardClaim.objects.count() == 1


# --- Cancelling


def test_cancelling_before_anything_was_touched_ends_the_job(ask: Ask, operator: User) -> None:
    job = ask(make_deployment())
    services.cancel_job(job, actor=operator, address="")
    job.refresh_from_db()
    assert (job.state, job.cancel_requested_by) == (JobState.CANCELLED, "operator")
    assert job.ended_at is not None
    assert not job.card_claims.exists() and not job.port_claims.exists()
    assert set(job.steps.values_list("state", flat=True)) == {StepState.SKIPPED}
    assert actions() == ["ask for restart", "cancel"]


@pytest.mark.parametrize(
    ("state", "values", "becomes"),
    [
        (JobState.QUEUED, {}, JobState.CANCELLED),
        (JobState.WAITING, {}, JobState.CANCELLED),
        (JobState.QUEUED, {"touched": True}, JobState.QUEUED),
        (JobState.WAITING, {"touched": True}, JobState.QUEUED),
        (JobState.RUNNING, {}, JobState.RUNNING),
        (JobState.UNKNOWN, {"touched": True}, JobState.UNKNOWN),
    ],
)
def test_cancelling_in_each_state(
    ask: Ask, approver: User, state: JobState, values: dict[str, Any], becomes: JobState
) -> None:
    job = ask(make_deployment())
    Job.objects.filter(pk=job.pk).update(state=state, **values)
    services.cancel_job(job, actor=approver, address="")
    job.refresh_from_db()
    assert (job.state, job.cancel_requested_by) == (becomes, "approver")
    assert job.card_claims.exists() == (becomes != JobState.CANCELLED), "cards are kept until the worker is done"


@pytest.mark.parametrize("state", [JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.EXPIRED])
def test_an_ended_job_is_not_cancelled(operator: User, state: JobState) -> None:
    job = make_job(make_deployment(), state=state)
    with pytest.raises(Refused, match="already ended"):
        services.cancel_job(job, actor=operator, address="")
    job.refresh_from_db()
    assert job.cancel_requested_by == "" and actions() == []


# --- Who may


@pytest.mark.parametrize("name", ["viewer", "stranger"])
def test_who_only_looks_changes_nothing(request: pytest.FixtureRequest, ask: Ask, name: str) -> None:
    somebody: User = request.getfixturevalue(name)
    deployment = make_deployment()
    job, launch = make_job(make_deployment()), make_launch(deployment)
    who: dict[str, Any] = {"actor": somebody, "address": ""}
    for deed in (
        lambda: ask(deployment, actor=somebody),
        lambda: services.cancel_job(job, **who),
        lambda: services.mark_proven(launch, **who),
        lambda: services.add_revision(deployment.profile, **REVISION, **who),
        lambda: services.create_profile(name="x", engine="sglang", description="", **REVISION, **who),
        lambda: services.create_deployment(new_deployment(deployment.revision), host=make_host(), gpu_uuids=[], **who),
        lambda: update(deployment, somebody),
    ):
        with pytest.raises(PermissionDenied):
            deed()
    assert actions() == []


def test_an_approver_does_not_ask_and_an_operator_edits_nothing(ask: Ask, approver: User, operator: User) -> None:
    with pytest.raises(PermissionDenied):
        ask(make_deployment(), actor=approver)
    with pytest.raises(PermissionDenied):
        services.add_revision(make_profile(), actor=operator, address="", **REVISION)


def test_a_launch_that_was_lost(approver: User) -> None:
    launch = make_launch(make_deployment())
    services.lose_launch(launch, state=LaunchState.ENDED, reason="gone")
    services.lose_launch(launch, state=LaunchState.FAILED, reason="late")
    assert Launch.objects.get().end_reason == "gone", "the first word counts"
