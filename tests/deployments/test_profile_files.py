"""Profiles that are cloned, exported and imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse
from django.test import Client

from controlpanel.models import AuditEntry
from deployments.models import Profile
from tests.factories import make_profile, make_revision

pytestmark = pytest.mark.django_db
ClientOf = Callable[[User], Client]
IMPORT = "/profiles/import/"


def actions() -> list[str]:
    return list(AuditEntry.objects.order_by("number").values_list("action", flat=True))


# --- Clone ----------------------------------------------------------------------------------------------------------


def test_a_clone_begins_as_the_chosen_revision_is(client_of: ClientOf, administrator: User) -> None:
    profile = make_profile(name="chat", description="The team's chat")
    make_revision(
        profile,
        argv=["sglang", "serve", "/m"],
        env={"A": "1"},
        workdir="/w",
        ready_pattern="up",
        engine_versions="0.5.11",
    )
    client = client_of(administrator)
    path = f"/profiles/{profile.pk}/clone/?from=2"
    page = client.get(path).content.decode()
    assert "sglang serve /m" in page and "As chat r2." in page and "The team&#x27;s chat" in page
    answer = client.post(path, {"name": "chat-b", "description": "Another", "notes": "to\r\ntry"})
    made = Profile.objects.get(name="chat-b")
    assert answer["Location"] == f"/profiles/{made.pk}/" and made.engine == "sglang" and made.description == "Another"
    revision, source = made.newest, profile.newest
    assert (revision.number, revision.notes, revision.created_by) == (1, "to\ntry", administrator)
    for field in ("argv", "env", "workdir", "port", "ready_pattern", "container", "engine_versions"):
        assert getattr(revision, field) == getattr(source, field)
    assert actions() == ["add profile", "add revision", "clone profile"]
    assert AuditEntry.objects.get(action="clone profile").detail == {"from": "chat r2"}


def test_a_clone_needs_a_free_name_and_the_role(client_of: ClientOf, administrator: User, operator: User) -> None:
    profile = make_profile(name="chat")
    path = f"/profiles/{profile.pk}/clone/"
    answer = client_of(administrator).post(path, {"name": "chat", "notes": "keep me"})
    page = answer.content.decode()
    assert answer.status_code == 422 and "There is already a profile named chat" in page and "keep me" in page
    assert client_of(operator).post(path, {"name": "b"}).status_code == 403
    assert "Clone" not in client_of(operator).get(f"/profiles/{profile.pk}/").content.decode()
    assert Profile.objects.count() == 1 and actions() == []


# --- Export and import ----------------------------------------------------------------------------------------------


def exported(client: Client, profile: Profile, query: str = "") -> str:
    answer = client.get(f"/profiles/{profile.pk}/profile.yaml{query}")
    assert answer["Content-Type"].startswith("application/yaml")
    assert answer["Content-Disposition"].startswith("attachment; filename=")
    return answer.content.decode()


def look(client: Client, text: str, **values: Any) -> HttpResponse:
    return client.post(IMPORT, {"text": text, **values})  # type: ignore[return-value]


def test_one_revision_or_all_are_exported(client_of: ClientOf, viewer: User) -> None:
    profile = make_profile(name="chat 27b")
    make_revision(profile, notes="second")
    client = client_of(viewer)
    text = exported(client, profile)
    assert text.count("- revision:") == 2 and text.index("revision: 1") < text.index("revision: 2")
    one = client.get(f"/profiles/{profile.pk}/profile.yaml?revision=2")
    assert one["Content-Disposition"] == 'attachment; filename="chat-27b-r2.yaml"'
    assert one.content.decode().count("- revision:") == 1 and "notes: second" in one.content.decode()


def test_what_was_exported_comes_back_as_it_was(client_of: ClientOf, administrator: User) -> None:
    profile = make_profile(name="chat", description="The team's chat")
    docker = {"tool": "docker", "image": "img", "options": ["--network", "host"]}
    make_revision(profile, argv=["sglang", "serve", "/m b"], env={"A": " x"}, notes="second\r\nline", container=docker)
    client = client_of(administrator)
    text = exported(client, profile)
    shown = look(client, text, name="copy")
    page = shown.content.decode()
    assert shown.status_code == 200 and Profile.objects.count() == 1, "nothing is made before it was shown"
    assert "copy, with 2 revisions" in page and "docker run" in page and "Create the profile" in page
    answer = look(client, text, name="copy", shown=shown.context["mark"])
    made = Profile.objects.get(name="copy")
    assert answer["Location"] == f"/profiles/{made.pk}/"
    fields = ("number", "argv", "env", "workdir", "container", "port", "ready_pattern", "notes", "engine_versions")
    assert list(made.revisions.values_list(*fields)) == list(profile.revisions.values_list(*fields))
    assert actions() == ["add profile", "add revision", "add revision", "import profile"]


def test_a_chosen_file_stays_in_the_form_as_text(client_of: ClientOf, administrator: User) -> None:
    client = client_of(administrator)
    text = exported(client, make_profile(name="chat"))
    Profile.objects.update(name="other")
    upload = SimpleUploadedFile("chat.yaml", b"\xef\xbb\xbf" + text.encode())
    page = client.post(IMPORT, {"upload": upload, "text": ""}).content.decode()
    assert "chat, with 1 revision" in page and "relaunch: 1" in page
    bad = client.post(IMPORT, {"upload": SimpleUploadedFile("x.png", b"\x89PNG\xff"), "text": ""})
    assert bad.status_code == 422 and "is not text in UTF-8" in bad.content.decode()
    large = client.post(IMPORT, {"upload": SimpleUploadedFile("x.yaml", b"a" * 800_001), "text": ""})
    assert large.status_code == 422 and "The file is too large: 800,001 bytes" in large.content.decode()


def test_what_was_changed_after_it_was_shown_is_shown_again(client_of: ClientOf, administrator: User) -> None:
    client = client_of(administrator)
    text = exported(client, make_profile(name="chat"))
    mark = look(client, text, name="b").context["mark"]
    assert look(client, text.replace("0.88", "0.5"), name="b", shown=mark).status_code == 200
    assert look(client, text, name="c", shown=mark).status_code == 200
    assert Profile.objects.count() == 1
    assert look(client, text.replace("\n", "\r\n"), name="b", shown=mark).status_code == 302, "as a browser sends it"


def test_what_is_read_another_way_than_it_is_written_is_said(client_of: ClientOf, administrator: User) -> None:
    text = "relaunch: 1\nprofile: p\nengine: vllm\nrevisions:\n- command: vllm serve /m | tee log\n  port: 8000\n"
    page = look(client_of(administrator), text).content.decode()
    assert "| tee was left out" in page and "vllm serve /m</pre>" in page


def test_an_existing_profile_gets_revisions_only_when_told(client_of: ClientOf, administrator: User) -> None:
    profile = make_profile(name="chat")
    client = client_of(administrator)
    text = exported(client, profile)
    shown = look(client, text)
    page = shown.content.decode()
    assert "There is already a profile named chat." in page and "Create the profile" not in page
    assert look(client, text, shown=shown.context["mark"]).status_code == 200 and profile.revisions.count() == 1
    shown = look(client, text, add="on")
    assert "1 more revision of chat" in shown.content.decode() and "r2" in shown.content.decode()
    assert profile.revisions.count() == 1
    look(client, text, add="on", shown=shown.context["mark"])
    assert [revision.number for revision in profile.revisions.all()] == [2, 1]
    assert actions() == ["add revision", "import profile"]


@pytest.mark.parametrize(
    ("change", "status", "sentence"),
    [
        (("port: 30000", "port: 30001"), 409, "Revision 1 of the file: The command says port 30000, the profile says"),
        (("engine: sglang", "engine: vllm"), 409, "chat is for SGLang, the file for vLLM."),
        (("command:", "comand:"), 422, "has a field &#x27;comand&#x27;, which is none"),
        (("/models/qwen-27b", "~/qwen"), 422, "Revision 1 of the file: ~ would be filled in"),
        (("--tp 2", "--api-key abc123"), 422, "would show the secret"),
        (("profile: chat", "profile: \"a\\u202eb\""), 422, "that can be seen"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_right_makes_nothing_and_stays(
    client_of: ClientOf, administrator: User, change: tuple[str, str], status: int, sentence: str
) -> None:
    client = client_of(administrator)
    text = exported(client, make_profile(name="chat")).replace(*change)
    answer = look(client, text, add="on")
    page = answer.content.decode()
    assert answer.status_code == status and sentence in page and "--mem-fraction-static" in page
    assert Profile.objects.count() == 1 and Profile.objects.get().revisions.count() == 1 and actions() == []


def test_an_import_is_whole_or_not_at_all(client_of: ClientOf, administrator: User, operator: User) -> None:
    profile = make_profile(name="chat")
    make_revision(profile, env={"lower": "x"})
    client = client_of(administrator)
    answer = look(client, exported(client, profile), name="b")
    assert (
        answer.status_code == 409
        and "Revision 2 of the file: &#x27;lower&#x27; is not a name" in answer.content.decode()
    )
    assert not Profile.objects.filter(name="b").exists() and actions() == []
    assert client_of(operator).get(IMPORT).status_code == 403


# --- Compare --------------------------------------------------------------------------------------------------------


def test_revisions_of_two_profiles_compare(client_of: ClientOf, viewer: User) -> None:
    one, two = make_profile(name="one"), make_profile(name="two")
    right = make_revision(two, argv=[*two.newest.argv, "--enable-metrics"], notes="with numbers")
    client = client_of(viewer)
    path = f"/profiles/{one.pk}/compare/"
    page = client.get(f"{path}?left={one.newest.pk}&other={two.pk}").content.decode()
    assert "one r1 and two r2" in page and "--enable-metrics" in page and "with numbers" in page
    assert f'<option value="{right.pk}" selected>two r2' in page
    first = two.revisions.get(number=1)
    page = client.get(f"{path}?left={first.pk}&right={right.pk}&other={two.pk}").content.decode()
    assert "two r1 and two r2" in page and "1 difference, marked." in page
    page = client.get(f"{path}?left={one.newest.pk}&right={first.pk}").content.decode()
    assert "one r1 and two r1" in page and "No difference." in page, "a link names no other profile"
    page = client.get(f"{path}?left={one.newest.pk}&right={right.pk}&other=").content.decode()
    assert "one r1 and one r1" in page and "two" not in page.partition("</h1>")[0], "the other profile was taken away"
