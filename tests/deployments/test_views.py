"""The pages of deployments and jobs: who may do what, what a refusal keeps, and what is never shown."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from deployments.forms import DeploymentForm
from deployments.models import Deployment, Gate, Job
from deployments.services.deployments import EDITABLE
from deployments.views import job as job_page
from deployments.views.gatecard import GateCard
from tests.factories import (
    make_choice,
    make_deployment,
    make_gate,
    make_gpu,
    make_host,
    make_job,
    make_launch,
    make_log,
    make_profile,
    make_revision,
)

pytestmark = pytest.mark.django_db
ClientOf = Callable[[User], Client]

# --- All pages ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["²", "٣", "9" * 30, "-1", "x", ""])
def test_an_odd_number_in_an_address_is_no_fault(client_of: ClientOf, administrator: User, number: str) -> None:
    profile = make_profile()
    client = client_of(administrator)
    for path in (
        "/jobs/?before=", "/audit/?before=", f"/profiles/{profile.pk}/compare/?left=",
        f"/profiles/{profile.pk}/revise/?from=",
    ):  # fmt: skip
        assert client.get(path + number).status_code in (200, 404), path


def test_a_page_is_not_kept_by_the_browser(client_of: ClientOf, viewer: User) -> None:
    assert "no-store" in client_of(viewer).get("/jobs/")["Cache-Control"]


def test_another_machine_name_is_refused_in_words(client_of: ClientOf, viewer: User) -> None:
    assert client_of(viewer).get("/jobs/", headers={"host": "evil.example"}).status_code == 400


# --- Deployments ----------------------------------------------------------------------------------------------------


def _deployment_form(**values: object) -> dict[str, object]:
    numbers = {
        "drain_seconds": 60, "term_seconds": 20, "kill_seconds": 10, "memory_seconds": 30, "stuck_seconds": 120,
        "port_seconds": 10, "ready_seconds": "", "approval_minutes": 30, "tolerance_mib": 64,
    }  # fmt: skip
    return {"name": "chat", "kill_own_by_itself": "on", **numbers, **values}


def test_a_deployment_takes_only_cards_of_its_host(client_of: ClientOf, administrator: User) -> None:
    host, other = make_host(), make_host()
    mine, foreign = make_gpu(host), make_gpu(other)
    revision = make_profile().newest
    form = _deployment_form(host=host.pk, revision=revision.pk, gpus=[mine.uuid, foreign.uuid])
    assert client_of(administrator).post("/deployments/new/", form).status_code == 302
    made = Deployment.objects.get()
    assert made.placement.gpu_uuids == [mine.uuid]
    assert (made.port, made.co_tenants, made.requester_may_approve) == (30000, [], False)


@pytest.mark.long
def test_who_may_share_the_cards_is_chosen_once_for_both(client_of: ClientOf, administrator: User) -> None:
    host = make_host()
    gpu = make_gpu(host)
    embedder = make_deployment(host=host, gpus=[gpu], name="embedder")
    make_deployment(name="elsewhere")
    client = client_of(administrator)
    assert f"{host}, GPU 0" in client.get("/deployments/new/").content.decode()
    form = _deployment_form(host=host.pk, revision=make_profile().newest.pk, gpus=[gpu.uuid])
    form |= {"shares_with": [embedder.pk], "co_tenants": "root:Xorg, alice:python3", "tolerance_mib": 200}
    assert client.post("/deployments/new/", form | {"shared_need_mib": 9000}).status_code == 302
    chat = Deployment.objects.get(name="chat")
    assert (chat.co_tenants, chat.tolerance_mib, chat.shared_need_mib) == (["root:Xorg", "alice:python3"], 200, 9000)
    assert list(embedder.shares_with.all()) == [chat], "each allows the other"
    page = client.get(f"/deployments/{embedder.pk}/").content.decode()
    assert "May share the cards" in page and f'/deployments/{chat.pk}/">chat</a>' in page
    assert "checked" in client.get(f"/deployments/{embedder.pk}/edit/").content.decode().partition(">chat<")[0][-200:]
    page = client.get(f"/deployments/{chat.pk}/").content.decode()
    assert "root:Xorg, alice:python3" in page and "at its baseline plus 200 MiB" in page
    client.post(f"/deployments/{chat.pk}/edit/", form | {"shares_with": []})
    assert not embedder.shares_with.exists()


def test_only_who_uses_cards_of_the_same_machine_can_share_them(client_of: ClientOf, administrator: User) -> None:
    node, other, alone = make_host(), make_host(), make_host()
    container = make_host(transport="pct", via=node, vmid=129, address="")
    near = make_deployment(host=container, gpus=[make_gpu(container, uuid="GPU-same")])
    far = make_deployment(host=other)
    gpu = make_gpu(node, uuid="GPU-same")
    client = client_of(administrator)
    page = client.get("/deployments/new/").content.decode()

    def shown_for(what: str) -> str:
        return page.partition(what)[0].rpartition('data-shows-for="host=')[2].partition('"')[0]

    assert set(shown_for(f'name="shares_with" value="{near.pk}"').split("|")) == {str(node.pk), str(container.pk)}
    assert shown_for(f'name="shares_with" value="{far.pk}"') == str(other.pk)
    assert shown_for("No other deployment is on the machine") == str(alone.pk)
    form = _deployment_form(host=node.pk, revision=make_profile().newest.pk, gpus=[gpu.uuid])
    assert client.post("/deployments/new/", form | {"shares_with": [near.pk, far.pk]}).status_code == 302
    chat = Deployment.objects.get(name="chat")
    assert list(chat.shares_with.all()) == [near], "what is ticked behind another host does not count"


def test_a_neighbour_with_many_cards_wraps_on_a_phone(client_of: ClientOf, administrator: User) -> None:
    host = make_host()
    make_deployment(host=host, gpus=[make_gpu(host) for _ in range(8)])
    page = client_of(administrator).get("/deployments/new/").content.decode()
    classes = page.partition(f">{host}, GPU 0")[0].rpartition('class="')[2]
    assert "small" in classes and "num" not in classes, "that class keeps a text on one line"


@pytest.mark.parametrize("entry", ["Xorg", "root:", ":Xorg", "root: Xorg"])
def test_a_program_that_may_share_the_cards_is_named_with_its_user(
    client_of: ClientOf, administrator: User, entry: str
) -> None:
    host = make_host()
    gpu = make_gpu(host)
    form = _deployment_form(host=host.pk, revision=make_profile().newest.pk, gpus=[gpu.uuid], co_tenants=entry)
    answer = client_of(administrator).post("/deployments/new/", form)
    assert answer.status_code == 422 and "is not user:program" in answer.content.decode()


@pytest.mark.parametrize(
    ("entry", "kept"),
    [
        ("a:b,a:b , a:b", ["a:b"]),
        ("1000:python3", ["1000:python3"]),
        ("root:Xorg:evil", None),
        ("root:X\u202e", None),
        ("root:\u200b", None),
        ("root:a\u00a0b", None),
        ("root:\tXorg", None),
        ("ＲＯＯＴ:Xorg", None),
    ],
)
def test_a_program_that_may_share_is_written_so_that_everybody_reads_the_same(
    client_of: ClientOf, administrator: User, entry: str, kept: list[str] | None
) -> None:
    host = make_host()
    form = _deployment_form(host=host.pk, revision=make_profile().newest.pk, gpus=[make_gpu(host).uuid])
    answer = client_of(administrator).post("/deployments/new/", form | {"co_tenants": entry})
    assert answer.status_code == (302 if kept else 422)
    assert [found.co_tenants for found in Deployment.objects.all()] == ([kept] if kept else [])


@pytest.mark.parametrize("name", ["tolerance_mib", "shared_need_mib", "kill_seconds"])
@pytest.mark.parametrize("value", ["٦٤", "６４", "1_0", "64.0", "+64", "1e3", "9" * 30])
@pytest.mark.long
def test_a_number_is_written_with_plain_digits(client_of: ClientOf, administrator: User, name: str, value: str) -> None:
    host = make_host()
    form = _deployment_form(host=host.pk, revision=make_profile().newest.pk, gpus=[make_gpu(host).uuid])
    answer = client_of(administrator).post("/deployments/new/", form | {name: value})
    assert answer.status_code == 422 and "digits 0 to 9 only" in answer.content.decode()


def test_nothing_at_all_is_no_need(client_of: ClientOf, administrator: User) -> None:
    host = make_host()
    form = _deployment_form(host=host.pk, revision=make_profile().newest.pk, gpus=[make_gpu(host).uuid])
    answer = client_of(administrator).post("/deployments/new/", form | {"shared_need_mib": "0"})
    assert answer.status_code == 422 and "at least 1 MiB" in answer.content.decode()


@pytest.mark.parametrize("value", ["9" * 23, "٢", "x", "-1", "999"])
def test_a_co_tenant_that_is_no_deployment_is_refused(client_of: ClientOf, administrator: User, value: str) -> None:
    host = make_host()
    form = _deployment_form(host=host.pk, revision=make_profile().newest.pk, gpus=[make_gpu(host).uuid])
    answer = client_of(administrator).post("/deployments/new/", form | {"shares_with": [value]})
    assert answer.status_code == 422 and not Deployment.objects.exists()


def test_a_deployment_without_cards_is_refused_and_kept(client_of: ClientOf, administrator: User) -> None:
    host = make_host()
    make_gpu(host)
    form = _deployment_form(host=host.pk, revision=make_profile().newest.pk, name="my-chat")
    answer = client_of(administrator).post("/deployments/new/", form)
    assert answer.status_code == 422 and "my-chat" in answer.content.decode()
    assert "Tick the cards" in answer.content.decode() and not Deployment.objects.exists()


def test_every_setting_of_the_form_is_saved_by_an_edit() -> None:
    shown = {name for name in DeploymentForm._meta.fields or [] if isinstance(name, str)}
    assert shown <= set(EDITABLE)


def test_the_page_shows_what_differs_from_the_proven_revision(client_of: ClientOf, operator: User) -> None:
    deployment = make_deployment()
    proven = make_revision(deployment.profile, argv=[*deployment.revision.argv, "--speculative-num-steps", "3"])
    Deployment.objects.update(proven_revision=proven)
    make_launch(deployment)
    page = client_of(operator).get(f"/deployments/{deployment.pk}/").content.decode()
    assert "What serves differs from what was proven" in page and "--speculative-num-steps" in page
    assert "Restart with the proven revision" in page


def test_a_viewer_sees_no_button_that_is_not_theirs(client_of: ClientOf, viewer: User) -> None:
    deployment = make_deployment()
    page = client_of(viewer).get(f"/deployments/{deployment.pk}/").content.decode()
    assert "Restart…" not in page and "Stop…" not in page and "Edit" not in page
    for verb in ("restart", "start", "stop", "edit"):
        assert client_of(viewer).get(f"/deployments/{deployment.pk}/{verb}/").status_code == 403


def test_only_an_approver_marks_a_launch_as_proven(client_of: ClientOf, operator: User, approver: User) -> None:
    launch = make_launch(make_deployment())
    path = f"/launches/{launch.pk}/proven/"
    assert client_of(operator).post(path).status_code == 403
    assert client_of(approver).get(path).status_code == 405
    assert client_of(approver).post(path).status_code == 302
    assert Deployment.objects.get().proven_revision == launch.revision


# --- Asking for a job -----------------------------------------------------------------------------------------------


def _ask(**values: object) -> dict[str, object]:
    return {"which": "chosen", "reason": "More context", "way_back": "on", "request_key": str(uuid4()), **values}


def test_a_restart_becomes_one_job_however_often_it_is_clicked(client_of: ClientOf, operator: User) -> None:
    deployment = make_deployment()
    form = _ask()
    path = f"/deployments/{deployment.pk}/restart/"
    first, second = client_of(operator).post(path, form), client_of(operator).post(path, form)
    job = Job.objects.get()
    assert first["Location"] == second["Location"] == f"/jobs/{job.pk}/"
    assert (job.revision, job.reason, job.way_back) == (deployment.revision, "More context", True)


def test_another_revision_can_be_chosen_but_not_forgotten(client_of: ClientOf, operator: User) -> None:
    deployment = make_deployment()
    wanted = make_revision(deployment.profile)
    path = f"/deployments/{deployment.pk}/restart/"
    assert client_of(operator).post(path, _ask(which="other")).status_code == 422
    client_of(operator).post(path, _ask(which="other", other=wanted.pk))
    assert Job.objects.get().revision == wanted


def test_a_second_job_is_refused_and_the_reason_stays(client_of: ClientOf, operator: User) -> None:
    deployment = make_deployment()
    make_job(deployment, requested_by_name="ada")
    answer = client_of(operator).post(f"/deployments/{deployment.pk}/restart/", _ask(reason="my long reason"))
    page = answer.content.decode()
    assert answer.status_code == 409 and "ada has already asked" in page and "my long reason" in page


def test_a_choice_that_is_gone_is_told_where_it_was_made(client_of: ClientOf, operator: User) -> None:
    """The same flags again, of a server that has crashed since the page was opened."""
    path = f"/deployments/{make_deployment(state='crashed').pk}/restart/"
    answer = client_of(operator).post(path, _ask(which="same", reason="my long reason"))
    page = answer.content.decode()
    assert answer.status_code == 422 and "has changed since this page was opened" in page and "my long reason" in page
    assert not Job.objects.exists()


def test_a_stop_says_what_it_costs(client_of: ClientOf, operator: User) -> None:
    deployment = make_deployment(name="chat-prod")
    path = f"/deployments/{deployment.pk}/stop/"
    client = client_of(operator)
    assert "chat-prod will be down" in client.get(path).content.decode()
    assert client.post(path, {"reason": "Maintenance", "request_key": str(uuid4())}).status_code == 302
    job = Job.objects.get()
    assert (job.kind, job.revision, job.way_back) == ("stop", None, False)


def test_a_job_without_a_reason_is_not_made(client_of: ClientOf, operator: User) -> None:
    deployment = make_deployment()
    assert client_of(operator).post(f"/deployments/{deployment.pk}/start/", _ask(reason=" ")).status_code == 422
    assert not Job.objects.exists()


def test_nothing_is_answered_or_cancelled_by_a_get(client_of: ClientOf, administrator: User) -> None:
    gate = _waiting()
    for path in (f"/jobs/{gate.job_id}/gates/{gate.pk}/", f"/jobs/{gate.job_id}/cancel/"):
        assert client_of(administrator).get(path).status_code == 405
    assert Gate.objects.get().answered_at is None


# --- Gates ----------------------------------------------------------------------------------------------------------


def _waiting(**values: object) -> Gate:
    deployment = make_deployment(**values)
    return make_gate(make_job(deployment, at_step=0, state="waiting"))


def _answer(client: Client, gate: Gate, **values: str) -> int:
    form = {"choice": "approve", "plan_hash": gate.plan_hash, "comment": "", **values}
    return client.post(f"/jobs/{gate.job_id}/gates/{gate.pk}/", form).status_code


def test_who_may_not_decide_sees_no_button_but_who_may(client_of: ClientOf, operator: User, approver: User) -> None:
    gate = _waiting()
    page = client_of(operator).get(f"/jobs/{gate.job_id}/").content.decode()
    assert 'value="approve"' not in page and "an approver" in page and 'value="discard"' in page
    assert 'value="approve"' in client_of(approver).get(f"/jobs/{gate.job_id}/").content.decode()
    assert _answer(client_of(operator), gate) == 403


def test_an_approval_moves_the_job_once(client_of: ClientOf, approver: User) -> None:
    gate = _waiting()
    client = client_of(approver)
    assert _answer(client, gate, comment="go") == 302
    assert _answer(client, gate) == 409
    job = Job.objects.get()
    assert (job.state, job.approved_by_name) == ("queued", "approver")


def test_another_plan_than_the_one_on_the_page_is_refused_and_the_comment_stays(
    client_of: ClientOf, approver: User
) -> None:
    gate = _waiting()
    form = {"choice": "approve", "plan_hash": "old", "comment": "looked at it"}
    answer = client_of(approver).post(f"/jobs/{gate.job_id}/gates/{gate.pk}/", form)
    assert answer.status_code == 409
    assert "The plan has changed" in answer.content.decode() and "looked at it" in answer.content.decode()


def test_production_asks_for_the_name(client_of: ClientOf, approver: User) -> None:
    gate = _waiting(name="chat-prod", production=True)
    client = client_of(approver)
    assert _answer(client, gate) == 409
    assert _answer(client, gate, typed_name="chat") == 409
    assert Gate.objects.get().answered_at is None
    assert _answer(client, gate, typed_name="chat-prod") == 302


def test_the_requester_approves_only_where_the_policy_says_so(client_of: ClientOf, administrator: User) -> None:
    gate = _waiting()
    Job.objects.update(requested_by=administrator)
    client = client_of(administrator)
    page = client.get(f"/jobs/{gate.job_id}/").content.decode()
    assert "another approver" in page and 'value="approve"' not in page
    assert _answer(client, gate) == 403
    Deployment.objects.update(requester_may_approve=True)
    assert _answer(client, gate) == 302


def test_evidence_and_choices_are_text_and_never_markup(client_of: ClientOf, approver: User) -> None:
    gate = _waiting()
    gate.kind, gate.evidence = (
        "memory",
        [{"text": "<script>alert(1)</script>"}, {"table": {"head": ["<b>"], "rows": []}}],
    )
    gate.choices = [make_choice("look"), make_choice("kill", label="Kill <x>", action="confirm_kill", danger=True)]
    gate.save()
    page = client_of(approver).get(f"/jobs/{gate.job_id}/").content.decode()
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)" in page and "Kill &lt;x&gt;" in page


def test_what_was_left_stopped_ended_by_a_decision_and_promises_no_way_back(
    client_of: ClientOf, approver: User
) -> None:
    gate = _waiting()
    Job.objects.update(way_back=True)
    client = client_of(approver)
    page = client.get(f"/jobs/{gate.job_id}/").content.decode()
    assert "If the launch or the check fails</dt><dd>what was serving is started again" in page
    now = timezone.now()
    Gate.objects.update(answer="leave", answered_at=now, choices=[make_choice("leave", label="Leave it stopped")])
    Job.objects.update(state="failed", ended_at=now, summary="ada decided to leave chat stopped. chat is down.")
    page = client.get(f"/jobs/{gate.job_id}/").content.decode()
    assert "Ended by a decision" in page and "Restart failed" not in page
    assert "is started again" not in page
    Gate.objects.update(answer="again")
    assert "Restart failed" in client.get(f"/jobs/{gate.job_id}/").content.decode()


def test_a_choice_without_its_reason_is_named_and_its_field_is_marked(client_of: ClientOf, approver: User) -> None:
    gate = _waiting()
    gate.choices = [make_choice("again"), make_choice("leave", label="Leave it stopped", needs_reason=True)]
    gate.kind, gate.plan_hash = "not free", ""
    gate.save()
    client = client_of(approver)
    path = f"/jobs/{gate.job_id}/gates/{gate.pk}/"
    assert "is-invalid" not in client.get(f"/jobs/{gate.job_id}/").content.decode()
    page = client.post(path, {"choice": "leave", "comment": " "}).content.decode()
    assert "“Leave it stopped” needs a reason." in page and f'id="others-{gate.pk}" open>' in page
    field = page.partition('id="gate-comment"')[0].rpartition("<")[2] + page.partition('id="gate-comment"')[2][:200]
    assert "is-invalid" in field and "autofocus" in field


def _not_free(gate: Gate) -> Gate:
    kill = make_choice("kill", label="Kill it", action="confirm_kill", danger=True)
    gate.choices, gate.kind, gate.plan_hash = [make_choice("again"), kill, make_choice("leave")], "not free", ""
    gate.save()
    return gate


def test_a_refused_choice_stays_open_with_why_and_with_all_that_was_typed(client_of: ClientOf, approver: User) -> None:
    gate = _not_free(_waiting(name="chat-prod", production=True))
    client, path = client_of(approver), f"/jobs/{gate.job_id}/gates/{gate.pk}/"
    page = client.post(path, {"choice": "kill", "comment": "its owner agreed", "typed_name": "chat-prd"})
    shown = page.content.decode()
    assert page.status_code == 409 and f'id="others-{gate.pk}" open>' in shown
    assert "its owner agreed</textarea>" in shown and 'value="chat-prd" aria-invalid="true" autofocus' in shown
    beside = shown.partition('name="choice" value="kill"')[2].partition('name="choice"')[0]
    assert "chat-prod is a production deployment." in beside and "invalid-feedback" in beside
    Gate.objects.update(answered_at=timezone.now(), answer="again")
    late = client.post(path, {"choice": "leave", "comment": "its owner agreed"}).content.decode()
    assert "not open any more" in late and "What you wrote was not stored: <q>its owner agreed</q>" in late


def test_what_ends_the_job_is_offered_once_and_told_apart_from_an_answer(
    client_of: ClientOf, operator: User, viewer: User
) -> None:
    gate = _waiting()
    client, path = client_of(operator), f"/jobs/{gate.job_id}/"
    page = client.get(path).content.decode()
    assert 'value="discard"' in page and "Cancel…" not in page
    assert "Cancel…" not in client.get(f"{path}part/header/").content.decode()
    page = client.get(f"/jobs/{_not_free(gate).job_id}/").content.decode()
    assert "Cancel…" in page and "This ends the job without an answer." in page


def test_a_decision_is_shown_as_its_button_said_it(client_of: ClientOf, approver: User) -> None:
    gate = _waiting()
    gate.choices = [make_choice("again", label="Look again"), make_choice("leave", label="Leave it stopped")]
    gate.title, gate.kind, gate.plan_hash = "The cards are not free", "not free", ""
    gate.save()
    client = client_of(approver)
    assert _answer(client, gate, choice="again") == 302
    assert (
        "The cards are not free</span><div><strong>Look again<" in client.get(f"/jobs/{gate.job_id}/").content.decode()
    )
    Gate.objects.update(answer="ended", answered_by_name="")
    page = client.get(f"/jobs/{gate.job_id}/").content.decode()
    assert "The cards are not free</span><div><strong>not answered: the job ended<" in page


def test_a_process_without_a_card_has_no_memory_there_rather_than_an_unknown_one(
    client_of: ClientOf, approver: User
) -> None:
    job = _waiting().job
    process = {"pid": 7, "name": "python3", "user": "root", "since": "", "gpus": [], "memory_mib": None}
    for no_card, memory in ((True, "none"), (False, "unknown")):
        Job.objects.filter(pk=job.pk).update(plan={"stops": [{**process, "no_card": no_card}]})
        page = client_of(approver).get(f"/jobs/{job.pk}/").content.decode()
        cell = page.partition('data-label="Memory">')[2].partition("</td>")[0]
        assert memory in cell


def test_a_second_approval_shows_only_what_differs_and_the_rest_folded(client_of: ClientOf, approver: User) -> None:
    gate = _waiting()
    warning = {"why": "", "todo": "", "blocks": False}
    old, new = {**warning, "text": "Known before.", "is_new": False}, {**warning, "text": "Came since.", "is_new": True}
    Job.objects.filter(pk=gate.job.pk).update(plan={"stops": [], "warnings": [old, new]})
    rows = [["Others on the cards", "nobody", "train (pid 7)"]]
    gate.evidence = [{"table": {"head": ["What differs", "In the plan before", "Now"], "rows": rows}}]
    gate.save()
    page = client_of(approver).get(f"/jobs/{gate.job.pk}/").content.decode()
    first, fold, whole = page.partition("The whole new plan")
    assert fold and "train (pid 7)" in first and "Came since." in first and "Known before." not in first
    assert "Known before." in whole and "Will be stopped" not in first and "Will be stopped" in whole


# --- The job page ---------------------------------------------------------------------------------------------------


def test_a_question_never_stands_there_without_the_plan_it_is_about(
    client_of: ClientOf, approver: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker stores both at once, but a page that is made just then reads one after the other."""
    job = _waiting().job
    process = {"pid": 7, "name": "x", "user": "its-user", "since": "", "gpus": [], "memory_mib": None, "no_card": True}
    seen = job_page.gate_card

    def meanwhile(found: Job, *, user: User) -> GateCard | None:
        Job.objects.filter(pk=found.pk).update(plan={"stops": [process]})
        return seen(found, user=user)

    monkeypatch.setattr(job_page, "gate_card", meanwhile)
    page = client_of(approver).get(f"/jobs/{job.pk}/part/gate/").content.decode()
    assert "its-user" in page and "approve" in page


def test_cancel_says_what_it_leaves_behind(client_of: ClientOf, operator: User, viewer: User) -> None:
    job = make_job(make_deployment(name="chat-prod"), at_step=2, touched=True)
    page = client_of(operator).get(f"/jobs/{job.pk}/").content.decode()
    assert "chat-prod may be left DOWN" in page
    assert "Cancel…" not in client_of(viewer).get(f"/jobs/{job.pk}/").content.decode()
    assert client_of(viewer).post(f"/jobs/{job.pk}/cancel/").status_code == 403
    assert client_of(operator).get(f"/jobs/{job.pk}/cancel/").status_code == 405
    assert client_of(operator).post(f"/jobs/{job.pk}/cancel/").status_code == 302
    assert "Cancelling…" in client_of(operator).get(f"/jobs/{job.pk}/part/header/").content.decode()


def test_a_failure_names_its_cause_and_links_to_its_line(client_of: ClientOf, operator: User) -> None:
    deployment = make_deployment()
    Deployment.objects.update(proven_revision=make_revision(deployment.profile))
    why = {
        "cause": "It does not fit.",
        "fix": "Use more cards.",
        "line": "Not enough memory",
        "log_seq": 2,
        "log_line": 1,
        "memory": "Clean.",
        "who": "TP1",
        "notes": ["The cards take a slower way."],
    }
    job = make_job(deployment, at_step=5, failed=True, state="failed", ended_at=timezone.now(), diagnosis=why)
    make_log(job, "one\n", "two\nRuntimeError: Not enough memory.\nthree\n")
    page = client_of(operator).get(f"/jobs/{job.pk}/").content.decode()
    assert "It does not fit." in page and "Clean." in page and 'href="#L-2-1"' in page
    assert "Said by worker process TP1" in page and "not the cause: The cards take a slower way." in page
    assert "has not seen this failure" not in page
    assert "Restart with the proven revision (r2)" in page


def test_a_failure_that_nobody_knows_shows_the_last_lines_that_speak_of_it(client_of: ClientOf, operator: User) -> None:
    why = {
        "cause": "Relaunch does not know this error: KeyError: 'x'",
        "fix": "Read the lines below.",
        "line": "KeyError: 'x'",
        "log_seq": None,
        "log_line": None,
        "memory": "",
        "recognised": False,
        "block": ["Traceback (most recent call last):", "<b>KeyError</b>: 'x'"],
    }
    job = make_job(make_deployment(), at_step=5, failed=True, state="failed", ended_at=timezone.now(), diagnosis=why)
    page = client_of(operator).get(f"/jobs/{job.pk}/").content.decode()
    assert "Relaunch has not seen this failure before" in page
    assert "Traceback (most recent call last):\n&lt;b&gt;KeyError&lt;/b&gt;" in page
    assert 'href="#L-' not in page


@pytest.mark.long
def test_a_failure_leads_to_the_next_try(
    client_of: ClientOf, administrator: User, operator: User, viewer: User
) -> None:
    deployment = make_deployment()
    job = make_job(deployment, at_step=5, failed=True, state="failed", ended_at=timezone.now())
    again = f"/deployments/{deployment.pk}/restart/?revision=1"
    edit = f"/profiles/{deployment.profile_id}/revise/?from=1&amp;plan={deployment.pk}"
    seen = {
        person: [link in client_of(person).get(f"/jobs/{job.pk}/").content.decode() for link in (again, edit)]
        for person in (administrator, operator, viewer)
    }
    assert seen == {administrator: [True, True], operator: [True, False], viewer: [False, False]}


@pytest.mark.parametrize(("step", "first"), [(0, "Look at"), (3, "Look at"), (4, "Edit the flags"), (5, "Edit the")])
def test_what_failed_before_the_launch_leads_to_the_host_first(
    client_of: ClientOf, administrator: User, step: int, first: str
) -> None:
    job = make_job(make_deployment(), at_step=step, failed=True, state="failed", ended_at=timezone.now())
    page = client_of(administrator).get(f"/jobs/{job.pk}/").content.decode()
    actions = page.partition('<div class="actions mt-3">')[2].partition("</div>")[0]
    assert first in actions.partition("</a>")[0] and actions.count("Plan the restart again") == 1
    assert "Edit the flags" in actions, "a path that is not there is a flag, and is found before the launch"


def test_edited_flags_go_straight_to_the_plan_of_their_restart(client_of: ClientOf, administrator: User) -> None:
    deployment = make_deployment()
    client = client_of(administrator)
    answer = client.post(
        f"/profiles/{deployment.profile_id}/revise/?from=1&plan={deployment.pk}",
        {"command": "python -m sglang.launch_server --port 30000 --tp 8"},
    )
    assert answer["Location"] == f"/deployments/{deployment.pk}/restart/?revision=2"
    page = client.get(answer["Location"])
    assert page.context["form"]["which"].value() == "newest" and "The newest revision" in page.content.decode()
    client.post(f"/deployments/{deployment.pk}/restart/", _ask(which="newest"))
    assert Job.objects.get().revision == deployment.profile.newest


def test_a_second_edit_starts_from_the_revision_that_is_chosen(client_of: ClientOf, administrator: User) -> None:
    deployment = make_deployment()
    make_revision(deployment.profile)
    make_revision(deployment.profile)
    client = client_of(administrator)
    path = f"/deployments/{deployment.pk}/restart/"
    revise = f"/profiles/{deployment.profile_id}/revise/"

    def links(page: str) -> list[str]:
        chosen = [which for which in ("chosen", "newest", "other") if f'value="{which}" checked' in page]
        shown = page.partition(f'data-shows-for="which={chosen[0]}"><a href="')[2].partition('"')[0]
        return [*chosen, shown]

    def edit(number: int) -> str:
        return f"{revise}?from={number}&amp;plan={deployment.pk}"

    assert links(client.get(path).content.decode()) == ["chosen", edit(1)]
    assert links(client.get(f"{path}?revision=3").content.decode()) == ["newest", edit(3)]
    asked = {"which": "newest", "request_key": uuid4()}
    assert links(client.post(path, asked).content.decode()) == ["newest", edit(3)], "also after a refusal"


def test_what_is_stopped_is_started_with_the_edited_flags(client_of: ClientOf, administrator: User) -> None:
    deployment = make_deployment(state="stopped")
    client = client_of(administrator)
    path = f"/profiles/{deployment.profile_id}/revise/?from=1&plan={deployment.pk}"
    assert "Save and plan the start" in client.get(path).content.decode()
    answer = client.post(path, {"command": "python -m sglang.launch_server --port 30000 --tp 8"})
    assert answer["Location"] == f"/deployments/{deployment.pk}/start/?revision=2"


def test_an_old_revision_can_be_named_in_the_address(client_of: ClientOf, operator: User) -> None:
    deployment = make_deployment()
    old = make_revision(deployment.profile)
    make_revision(deployment.profile)
    form = client_of(operator).get(f"/deployments/{deployment.pk}/restart/?revision={old.number}").context["form"]
    assert (form["which"].value(), form["other"].value()) == ("other", old.pk)
    for odd in ("99", "x", ""):
        path = f"/deployments/{deployment.pk}/restart/?revision={odd}"
        assert client_of(operator).get(path).context["form"]["which"].value() == "chosen"


@pytest.mark.parametrize("part", ["header", "gate", "steps", "outcome"])
def test_each_part_can_be_fetched_alone(client_of: ClientOf, viewer: User, stranger: User, part: str) -> None:
    gate = _waiting()
    path = f"/jobs/{gate.job_id}/part/{part}/"
    answer = client_of(viewer).get(path)
    assert answer.status_code == 200 and "<html" not in answer.content.decode()
    assert client_of(stranger).get(path).status_code == 403


def test_the_page_of_a_job_outlives_its_deployment(client_of: ClientOf, viewer: User) -> None:
    job = make_job(make_deployment(name="gone"), at_step=6, state="succeeded", ended_at=timezone.now())
    Job.objects.update(deployment=None)
    assert "Restart of gone" in client_of(viewer).get(f"/jobs/{job.pk}/").content.decode()


def test_the_whole_log_downloads_as_it_is_stored_and_without_colours(client_of: ClientOf, viewer: User) -> None:
    job = make_job(make_deployment(name="chat"))
    make_log(job, "Stopping.\n", source="panel")
    make_log(job, "\x1b[31mred\x1b[0m one\r\n", "50 %\r100 %\n")
    client = client_of(viewer)
    answer = client.get(f"/jobs/{job.pk}/log.txt")
    assert answer["Content-Disposition"] == f'attachment; filename="job-{job.pk}-restart-chat.txt"'
    assert b"".join(answer) == b"Stopping.\n\x1b[31mred\x1b[0m one\r\n50 %\r100 %\n"
    assert b"".join(client.get(f"/jobs/{job.pk}/log.txt?colors=no")) == b"Stopping.\nred one\r\n50 %\r100 %\n"


# --- The lists ------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_lists_need_a_fixed_number_of_queries(
    client_of: ClientOf, viewer: User, django_assert_max_num_queries: Callable[..., object]
) -> None:
    for _ in range(6):
        make_job(make_deployment(), at_step=1)
    client = client_of(viewer)
    for path in ("/jobs/", "/deployments/", "/"):
        with django_assert_max_num_queries(40):  # type: ignore[attr-defined]
            assert client.get(path).status_code == 200
