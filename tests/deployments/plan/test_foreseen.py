"""What a launch or a stop is likely to trip over, said in the plan though it stands in nobody's way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deployments.engines.registry import ENGINES
from deployments.fit.files import IndexFacts, ModelFiles
from deployments.plan.fitting import Room, ToFit
from deployments.plan.foreseen import foreseen
from deployments.plan.inputs import SHARED_MEMORY
from deployments.plan.plan import Plan
from deployments.traffic.hook import Hook, How
from hosts.probe.frames import Unknown
from tests.deployments.machine import CARDS, Machine, Proc, idle_machine, serving_machine
from tests.deployments.plan.test_plan import NEW, asked, plan

VLLM = "/opt/vllm/bin/python -m vllm.entrypoints.openai.api_server --model /models/qwen-27b --port 30000"


def texts(made: Plan) -> list[str]:
    assert not made.data["blocked"]
    return [row["text"] for row in made.data["warnings"]]


def rows(made: Plan, title: str) -> list[dict[str, Any]]:
    (section,) = (section for section in made.data["sections"] if section["title"] == title)
    found: list[dict[str, Any]] = section["rows"]
    return found


@pytest.mark.parametrize(("free", "cards", "said"), [(1_023, 2, True), (1_024, 2, False), (900, 1, False)])
def test_little_shared_memory_for_several_cards(free: int, cards: int, said: bool) -> None:
    machine = serving_machine()
    machine.free_mib = free
    made = plan(machine, cards=asked(machine).cards[:cards])
    words = [row["text"] for row in made.data["warnings"]]
    assert (f"Only {free:,} MiB of shared memory are free on gpu1 (/dev/shm)." in words) == said, words
    row = next(row for row in rows(made, "Disk and shared memory") if row["label"] == "Shared memory")
    assert row["status"] == ("not ok" if said else "ok")


def test_of_shared_memory_that_was_not_told_nothing_is_said_but_that() -> None:
    facts = asked(serving_machine()).facts
    facts = replace(facts, disks={**facts.disks, SHARED_MEMORY: Unknown("The host did not say.")})
    made = plan(serving_machine(), facts=facts)
    assert texts(made) == []
    row = next(row for row in rows(made, "Disk and shared memory") if row["label"] == "Shared memory")
    assert (row["status"], row["detail"]) == ("unknown", "The host did not say.")


@pytest.mark.parametrize(
    ("driver", "version", "said"),
    [
        ("550.54.14", "0.5.23", "older than SGLang 0.5.23 takes"),
        ("580.65.06", "0.5.23", ""),
        ("550.54.14", "0.5.11", ""),
        ("470.82.01", "0.5.11", "older than SGLang 0.5.11 takes"),
        ("470.82.01", "", ""),
        ("[N/A]", "0.5.23", ""),
    ],
)
def test_a_driver_that_is_too_old_for_the_engine(driver: str, version: str, said: str) -> None:
    machine = serving_machine()
    machine.columns = {"driver_version": driver}
    found = texts(plan(machine, engine_version=version or None))
    assert [said in text for text in found] == ([True] if said else []), found


@pytest.mark.parametrize(("free", "said"), [((48_000, 43_100), True), ((48_000, 43_300), False), ((48_000,), False)])
def test_cards_with_unlike_room(free: tuple[int, ...], said: bool) -> None:
    cards = [Room(uuid, f"GPU {n}", 49_140, mib, "") for n, (uuid, mib) in enumerate(zip(CARDS, free, strict=False))]
    found = foreseen(asked(serving_machine()), cards)
    assert [row["text"] for row in found] == (["GPU 1 will have 42.1 GiB free and GPU 0 46.9 GiB."] if said else [])
    assert foreseen(asked(serving_machine(), new=None, kind="stop"), cards) == []


# --- Requests that a stop would cut off


def told(machine: Machine, *requests: Any, **values: Any) -> list[str]:
    made = plan(machine, **values)
    before = made.hash
    made.tell_requests(*requests)
    assert made.hash == before, "no approval is bound to it"
    return [text for text in texts(made) if "requests" in text]


def by_vllm(*flags: str) -> Machine:
    machine = serving_machine()
    machine.procs[100] = replace(machine.procs[100], command=" ".join([VLLM, *flags]))
    return machine


def test_it_is_said_only_while_requests_run_or_wait() -> None:
    (text,) = told(serving_machine(), 2)
    assert text.startswith("SGLang takes new requests even while it waits")
    assert told(serving_machine(), 0, 3) == [text]
    for requests in ((0,), (0, 0), (Unknown("It does not say."),)):
        assert told(serving_machine(), *requests) == []
    assert told(idle_machine(), 2, kind="start", launch=None) == [], "nothing is stopped"
    assert told(serving_machine(), 2, hooks=(Hook(How.COMMAND, command="out"),)) == [], "its router sends no more"


@pytest.mark.parametrize(
    ("flags", "said"), [((), True), (("--shutdown-timeout", "0"), True), (("--shutdown-timeout", "30"), False)]
)
def test_vllm_waits_where_it_was_started_so(flags: tuple[str, ...], said: bool) -> None:
    new = replace(NEW, argv=tuple(VLLM.split()))
    found = told(by_vllm(*flags), 2, engine=ENGINES["vllm"], new=new)
    assert bool(found) == said
    assert not said or "cuts off the requests that run as soon as it is told to end" in found[0]


# --- How long it takes


@pytest.mark.parametrize(
    ("took", "value", "detail"),
    [
        ((), "not known", "No earlier start of it came up."),
        ((41.2,), "about 41 s", "its last start: 41 s"),
        ((300.0, 41.0, 9000.0), "about 5 min", "its last starts: 5 min, 41 s, 2 h 30 min"),
    ],
)
def test_how_long_it_takes_by_its_last_starts(took: tuple[float, ...], value: str, detail: str) -> None:
    (row,) = rows(plan(serving_machine(), took=took), "How long it takes")
    assert (row["value"], row["detail"]) == (value, detail)
    stop = plan(serving_machine(), kind="stop", new=None, took=took).data["sections"]
    assert "How long it takes" not in [section["title"] for section in stop]


# --- The engine and the model


def test_an_engine_that_is_another_than_the_proven_one() -> None:
    then = {"proven_engine": "0.5.9", "engine_version": "0.5.11"}
    assert texts(plan(serving_machine(), **then)) == ["qwen r2 was proven with SGLang 0.5.9; gpu1 has 0.5.11 now."]
    row = next(row for row in rows(plan(serving_machine(), **then), "Where") if row["label"] == "Engine")
    assert (row["value"], row["detail"]) == ("SGLang 0.5.11", "qwen r2 was proven with 0.5.9")
    for same in ({**then, "engine_version": "0.5.9"}, {**then, "engine_version": None}, {"engine_version": "0.5.9"}):
        assert texts(plan(serving_machine(), **same)) == []


@pytest.mark.parametrize(
    ("index", "status", "detail"),
    [
        (IndexFacts(30, frozenset({"a.safetensors", "b.safetensors"})), "ok", "2 weight files, 30 bytes, as its index"),
        (IndexFacts(31, frozenset({"a.safetensors", "b.safetensors"})), "not ok", "30 bytes of the 31 bytes"),
        (IndexFacts(30, frozenset({"a.safetensors", "c.safetensors"})), "not ok", "1 of 2 weight files are missing"),
        (Unknown("It names no tensors."), "unknown", "Its index could not be read: It names no tensors."),
        (None, "info", "It has no index to compare them with."),
    ],
)
def test_whether_the_models_files_are_all_there(index: IndexFacts | Unknown | None, status: str, detail: str) -> None:
    files = ModelFiles(index=index, sizes={"a.safetensors": 10, "b.safetensors": 20})
    (row,) = rows(plan(serving_machine(), to_fit=ToFit(files)), "Model")
    assert row["status"] == status and row["detail"].startswith(detail), row


def test_files_that_were_not_read_are_unknown() -> None:
    (row,) = rows(plan(serving_machine(), to_fit=ToFit(Unknown("The disk does not answer."))), "Model")
    assert (row["status"], row["value"], row["detail"]) == ("unknown", "not known", "The disk does not answer.")


def test_the_port_of_a_launch_is_told() -> None:
    def port(machine: Machine, **values: Any) -> tuple[str, str]:
        row = next(row for row in rows(plan(machine, **values), "Where") if row["label"] == "Port")
        return row["status"], row["detail"]

    assert port(serving_machine()) == ("ok", "free once what serves now is stopped")
    assert port(idle_machine(), kind="start", launch=None) == ("ok", "nobody listens")
    taken = idle_machine()
    taken.add(Proc(9, 90, "nginx", port=30000))
    assert port(taken, kind="start", launch=None) == ("not ok", "another process has it")
    assert port(serving_machine(), kind="stop", new=None) == ("info", "")
