"""Asking for jobs and cancelling them: one job a click, a card and a port; each deed with its audit entry."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from controlpanel import audit
from controlpanel.models import AuditEntry
from deployments import services
from deployments.lifecycle import GO_BACK, JobKind, JobState, StepState
from deployments.models import CardClaim, Gate, Job, PortClaim
from deployments.services import Refused
from deployments.steps.recipes import RECIPES
from hosts.models import Host
from tests.deployments.test_claim import together
from tests.factories import make_deployment, make_gate, make_gpu, make_host, make_job, make_profile, make_revision

Ask = Callable[..., Job]
pytestmark = pytest.mark.django_db


def actions() -> list[str]:
    return list(AuditEntry.objects.order_by("number").values_list("action", flat=True))


@pytest.fixture
def no_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit entry cannot be written."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no audit entry")

    monkeypatch.setattr(audit, "record", fail)


@pytest.mark.parametrize("kind", JobKind)
def test_a_job_comes_with_its_steps_claims_and_audit_entry(ask: Ask, kind: JobKind) -> None:
    deployment = make_deployment()
    job = ask(deployment, kind=kind)
    assert (job.state, job.touched) == (JobState.QUEUED, False)
    assert tuple(job.steps.values_list("name", flat=True)) == RECIPES[kind]
    assert {claim.gpu_uuid for claim in job.card_claims.all()} == set(deployment.placement.gpu_uuids)
    assert [claim.port for claim in job.port_claims.all()] == [30000]
    assert job.revision == (None if kind == JobKind.STOP else deployment.revision)
    assert job.way_back == (kind in GO_BACK)
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


def test_a_click_of_another_page_is_refused(ask: Ask) -> None:
    key = uuid4()
    ask(make_deployment(), request_key=key)
    with pytest.raises(Refused, match="has already asked for job"):
        ask(make_deployment(), request_key=key)


def test_a_second_click_names_the_first_job(ask: Ask) -> None:
    deployment = make_deployment()
    job = ask(deployment)
    with pytest.raises(Refused) as refused:
        ask(deployment, kind=JobKind.STOP)
    assert refused.value.message == (
        f"operator has already asked for a restart of {deployment}. Job {job.pk} waits for a worker."
    )
    assert refused.value.link == (f"/jobs/{job.pk}/", f"Open job {job.pk}")
    assert Job.objects.count() == 1


@pytest.mark.parametrize(
    ("kind", "message", "hint"),
    [
        ("plan", "has waited for an approval for 3 min.", "Approve or discard its plan first, or cancel it."),
        ("kill", "has waited for an answer for 3 min.", "Answer its question first, or cancel it."),
    ],
)
def test_a_job_that_waits_for_a_person_is_not_called_at_work(ask: Ask, kind: str, message: str, hint: str) -> None:
    deployment = make_deployment()
    job = make_job(deployment, state=JobState.WAITING)
    gate = make_gate(job, kind=kind)
    Gate.objects.filter(pk=gate.pk).update(opened_at=timezone.now() - timedelta(minutes=3, seconds=5))
    with pytest.raises(Refused) as refused:
        ask(deployment)
    assert refused.value.message == f"olga has already asked for a restart of {deployment}. Job {job.pk} {message}"
    assert refused.value.hint == hint


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
    assert refused.value.message.startswith(f"A restart of {one} holds a card of {other}. Job {job.pk} ")
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
    with pytest.raises(Refused, match=rf"holds port 30000. Job {job.pk} "):
        ask(other)


def test_cards_of_the_same_name_on_two_machines_are_one_machine_added_twice(ask: Ask) -> None:
    deployments = []
    for _ in range(2):
        host = make_host()
        deployments.append(make_deployment(host=host, gpus=[make_gpu(host, uuid="GPU-same")]))
    with pytest.raises(services.Refused, match="is the same machine as"):
        ask(deployments[0])


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


def test_where_the_locks_cannot_be_written_no_job_runs(ask: Ask) -> None:
    node = make_host(look_only=True)
    inside = make_host(transport="pct", via=node, vmid=129)
    with pytest.raises(Refused, match="is look-only, and the locks"):
        ask(make_deployment(host=inside))


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
