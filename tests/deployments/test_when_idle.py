"""A plan that is approved for tonight when idle: done when no request runs and nothing has changed, else not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.test import Client
from django.utils import timezone

from controlpanel.models import AuditEntry
from deployments import services, sweeper
from deployments.lifecycle import JobKind, JobState
from deployments.models import Deployment, Job, StandingApproval
from deployments.services import Refused
from hosts.transport.base import LinkLost
from tests.deployments.machine import OTHER_BOOT
from tests.deployments.support import Story, Tunnel

pytestmark = [pytest.mark.django_db, pytest.mark.jobs]
BUSY = (200, b"sglang:num_running_reqs 3.0\n")
ClientOf = Callable[[User], Client]


def for_later(story: Story, *, begins: int = 0, ends: int = 12, actor: str = "approver", **values: Any) -> None:
    """Plan a restart and approve it for a moment without requests."""
    story.request()
    assert story.work().state == JobState.WAITING
    gate = story.gate
    usual = {"begins": begins, "ends": ends, "plan_hash": gate.plan_hash}
    services.approve_when_idle(gate, **(usual | values), actor=User.objects.get(username=actor), address="10.0.0.9")


def look_again(story: Story) -> Job:
    """The sweeper finds that it is time, and a worker takes its turn."""
    Job.objects.update(ring_at=timezone.now() - timedelta(seconds=1))
    sweeper.sweep()
    return story.work()


def test_it_waits_for_requests_to_end_and_is_done_when_they_have(serving: Story, rung: list[int]) -> None:
    serving.host.pages["/metrics"] = BUSY
    for_later(serving)
    job = serving.work()
    assert (job.state, job.summary) == (JobState.WAITING, "3 requests ran at the last look.")
    assert serving.gate.kind == "when idle" and job.ring_at is not None and not job.touched
    assert look_again(serving).state == JobState.WAITING and job.pk in rung
    serving.host.pages["/metrics"] = (200, b"sglang:num_running_reqs 0.0\n")
    assert look_again(serving).state == JobState.WAITING, "it may be between two requests"
    assert serving.job.gates.filter(kind="when idle").count() == 1
    assert look_again(serving).state == JobState.SUCCEEDED, serving.job.summary
    later, approval = StandingApproval.objects.get(), serving.job.gates.filter(kind="plan").last()
    assert approval is not None and (approval.standing, approval.plan_hash) == (later, later.plan_hash)
    assert serving.job.approved_by_name == "approver"
    assert [gate.answer for gate in serving.job.gates.order_by("pk")] == ["when idle", "idle", "approve"]
    entry = AuditEntry.objects.get(action="approve when idle")
    assert entry.actor_name == "approver" and entry.detail["plan"] == later.plan_hash


def test_before_its_time_nobody_looks_at_the_host(serving: Story) -> None:
    for_later(serving, begins=2, ends=4)
    serving.host.sent.clear()
    job = serving.work()
    assert job.state == JobState.WAITING and serving.host.sent == []
    assert job.ring_at == StandingApproval.objects.get().begins_at
    sweeper.sweep()
    job.refresh_from_db()
    assert job.state == JobState.WAITING


def _boots(story: Story) -> None:
    story.host.machine.boot = OTHER_BOOT


def _ends(story: Story) -> None:
    story.host.end(100)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_boots, "the host has booted meanwhile"),
        (_ends, "the server's processes are others than those of the plan"),
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_what_has_changed_by_then_is_not_done(
    serving: Story, change: Callable[[Story], None], said: str, late: bool
) -> None:
    for_later(serving)
    if late:
        assert serving.work().state == JobState.WAITING
    change(serving)
    assert (look_again(serving) if late else serving.work()).state == JobState.FAILED
    assert (
        "Not done: what approver has approved is out of date: " in serving.job.summary and said in serving.job.summary
    )
    assert "Nothing was touched." in serving.job.summary and not serving.job.card_claims.exists()
    assert not serving.job.gates.filter(answered_at=None).exists()


def test_a_server_that_changes_between_the_last_look_and_the_stop_is_not_stopped(serving: Story) -> None:
    for_later(serving)
    serving.work()
    looks = []

    def boots_before_the_stop() -> None:
        looks.append(1)
        if len(looks) == 2:
            serving.host.machine.boot = OTHER_BOOT

    serving.host.before["probe"] = boots_before_the_stop
    assert look_again(serving).state == JobState.FAILED and "out of date" in serving.job.summary
    assert "stop TERM" not in serving.host.sent


@pytest.mark.parametrize("page", [BUSY, (500, b"")])
def test_without_such_a_moment_it_ends_and_says_what_was_seen(serving: Story, page: tuple[int, bytes]) -> None:
    serving.host.pages["/metrics"] = page
    for_later(serving)
    assert serving.work().state == JobState.WAITING
    StandingApproval.objects.update(expires_at=timezone.now())
    assert look_again(serving).state == JobState.FAILED
    last = "3 requests ran at the last look." if page == BUSY else "How many requests run could not be seen: "
    assert "no moment without requests in its time. " in serving.job.summary and last in serving.job.summary


def _is_away(story: Story) -> None:
    story.host.reachable = False


def _does_not_say_its_boot(story: Story) -> None:
    story.host.machine.broken["host"] = None


def _is_away_once_looked_at(story: Story) -> None:
    def lose(_host: str, _port: int) -> Tunnel:
        raise LinkLost("The link is gone.")

    story.host.transport.ports[30000] = lose


@pytest.mark.parametrize("breaks", [_is_away, _does_not_say_its_boot, _is_away_once_looked_at])
def test_a_host_that_cannot_be_looked_at_is_waited_for(serving: Story, breaks: Callable[[Story], None]) -> None:
    for_later(serving)
    breaks(serving)
    job = serving.work()
    assert (job.state, serving.gate.kind) == (JobState.WAITING, "when idle"), job.summary
    unseen = "How many requests run" if breaks is _is_away_once_looked_at else str(serving.deployment.placement.host)
    assert unseen in job.summary and "could not be" in job.summary
    assert job.ring_at is not None and job.ring_at > timezone.now()
    serving.host.reachable = True
    serving.host.machine.broken.clear()
    serving.host.transport.ports[30000] = lambda _host, _port: Tunnel(serving.host.pages)
    assert look_again(serving).state == JobState.WAITING, "an hour without a look says nothing of requests"
    assert look_again(serving).state == JobState.SUCCEEDED, serving.job.summary


def test_a_host_that_stays_away_ends_it_at_its_deadline(serving: Story) -> None:
    for_later(serving)
    _is_away(serving)
    assert serving.work().state == JobState.WAITING
    StandingApproval.objects.update(expires_at=timezone.now())
    assert look_again(serving).state == JobState.FAILED
    assert "does not answer" in serving.job.summary and "Nothing was touched." in serving.job.summary


@pytest.mark.parametrize("way", ["revoke", "ask", "discard", "role"])
def test_it_can_be_taken_back(serving: Story, approver: User, way: str) -> None:
    for_later(serving, begins=2, ends=4)
    serving.work()
    if way == "revoke":
        services.revoke_standing(StandingApproval.objects.get(), actor=approver, address="")
        assert look_again(serving).state == JobState.WAITING and serving.gate.kind == "plan"
    elif way == "ask":
        serving.answer("ask")
        assert serving.work().state == JobState.WAITING and serving.gate.kind == "plan"
        assert not StandingApproval.in_force().exists()
        serving.answer("approve")
        assert serving.work().state == JobState.SUCCEEDED
    elif way == "discard":
        serving.answer("discard")
        serving.job.refresh_from_db()
        assert serving.job.state == JobState.REJECTED and not StandingApproval.in_force().exists()
    else:
        approver.groups.clear()
        StandingApproval.objects.update(begins_at=timezone.now())
        assert look_again(serving).state == JobState.FAILED and "may not approve any more" in serving.job.summary
    assert "stop TERM" in serving.host.sent or way != "ask"


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"begins": 4, "ends": 4}, "From 4 h to 4 h from now is no time."),
        ({"begins": -1}, "From -1 h"),
        ({"ends": 25}, "to 25 h"),
        ({"plan_hash": "other"}, "The plan has changed"),
    ],
)
def test_what_is_refused(serving: Story, values: dict[str, Any], why: str) -> None:
    with pytest.raises(Refused, match=why):
        for_later(serving, **values)
    assert serving.gate.kind == "plan" and not StandingApproval.objects.exists()


def test_only_an_approver_may(serving: Story) -> None:
    with pytest.raises(PermissionDenied):
        for_later(serving, actor="operator")


def test_only_a_plan_that_stops_something(idle: Story, approver: User) -> None:
    idle.request(JobKind.START)
    idle.work()
    gate = idle.gate
    with pytest.raises(Refused, match="Only a plan that stops"):
        services.approve_when_idle(gate, begins=0, ends=1, plan_hash=gate.plan_hash, actor=approver, address="")


def test_on_the_page_of_its_job(serving: Story, approver: User, operator: User, client_of: ClientOf) -> None:
    serving.request()
    serving.work()
    gate, page = serving.gate, f"/jobs/{serving.job.pk}/"
    client, other = client_of(approver), client_of(operator)
    assert "Approve it for later" in client.get(page).content.decode()
    assert "Approve it for later" not in other.get(page).content.decode()
    address = f"{page}gates/{gate.pk}/when-idle/"
    given = {"begins": "0", "ends": "soon", "plan_hash": gate.plan_hash}
    wrong = client.post(address, given)
    assert wrong.status_code == 409 and "is no number of hours" in wrong.content.decode()
    assert 'value="soon"' in wrong.content.decode()
    assert other.post(address, given | {"ends": "8"}).status_code == 403
    Deployment.objects.update(production=True)
    assert "Type its name" in client.post(address, given | {"ends": "8"}).content.decode()
    typed = {"ends": "8", "typed_name": serving.deployment.name}
    assert client.post(address, given | typed).status_code == 302
    serving.work()
    shown = client.get(page).content.decode()
    assert "Waits until no request runs" in shown and "Ask anew now" in shown and "Do not do it" in shown
    overview = client.get("/").content.decode()
    assert "is carried out as soon as no request runs" in overview and "Nothing needs attention." in overview
