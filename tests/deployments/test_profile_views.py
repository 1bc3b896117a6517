"""The pages of profiles: what a refusal keeps, and how revisions compare."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from deployments.models import Profile
from tests.factories import (
    make_deployment,
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
        ("command", "python a.py | tee log", "needs a shell"),
        ("command", "python a.py --api-key abc", "would show the secret"),
        ("command", "python a.py --api-k abc", "would show the secret"),
        ("command", "python a.py --x sk-abcdefghijklmnop", "would show the secret"),
        ("env", "not a variable", "is not NAME=value"),
        ("port", "99999", "65535"),
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
        ("command", "python a.py --port x", "says port &#x27;x&#x27;"),
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
    client.post(path, {"command": "python -m sglang.launch_server --port 30000 --tp 8", "notes": "eight cards"})
    assert [revision.number for revision in profile.revisions.all()] == [2, 1]
    assert profile.newest.notes == "eight cards"


def test_a_form_that_is_saved_as_it_was_makes_no_revision(client_of: ClientOf, administrator: User) -> None:
    profile = make_profile()
    make_revision(
        profile, argv=["python", "-m", "x.launch_server", "--name", "two words"], env={"A": "1"}, workdir="/w"
    )
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
