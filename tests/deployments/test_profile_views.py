"""The pages of profiles: what a refusal keeps, and how revisions compare."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from deployments.models import Launch, Profile
from tests.factories import (
    make_deployment,
    make_launch,
    make_profile,
    make_revision,
)

pytestmark = pytest.mark.django_db
ClientOf = Callable[[User], Client]

PROFILE = {
    "name": "qwen",
    "engine": "sglang",
    "command": "CUDA_VISIBLE_DEVICES=0 nohup python -m sglang.launch_server --model-path /m --port 31000 > x 2>&1 &",
    "env": "OMP_NUM_THREADS=8",
}


def test_versions_that_a_revision_is_good_with_are_kept_and_shown(client_of: ClientOf, administrator: User) -> None:
    client = client_of(administrator)
    client.post("/profiles/new/", PROFILE | {"engine_versions": " 0.5.10  or newer "})
    profile = Profile.objects.get()
    assert profile.newest.engine_versions == "0.5.10 or newer"
    page = client.get(f"/profiles/{profile.pk}/").content.decode()
    assert "good with SGLang" in page and "0.5.10 or newer" in page
    assert "0.5.10 or newer" in client.get(f"/profiles/{profile.pk}/revise/").content.decode()


# --- Profiles -------------------------------------------------------------------------------------------------------


def test_a_pasted_command_line_becomes_revision_1(client_of: ClientOf, administrator: User) -> None:
    answer = client_of(administrator).post("/profiles/new/", PROFILE)
    profile = Profile.objects.get()
    revision = profile.newest
    assert answer["Location"] == f"/profiles/{profile.pk}/"
    assert revision.argv == ["python", "-m", "sglang.launch_server", "--model-path", "/m", "--port", "31000"]
    assert revision.env == {"CUDA_VISIBLE_DEVICES": "0", "OMP_NUM_THREADS": "8"}
    assert (revision.number, revision.port, revision.created_by) == (1, 31000, administrator)


@pytest.mark.parametrize(
    ("field", "text", "sentence"),
    [
        ("command", "python a.py | less", "needs a shell"),
        ("command", "python a.py --api-key abc", "would show the secret"),
        ("command", "python a.py --api-k abc", "would show the secret"),
        ("command", "python a.py --x sk-abcdefghijklmnop", "would show the secret"),
        ("env", "not a variable", "is not NAME=value"),
        ("port", "99999", "65535"),
        ("engine_versions", "the newest", "is no version that can be read"),
        ("notes", "x" * 5001, "at most 5000 characters"),
        ("workdir", "/" * 501, "at most 500 characters"),
        ("name", "qwen\u202e3", "do not show"),
    ],
)
def test_what_cannot_be_right_is_refused_and_kept(
    client_of: ClientOf, administrator: User, field: str, text: str, sentence: str
) -> None:
    answer = client_of(administrator).post("/profiles/new/", PROFILE | {field: text})
    page = answer.content.decode()
    assert answer.status_code == 422 and not Profile.objects.exists()
    assert sentence in page and text in page


def test_a_service_refusal_keeps_the_form_too(client_of: ClientOf, administrator: User) -> None:
    answer = client_of(administrator).post("/profiles/new/", PROFILE | {"port": "32000"})
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "The command says port 31000, the profile says 32000." in page and "OMP_NUM_THREADS=8" in page


@pytest.mark.parametrize(
    ("field", "text", "sentence"),
    [
        ("workdir", "models", "is not a full path"),
        ("port", "32000", "says port 31000"),
        ("env", "hf_token=x", "capital letters"),
        ("env", "NOTE=hf_abcdefghijklmnop", "looks like a secret"),
        ("env", "RELAUNCH_LAUNCH=x", "panel&#x27;s own"),
    ],
)
def test_what_the_engine_cannot_take_is_refused(
    client_of: ClientOf, administrator: User, field: str, text: str, sentence: str
) -> None:
    answer = client_of(administrator).post("/profiles/new/", PROFILE | {field: text})
    assert answer.status_code == 409 and sentence in answer.content.decode()


def test_a_change_makes_a_new_revision(client_of: ClientOf, administrator: User, operator: User) -> None:
    profile = make_profile()
    path = f"/profiles/{profile.pk}/revise/?from=1"
    assert client_of(operator).get(path).status_code == 403
    client = client_of(administrator)
    assert "--mem-fraction-static 0.88" in client.get(path).content.decode()
    notes = "eight cards,\r\nfor the fair"
    client.post(path, {"command": "python -m sglang.launch_server --port 30000 --tp 8", "notes": notes})
    assert [revision.number for revision in profile.revisions.all()] == [2, 1]
    assert profile.newest.notes == "eight cards,\nfor the fair"


@pytest.mark.parametrize(
    ("engine", "argv", "port", "shown", "after"),
    [
        ("sglang", ["python", "-m", "sglang.launch_server", "--port", "31000"], 31000, None, 31007),
        ("custom", ["/opt/tei"], 9000, 9000, 9000),
    ],
)
def test_the_port_is_not_asked_for_where_the_command_says_it(
    client_of: ClientOf, administrator: User, engine: str, argv: list[str], port: int, shown: int | None, after: int
) -> None:
    profile = make_profile(engine=engine)
    make_revision(profile, argv=argv, port=port, ready_pattern="ready")
    path = f"/profiles/{profile.pk}/revise/?from=2"
    client = client_of(administrator)
    form = client.get(path).context["form"]
    assert form["port"].value() == shown
    as_it_was = {name: form[name].value() or "" for name in form.fields}
    client.post(path, as_it_was | {"command": as_it_was["command"].replace("31000", "31007"), "notes": "moved"})
    assert (profile.newest.number, profile.newest.port) == (3, after)


def test_a_form_that_is_saved_as_it_was_makes_no_revision(client_of: ClientOf, administrator: User) -> None:
    profile = make_profile()
    make_revision(
        profile, argv=["python", "-m", "sglang.launch_server", "--name", "two words"],
        env={"A": "1", "B": " x "}, workdir="/w",
        container={"tool": "podman", "image": "img", "options": ["-v", "/a b:/c", "--network=host"]},
    )  # fmt: skip
    client = client_of(administrator)
    path = f"/profiles/{profile.pk}/revise/?from=2"
    form = client.get(path).context["form"]
    as_it_was = {name: form[name].value() or "" for name in form.fields}
    page = client.post(path, as_it_was, follow=True).content.decode()
    assert "Nothing was changed, so no revision was made" in page and profile.revisions.count() == 2
    for change in ({"notes": "for the fair"}, {"env": "A=2"}):
        client.post(path, as_it_was | change)
    assert profile.revisions.count() == 4, "a note is a change too"


def test_what_was_not_changed_can_still_be_planned(client_of: ClientOf, administrator: User) -> None:
    deployment = make_deployment()
    client = client_of(administrator)
    path = f"/profiles/{deployment.profile_id}/revise/?from=1&plan={deployment.pk}"
    form = client.get(path).context["form"]
    answer = client.post(path, {name: form[name].value() or "" for name in form.fields})
    assert answer["Location"] == f"/deployments/{deployment.pk}/restart/?revision=1"
    assert deployment.profile.revisions.count() == 1


def test_two_revisions_compare_flag_by_flag(client_of: ClientOf, viewer: User) -> None:
    profile = make_profile()
    left = profile.newest
    right = make_revision(profile, argv=[*left.argv, "--disable-radix-cache"])
    page = client_of(viewer).get(f"/profiles/{profile.pk}/compare/?left={left.pk}&right={right.pk}").content.decode()
    assert "1 difference, marked." in page and "--disable-radix-cache" in page


DOCKER = (
    "docker run -d --gpus all -p 8000:31000 lmsysorg/sglang:v0.5.9 sglang serve /m --port 31000 2>&1 | tee /tmp/x.log"
)


def test_a_docker_run_becomes_a_container_and_says_what_was_left_out(
    client_of: ClientOf, administrator: User, viewer: User
) -> None:
    answer = client_of(administrator).post("/profiles/new/", PROFILE | {"engine": "", "command": DOCKER}, follow=True)
    page = answer.content.decode()
    revision = Profile.objects.get().newest
    assert (revision.profile.engine, revision.port) == ("sglang", 8000)
    assert revision.argv == ["sglang", "serve", "/m", "--port", "31000"]
    assert revision.container == {
        "tool": "docker", "image": "lmsysorg/sglang:v0.5.9", "options": ["--gpus", "all", "-p", "8000:31000"]
    }  # fmt: skip
    assert "-d was left out" in page and "| tee was left out" in page and "lmsysorg/sglang:v0.5.9" in page
    other = make_revision(revision.profile)
    path = f"/profiles/{revision.profile_id}/compare/?left={revision.pk}&right={other.pk}"
    page = client_of(viewer).get(path).content.decode()
    assert "docker --publish" in page and "8000:31000" in page


@pytest.mark.parametrize(
    ("command", "engine"),
    [("vllm serve /m", "vllm"), ("llama-server -m /m", "llama_server"), ("sglang serve /m", "sglang")],
)
def test_the_engine_is_the_one_that_the_command_starts(
    client_of: ClientOf, administrator: User, command: str, engine: str
) -> None:
    client = client_of(administrator)
    page = client.post("/profiles/new/", PROFILE | {"engine": "", "command": f"{command} --port x"}).content.decode()
    assert f'<option value="{engine}" selected>' in page, "chosen in the form, where it can still be changed"
    client.post("/profiles/new/", PROFILE | {"engine": "", "command": command})
    assert Profile.objects.get().engine == engine


def test_another_engine_may_be_chosen_and_is_said(client_of: ClientOf, administrator: User) -> None:
    chosen = PROFILE | {"command": "vllm serve /m"}
    page = client_of(administrator).post("/profiles/new/", chosen, follow=True).content.decode()
    assert Profile.objects.get().engine == "sglang"
    assert "The command starts vLLM, but the profile is for SGLang" in page


def test_an_unknown_program_asks_when_it_is_ready(client_of: ClientOf, administrator: User) -> None:
    answer = client_of(administrator).post(
        "/profiles/new/", PROFILE | {"engine": "", "command": "/opt/tei --port 9000"}
    )
    page = answer.content.decode()
    assert answer.status_code == 422 and "How to tell that this server is ready is not known" in page
    assert 'id="id_ready_pattern_error"' in page, "at its field"
    assert '<option value="custom" selected>' in page and "/opt/tei --port 9000" in page


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("docker run img vllm serve /m", "No port of the host leads into the container"),
        ("vllm serve ~/m", "~ would be filled in by a shell first"),
        ("vllm serve /m –port 1", "is a typographic dash"),
    ],
)
def test_a_command_that_cannot_be_taken_stays_in_the_form(
    client_of: ClientOf, administrator: User, command: str, sentence: str
) -> None:
    answer = client_of(administrator).post("/profiles/new/", PROFILE | {"command": command})
    page = answer.content.decode()
    assert answer.status_code == 422 and sentence in page and command in page


@pytest.mark.parametrize(
    "command", ["rm -rf /", "./serve.sh --port 30000", "docker run -p 30000:30000 ubuntu rm -rf /"]
)
def test_a_command_that_the_engine_does_not_know_is_refused_as_a_revision_and_in_create(
    client_of: ClientOf, administrator: User, command: str
) -> None:
    client = client_of(administrator)
    client.post("/profiles/new/", PROFILE)
    profile = Profile.objects.get()
    revised = client.post(f"/profiles/{profile.pk}/revise/", {"command": command})
    created = client.post("/profiles/new/", PROFILE | {"name": "other", "command": command})
    for answer in (revised, created):
        page = answer.content.decode()
        assert answer.status_code == 422 and "This command does not start SGLang" in page and command in page
        assert "with the engine “Any other command”" in page
    assert profile.revisions.count() == 1 and Profile.objects.count() == 1


def test_an_image_without_a_program_may_start_the_engine(client_of: ClientOf, administrator: User) -> None:
    command = "docker run --gpus all -p 30000:30000 registry/our-llm --port 30000"
    assert client_of(administrator).post("/profiles/new/", PROFILE | {"command": command}).status_code == 302


@pytest.mark.parametrize(
    ("flag", "sentence"),
    [
        ("--context-length -5", "--context-length takes a whole number of 1 or more, and -5 is not."),
        ("--tp-size two", "--tp-size takes a whole number, and “two” is none."),
        ("--mem-fraction-static 1.5", "--mem-fraction-static takes a number between 0 and 1, and 1.5 is not."),
    ],
)
def test_a_number_that_cannot_be_is_refused_in_the_form(
    client_of: ClientOf, administrator: User, flag: str, sentence: str
) -> None:
    command = f"python -m sglang.launch_server --model-path /m {flag}"
    answer = client_of(administrator).post("/profiles/new/", PROFILE | {"command": command})
    assert answer.status_code == 422 and sentence in answer.content.decode() and not Profile.objects.exists()


def test_compare_opens_on_what_runs_against_the_newest(client_of: ClientOf, viewer: User) -> None:
    deployment = make_deployment(state="serving")
    profile = deployment.profile
    running = profile.newest
    launch = make_launch(deployment, state="serving")
    Launch.objects.filter(pk=launch.pk).update(revision=running)
    make_revision(profile)
    newest = make_revision(profile)
    page = client_of(viewer).get(f"/profiles/{profile.pk}/").content.decode()
    assert f'name="left" value="{running.pk}" checked' in page and f'name="right" value="{newest.pk}" checked' in page
    answer = client_of(viewer).get(f"/profiles/{profile.pk}/compare/")
    assert (answer.context["left"], answer.context["right"]) == (running, newest)
