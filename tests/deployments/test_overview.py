"""The overview, the strip on top, the audit page, and how the pages write numbers and times."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client
from django.utils import timezone

from controlpanel import audit
from controlpanel.templatetags import words
from deployments.models import Deployment, Job
from deployments.views import board
from hosts.models import Host
from tests.factories import make_deployment, make_gate, make_gpu, make_host, make_job, make_launch, make_revision

ClientOf = Callable[[User], Client]


@pytest.fixture
def page(db: None, client_of: ClientOf, operator: User) -> Callable[[], str]:
    """Return a function that fetches the overview as an operator sees it."""
    client = client_of(operator)
    return lambda: client.get("/").content.decode()


def test_an_empty_panel_says_what_comes_first(db: None, client_of: ClientOf, administrator: User) -> None:
    assert "Add a host by SSH" in client_of(administrator).get("/").content.decode()


def test_one_line_says_that_nothing_needs_attention(page: Callable[[], str]) -> None:
    make_deployment(name="chat-prod")
    text = page()
    assert "Nothing needs attention." in text and "chat-prod" in text and "Plan a restart…" in text
    assert "Nothing runs or waits." in text


def test_what_waits_failed_and_is_lost_stands_first(page: Callable[[], str]) -> None:
    make_gate(make_job(make_deployment(name="waits"), at_step=0, state="waiting"))
    make_job(make_deployment(name="broke"), state="failed", ended_at=timezone.now(), summary="The port was taken.")
    make_job(make_deployment(name="lost"), state="unknown", contact_lost_at=timezone.now())
    make_deployment(name="crashed-one", state="crashed", state_detail="exit code 1")
    make_host(name="dark-box", reach="unreachable", problem="No answer.")
    attention = page().split("Needs attention")[1].split('id="deployments-title"')[0]
    for word in ("waits", "Waiting for approval", "broke", "The port was taken.", "lost", "crashed-one", "dark-box"):
        assert word in attention


def test_a_job_that_succeeded_afterwards_ends_the_alarm(page: Callable[[], str]) -> None:
    deployment = make_deployment()
    make_job(deployment, state="failed", ended_at=timezone.now())
    make_job(deployment, state="succeeded", ended_at=timezone.now())
    assert "Nothing needs attention." in page()


def test_what_a_person_chose_to_leave_is_no_alarm(page: Callable[[], str], client_of: ClientOf, operator: User) -> None:
    now = timezone.now()
    job = make_job(make_deployment(name="chat"), at_step=3, failed=True, state="failed", ended_at=now)
    gate = make_gate(job, kind="not free", answer="leave", answered_at=now)
    text, shown = page(), client_of(operator).get(f"/jobs/{job.pk}/").content.decode()
    assert "Nothing needs attention." in text and "failed" not in text.lower()
    assert "Ended here by a decision" in shown and "job-step-failed" not in shown and "Why it failed" not in shown
    gate.answer = "again"
    gate.save()
    assert "Nothing needs attention." not in page()
    assert "job-step-failed" in client_of(operator).get(f"/jobs/{job.pk}/").content.decode()


def test_edited_flags_and_unproven_flags_are_news(page: Callable[[], str]) -> None:
    deployment = make_deployment()
    make_launch(deployment)
    Deployment.objects.update(revision=make_revision(deployment.profile))
    assert "Edited, not applied" in page()


def test_cards_nobody_uses_are_free_or_held(page: Callable[[], str]) -> None:
    host = make_host()
    make_deployment(host=host)
    make_gpu(host)
    make_gpu(host, used_mib=31_000)
    make_gpu(host, used_mib=None, unread_reason="hung")
    text = page()
    assert "Free" in text and "Held by somebody" in text and "Could not measure" in text


def test_a_container_and_its_node_show_a_card_once(page: Callable[[], str]) -> None:
    node = make_host(name="node-1")
    container = make_host(name="ct-129", transport="pct", via=node, vmid=129, address="")
    make_gpu(container, uuid="GPU-same")
    make_gpu(node, uuid="GPU-same")
    spare = page().split("Cards without a deployment")[1]
    assert spare.count("data-gpu=") == 1 and "node-1" in spare


def test_an_old_reading_is_grey_and_says_its_age(page: Callable[[], str]) -> None:
    host = make_host()
    make_gpu(host, read_at=timezone.now() - timedelta(minutes=4))
    text = page()
    assert 'class="gpu stale"' in text and "4 min ago" in text


def test_a_failure_outranks_progress_on_the_strip(db: None, client_of: ClientOf, viewer: User) -> None:
    make_job(make_deployment(name="busy"), at_step=2)
    make_job(make_deployment(name="broke"), state="failed", ended_at=timezone.now())
    strip = client_of(viewer).get("/strip/").content.decode()
    assert "Restart failed" in strip and "broke" in strip and "1 more" in strip


def test_what_waits_for_a_person_outranks_an_old_failure_on_the_strip(
    db: None, client_of: ClientOf, viewer: User
) -> None:
    make_job(make_deployment(name="broke"), state="failed", ended_at=timezone.now())
    make_gate(make_job(make_deployment(name="waits"), at_step=0, state="waiting"))
    strip = client_of(viewer).get("/strip/").content.decode()
    assert "Waiting for approval" in strip and "waits" in strip and "broke" not in strip and "1 more" in strip


def test_a_running_job_says_which_step_of_how_many(page: Callable[[], str]) -> None:
    make_job(make_deployment(), at_step=2)
    assert "Restarting 3/6" in page()


def test_strangers_do_not_get_in(db: None, client: Client, client_of: ClientOf, stranger: User) -> None:
    assert client.get("/")["Location"] == "/login/?next=/"
    for path in ("/", "/audit/", "/strip/"):
        assert client_of(stranger).get(path).status_code == 403


@pytest.mark.long
def test_no_page_holds_inline_script_or_style(db: None, client_of: ClientOf, administrator: User) -> None:
    job = make_job(make_deployment(), at_step=2)
    for path in ("/", "/hosts/add/", "/jobs/", f"/jobs/{job.pk}/", "/deployments/new/", "/audit/"):
        answer = client_of(administrator).get(path)
        text = answer.content.decode()
        assert "style=" not in text and "onclick" not in text and "<script>" not in text, path


def test_the_audit_page_filters_and_verifies(db: None, client_of: ClientOf, administrator: User) -> None:
    with transaction.atomic():
        audit.record("add host", actor=administrator, target=None, detail={"where": "here"}, address="10.9.9.9")
        audit.record("cancel", actor=None, target=None, detail={}, address="")
    client = client_of(administrator)
    text = client.get("/audit/?action=add").content.decode()
    assert "10.9.9.9" in text and "where:" in text and "<td>cancel</td>" not in text
    assert "entries are what was written" in client.get("/audit/?verify=1").content.decode()
    assert "No entry like that" in client.get("/audit/?person=nobody").content.decode()


@pytest.mark.parametrize(
    ("mib", "text"), [(None, "unknown"), (0, "0 MiB"), (1023, "1023 MiB"), (1024, "1.0 GiB"), (83501, "81.5 GiB")]
)
def test_sizes_have_units(mib: int | None, text: str) -> None:
    assert words.size(mib) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (0.4, "0.4 s"), (59, "59 s"), (125, "2 min 5 s"), (3600, "1 h"), (93784, "1 d 2 h")],
)
def test_lengths_of_time_have_units(seconds: float, text: str) -> None:
    assert words.duration(seconds) == text


def test_a_state_nobody_named_shows_as_unknown() -> None:
    assert words.look("job", "sleeping").word == "Unknown"


def test_memory_of_another_on_its_cards_is_said_to_be_that_ones(page: Callable[[], str]) -> None:
    host = make_host()
    gpu, left = make_gpu(host, used_mib=41_000), make_gpu(host, used_mib=30_000)
    old = make_deployment(name="old", host=host, gpus=[gpu, left], state="stopped")
    make_launch(old, state="ended")
    assert page().count("in use, though old does not run") == 2
    day = make_deployment(name="day", host=host, gpus=[gpu])
    text = page()
    assert text.count("used by day") == 1 and text.count("in use, though old does not run") == 1
    Deployment.objects.filter(pk=old.pk).update(state="serving")
    text = page()
    assert "also used by day" in text and "also used by old" in text and "does not run" not in text
    Deployment.objects.filter(pk=day.pk).update(state="stopped")
    make_launch(day, state="starting")
    make_deployment(name="third", host=host, gpus=[gpu])
    assert "also used by day, third" in page(), "one of them is being started"


def test_the_cards_of_a_container_are_those_of_its_node(page: Callable[[], str]) -> None:
    node = make_host(name="node-1")
    box = make_host(name="ct-129", transport="pct", via=node, vmid=129, address="")
    inside, outside = make_gpu(box, uuid="GPU-same", used_mib=41_000), make_gpu(node, uuid="GPU-same", used_mib=41_000)
    make_deployment(name="in-the-box", host=box, gpus=[inside])
    make_launch(make_deployment(name="on-node", host=node, gpus=[outside], state="stopped"), state="ended")
    assert page().count("used by in-the-box") == 1


def test_what_was_never_launched_is_neither_unknown_nor_to_be_stopped(client_of: ClientOf, operator: User) -> None:
    new = make_deployment(name="new-one", state="unknown", state_since=None)
    path = f"/deployments/{new.pk}/"
    shown = client_of(operator).get(path).content.decode()
    assert "Not launched yet" in shown and "Unknown" not in shown and "A start launches" in shown
    assert f'class="btn btn-primary" href="{path}start/"' in shown
    assert f"{path}restart/" not in shown and f"{path}stop/" not in shown
    assert new.plan_url() == f"{path}start/"


def test_new_is_what_was_never_launched_and_where_no_server_is_known(db: None) -> None:
    def told(**values: object) -> tuple[str, bool]:
        Deployment.objects.update(**values)
        (row,) = board.rows()
        return row.word.text, row.is_down

    new = make_deployment(state="unknown", state_since=None)
    assert told() == ("Not launched yet", True)
    assert told(state="stopped", state_since=timezone.now()) == ("Not launched yet", True), "the monitor has looked"
    assert told(state="unknown", state_detail="gpu-1 cannot be read") == ("", False), "a server may be there"
    make_launch(new, state="ended")
    assert told(state="stopped") == ("", True)


def test_the_last_change_is_what_was_last_done_to_the_server(page: Callable[[], str]) -> None:
    old, new = make_deployment(name="old"), make_deployment(name="new")
    done = {"state": "succeeded", "touched": True, "ended_at": timezone.now()}

    def told() -> dict[str, str]:
        return {row.deployment.name: row.last_change_words for row in board.rows()}

    make_job(old, **done)
    assert told() == {"old": "restart by olga", "new": ""}
    make_job(new, kind="replace", replaces=old, **done)
    replaced = {"old": "replaced with new by olga", "new": "put in the place of old by olga"}
    assert told() == replaced and replaced["old"] in page()
    make_job(old, kind="benchmark", **done)
    make_job(old, state="rejected", ended_at=timezone.now())
    assert told() == replaced, "neither has changed anything"
    make_job(old, kind="start", **{**done, "state": "failed"})
    assert told()["old"] == "start by olga, which failed"
    make_job(old, kind="stop", state="running", requested_by_name="ada")
    assert told()["old"] == "start by olga, which failed", "nothing is touched yet"
    Job.objects.update(touched=True)
    assert told()["old"] == "stop by ada"


def test_a_replacement_that_failed_is_one_alarm_until_either_was_seen_to(page: Callable[[], str]) -> None:
    old, new = make_deployment(name="old"), make_deployment(name="new", state="stopped")
    failed = {"state": "failed", "ended_at": timezone.now(), "touched": True}
    job = make_job(new, kind="replace", replaces=old, summary="It broke.", **failed)
    attention = page().split('id="deployments-title"')[0]
    assert attention.count("It broke.") == 1 and "proven" not in attention
    assert [each.pk for each in board.news()] == [job.pk]
    make_job(old, state="succeeded", ended_at=timezone.now())
    assert board.news() == [] and "It broke." not in page().split('id="deployments-title"')[0]


def test_a_card_of_a_host_out_of_reach_is_not_shown_as_free(page: Callable[[], str]) -> None:
    """Its last reading stays, with its age: what holds it now nobody knows."""
    gpu = make_gpu(make_host())
    assert "Free" in page()
    Host.objects.filter(pk=gpu.host_id).update(reach=Host.Reach.UNREACHABLE)
    assert "Free" not in page() and "read <time" in page()


def test_a_card_that_was_read_long_ago_is_not_shown_as_free(page: Callable[[], str]) -> None:
    make_gpu(make_host(), read_at=timezone.now() - timedelta(minutes=2))
    assert "Free" not in page()


def test_a_card_of_a_container_is_unknown_with_its_node(page: Callable[[], str]) -> None:
    node = make_host(reach=Host.Reach.UNREACHABLE)
    make_gpu(make_host(transport=Host.TransportKind.PCT, via=node, vmid=101))
    assert "Free" not in page()


def test_a_server_that_loads_while_its_job_waits_is_not_called_stopped(page: Callable[[], str]) -> None:
    deployment = make_deployment(state="stopped")
    make_launch(deployment, state="starting", ready_at=None)
    make_gate(make_job(deployment, state="waiting", touched=True), kind="not ready")
    assert "Not ready yet" in page() and "Stopped" not in page()


def test_what_is_said_of_a_host_that_cannot_be_seen_is_true_of_it(page: Callable[[], str]) -> None:
    values = {"reach": Host.Reach.UNREACHABLE, "reach_since": timezone.now()}
    host = make_host(name="far", problem="No route.", **values)
    assert "may still serve" in page()
    Host.objects.filter(pk=host.pk).update(last_seen_at=None)
    shown = page()
    assert "may still serve" not in shown and "has not reached it yet" in shown
    host.delete()
    node = make_host(name="pve")
    make_host(
        name="ct", transport="pct", via=node, vmid=130, address="", problem="Container 130 is not running.", **values
    )
    shown = page()
    assert "may still serve" not in shown and "until it runs again" in shown


def test_a_card_whose_baseline_is_not_known_is_compared_with_nothing(page: Callable[[], str]) -> None:
    make_gpu(make_host(), used_mib=57_000, baseline_mib=None)
    shown = page()
    assert "not known yet" in shown and "more than when nobody holds it" not in shown


def test_never_launched_is_one_word_everywhere_and_has_no_moving_time(
    page: Callable[[], str], client_of: ClientOf, operator: User
) -> None:
    new = make_deployment(name="new-one", state="stopped", state_since=timezone.now())
    host = client_of(operator).get(f"/hosts/{new.placement.host_id}/").content.decode()
    part = host.split("Deployments here")[1].split("</section>")[0]
    assert "Not launched yet" in part and "Stopped" not in part
    row = page().split("Not launched yet")[1].split("port")[0]
    assert "since" not in row
