"""The form over all flags: found, explained, set in the command line and taken out of it, without JavaScript."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from django.contrib.auth.models import User
from django.test import Client

from deployments.catalogue.model import Flag
from deployments.catalogue.program import Program, program_of
from deployments.catalogue.store import keep
from deployments.models import Profile
from hosts.models import Host
from tests.deployments.catalogue.samples import SGLANG
from tests.factories import make_host

pytestmark = pytest.mark.django_db
ClientOf = Callable[[User], Client]
COMMAND = "/srv/venv/bin/python3 -m sglang.launch_server --model-path /m --tp-size 2"


@pytest.fixture
def host() -> Host:
    """Its SGLang's flags are known."""
    program = program_of("sglang", COMMAND.split(), env={}, workdir="")
    assert isinstance(program, Program)
    found = make_host()
    keep(found, program, SGLANG)
    return found


Send = Callable[..., str]


@pytest.fixture
def send(client_of: ClientOf, administrator: User, host: Host) -> Send:
    """Send the form of a new profile by one of its buttons; the page that comes of it."""

    def send(do: str, **values: str) -> str:
        data = {"engine": "sglang", "command": COMMAND, "do": do, "check_host": str(host.pk)}
        answer = client_of(administrator).post("/profiles/new/", data | values)
        assert answer.status_code == 200 and not Profile.objects.exists()
        return answer.content.decode()

    return send


def command_in(page: str) -> str:
    found = re.search(r'<textarea name="command"[^>]*>\n?(.*?)</textarea>', page, re.S)
    assert found
    return " ".join(html.unescape(found[1]).replace("\\\n", " ").split())


def test_a_flag_is_found_and_explained(send: Send) -> None:
    page = send("find", flag_find="kv cache")
    assert re.search(r'<details class="fold" id="all-flags" open', page)
    assert "1 flag." in page and "<code>--kv-cache-dtype</code>" in page
    assert "One of the choices; default auto." in page and "<option>fp8_e5m2</option>" in page
    assert command_in(page) == COMMAND, "finding changes nothing"
    assert "No flag has “nobody”" in send("find", flag_find="nobody")


def test_pressing_enter_in_the_search_finds_too(send: Send) -> None:
    assert "<code>--kv-cache-dtype</code>" in send("check", flag_find="kv cache")


def test_without_a_word_those_of_the_command_are_shown_and_all_when_asked(send: Send) -> None:
    page = send("check")
    assert 'id="all-flags">' in page and "All 32 flags of SGLang 0.5.11" in page
    assert "These are in the command line." in page and page.count('class="flag-set"') == 2
    assert "in the command: 2" in page and "Take out --tensor-parallel-size" in page
    assert send("all").count('class="flag-set"') == 32


def test_a_flag_is_added_changed_and_taken_out(send: Send) -> None:
    page = send("set:--page-size", flag_find="page", **{"value:--page-size": "64"}, env="A=b c")
    assert "--page-size is in the command line now. Nothing is saved yet." in page
    assert command_in(page) == f"{COMMAND} --page-size 64" and "A=b c" in page
    assert "in the command: 64" in page and "Change --page-size" in page
    page = send("set:--tensor-parallel-size", **{"value:--tensor-parallel-size": "4"})
    assert command_in(page).endswith("--model-path /m --tensor-parallel-size 4")
    page = send("drop:--tensor-parallel-size")
    assert command_in(page).endswith("--model-path /m") and "is no longer in the command line" in page
    assert command_in(send("set:--disable-radix-cache")).endswith("--disable-radix-cache")


def test_what_was_set_is_checked_with_the_rest(send: Send) -> None:
    page = send("set:--page-size", command=f"{COMMAND} --zzz", **{"value:--page-size": "64"})
    assert "does not know --zzz" in page and command_in(page).endswith("--zzz --page-size 64")


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("--kv-cache-dtype", "fp9", "--kv-cache-dtype does not take “fp9”. It takes auto, "),
        ("--page-size", "many", "--page-size takes a whole number, and “many” is none."),
    ],
)
def test_a_wrong_value_is_not_confirmed_as_added(send: Send, name: str, value: str, why: str) -> None:
    page = send(f"set:{name}", flag_find=name, **{f"value:{name}": value})
    assert why in page and "is in the command line now" not in page and command_in(page) == COMMAND
    assert f'value="{value}"' in page or "<select" in page, "what was typed is still there"


def test_where_the_flags_are_not_known_for_sure_a_value_is_taken_and_its_doubt_said(send: Send, host: Host) -> None:
    program = program_of("sglang", COMMAND.split(), env={}, workdir="")
    assert isinstance(program, Program)
    keep(host, program, replace(SGLANG, source="help"))
    page = send("set:--page-size", **{"value:--page-size": "many"})
    assert command_in(page).endswith("--page-size many") and "so this may be wrong" in page


def test_a_switch_that_is_there_is_not_offered_again_but_its_opposite_is(send: Send, host: Host) -> None:
    page = send("set:--disable-radix-cache", flag_find="disable-radix")
    assert "Add --disable-radix-cache" not in page and "Take out --disable-radix-cache" in page
    program = program_of("sglang", COMMAND.split(), env={}, workdir="")
    assert isinstance(program, Program)
    keep(host, program, replace(SGLANG, flags=(*SGLANG.flags, Flag(("--think", "--no-think"), takes="0"))))
    page = send("find", flag_find="think")
    assert "Add --think" in page and "Add --no-think" in page
    page = send("set:--no-think", flag_find="think")
    assert command_in(page).endswith("--no-think")
    assert "Change to --think" in page and "--no-think</button>" not in page.replace("Take out --no-think", "")
    page = send("set:--think", flag_find="think", command=f"{COMMAND} --no-think")
    assert command_in(page).endswith("--tp-size 2 --think") and "Change to --no-think" in page


@pytest.mark.parametrize(
    ("do", "why"), [("set:--page-size", "Write a value for --page-size."), ("set:--zzz", "no flag of this engine")]
)
def test_what_cannot_be_set_is_said_and_the_command_stays(send: Send, do: str, why: str) -> None:
    page = send(do, flag_find="page", **{"value:--page-size": " "})
    assert why in page and command_in(page) == COMMAND


def test_what_surrounds_the_command_goes_to_its_own_fields(send: Send) -> None:
    pasted = f"cd /srv && X=1 nohup {COMMAND} > log 2>&1 &"
    assert "Reading which flags" in send("set:--old", command=pasted), "another directory may be another installation"
    page = send("set:--old", command=f"X=1 nohup {COMMAND} > log 2>&1 &")
    assert command_in(page) == f"{COMMAND} --old" and "X=1</textarea>" in page


def test_a_port_that_is_set_is_the_port(send: Send, host: Host) -> None:
    flags = SGLANG.flags
    program = program_of("sglang", COMMAND.split(), env={}, workdir="")
    assert isinstance(program, Program)
    keep(host, program, replace(SGLANG, flags=(*flags, Flag(("--port",), type="int"))))
    page = send("set:--port", port="30000", **{"value:--port": "30001"})
    assert command_in(page).endswith("--port 30001") and 'value="30000"' not in page
