"""Reading over a transport, and the worker's task: what each answer of a host becomes."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.utils import timezone

from deployments import services
from deployments.catalogue import store
from deployments.catalogue.model import Catalogue
from deployments.catalogue.program import Program, program_from
from deployments.catalogue.reading import Same, read
from deployments.models import FlagCatalogue
from hosts import links
from hosts.models import Host
from hosts.probe.frames import Unknown
from hosts.transport.base import ConnectTimeout, TransportError
from hosts.transport.fake import Call, FakeTransport, Reply
from tests.deployments.catalogue.samples import SGLANG
from tests.factories import make_host

PROGRAM = Program("sglang", "python", "/v/python", ("--tp", "2"), ("-m", "x", "--help"), surroundings=(("PATH", "/v"),))
FLAGS = [flag.plain() for flag in SGLANG.flags]
HELP = "usage: x\n\noptions:\n" + "".join(f"  --flag-{n} N   what it does\n" for n in range(9))
DATA: dict[str, Any] = {
    "interpreter": "/v/python3", "package": "/v/sglang", "version": "0.5.11", "stamp": "aa", "arguments": FLAGS,
    "gaps": [],
}  # fmt: skip


def host(data: dict[str, Any] | None, *, help_text: str = "", reason: str = "") -> FakeTransport:
    """A host whose reader says ``data``, and whose engine prints ``help_text``."""

    def reply(call: Call) -> Reply:
        values = dict(word.partition("=")[::2] for word in shlex.split(call.stdin.decode().partition("\n#")[0]))
        mark = f"@{values['TOKEN']}"
        line = f"{mark} {json.dumps(data)}" if data is not None else f"{mark} none {reason}"
        if values["MODE"] == "help":
            line = f"{mark} help\n{help_text}"
        return Reply(stdout=f"{line}\n{mark} end\n".encode())

    return FakeTransport().on("sh", "-s", reply=reply)


def test_source_that_is_understood_is_enough() -> None:
    transport = host(DATA)
    found = read(transport, PROGRAM)
    assert isinstance(found, Catalogue) and found.flags == SGLANG.flags and found.is_sure
    assert (found.version, found.stamp, len(transport.calls)) == ("0.5.11", "aa", 1)


@pytest.mark.parametrize(
    "data", [DATA | {"gaps": ["x"]}, DATA | {"arguments": []}, DATA | {"arguments": [{"names": ["<b>"]}]}]
)
def test_source_that_is_not_is_helped_out_by_the_help_text(data: dict[str, Any]) -> None:
    found = read(host(data, help_text=HELP), PROGRAM)
    assert isinstance(found, Catalogue) and found.source == "help" and not found.is_sure
    assert (found.count, found.version, found.stamp) == (9, "0.5.11", "aa")


def test_without_help_a_gap_is_kept_as_a_gap() -> None:
    found = read(host(DATA | {"gaps": ["x"]}, help_text=""), PROGRAM)
    assert isinstance(found, Catalogue) and found.source == "source" and not found.is_sure
    unasked = host(DATA | {"gaps": ["x"]}, help_text=HELP)
    found = read(unasked, PROGRAM, with_help=False)
    assert isinstance(found, Catalogue) and found.source == "source" and len(unasked.calls) == 1


@pytest.mark.parametrize(
    ("transport", "reason"),
    [
        (host({"interpreter": "/v/python3"}), "SGLang is not installed for /v/python3."),
        (host(None, reason="There is no program /v/python."), "There is no program /v/python."),
        (host(DATA | {"arguments": []}, help_text="Traceback"), "explains no flags"),
    ],
)
def test_nothing_is_unknown_with_its_reason(transport: FakeTransport, reason: str) -> None:
    found = read(transport, PROGRAM)
    assert isinstance(found, Unknown) and reason in found.reason


def test_a_binary_is_only_asked_for_its_help() -> None:
    program = replace(PROGRAM, engine="llama_server", kind="binary")
    transport = host(DATA, help_text=HELP.replace("  --", "--"))
    found = read(transport, program)
    assert isinstance(found, Catalogue) and found.source == "help" and found.count == 9
    assert isinstance(read(transport, program, with_help=False), Unknown)


def test_what_is_still_the_same_says_so() -> None:
    assert isinstance(read(host({"package": "/v", "same": True}), PROGRAM), Same)


# --- The task


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[FakeTransport | TransportError]]:
    """What the next link is; put a transport or an error in."""
    nexts: list[FakeTransport | TransportError] = []

    @contextlib.contextmanager
    def borrow(host: Host) -> Iterator[FakeTransport]:
        link = nexts.pop()
        if isinstance(link, TransportError):
            raise link
        yield link

    monkeypatch.setattr(links, "borrow", borrow)
    monkeypatch.setattr(store, "close_old_connections", lambda: None)
    yield nexts


@pytest.mark.django_db
def test_a_reading_that_was_asked_for_is_done_once(worker: list[Any], administrator: Any) -> None:
    row = services.request_flags(make_host(), PROGRAM, actor=administrator, address="")
    worker.append(host(DATA))
    store.run_reading(row.pk)
    store.run_reading(row.pk)
    row = FlagCatalogue.objects.get()
    assert row.catalogue is not None and row.catalogue.flags == SGLANG.flags and not row.is_being_read
    assert program_from(row.how) == replace(PROGRAM, args=()) and program_from(row.how).digest == row.key


@pytest.mark.django_db
def test_a_host_that_cannot_be_reached_leaves_what_was_known(worker: list[Any], administrator: Any) -> None:
    machine = make_host()
    store.keep(machine, PROGRAM, SGLANG)
    row = services.request_flags(machine, PROGRAM, actor=administrator, address="")
    worker.append(ConnectTimeout("It does not answer."))
    store.run_reading(row.pk)
    row = FlagCatalogue.objects.get()
    assert row.problem == "It does not answer." and row.hint and row.catalogue is not None
    row = services.request_flags(machine, PROGRAM, actor=administrator, address="")
    worker.append(host(DATA | {"version": "0.5.23"}))
    store.run_reading(row.pk)
    row = FlagCatalogue.objects.get()
    assert (row.problem, row.hint, row.version) == ("", "", "0.5.23"), "a newer version takes the older one's place"


@pytest.mark.django_db
def test_a_second_doorbell_does_not_begin_what_is_being_done(worker: list[Any], administrator: Any) -> None:
    row = services.request_flags(make_host(), PROGRAM, actor=administrator, address="")
    FlagCatalogue.objects.update(started_at=timezone.now())
    store.run_reading(row.pk)  # would find no link
    assert FlagCatalogue.objects.get().is_being_read


@pytest.mark.django_db
def test_two_installations_on_one_host_are_kept_apart() -> None:
    """Virtual environments, folders, and what PATH leads to."""
    machine = make_host()
    ways = [
        {"word": "/srv/a/bin/python3"},
        {"word": "/srv/b/bin/python3"},
        {"word": "python3", "surroundings": (("PATH", "/srv/a/bin:/usr/bin"),)},
        {"word": "python3", "surroundings": (("PATH", "/srv/b/bin:/usr/bin"),)},
        {"word": ".venv/bin/python3", "workdir": "/srv/a"},
        {"word": ".venv/bin/python3", "workdir": "/srv/b"},
    ]
    programs = [replace(PROGRAM, **{"surroundings": (), **way}) for way in ways]  # type: ignore[arg-type]
    for number, program in enumerate(programs):
        store.keep(machine, program, replace(SGLANG, version=f"0.5.{number}"))
    rows = [store.known(machine, program) for program in programs]
    assert [row.version for row in rows if row] == [f"0.5.{number}" for number in range(len(programs))]
