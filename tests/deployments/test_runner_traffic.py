"""A job that takes its server out of a router and puts it back, on a scripted host: order, questions, what is left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlpanel.models import AuditEntry
from deployments import services
from deployments.lifecycle import EffectKind, JobKind, JobState, ServiceState
from deployments.models import Deployment, Effect
from deployments.plan.passing import ROUTER_KEY
from deployments.services import Refused
from deployments.steps import traffic
from deployments.traffic.hook import KEY
from lab.router import Router
from tests.deployments.support import OOM, READY, Story

pytestmark = [pytest.mark.django_db, pytest.mark.jobs]
WORKER = "http://10.0.0.9:30000"
OUT, BACK = "remove it", "add it"


def by_command() -> dict[str, Any]:
    return {"take out": {"how": "command", "command": OUT}, "put back": {"how": "command", "command": BACK}}


def by_request(router: Router, **more: str) -> dict[str, Any]:
    paths = {"take out": "remove_worker", "put back": "add_worker"}
    return {
        moment: {"how": "request", "method": "POST", "url": f"{router.base}/{path}?url={WORKER}", **more}
        for moment, path in paths.items()
    }


def with_hooks(story: Story, hooks: dict[str, Any]) -> Story:
    Deployment.objects.filter(pk=story.deployment.pk).update(hooks=hooks)
    story.deployment = Deployment.objects.get(pk=story.deployment.pk)
    return story


@pytest.fixture
def behind(serving: Story) -> Story:
    """It serves behind a router that commands tell."""
    return with_hooks(serving, by_command())


@pytest.fixture
def router() -> Iterator[Router]:
    with Router(backends={WORKER}) as running:
        yield running


def mark(story: Story) -> dict[str, Any]:
    found: dict[str, Any] = Deployment.objects.get(pk=story.deployment.pk).out_of_router
    return found


def approved(story: Story, kind: JobKind = JobKind.RESTART, **more: Any) -> Story:
    story.request(kind, **more)
    story.approve()
    return story


def test_out_before_anything_is_stopped_and_back_after_the_check(behind: Story) -> None:
    sent = behind.host.sent
    behind.host.before["TERM"] = lambda: None
    assert approved(behind).work_on().state == JobState.SUCCEEDED, behind.job.summary
    assert behind.host.told_router == [OUT, BACK]
    assert sent.index("hook") < sent.index("stop TERM") < sent.index("launch start")
    assert len(sent) - sent[::-1].index("hook") - 1 > sent.index("follow"), "not before it is ready"
    assert mark(behind) == {} and "out of its router" not in behind.job.summary
    kinds = [effect.kind for effect in Effect.objects.order_by("pk")]
    assert kinds[0] == EffectKind.TAKE_OUT and kinds[-1] == EffectKind.PUT_BACK
    assert "It is back in its router." in behind.job.steps.get(name="check").summary


def test_a_request_goes_to_the_router_with_its_key_and_nobody_sees_it(
    serving: Story, router: Router, operator: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    router.key = "s3cret-router-key"
    actor = User.objects.get(username="approver")
    actor.groups.add(*operator.groups.all())
    headers = f"Authorization: Bearer {KEY}"
    with_hooks(serving, by_request(router, headers=headers))
    row = serving.deployment.secrets.model(deployment=serving.deployment, name=ROUTER_KEY, set_by_name="ana")
    row.put(router.key)
    row.save()
    seen: list[bool] = []
    serving.host.before["stop TERM"] = lambda: seen.append(WORKER in router.backends)
    assert approved(serving).work_on().state == JobState.SUCCEEDED, serving.job.summary
    assert seen == [False] and router.backends == {WORKER}
    assert [one.what for one in router.asked] == ["remove_worker", "add_worker"]
    assert "It answered 200." in serving.log() and router.key not in serving.log()
    assert serving.job.launches.get().requested["secrets"] == {}, "no server is given it"
    router.key = "another-key-since"  # it now repeats in its refusal what it was sent
    assert approved(serving).work_on().state == JobState.WAITING
    assert "s3cret-router-key" not in serving.log() + serving.gate.text and "answered 401" in serving.gate.text
    monkeypatch.setattr(traffic, "SHOWN", serving.gate.text.index("Bearer ") + len("Bearer s3c"))
    serving.answer("again")
    serving.work_on()
    assert "s3c" not in serving.log() + serving.gate.text, "masked before the cut"


def test_a_key_that_is_not_set_is_said_before_anything(serving: Story, router: Router) -> None:
    with_hooks(serving, by_request(router, headers=f"X-Key: {KEY}")).request()
    assert serving.work().state == JobState.FAILED
    assert f"has no secret “{ROUTER_KEY}”" in serving.job.summary and router.asked == []


def test_the_plan_says_what_is_run_and_the_approval_is_bound_to_it(behind: Story) -> None:
    behind.request()
    behind.work()
    assert behind.job.plan is not None
    (rows,) = [section["rows"] for section in behind.job.plan["sections"] if section["title"] == "Its router"]
    assert [row["value"] for row in rows] == [OUT, BACK]
    behind.answer("approve")
    hooks = by_command() | {"take out": {"how": "command", "command": "another"}}
    with_hooks(behind, hooks)
    assert behind.work().state == JobState.WAITING
    assert (
        "'Its router', 'remove it, add it', 'another, add it'" in str(behind.gate.evidence)
        and behind.host.told_router == []
    )


def test_a_start_puts_back_only_what_was_taken_out(idle: Story) -> None:
    with_hooks(idle, by_command())
    assert approved(idle, JobKind.START).work_on().state == JobState.SUCCEEDED, idle.job.summary
    assert idle.host.told_router == [] and mark(idle) == {}


def test_a_stop_leaves_it_out_on_purpose_and_the_next_start_puts_it_back(behind: Story, client: Client) -> None:
    assert approved(behind, JobKind.STOP).work_on().state == JobState.SUCCEEDED
    assert mark(behind)["meant"] and mark(behind)["job"] == behind.job.pk
    assert f"{behind.deployment} stays out of its router until its next start." in behind.job.summary
    client.force_login(User.objects.get(username="operator"))
    assert "Still out of the router" not in client.get("/").content.decode()
    assert approved(behind, JobKind.START).work_on().state == JobState.SUCCEEDED, behind.job.summary
    assert behind.host.told_router == [OUT, BACK] and mark(behind) == {}


# --- It cannot be taken out


def test_before_the_stop_a_person_is_asked(behind: Story) -> None:
    behind.host.hooks[OUT] = (["no such upstream"], 3)
    assert approved(behind).work_on().state == JobState.WAITING
    assert behind.gate.title == f"{behind.deployment} could not be taken out of its router. Go on?"
    assert "exit status 3" in behind.gate.text and "Nothing has been stopped" in behind.gate.text
    assert "no such upstream" in behind.log() and "stop TERM" not in behind.host.sent
    assert not mark(behind)["sure"] and "exit status 3" in mark(behind)["why"]


def test_again_tries_again(behind: Story) -> None:
    behind.host.hooks[OUT] = ([], 3)
    approved(behind).work_on()
    behind.host.hooks.clear()
    behind.answer("again")
    assert behind.work_on().state == JobState.SUCCEEDED, behind.job.summary
    assert behind.host.told_router == [OUT, OUT, BACK] and mark(behind) == {}


def test_without_goes_on_and_puts_back_what_may_be_out(behind: Story) -> None:
    behind.host.hooks[OUT] = ([], 3)
    approved(behind).work_on()
    behind.answer("without", comment="night")
    assert behind.work_on().state == JobState.SUCCEEDED, behind.job.summary
    assert behind.host.told_router == [OUT, BACK] and "night" in behind.log()


def test_going_on_without_is_an_approvers_to_say(behind: Story, operator: User) -> None:
    behind.host.hooks[OUT] = ([], 3)
    approved(behind).work_on()
    choice = next(choice for choice in behind.gate.choices if choice["key"] == "without")
    assert choice["action"] == "approve" and choice["needs_reason"]


@pytest.mark.parametrize("reached", [True, False])
def test_a_cancel_there_stops_nothing(serving: Story, router: Router, client: Client, reached: bool) -> None:
    hooks = by_request(router)
    if reached:
        router.refuses["remove_worker"] = 500
    else:
        router.__exit__(None, None, None)
    approved(with_hooks(serving, hooks)).work_on()
    serving.answer("discard")
    assert serving.work_on().state == JobState.CANCELLED
    assert "stop TERM" not in serving.host.sent and "was serving" in serving.job.summary
    assert ("may still be out of its router" in serving.job.summary) == reached
    assert bool(mark(serving)) == reached, "who was never reached has taken nothing out"
    client.force_login(User.objects.get(username="operator"))
    assert ("Still out of the router" in client.get("/").content.decode()) == reached
    if not reached:
        router.__enter__()


# --- It ends in between


def test_a_start_that_fails_leaves_it_in_needs_attention(behind: Story, client: Client) -> None:
    behind.host.log, behind.host.exit_code = OOM, 1
    assert approved(behind, way_back=False).work_on().state == JobState.WAITING
    behind.answer("as it is")
    assert behind.work_on().state == JobState.FAILED
    assert behind.host.told_router == [OUT] and mark(behind)["sure"]
    assert f"{behind.deployment} is still out of its router." in behind.job.summary
    client.force_login(User.objects.get(username="operator"))
    assert "Still out of the router" in client.get("/").content.decode()
    page = client.get(f"/deployments/{behind.deployment.pk}/").content.decode()
    assert "Still out of its router" in page and f"job {behind.job.pk}" in page


def test_the_way_back_puts_it_back(behind: Story) -> None:
    behind.host.log, behind.host.exit_code = OOM, 1

    def mended() -> None:
        if behind.job.steps.filter(way_back=True).exists():
            behind.host.log, behind.host.exit_code = READY, None

    behind.host.before["launch start"] = mended
    approved(behind, way_back=True).work_on()
    assert "serves again" in behind.job.summary, behind.job.summary
    assert behind.host.told_router == [OUT, BACK] and mark(behind) == {}


def test_a_cancel_after_it_was_taken_out_leaves_the_mark(behind: Story, operator: User) -> None:
    approved(behind)
    behind.host.after["hook"] = lambda: services.cancel_job(behind.job, actor=operator, address="")
    assert behind.work_on().state == JobState.CANCELLED
    assert mark(behind)["sure"] and "is still out of its router" in behind.job.summary


def test_a_worker_that_dies_in_between_is_followed_by_one_that_does_not_take_it_out_again(behind: Story) -> None:
    told: list[bool] = []

    def told_to_stop() -> bool:
        told.append("hook" in behind.host.sent)
        return told[-1]

    approved(behind)
    assert behind.work(told_to_stop).state == JobState.QUEUED and mark(behind)
    assert behind.work_on().state == JobState.SUCCEEDED, behind.job.summary
    assert behind.host.told_router == [OUT, BACK]


# --- It cannot be put back


@pytest.fixture
def left_out(behind: Story) -> Story:
    """It serves, and could not be put back."""
    behind.host.hooks[BACK] = (["the config is broken"], 1)
    approved(behind).work_on()
    return behind


def test_the_job_ends_as_what_it_is_with_the_mark(left_out: Story) -> None:
    assert left_out.job.state == JobState.SUCCEEDED
    assert "may still be out of its router" in left_out.job.summary
    assert "could not be put back" in left_out.job.steps.get(name="check").summary
    assert "exit status 1" in mark(left_out)["why"] and not mark(left_out)["meant"]


def put_back(story: Story) -> Story:
    actor = User.objects.get(username="operator")
    story.job = services.request_put_back(story.deployment, request_key=uuid4(), actor=actor, address="")
    return story


def test_the_button_runs_it_again(left_out: Story) -> None:
    left_out.deployment.refresh_from_db()
    assert put_back(left_out).work_on().state == JobState.FAILED
    assert "could not be put back" in left_out.job.summary and mark(left_out)
    left_out.host.hooks.clear()
    left_out.host.sent.clear()
    assert put_back(left_out).work_on().state == JobState.SUCCEEDED, left_out.job.summary
    assert left_out.host.sent == ["hook"], "no lock is touched"
    assert mark(left_out) == {} and left_out.job.summary == f"{left_out.deployment} is in its router."
    left_out.deployment.refresh_from_db()
    with pytest.raises(Refused, match="is not out of its router"):
        put_back(left_out)


def test_nobody_is_sent_to_a_server_that_is_down(left_out: Story) -> None:
    left_out.deployment.refresh_from_db()
    left_out.deployment.state = ServiceState.CRASHED
    with pytest.raises(Refused, match="would send users to nobody"):
        put_back(left_out)


def test_a_person_may_say_that_it_is_back(left_out: Story, client: Client) -> None:
    client.force_login(User.objects.get(username="operator"))
    address = f"/deployments/{left_out.deployment.pk}/router/"
    assert client.post(address, {"said": ""}).status_code == 302
    assert mark(left_out) == {}
    entry = AuditEntry.objects.get(action="say it is back in its router")
    assert entry.actor_name == "operator" and entry.detail["by job"] == left_out.job.pk
    assert client.post(address, {"said": ""}).status_code == 409


def test_the_button_on_the_page_makes_the_job(left_out: Story, client: Client) -> None:
    client.force_login(User.objects.get(username="operator"))
    page = client.get(f"/deployments/{left_out.deployment.pk}/").content.decode()
    assert "Put it back now" in page
    answer = client.post(f"/deployments/{left_out.deployment.pk}/router/")
    assert answer.status_code == 302 and "/jobs/" in answer["Location"]
    assert client.post(f"/deployments/{left_out.deployment.pk}/router/", {"said": ""}).status_code == 409


def test_a_viewer_may_not(left_out: Story, client: Client, viewer: User) -> None:
    client.force_login(viewer)
    assert client.post(f"/deployments/{left_out.deployment.pk}/router/").status_code == 403
    assert mark(left_out)


def test_it_is_not_taken_out_twice(left_out: Story) -> None:
    """It is out for sure: the next restart only puts it back."""
    Deployment.objects.filter(pk=left_out.deployment.pk).update(out_of_router={**mark(left_out), "sure": True})
    left_out.host.hooks.clear()
    left_out.host.told_router.clear()
    assert approved(left_out).work_on().state == JobState.SUCCEEDED, left_out.job.summary
    assert left_out.host.told_router == [BACK] and mark(left_out) == {}
