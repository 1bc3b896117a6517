"""One deployment replaced by another on its cards, on a scripted host: order, states, way back, questions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError

from deployments import services
from deployments.lifecycle import ENDS_SERVER, JobKind, JobState, LaunchState, ServiceState, StepState
from deployments.models import CardClaim, Deployment, Job, PortClaim
from deployments.plan.warnings import Cure
from deployments.services import Refused
from hosts.models import Gpu
from tests.deployments.machine import Proc
from tests.deployments.support import OOM, READY, Story, Tunnel
from tests.factories import make_deployment, make_gpu, make_launch, make_profile, make_revision

pytestmark = [pytest.mark.django_db, pytest.mark.jobs]
PORT = 30009


@pytest.fixture
def new(serving: Story) -> Deployment:
    """A stopped deployment on the second of the cards of the one that serves, on a port of its own."""
    old = serving.deployment
    profile = make_profile(name="other")
    argv = ["/opt/sglang/bin/python", "-m", "sglang.launch_server", "--model-path", "/models/other", "--port", "30009"]
    revision = make_revision(profile, argv=argv, port=PORT)
    card = old.placement.gpus[1]
    made = make_deployment(
        host=old.placement.host, gpus=[card], revision=revision, name="newcomer", port=PORT, state=ServiceState.STOPPED
    )
    serving.host.transport.ports[PORT] = lambda _host, _port: Tunnel(serving.host.pages)
    return made


@pytest.fixture
def replace(serving: Story, new: Deployment, operator: User) -> Callable[..., Story]:
    """Ask for the replacement, and have its plan approved."""

    def begin(*, way_back: bool = True, approve: bool = True, **more: Any) -> Story:
        usual: dict[str, Any] = {"by": new, "reason": "why", "request_key": uuid4(), "actor": operator, "address": ""}
        serving.job = services.request_replacement(serving.deployment, way_back=way_back, **(usual | more))
        if approve:
            serving.approve()
        return serving

    return begin


def test_the_old_one_is_stopped_and_the_new_one_serves(replace: Callable[..., Story], new: Deployment) -> None:
    story = replace()
    old = story.deployment
    assert story.work_on().state == JobState.SUCCEEDED, story.job.summary
    sent = story.host.sent
    assert sent.index("stop TERM") < sent.index("watch") < sent.index("launch start")
    assert not {100, 101, 102, 103} & story.host.machine.procs.keys(), "the old server is gone"
    old.refresh_from_db()
    new.refresh_from_db()
    assert (old.state, new.state) == (ServiceState.STOPPED, ServiceState.SERVING)
    assert old.live_launch is None and new.live_launch is not None
    assert new.live_launch.state == LaunchState.SERVING and new.live_launch.revision == new.revision
    assert story.job.summary == f"newcomer serves with {new.revision} instead of {old}."
    assert not story.job.card_claims.exists() and not story.job.port_claims.exists()
    assert set(story.steps().values()) == {"done"}


def test_it_waits_until_no_request_runs_at_the_server_that_goes(
    replace: Callable[..., Story], new: Deployment, approver: User
) -> None:
    busy, quiet = ((200, f"sglang:num_running_reqs {running}.0\n".encode()) for running in (2, 0))
    story, others = replace(approve=False), {"/metrics": quiet}
    story.host.transport.ports[PORT] = lambda _host, _port: Tunnel(story.host.pages | others)
    story.host.pages["/metrics"] = busy
    story.work()
    gate = story.gate
    services.approve_when_idle(gate, begins=0, ends=2, plan_hash=gate.plan_hash, actor=approver, address="")
    assert (story.work().state, story.job.summary) == (JobState.WAITING, "2 requests ran at the last look.")
    story.host.pages["/metrics"] = quiet
    for _ in range(2):
        Job.objects.update(state=JobState.QUEUED)  # as the sweeper does in its time
        job = story.work()
    assert job.state == JobState.SUCCEEDED, job.summary
    assert job.previous_revision == story.deployment.profile.revisions.get(number=1), "what served, for the way back"
    assert "stop TERM" in story.host.sent


def test_it_holds_both_deployments_all_cards_and_both_ports(
    replace: Callable[..., Story], new: Deployment, ask: Callable[..., Job]
) -> None:
    story = replace(approve=False)
    assert {claim.gpu_uuid for claim in CardClaim.objects.all()} == {"GPU-aaaa", "GPU-bbbb"}
    assert {claim.port for claim in PortClaim.objects.all()} == {30000, PORT}
    for deployment in (story.deployment, new):
        assert deployment.active_job == story.job
        for kind in (JobKind.RESTART, JobKind.START, JobKind.STOP):
            with pytest.raises(Refused, match="has already asked for a replace"):
                ask(deployment, kind=kind)


def test_while_one_of_them_is_busy_it_is_refused(
    replace: Callable[..., Story], new: Deployment, ask: Callable[..., Job], serving: Story
) -> None:
    ask(serving.deployment, kind=JobKind.RESTART)
    with pytest.raises(Refused, match="has already asked for a restart of chat"):
        replace(approve=False)
    assert Job.objects.count() == 1
    with pytest.raises(IntegrityError):
        PortClaim.objects.create(job=Job.objects.get(), host=serving.deployment.placement.host, port=30000)


def test_the_plan_names_what_stops_and_what_starts(replace: Callable[..., Story], new: Deployment) -> None:
    story = replace(approve=False)
    assert story.work().state == JobState.WAITING, story.job.summary
    plan, old = story.job.plan, story.deployment
    assert plan is not None
    assert {row["pid"] for row in plan["stops"]} == {100, 101, 102, 103}
    assert plan["launch"]["revision"] == str(new.revision) and plan["untouched"] == [] and not plan["blocked"]
    titles = [section["title"] for section in plan["sections"]]
    assert f"Where: {old}" in titles and "Where: newcomer" in titles
    assert plan["binding"]["kind"] == "replace" and plan["binding"]["replaces"] == [old.name, "newcomer"]
    assert story.gate.title == f"Approve and replace {old} by newcomer?"
    assert f"Stops 4 processes of {old}" in story.gate.choices[0]["detail"]
    assert story.job.previous_revision == old.profile.revisions.get(number=1)


def test_the_approval_is_bound_to_what_serves(replace: Callable[..., Story]) -> None:
    story = replace()
    story.host.machine.add(Proc(100, 5555, command="/opt/sglang/bin/python -m sglang.launch_server", port=30000))
    assert story.work_on().state == JobState.WAITING
    assert story.gate.title == "The plan is out of date. Approve the new one?"
    assert "stop TERM" not in story.host.sent


def test_nothing_serves_so_there_is_nothing_to_replace(replace: Callable[..., Story]) -> None:
    story = replace(approve=False)
    story.host.machine.procs.clear()
    assert story.work().state == JobState.FAILED
    assert "there is nothing to replace" in story.job.summary and not story.job.touched


def test_what_the_one_that_goes_lacks_is_mended_on_its_own_pages(replace: Callable[..., Story]) -> None:
    story = replace(approve=False)
    hook = {"how": "request", "method": "POST", "url": "http://router/out", "body": "{router key}"}
    Deployment.objects.filter(pk=story.deployment.pk).update(hooks={"take out": hook})
    assert story.work().state == JobState.FAILED and not story.job.touched
    data = story.job.steps.get(state=StepState.FAILED).data
    assert (data["cure"], data["of"]) == (Cure.SECRETS, story.deployment.name), story.job.summary


def test_a_stranger_on_the_port_of_the_new_one_blocks(replace: Callable[..., Story]) -> None:
    story = replace(approve=False)
    story.host.machine.add(Proc(300, 3000, command="nginx", port=PORT))
    assert story.work().state == JobState.FAILED
    assert f"Port {PORT} belongs to another process" in story.job.summary


def test_a_stranger_on_the_cards_is_named_but_not_the_old_server(replace: Callable[..., Story]) -> None:
    story = replace(approve=False)
    story.host.machine.add(Proc(300, 3000, "python3", "python3 train.py", cards=(1,), memory=500))
    assert story.work().state == JobState.WAITING
    assert story.job.plan is not None
    assert [row["pid"] for row in story.job.plan["untouched"]] == [300]


# --- It fails


def test_where_the_cards_do_not_get_free_the_words_name_whose_server_is_down(replace: Callable[..., Story]) -> None:
    story = replace()
    old = story.deployment
    Deployment.objects.update(memory_seconds=0, stuck_seconds=0, port_seconds=0)
    trainer = Proc(300, 3000, "python3", "python3 train.py", cards=(1,), memory=30_000)
    story.host.after["stop TERM"] = lambda: story.host.machine.add(trainer)
    assert story.work_on().state == JobState.WAITING and story.gate.kind == "not free", story.job.summary
    down = next(row["text"] for row in story.gate.evidence if row.get("at"))
    assert down == f"{old} is down since"
    leave = next(choice for choice in story.gate.choices if choice["key"] == "leave")
    assert (leave["label"], leave["detail"]) == ("Leave both stopped", f"{old} and newcomer stay down.")
    story.answer("leave")
    assert story.work_on().state == JobState.FAILED
    assert f"decided to leave {old} and newcomer stopped" in story.job.summary
    assert story.job.hint.startswith(f"Start {old} when")


def fails(story: Story, *, only_first: bool = True) -> None:
    """The new server ends with out of memory; with ``only_first`` the old one then comes up."""
    story.host.log, story.host.exit_code = OOM, 1

    def mend() -> None:
        if only_first and story.job.steps.filter(way_back=True).exists():
            story.host.log, story.host.exit_code = READY, None

    story.host.before["launch start"] = mend


def test_ticked_the_old_one_serves_again(replace: Callable[..., Story], new: Deployment) -> None:
    story = replace()
    old = story.deployment
    served = old.live_launch
    assert served is not None
    fails(story)
    assert story.work_on().state == JobState.FAILED, story.job.summary
    old.refresh_from_db()
    new.refresh_from_db()
    assert (old.state, new.state) == (ServiceState.SERVING, ServiceState.STOPPED)
    assert old.live_launch is not None and old.live_launch != served and old.live_launch.revision == served.revision
    assert new.live_launch is None
    assert story.job.summary.startswith(f"newcomer failed; {old} serves again with {served.revision}.")
    assert [step.state for step in story.job.steps.filter(way_back=True)] == ["done"] * 4
    roots = [proc for proc in story.host.machine.procs.values() if proc.port]
    assert len(roots) == 1, "one server in all"


def test_unticked_a_person_decides(replace: Callable[..., Story], new: Deployment) -> None:
    story = replace(way_back=False)
    fails(story)
    assert story.work_on().state == JobState.WAITING
    assert story.gate.title == f"The replacement failed. Start {story.job.previous_revision} again?"
    story.answer("back")
    assert story.work_on().state == JobState.FAILED
    assert "serves again" in story.job.summary, story.job.summary


def test_a_way_back_that_fails_too_says_that_both_are_down(replace: Callable[..., Story], new: Deployment) -> None:
    story = replace()
    fails(story, only_first=False)
    assert story.work_on().state == JobState.FAILED
    assert f"{story.deployment} is down. newcomer is down." in story.job.summary
    assert "again failed too" in story.job.summary


def test_a_cancel_after_the_stop_says_what_users_find(replace: Callable[..., Story], operator: User) -> None:
    story = replace()
    story.host.after["stop TERM"] = lambda: services.cancel_job(story.job, actor=operator, address="")
    assert story.work_on().state == JobState.CANCELLED
    assert "newcomer is down" in story.job.summary and not CardClaim.objects.exists()


def test_another_worker_goes_on_between_the_two(replace: Callable[..., Story], new: Deployment) -> None:
    story = replace()
    assert story.work(lambda: "stop TERM" in story.host.sent).state == JobState.QUEUED
    assert story.work_on().state == JobState.SUCCEEDED, story.job.summary
    assert story.host.sent.count("launch start") == 1
    fences = set(Deployment.objects.values_list("fence", flat=True))
    assert len(fences) == 1, "both hosts' directories refuse the worker before"


def test_every_effect_says_on_whom_it_was(replace: Callable[..., Story]) -> None:
    story = replace()
    story.work_on()
    assert story.job.effects.filter(kind__in=ENDS_SERVER).count() == 1
    assert story.host.machine.cards["GPU-aaaa"] == 4, "the card that the new one does not use is free"


# --- Behind a router


def hooked(name: str) -> dict[str, Any]:
    return {moment: {"how": "command", "command": f"{moment} {name}"} for moment in ("take out", "put back")}


def test_each_is_told_its_own_way_to_the_router(replace: Callable[..., Story], new: Deployment) -> None:
    """The new one was taken out by its last stop; the old one stays out on purpose."""
    mark = {"since": "2026-01-01T00:00:00+00:00", "job": 1, "sure": True, "meant": True}
    Deployment.objects.filter(pk=new.pk).update(hooks=hooked("new"), out_of_router=mark)
    story = replace(approve=False)
    Deployment.objects.filter(pk=story.deployment.pk).update(hooks=hooked("old"))
    story.approve()
    assert story.work_on().state == JobState.SUCCEEDED, story.job.summary
    assert story.host.told_router == ["take out old", "put back new"]
    marks = dict(Deployment.objects.values_list("name", "out_of_router"))
    assert marks["newcomer"] == {} and marks[story.deployment.name]["meant"]
    assert f"{story.deployment} stays out of its router until its next start." in story.job.summary


def test_on_the_way_back_the_old_one_is_put_back(replace: Callable[..., Story], serving: Story) -> None:
    Deployment.objects.filter(pk=serving.deployment.pk).update(hooks=hooked("old"))
    story = replace()
    fails(story)
    story.work_on()
    assert story.host.told_router == ["take out old", "put back old"], story.job.summary
    assert Deployment.objects.get(pk=serving.deployment.pk).out_of_router == {}


# --- Who may


def test_only_who_may_for_both_may_approve(replace: Callable[..., Story], new: Deployment, approver: User) -> None:
    Deployment.objects.filter(pk=new.pk).update(requester_may_approve=True)
    approver.groups.add(*User.objects.get(username="operator").groups.all())
    story = replace(approve=False, actor=approver)
    story.work()
    assert "Somebody else must decide" in services.why_not_answer(Job.objects.get(), _approve(), approver)
    Deployment.objects.update(requester_may_approve=True)
    assert services.why_not_answer(Job.objects.get(), _approve(), approver) == ""


def _approve() -> Any:
    from controlpanel.access import Action

    return Action.APPROVE


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"state": ServiceState.SERVING}, "it is not stopped"),
        ({"state": ServiceState.UNKNOWN}, "it is not stopped"),
        ({"live": True}, "it is not stopped"),
        ({"more": True}, "it needs 1 card that"),
        ({"elsewhere": True}, "it runs on"),
        ({"none": True}, "it has no card"),
    ],
)
def test_what_cannot_take_its_place(
    replace: Callable[..., Story], new: Deployment, change: dict[str, Any], says: str
) -> None:
    place = new.placements.get()
    if "state" in change:
        new.state = change["state"]
        new.save()
    if change.get("live"):
        make_launch(new)
    if change.get("more"):
        place.gpu_uuids = [*place.gpu_uuids, make_gpu(place.host).uuid]
    if change.get("none"):
        place.gpu_uuids = []
    if change.get("elsewhere"):
        place.host = make_deployment().placement.host
    place.save()
    with pytest.raises(Refused, match=says):
        replace(approve=False, by=Deployment.objects.get(pk=new.pk))
    assert not Job.objects.exists() and Gpu.objects.exists()


def test_not_by_itself(replace: Callable[..., Story], serving: Story) -> None:
    with pytest.raises(Refused, match="the same deployment"):
        replace(approve=False, by=serving.deployment)
