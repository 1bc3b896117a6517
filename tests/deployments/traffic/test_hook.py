"""What may be written as a traffic hook, what is refused with a sentence, and how it is kept."""

import re
from pathlib import Path

import pytest

from deployments.traffic.hook import KEY, Hook, How, Moment, hook_of, said_as

URL = "http://router.example:4000/remove_worker?url=http%3A%2F%2F10.0.0.9%3A30000"


def request(**more: str) -> Hook:
    return said_as("request", **({"method": "POST", "url": URL} | more))


def test_what_was_written_is_kept_and_read_again() -> None:
    hook = request(headers=f" Authorization: Bearer {KEY}\r\nX-Team: a\n", body='{"id": "chat"}')
    assert hook_of({"take out": hook.as_data}, Moment.TAKE_OUT) == hook
    assert hook_of({"take out": hook.as_data}, Moment.PUT_BACK) is None
    assert str(hook) == f"POST {URL}" and hook.needs_key
    assert hook.pairs("s3cret-key") == [("Authorization", "Bearer s3cret-key"), ("X-Team", "a")]
    assert "s3cret" not in str(hook.as_data)
    command = said_as("command", command=" nginx -s reload\r\n", url="http://left.over/")
    assert command == Hook(How.COMMAND, command="nginx -s reload") and str(command) == "nginx -s reload"
    assert command.as_data == {"how": "command", "command": "nginx -s reload"}


def test_the_key_may_stand_in_a_body_beside_any_name() -> None:
    assert request(body=f'{{"api_key": "{KEY}"}}').content("abcdefgh") == b'{"api_key": "abcdefgh"}'


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        ({"url": ""}, "Write the whole address"),
        ({"url": "router.example/remove"}, "Write the whole address"),
        ({"url": "ftp://router/x"}, "Write the whole address"),
        ({"url": "http://router:99999/x"}, "Write the whole address"),
        ({"url": "http://router/a b"}, "Write the whole address"),
        ({"url": "http://router/\nHost: other"}, "Write the whole address"),
        ({"url": "http://ana:secret99@router/x"}, "Leave the login out"),
        ({"url": f"http://router/?k={KEY}"}, "goes into a header or the body"),
        ({"url": "http://router/?api_key=sk-abcdefghijklmnop1234"}, "would show a secret"),
        ({"method": "TRACE"}, "Choose the method"),
        ({"headers": "no colon"}, "is not a header"),
        ({"headers": "Bad Name: x"}, "is not a header"),
        ({"headers": "X: a\x0bb"}, "is not a header"),
        ({"headers": "Authorization: Bearer abcdefgh12345678"}, "would show the key"),
        ({"headers": "Authorization: none"}, "would show the key"),
        ({"headers": "X-Api-Key: abcdefgh12345678"}, "would show the key"),
        ({"body": '{"api_key": "sk-abcdefghijklmnop1234"}'}, "would show a secret"),
        ({"body": "x" * 8001}, "too long"),
    ],
)
def test_a_request_that_cannot_be_sent_or_would_show_a_secret(texts: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says) as refused:
        request(**texts)
    assert "abcdefgh" not in str(refused.value) and "secret99" not in str(refused.value)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("  ", "Write the command"),
        (f"curl -H 'Authorization: Bearer {KEY}' http://router/", "goes into a request only"),
        ("curl -H 'Authorization: Bearer sk-abcdefghijklmnop1234' http://router/", "would show a secret"),
        ("echo \0", "holds a NUL"),
    ],
)
def test_a_command_that_is_refused(command: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        said_as("command", command=command)


def recipes() -> list[tuple[str, ...]]:
    """The code of each row of the tables of docs/routers.md."""
    page = Path(__file__).parents[3] / "docs/routers.md"
    rows = [line for line in page.read_text().splitlines() if line.startswith(("| take out |", "| put back |"))]
    return [tuple(re.findall(r"`([^`]+)`", line)) for line in rows]


@pytest.mark.parametrize("recipe", recipes())
def test_what_the_documentation_says_is_taken_as_it_stands(recipe: tuple[str, ...]) -> None:
    method, _, url = recipe[0].partition(" ")
    if not url.startswith("http"):
        assert str(said_as("command", command=recipe[0])) == recipe[0]
        return
    headers = "\n".join(text for text in recipe[1:] if not text.startswith("{"))
    body = "".join(text for text in recipe[1:] if text.startswith("{"))
    assert str(said_as("request", method=method, url=url, headers=headers, body=body)) == recipe[0]


def test_the_documentation_has_recipes() -> None:
    assert len(recipes()) >= 8
