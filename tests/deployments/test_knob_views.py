"""The form of a profile begins with the settings that people change first; without JavaScript."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from deployments.models import Profile
from tests.factories import make_profile, make_revision

pytestmark = pytest.mark.django_db
ClientOf = Callable[[User], Client]
COMMAND = "python3 -m sglang.launch_server --model-path /m --tp-size 2 --port 31000"
FILLED = {"model": "/m", "cards": "2", "context": "", "fraction": "", "precision": "", "port": "31000"}


def form_of(page: str) -> dict[str, str]:
    """What a browser would send of the settings and the command line."""
    fields = {}
    part = page.partition('id="knobs"')[2].partition("</section>")[0]
    for tag in re.findall(r"<input[^>]*>", part):
        name, value = re.search(r'name="([^"]*)"', tag), re.search(r'value="([^"]*)"', tag)
        assert name
        fields[name[1]] = html.unescape(value[1]) if value else ""
    for name, body in re.findall(r'<select name="(knob-[^"]*)".*?>(.*?)</select>', part, re.S):
        chosen = re.search(r'<option value="([^"]*)" selected', body)
        fields[name] = chosen[1] if chosen else ""
    command = re.search(r'<textarea name="command"[^>]*>\n?(.*?)</textarea>', page, re.S)
    assert command
    return fields | {"command": html.unescape(command[1])}


def one_line(text: str) -> str:
    return " ".join(text.replace("\\\n", " ").split())


def profile_of(command: str) -> Profile:
    found = make_profile()
    make_revision(found, argv=command.split(), port=31000)
    return found


@pytest.fixture
def client(client_of: ClientOf, administrator: User) -> Client:
    return client_of(administrator)


@pytest.fixture
def profile() -> Profile:
    return profile_of(COMMAND)


def shown(client: Client, profile: Profile) -> dict[str, str]:
    return form_of(client.get(f"/profiles/{profile.pk}/revise/").content.decode())


def test_they_say_what_the_command_says(client: Client, profile: Profile) -> None:
    found = shown(client, profile)
    assert {name.removeprefix("knob-"): found[name] for name in found if name.startswith("knob-")} == FILLED


def test_a_changed_one_is_saved_without_the_button(client: Client, profile: Profile) -> None:
    sent = shown(client, profile) | {"knob-context": "128K", "knob-cards": "4"}
    answer = client.post(f"/profiles/{profile.pk}/revise/", sent)
    assert answer.status_code == 302
    assert profile.newest.argv == [*COMMAND.replace("-size 2", "-size 4").split(), "--context-length", "131072"]


def test_the_button_puts_it_into_the_command_and_saves_nothing(client: Client, profile: Profile) -> None:
    sent = shown(client, profile) | {"knob-fraction": "0.85", "do": "knobs"}
    page = client.post(f"/profiles/{profile.pk}/revise/", sent).content.decode()
    found = form_of(page)
    assert one_line(found["command"]) == f"{COMMAND} --mem-fraction-static 0.85" and found["knob-fraction"] == "0.85"
    assert profile.revisions.count() == 2
    again = client.post(f"/profiles/{profile.pk}/revise/", found | {"do": "knobs"}).content.decode()
    assert form_of(again) == found, "and once more changes nothing"


def test_those_that_were_left_alone_follow_the_command_line(client: Client, profile: Profile) -> None:
    sent = shown(client, profile) | {"command": COMMAND.replace("--tp-size 2", "--tp-size 8"), "knob-port": "31001"}
    assert client.post(f"/profiles/{profile.pk}/revise/", sent).status_code == 302
    assert profile.newest.argv == COMMAND.replace("-size 2", "-size 8").replace("31000", "31001").split()
    assert profile.newest.port == 31001


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("context", "long", "Write a number of tokens, as 131072 or 128K."),
        ("fraction", "2", "less than or equal to 1"),
        ("cards", "two", "Write a whole number"),
        ("precision", "fp99", "not one of the available choices"),
    ],
)
def test_a_wrong_one_is_refused_where_it_was_typed(
    client: Client, profile: Profile, name: str, value: str, sentence: str
) -> None:
    sent = shown(client, profile) | {f"knob-{name}": value}
    answer = client.post(f"/profiles/{profile.pk}/revise/", sent)
    page = html.unescape(answer.content.decode())
    assert answer.status_code == 422 and sentence in page and profile.revisions.count() == 2
    if name != "precision":
        assert form_of(page)[f"knob-{name}"] == value


def test_what_the_command_says_already_is_told_at_the_command(client: Client) -> None:
    odd = profile_of(f"{COMMAND} --context-length -1")
    sent = shown(client, odd) | {"notes": "the same"}
    assert sent["knob-context"] == "-1"
    answer = client.post(f"/profiles/{odd.pk}/revise/", sent)
    assert answer.status_code == 422 and "-1" in answer.context["form"].errors["command"][0]


def test_a_script_is_not_reached_into(client: Client, profile: Profile) -> None:
    sent = shown(client, profile) | {"command": "bash -c 'python -m sglang.launch_server'", "knob-cards": "4"}
    answer = client.post(f"/profiles/{profile.pk}/revise/", sent)
    assert answer.status_code == 422 and "cannot be told" in answer.content.decode()
    assert profile.revisions.count() == 2


def test_a_first_command_is_made_of_them(client: Client) -> None:
    page = client.get("/profiles/new/").content.decode()
    assert "choose the engine, or paste a command line" in page
    chosen: dict[str, Any] = {"name": "qwen", "engine": "vllm", "command": "", "do": "knobs"}
    page = client.post("/profiles/new/", chosen).content.decode()
    sent = form_of(page) | {"name": "qwen", "engine": "vllm", "knob-model": "Qwen/Q", "knob-cards": "2"}
    assert client.post("/profiles/new/", sent).status_code == 302
    made = Profile.objects.get().newest
    assert (
        made.argv == ["vllm", "serve", "Qwen/Q", "--host", "0.0.0.0", "--tensor-parallel-size", "2"]
        and made.port == 8000
    )


def test_a_pasted_command_shows_them_by_itself(client: Client) -> None:
    page = client.post("/profiles/new/", {"name": "q", "command": "llama-server -m /x.gguf", "do": "knobs"}).content
    found = form_of(page.decode())
    assert found["knob-model"] == "/x.gguf" and "knob-cards" not in found and "knob-fraction" not in found


def test_a_custom_command_has_none(client: Client) -> None:
    page = client.post("/profiles/new/", {"name": "q", "engine": "custom", "command": "./serve", "do": "knobs"})
    assert "knob-model" not in page.content.decode()
    own = make_profile(engine="custom")
    page = client.get(f"/profiles/{own.pk}/revise/")
    assert "knob-model" not in page.content.decode() and "choose the engine" not in page.content.decode()
