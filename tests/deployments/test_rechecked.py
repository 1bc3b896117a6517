"""What was so when a person looked is looked at again when it is used: the server, the policy, the place, the port."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from deployments import services
from deployments.joblog import JobLog
from deployments.known import launches_on
from deployments.lifecycle import JobKind, JobState, LaunchState, ServiceState
from deployments.models import CardClaim, Deployment, Gate, Job, Launch, PortClaim
from deployments.models.job import Claim
from deployments.runner import JobCancelled, LeaseLost, _settle
from deployments.watch import DeploymentWatcher
from hosts.models import Host
from tests.deployments.machine import CARDS, SGLANG, Proc
from tests.deployments.support import Story
from tests.deployments.test_runner_starts import waits
from tests.factories import make_launch, make_revision

Ask = Callable[..., Job]
pytestmark = [pytest.mark.django_db, pytest.mark.jobs]


@pytest.fixture
def held(serving: Story) -> Story:
    """A restart that has stopped the server, and waits since a stranger holds 1.5 GB of one card."""
    serving.deployment.memory_seconds = 0
    serving.deployment.save()
    serving.request()
    serving.approve()
    stranger = Proc(9, 600_000, "trainer", "python train.py", uid=1000, cards=(0,), memory=1_500)
    serving.host.after["stop TERM"] = lambda: serving.host.machine.add(stranger) and None
    assert serving.work().state == JobState.WAITING
    serving.host.after.clear()
    serving.host.sent.clear()
    return serving


def test_launch_anyway_goes_ahead_when_it_is_as_it_was_asked(held: Story) -> None:
    held.answer("anyway")
    held.work()
    assert "launch start" in held.host.sent


def test_launch_anyway_starts_no_second_server_beside_one_that_came_back(held: Story) -> None:
    """A watchdog has started it while the question was open; it loads, and has no port yet."""
    held.host.machine.add(
        Proc(300, 700_000, command=SGLANG),
        Proc(301, 700_001, "sglang::schedul", "sglang::scheduler_TP0", parent=300, cards=(0,), memory=400),
        Proc(302, 700_002, "sglang::schedul", "sglang::scheduler_TP1", parent=300, cards=(1,), memory=400),
    )
    held.host.machine.cards = {CARDS[0]: 1_904, CARDS[1]: 404}
    held.answer("anyway")
    assert held.work().state == JobState.WAITING and "launch start" not in held.host.sent
    assert "come back" in held.gate.title and "anyway" not in [choice["key"] for choice in held.gate.choices]


def test_launch_anyway_takes_no_risk_that_was_not_named(held: Story) -> None:
    held.host.machine.add(Proc(10, 800_000, "other", "python other.py", uid=1000, cards=(1,), memory=900))
    held.answer("anyway")
    assert held.work().state == JobState.WAITING and "launch start" not in held.host.sent
    assert "it is not as it was" in held.log() and "python other.py" in str(held.gate.evidence)


def test_an_answer_of_the_requester_counts_only_while_the_policy_lets_it(serving: Story) -> None:
    serving.request()
    Deployment.objects.update(requester_may_approve=True)
    approver = User.objects.get(username="approver")
    Job.objects.filter(pk=serving.job.pk).update(requested_by=approver, requested_by_name="approver")
    serving.approve()
    Deployment.objects.update(requester_may_approve=False)
    serving.work()
    assert serving.job.state == JobState.WAITING and "stop TERM" not in serving.host.sent


def test_a_launch_that_the_host_refuses_again_and_again_ends_in_a_question(serving: Story) -> None:
    """Each look finds the cards free, and the script that launches cannot read them."""
    serving.request()
    serving.approve()
    refused = [f"unmeasured {CARDS[0]} another nvidia-smi is still running"]
    launch, serving.host._launch = serving.host._launch, lambda values: refused  # type: ignore[method-assign]
    assert serving.work_on().state == JobState.WAITING
    assert serving.host.sent.count("launch start") == 3
    assert "refused on the host 3 times" in str(serving.gate.evidence)
    serving.host._launch = launch  # type: ignore[method-assign]
    serving.answer("again")
    assert serving.work_on().state == JobState.SUCCEEDED


def test_a_job_claims_the_port_that_the_deployment_has_now(serving: Story, ask: Ask) -> None:
    """The page was made of the deployment before an edit that is committed as the click comes in."""
    stale = Deployment.objects.get(pk=serving.deployment.pk)
    assert stale.revision.port == 30000
    other = make_revision(stale.profile, number=9, port=30077, argv=["x", "--port", "30077"])
    Deployment.objects.filter(pk=stale.pk).update(port=30077, revision=other)
    with pytest.raises(services.Refused, match="listens on port 30000"):
        ask(stale, kind=JobKind.START)
    assert not PortClaim.objects.exists()


def test_a_job_claims_the_cards_that_the_deployment_has_now(serving: Story, ask: Ask) -> None:
    stale = Deployment.objects.get(pk=serving.deployment.pk)
    assert stale.placement.gpu_uuids == list(CARDS)
    stale.placements.update(gpu_uuids=[CARDS[1]])
    ask(stale, kind=JobKind.RESTART)
    assert set(CardClaim.objects.values_list("gpu_uuid", flat=True)) == {CARDS[1]}


def test_no_job_is_made_for_what_was_released_or_whose_host_went_into_maintenance(serving: Story, ask: Ask) -> None:
    stale = Deployment.objects.get(pk=serving.deployment.pk)
    assert not stale.placement.host.maintenance
    host = Deployment.objects.get(pk=stale.pk).placement.host
    host.__class__.objects.filter(pk=host.pk).update(maintenance="new cards")
    with pytest.raises(services.Refused, match="is in maintenance: new cards"):
        ask(stale, kind=JobKind.RESTART)
    host.__class__.objects.update(maintenance="")
    Deployment.objects.filter(pk=stale.pk).update(state=ServiceState.RELEASED)
    with pytest.raises(services.Refused, match="is released"):
        ask(stale, kind=JobKind.RESTART)


def test_a_worker_that_has_lost_its_job_forgets_nothing_that_is_known(serving: Story) -> None:
    serving.request()
    job = serving.job
    claim = Job.claim(job.pk, owner="a")
    assert claim is not None
    Job.objects.filter(pk=job.pk).update(contact_lost_at=timezone.now(), touched=True, owner="b")
    with pytest.raises(LeaseLost):
        _settle(claim, None, JobLog(claim), JobCancelled())
    assert Launch.objects.get().state == LaunchState.SERVING
    assert Deployment.objects.get(pk=serving.deployment.pk).state == ServiceState.SERVING


def test_a_write_that_can_never_be_stored_ends_the_job(serving: Story) -> None:
    """Or its end would fail by it too, for one worker after another."""
    serving.request()
    claim = Job.claim(serving.job.pk, owner="a")
    assert isinstance(claim, Claim)
    log = JobLog(claim)

    def broken() -> None:
        raise ValueError("no such column")

    log.write_soon(broken)
    _settle(claim, None, log, None)
    ended = Job.objects.get(pk=claim.job_id)
    assert ended.state == JobState.ERRORED and "no such column" in ended.summary


def test_who_may_not_decide_any_more_ends_no_server_that_loads(idle: Story) -> None:
    """The answer *stop it* to a server that is not ready in time, used a month later."""
    gate = waits(idle).gate.pk
    idle.answer("stop")
    Gate.objects.filter(pk=gate).update(answered_at=timezone.now() - timedelta(days=30))
    idle.host.sent.clear()
    idle.work()
    assert "stop TERM" not in idle.host.sent and idle.gate.kind == "not ready" and idle.gate.pk != gate


def test_a_live_launch_is_known_however_many_others_have_ended_since(serving: Story) -> None:
    host, live = serving.deployment.placement.host, Launch.objects.get()
    Launch.objects.filter(pk=live.pk).update(intended_at=timezone.now() - timedelta(days=30))
    for _ in range(201):
        make_launch(serving.deployment, state=LaunchState.ENDED, host=host)
    assert live in launches_on(host)


def test_what_the_stop_has_ended_is_stopped_at_once(held: Story) -> None:
    """Not when the job ends: it may wait for a person for hours."""
    held.deployment.refresh_from_db()
    assert held.job.open_gate is not None and held.job.open_gate.kind == "not free"
    told = (held.deployment.state, held.deployment.state_detail)
    assert told == (ServiceState.STOPPED, f"stopped by job {held.job.pk}")


def test_a_plan_whose_server_has_crashed_is_out_of_date_when_it_is_approved(serving: Story, client: Client) -> None:
    serving.request()
    assert serving.work().state == JobState.WAITING
    until = timezone.now() + timedelta(seconds=60)
    Host.objects.update(monitor_owner="us", monitor_lease_until=until)
    serving.host.end(100)
    DeploymentWatcher().saw(Host.objects.get(), serving.host.machine.facts())
    assert Launch.objects.get().crashed and Deployment.objects.get().state == ServiceState.CRASHED
    client.force_login(User.objects.get(username="approver"))
    page = client.get(serving.job.get_absolute_url()).content.decode()
    assert "has crashed since this plan was made" in page
    serving.answer("approve")
    serving.host.sent.clear()
    assert serving.work_on().state == JobState.WAITING
    assert "out of date" in serving.gate.title and "stop TERM" not in serving.host.sent
    assert "pid 100" in str(serving.gate.evidence) or "server" in str(serving.gate.evidence)


def test_no_page_says_serving_of_a_host_out_of_reach(held: Story, client: Client) -> None:
    Deployment.objects.update(state=ServiceState.SERVING)
    Host.objects.update(reach=Host.Reach.UNREACHABLE)
    client.force_login(User.objects.get(username="approver"))
    pages = ["/", f"/deployments/{held.deployment.pk}/", f"/hosts/{held.deployment.placement.host_id}/"]
    for page in pages:
        assert "Serving" not in client.get(page).content.decode(), page
    Host.objects.update(reach=Host.Reach.REACHABLE)
    for page in pages:
        assert "Serving" in client.get(page).content.decode(), page
