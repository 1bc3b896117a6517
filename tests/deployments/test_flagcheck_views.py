"""The Check button of the profile form: what it says beside the command. It saves nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from controlpanel.models import AuditEntry
from deployments import tasks
from deployments.catalogue.program import Program, program_of
from deployments.catalogue.store import keep
from deployments.models import FlagCatalogue, Profile
from hosts.models import Host
from hosts.probe.frames import Unknown
from tests.deployments.catalogue.samples import SGLANG
from tests.factories import ARGV, make_deployment, make_host, make_profile

pytestmark = pytest.mark.django_db
ClientOf = Callable[[User], Client]
COMMAND = "/srv/venv/bin/python3 -m sglang.launch_server --model-path /m --tp-size 2"


@pytest.fixture(autouse=True)
def rung_flags(monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any) -> list[int]:
    """The readings that were rung for."""
    bells: list[int] = []
    monkeypatch.setattr(tasks, "ring_flags", bells.append)
    return bells


def program(command: str = COMMAND) -> Program:
    found = program_of("sglang", command.split(), env={}, workdir="")
    assert isinstance(found, Program)
    return found


def send(client: Client, host: Host | None, *, path: str = "/profiles/new/", **values: str) -> str:
    data = {"engine": "sglang", "command": COMMAND, "do": "check", "check_host": str(host.pk) if host else ""}
    answer = client.post(path, data | values)
    assert answer.status_code == 200
    return answer.content.decode()


def test_findings_stand_beside_the_command_and_nothing_is_saved(client_of: ClientOf, administrator: User) -> None:
    host = make_host()
    keep(host, program(), SGLANG)
    page = send(client_of(administrator), host, command=f"{COMMAND} --quantisation fp8 --tp 4")
    assert "does not know --quantisation" in page and "Did you mean --quantization?" in page
    assert "--tp is short for --tp-size" in page and "32 flags, read from its source" in page
    assert "--quantisation fp8" in page and not Profile.objects.exists()
    assert "This field is required" not in page, "what a check does not need is not asked for"


def test_a_command_that_is_right_is_said_to_be(client_of: ClientOf, administrator: User) -> None:
    host = make_host()
    keep(host, program(), SGLANG)
    assert "Every flag is known" in send(client_of(administrator), host)


def test_what_is_not_known_yet_is_asked_for_once(
    client_of: ClientOf, administrator: User, rung_flags: list[int], django_capture_on_commit_callbacks: Any
) -> None:
    host, client = make_host(), client_of(administrator)
    with django_capture_on_commit_callbacks(execute=True):
        page = send(client, host)
        send(client, host)
    row = FlagCatalogue.objects.get()
    assert rung_flags == [row.pk] and row.is_being_read
    assert "Reading which flags" in page and f'data-stream="flags:{row.pk}"' in page
    assert AuditEntry.objects.filter(action="read flags").count() == 1
    FlagCatalogue.objects.update(requested_at=timezone.now() - timedelta(minutes=3))
    with django_capture_on_commit_callbacks(execute=True):
        send(client, host)
    assert len(rung_flags) == 2, "a reading whose worker has died is asked for anew"


def test_known_flags_are_read_anew_only_when_somebody_says_so(
    client_of: ClientOf, administrator: User, rung_flags: list[int], django_capture_on_commit_callbacks: Any
) -> None:
    host, client = make_host(), client_of(administrator)
    keep(host, program(), SGLANG)
    with django_capture_on_commit_callbacks(execute=True):
        send(client, host)
        assert rung_flags == []
        page = send(client, host, do="read")
    assert len(rung_flags) == 1 and "Reading which flags" in page


def test_a_reading_that_gave_nothing_says_why(client_of: ClientOf, administrator: User) -> None:
    host = make_host()
    keep(host, program(), Unknown("SGLang is not installed for /srv/venv/bin/python3."))
    path = f"/profiles/{make_profile().pk}/revise/"
    page = client_of(administrator).get(path).content.decode()
    assert "is not installed" not in page, "that is another program than the one of this profile"
    assert f'method="post" action="{path}"' in page, "or the address would keep #flags, and the next page too"
    FlagCatalogue.objects.update(key=program(" ".join(ARGV)).digest)
    page = client_of(administrator).get(path).content.decode()
    assert "SGLang is not installed for /srv/venv/bin/python3." in page


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"check_host": ""}, "Choose the host"),
        ({"check_host": "999"}, "Choose the host"),
        ({"check_host": "x"}, "Choose the host"),
        ({"command": "docker run --network host x python -m sglang.launch_server"}, "inside a container image"),
        ({"engine": "custom", "command": "/srv/run --x"}, "SGLang, vLLM and llama-server only"),
        ({"command": "python a.py | less"}, "needs a shell"),
        ({"command": ""}, "This field is required"),
    ],
)
def test_why_a_command_cannot_be_checked(
    client_of: ClientOf, administrator: User, values: dict[str, str], says: str
) -> None:
    assert says in send(client_of(administrator), make_host(), **values)
    assert not FlagCatalogue.objects.exists()


def test_the_form_opens_with_the_host_and_the_findings_of_what_it_starts_from(
    client_of: ClientOf, administrator: User
) -> None:
    deployment = make_deployment()
    host = deployment.placement.host
    make_host()
    keep(host, program(" ".join(ARGV)), SGLANG)
    path = f"/profiles/{deployment.profile_id}/revise/?from=1&plan={deployment.pk}"
    page = client_of(administrator).get(path).content.decode()
    assert f'<option value="{host.pk}" selected>' in page
    assert "does not know --port" in page, "the flags of the sample lack it"
    row = FlagCatalogue.objects.get()
    assert f'data-flags-url="/flags/{row.pk}.json"' in page


def test_flags_as_data(client_of: ClientOf, viewer: User, stranger: User) -> None:
    row = keep(make_host(), program(), SGLANG)
    path = f"/flags/{row.pk}.json"
    assert client_of(stranger).get(path).status_code == 403
    told = {one["names"][0]: one for one in client_of(viewer).get(path).json()["flags"]}
    assert told["--kv-cache-dtype"]["choices"] == ["auto", "fp8_e5m2", "fp8_e4m3", "bf16"]
    assert told["--kv-cache-dtype"]["default"] == "auto" and told["--page-size"]["value"] == "whole number"
    assert told["--disable-radix-cache"]["value"] == "takes no value"
    assert client_of(viewer).get("/flags/999.json").status_code == 404


def test_only_who_writes_profiles_checks_them(client_of: ClientOf, operator: User) -> None:
    assert client_of(operator).post("/profiles/new/", {"do": "check"}).status_code == 403


def test_what_a_host_tells_is_text_on_the_page(client_of: ClientOf, administrator: User) -> None:
    host = make_host()
    keep(host, program(), Unknown("<script>alert(1)</script>"))
    FlagCatalogue.objects.update(problem="<script>alert(1)</script>")
    path = "/profiles/new/"
    page = client_of(administrator).post(path, {"command": COMMAND, "engine": "sglang", "check_host": host.pk})
    assert "<script>alert" not in page.content.decode()
