"""Links that break, workers that die or are told to stop, people who cancel: nothing is done twice or by guess."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.utils import timezone

from deployments.lifecycle import JobState, LaunchState
from deployments.models import Deployment, Job, Launch
from hosts.transport.base import CommandTimeout, LinkLost, TransportError
from tests.deployments.machine import OTHER_BOOT
from tests.deployments.support import Story, raising

pytestmark = [pytest.mark.django_db, pytest.mark.jobs]
LOST = LinkLost("The link broke.")


# --- The host cannot be reached


def test_a_host_that_cannot_be_reached_before_anything_was_done(serving: Story) -> None:
    serving.host.reachable = False
    serving.request()
    assert serving.work().state == JobState.FAILED
    assert "does not answer. Nothing was touched." in serving.job.summary and serving.job.hint
    assert not serving.job.card_claims.exists() and serving.host.sent == []


@pytest.mark.parametrize("error", [LOST, CommandTimeout("Too slow.")])
def test_a_look_that_breaks_before_anything_was_done_is_a_failure_too(serving: Story, error: TransportError) -> None:
    serving.host.before["probe"] = raising(error)
    serving.request()
    assert serving.work().state == JobState.FAILED
    assert "Nothing was touched." in serving.job.summary
    assert "Only a look at" in serving.job.hint and "may still run" not in serving.job.hint


@pytest.mark.parametrize("kind", ["stop TERM", "watch", "launch start", "follow"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_link_lost_after_something_was_done_is_unknown_and_goes_on_later(
    serving: Story, kind: str, when: str
) -> None:
    serving.request()
    serving.approve()
    getattr(serving.host, when)[kind] = raising(LOST)
    assert serving.work().state == JobState.UNKNOWN
    job = serving.job
    assert job.contact_lost_at is not None and job.ring_at is not None and job.ring_at > timezone.now()
    assert "Users may still be served" in job.summary and job.owner == ""
    assert job.card_claims.count() == 2 and job.port_claims.exists()
    live = serving.deployment.live_launch
    assert serving.work().state == JobState.SUCCEEDED, job.summary
    assert serving.job.contact_lost_at is None
    assert len(serving.host.launches) == 1, "one launch id was sent, however often"
    assert len([proc for proc in serving.host.machine.procs.values() if proc.port == 30000]) == 1
    assert live is None or live.state in (LaunchState.INTENDED, LaunchState.STARTING, LaunchState.SERVING)
    assert "Contact with" in serving.log()


def test_a_host_that_stays_away_keeps_the_job_unknown_and_the_first_time(serving: Story) -> None:
    serving.request()
    serving.approve()
    serving.host.after["stop TERM"] = raising(LOST)
    serving.work()
    since = serving.job.contact_lost_at
    serving.host.reachable = False
    serving.host.sent.clear()
    for _ in range(3):
        assert serving.work().state == JobState.UNKNOWN
    assert serving.job.contact_lost_at == since and serving.host.sent == []
    assert serving.job.card_claims.exists()


@pytest.mark.parametrize("choice", ["go_on", "end"])
def test_after_a_quarter_of_an_hour_a_person_is_asked(serving: Story, choice: str) -> None:
    serving.request()
    serving.approve()
    serving.host.after["stop TERM"] = raising(LOST)
    serving.work()
    Job.objects.update(contact_lost_at=timezone.now() - timedelta(minutes=16))
    serving.host.sent.clear()
    assert serving.work().state == JobState.WAITING
    assert serving.host.sent == ["probe"] and serving.gate.kind == "contact"
    serving.answer(choice)
    assert serving.work().state == (JobState.SUCCEEDED if choice == "go_on" else JobState.FAILED)


def test_ending_the_job_there_does_not_start_what_was_serving(serving: Story) -> None:
    serving.request()
    serving.approve()
    serving.host.after["launch start"] = raising(LOST)
    serving.work()
    Job.objects.update(contact_lost_at=timezone.now() - timedelta(minutes=16))
    assert serving.work().state == JobState.WAITING
    serving.answer("end")
    serving.host.sent.clear()
    assert serving.work().state == JobState.FAILED
    assert not {"stop TERM", "launch start"} & {*serving.host.sent}
    assert not serving.job.steps.filter(way_back=True).exists()


def test_after_a_boot_a_person_is_asked_at_once(serving: Story) -> None:
    serving.request()
    serving.approve()
    serving.host.after["stop TERM"] = raising(LOST)
    serving.work()
    serving.host.machine.boot = OTHER_BOOT
    assert serving.work().state == JobState.WAITING
    assert "booted meanwhile" in serving.gate.text


def test_a_boot_that_was_agreed_to_is_not_asked_about_again(serving: Story) -> None:
    test_after_a_boot_a_person_is_asked_at_once(serving)
    serving.answer("go_on")
    serving.host.after["launch start"] = raising(LOST)
    assert serving.work().state == JobState.UNKNOWN, serving.job.summary
    assert serving.work().state == JobState.SUCCEEDED, serving.job.summary


def test_a_completion_that_the_link_swallowed_is_not_the_servers_fault(serving: Story) -> None:
    class Broken:
        def sendall(self, data: bytes) -> None:
            raise LOST

        def settimeout(self, seconds: float | None) -> None:
            pass

        def close(self) -> None:
            pass

    serving.request()
    serving.approve()
    ports = serving.host.transport.ports
    good = dict(ports)

    def break_it() -> None:
        ports[30000] = lambda _host, _port: Broken()  # type: ignore[assignment,return-value]
        serving.host.transport.alive = False

    serving.host.after["follow"] = break_it
    assert serving.work().state == JobState.UNKNOWN
    serving.host.after.clear()
    ports.update(good)
    serving.host.transport.alive = True
    assert serving.work().state == JobState.SUCCEEDED


# --- Workers


@pytest.mark.parametrize("kind", ["stop TERM", "launch start"])
def test_a_worker_that_the_host_fences_off_stops_without_a_word(serving: Story, kind: str) -> None:
    serving.request()
    serving.approve()

    def another_comes() -> None:
        Deployment.objects.update(fence=99)
        serving.host.fence = 99

    serving.host.before[kind] = another_comes
    assert serving.work().state == JobState.RUNNING, "the newer worker says how it ends"
    assert serving.job.card_claims.exists()


def test_a_host_that_knows_more_than_the_database_ends_the_job(serving: Story) -> None:
    """Else another worker would go on with the fence that was learnt, and nobody would have looked."""
    serving.request()
    serving.approve()
    serving.host.before["stop TERM"] = lambda: setattr(serving.host, "fence", 99)
    assert serving.work().state == JobState.FAILED
    assert "has seen newer work" in serving.job.summary and not serving.job.card_claims.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", ["stop TERM", "watch", "launch start", "follow"])
def test_a_worker_that_lost_its_job_writes_nothing(serving: Story, kind: str) -> None:
    serving.request()
    serving.approve()
    written: list[object] = []

    def taken_over() -> None:
        Job.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
        assert Job.claim(serving.job.pk, owner="another") is not None
        written[:] = [Job.objects.values().get(), serving.job.log.count()]

    serving.host.after[kind] = taken_over
    serving.work()
    assert [Job.objects.values().get(), serving.job.log.count()] == written


@pytest.mark.parametrize("kind", ["stop TERM", "watch", "launch start", "follow"])
def test_another_worker_finishes_what_a_dead_one_began(serving: Story, kind: str) -> None:
    class Dead(BaseException):
        pass

    serving.request()
    serving.approve()
    serving.host.after[kind] = raising(Dead())  # type: ignore[arg-type]
    with pytest.raises(Dead):
        serving.work()
    assert serving.work().state == JobState.RUNNING, "the lease holds"
    Job.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert serving.work().state == JobState.SUCCEEDED, serving.job.summary
    assert len(serving.host.launches) == 1
    assert Launch.objects.filter(state=LaunchState.SERVING).count() == 1
    text = "".join(serving.job.log.filter(source="server").order_by("seq").values_list("text", flat=True))
    assert text == serving.host.log, "no gap and no repeat"


def test_a_worker_that_is_told_to_stop_hands_the_job_back(serving: Story, rung: list[int]) -> None:
    serving.request()
    serving.approve()
    told = False
    rung.clear()

    def tell() -> None:
        nonlocal told
        told = True

    serving.host.after["stop TERM"] = tell
    assert serving.work(lambda: told).state == JobState.QUEUED
    assert rung == [serving.job.pk] and serving.job.lease_until is None
    assert "launch start" not in serving.host.sent
    assert serving.work().state == JobState.SUCCEEDED


def test_a_database_that_fails_ends_nothing(serving: Story) -> None:
    serving.request()
    serving.approve()
    serving.host.before["watch"] = raising(OperationalError("the disk is gone"))
    assert serving.work().state == JobState.RUNNING
    assert serving.job.lease_until is not None and serving.job.traceback == ""
    Job.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert serving.work().state == JobState.SUCCEEDED


def test_a_job_that_somebody_has_is_left_alone(serving: Story) -> None:
    serving.request()
    assert Job.claim(serving.job.pk, owner="another") is not None
    assert serving.work().owner == "another"
    assert serving.host.sent == []


def test_going_on_is_not_decided_by_somebody_who_lost_the_role_meanwhile(serving: Story) -> None:
    serving.request()
    serving.approve()
    serving.host.before["stop TERM"] = raising(LinkLost("gone"))
    assert serving.work().state == JobState.UNKNOWN
    Job.objects.update(contact_lost_at=timezone.now() - timedelta(hours=1))
    assert serving.work().state == JobState.WAITING and serving.gate.kind == "contact"
    serving.answer("go_on")
    User.objects.get(username="approver").groups.clear()
    serving.host.before.clear()
    serving.host.sent.clear()
    assert serving.work().state == JobState.WAITING and serving.gate.kind == "contact", "it is asked again"
    assert "stop TERM" not in serving.host.sent
