"""Does it fit on the cards as they will be after the stop: what a plan says of it, and what it warns of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deployments.engines.registry import ENGINES
from deployments.fit.asked import Measured
from deployments.fit.served import Served, served_of
from deployments.plan.fitting import Fit, Room, ToFit, refusal
from deployments.plan.inputs import Recipe
from deployments.plan.plan import Plan
from hosts.probe.frames import Unknown
from tests.deployments.fit import models
from tests.deployments.fit.models import GIB, files
from tests.deployments.machine import CARDS, SGLANG, TOTAL, Machine, Proc, serving_machine
from tests.deployments.plan.test_plan import plan

KNOWN = ToFit(files(models.QWEN35_27B, 28e9), version="0.5.11")
LARGE = replace(KNOWN, files=files(models.QWEN35_27B, 110e9))
MIB = 1 << 20


def recipe(flags: str = "--mem-fraction-static 0.85 --context-length 131072") -> Recipe:
    return Recipe("qwen r2", (*SGLANG.split(), *flags.split()), "the new command", 30000)


def fitted(machine: Machine, known: ToFit = KNOWN, flags: str | None = None, **more: Any) -> Plan:
    usual = {"to_fit": known, "new": recipe() if flags is None else recipe(flags)}
    return plan(machine, **(usual | more))


def fit(machine: Machine, known: ToFit = KNOWN, flags: str | None = None, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = fitted(machine, known, flags, **more).data["fit"]
    return found


def rooms(machine: Machine, **more: Any) -> list[tuple[str, str]]:
    return [(room["value"], room["how"]) for room in fit(machine, **more)["rooms"]]


def test_cards_that_are_alike_have_one_row() -> None:
    stranger = Proc(9, 90, "trainer", "python train.py", uid=1000, cards=(0,), memory=10_240)
    assert [room["label"] for room in fit(serving_machine())["rooms"]] == ["Each of the 2 cards"]
    assert [room["label"] for room in fit(serving_machine().add(stranger))["rooms"]] == ["GPU 0", "GPU 1"]


def texts(made: Plan) -> list[str]:
    return [warning["text"] for warning in made.data["warnings"]]


def test_what_the_server_holds_now_counts_as_free_then() -> None:
    assert rooms(serving_machine()) == [("48.0 GiB of 48.0 GiB", "once chat is stopped")]
    busy = rooms(serving_machine(), kind="start", launch=None)
    assert busy == [("8.9 GiB of 48.0 GiB", "as it is free now")], "a start stops nothing"


def test_memory_of_others_is_not_free_then() -> None:
    stranger = Proc(9, 90, "trainer", "python train.py", uid=1000, cards=(0,), memory=10_240)
    first, second = rooms(serving_machine().add(stranger))
    assert first == ("38.0 GiB of 48.0 GiB", "once chat is stopped, beside others with 10,240 MiB")
    assert second == ("48.0 GiB of 48.0 GiB", "once chat is stopped")


def test_where_others_are_not_told_apart_it_is_what_the_server_itself_has() -> None:
    stranger = Proc(9, 90, "trainer", "python train.py", uid=1000, cards=(0,), memory=10_240)
    machine = serving_machine().add(stranger)
    machine.broken["apps"] = "\n".join(
        ["pid, gpu_uuid, used_gpu_memory [MiB], process_name",
         *(f"{pid}, {uuid}, {'[N/A]' if pid == 9 else 39_000}, python" for pid, uuid in
           ((9, CARDS[0]), (101, CARDS[0]), (102, CARDS[1])))]
    ) + "\n"  # fmt: skip
    assert rooms(machine)[0] == ("47.0 GiB of 48.0 GiB", "once chat is stopped, which has 39,000 MiB of it")
    machine.broken["apps"] = "pid, gpu_uuid, used_gpu_memory [MiB], process_name\n"
    found = fit(machine)
    assert found["verdict"] == "unknown" and "GPU 0: Others hold it too" in found["reason"]


def test_who_else_holds_the_cards_is_not_known() -> None:
    machine = serving_machine()
    machine.partial = True
    assert "who does is not known" in rooms(machine)[0][1]


def test_it_fits_with_tokens_and_requests_by_precision() -> None:
    made = fitted(serving_machine())
    found = made.data["fit"]
    assert (found["word"], found["status"]) == ("It fits", "ok")
    assert found["tables"]["lengths"] == ["128K", "32K", "8K"]
    bf16, fp8 = found["tables"]["rows"]
    assert (bf16["name"], bf16["in_use"], fp8["in_use"]) == ("bf16", True, False)
    assert (bf16["requests"], fp8["requests"]) == (["3", "14", "56"], ["7", "28", "59"])
    assert [row["name"] for row in found["tables"]["limits"]] == [
        "KV cache", "recurrent state", "number of running requests"
    ]  # fmt: skip
    assert {"KV cache of one token", "State of one slot", "Weights on each card"} <= {
        row["label"] for row in found["rows"]
    }
    assert "÷" in found["requests"][0]["how"] and found["changes"] == []
    assert texts(made) == [] and not made.data["blocked"]


def test_it_does_not_fit_is_a_warning_with_the_least_change_and_binds_nothing() -> None:
    made = fitted(serving_machine(), LARGE)
    found = made.data["fit"]
    assert (found["word"], found["status"]) == ("It does not fit", "not ok")
    assert "missing" in found["reason"]
    assert found["changes"] == [] and found["elsewhere"] == "It would fit on 4 cards like these; this host has 2."
    (warning,) = made.data["warnings"]
    assert warning["text"].startswith("qwen r2 does not fit on these cards.") and not warning["blocks"]
    assert found["elsewhere"] in warning["todo"] and "stopped for nothing" in warning["why"]
    assert warning["despite"] == "although it does not fit" and warning["asks"]
    assert made.hash == fitted(serving_machine(), KNOWN).hash


def test_more_cards_are_a_change_only_where_the_host_has_them() -> None:
    room = Room("a", "GPU 0", TOTAL, TOTAL - 4, "as it is free now")
    for there, flags in ((4, ["--tp-size 4"]), (None, ["--tp-size 4"]), (2, [])):
        found = Fit(ENGINES["sglang"], recipe().argv, LARGE, (room, room), there)
        assert [" ".join(change.flags) for change in found.changes] == flags
        assert (found.elsewhere is None) == bool(flags)


def test_short_of_its_longest_request_alone_it_starts_all_the_same() -> None:
    made = fitted(serving_machine(), replace(KNOWN, files=files(models.QWEN35_27B, 88e9)))
    assert made.data["fit"]["word"] == "It does not fit" and "131,072 tokens" in made.data["fit"]["reason"]
    assert "starts all the same" in made.data["warnings"][0]["why"] and "despite" not in made.data["warnings"][0]


@pytest.mark.parametrize(("weights", "warned"), [(80e9, False), (86e9, True)])
def test_between_the_bounds_it_is_too_close_to_say_and_warns_when_it_is_unlikely(weights: float, warned: bool) -> None:
    known = replace(KNOWN, files=files(models.QWEN3_8B, weights))
    made = fitted(serving_machine(), known, "--context-length 4096")
    assert made.data["fit"]["word"] == "Too close to say" and made.data["fit"]["status"] == "unknown"
    assert [text.startswith("qwen r2 may not fit") for text in texts(made)] == ([True] if warned else [])


@pytest.mark.parametrize(
    ("known", "says"),
    [
        (ToFit(Unknown("There is no model at /models/x on this host.")), "There is no model"),
        (replace(KNOWN, files=files({}, 1e9)), "config.json does not say"),
    ],
)
def test_not_known_has_its_reason_and_warns_of_nothing(known: ToFit, says: str) -> None:
    made = fitted(serving_machine(), known)
    found = made.data["fit"]
    assert (found["word"], found["status"]) == ("Not known", "unknown") and says in found["reason"]
    assert found["tables"] is None and found["changes"] == [] and texts(made) == []


@pytest.mark.parametrize(("used", "says"), [("[Unknown Error]", "failed to read"), ("[N/A]", "does not report")])
def test_a_card_that_is_not_measured_is_named(used: str, says: str) -> None:
    machine = serving_machine()
    machine.cards[CARDS[1]] = used
    found = fit(machine, kind="restart")
    assert found["verdict"] == "unknown" and found["reason"].startswith("GPU 1: ") and says in found["reason"]


def test_nothing_is_worked_out_where_nothing_is_launched() -> None:
    assert fitted(serving_machine(), kind="stop", new=None).data["fit"] is None
    assert plan(serving_machine()).data["fit"] is None


@pytest.mark.parametrize(
    ("gigabytes", "version", "refused"),
    [(28, "0.5.11", False), (88, "0.5.11", False), (110, "0.5.11", True), (110, "", True)],
)
def test_only_what_is_sure_not_to_start_is_refused(gigabytes: int, version: str, refused: bool) -> None:
    """With 88 GB it starts, and lacks room for its longest request alone."""
    known = ToFit(files(models.QWEN35_27B, gigabytes * 1e9), version=version)
    room = Room("a", "GPU 0", TOTAL, TOTAL - 4, "as it is free now")
    found = refusal(Fit(ENGINES["sglang"], recipe().argv, known, (room, room)), name="qwen r2")
    assert found.startswith("qwen r2 does not fit in the memory that is free: ") is refused
    assert bool(found) is refused


# --- Measured history


SERVED = Served(
    "2026-01-01T10:00:00+00:00", dict.fromkeys(CARDS, 44_000), tokens=300_000, running=40, version="0.5.9",
    measured=Measured(weights=26 * GIB, kv_pool=9 * GIB),
)  # fmt: skip


def test_that_it_has_served_beats_the_formula_and_is_said_to_be_measured() -> None:
    found = fit(serving_machine(), replace(LARGE, served=SERVED))
    assert found["word"] == "It fits" and "has served on these cards" in found["reason"] and found["changes"] == []
    assert found["served"]["at"] == "2026-01-01T10:00:00+00:00"
    assert "300,000 tokens" in found["served"]["text"] and "40 requests" in found["served"]["text"]
    weights, kv = (
        next(row for row in found["rows"] if row["label"] == label)
        for label in ("Weights on each card", "KV cache on each card")
    )
    assert (weights["value"], weights["source"]) == ("26.0 GiB", "measured")
    assert (kv["value"], kv["source"]) == ("9.0 GiB", "measured")


def test_with_less_room_than_then_the_formula_decides_and_says_what_is_missing() -> None:
    stranger = Proc(9, 90, "trainer", "python train.py", uid=1000, cards=(0,), memory=30_000)
    made = fitted(serving_machine().add(stranger), replace(KNOWN, served=SERVED))
    found = made.data["fit"]
    assert found["word"] == "It does not fit"
    kv = next(row for row in found["rows"] if row["label"] == "KV cache on each card")
    assert kv["source"] == "formula", "the pool of then does not go in"
    assert found["served"]["less"] == ["GPU 0: 19,136 MiB free, 44,000 MiB used then"]


def test_it_counts_also_where_no_file_could_be_read() -> None:
    made = fitted(serving_machine(), ToFit(Unknown("It runs in a container."), served=SERVED))
    assert made.data["fit"]["word"] == "It fits" and made.data["fit"]["tables"] is None


@pytest.mark.parametrize(
    ("facts", "kv", "weights", "tokens", "running"),
    [
        (
            {"Weights": "8.85 GiB per card, loaded in 7.02 s", "KV cache": "327,310 tokens, K 2.50 GiB, V 2.50 GiB",
             "Requests at the same time, at most": "62"},
            5.0, 8.85, 327_310, 62,
        ),
        ({"Weights": "73.58 GiB per card, loaded in 9 s", "KV cache": "2,454,421 tokens, 160.63 GiB"},
         160.63, 73.58, 2_454_421, None),
        ({"Weights": "14.98 GiB, in 3.1 s", "Memory left for the KV cache": "8.11 GiB per card",
          "KV cache": "178,880 tokens"}, 8.11, 14.98, 178_880, None),
        ({"KV cache, in tokens": "1,234"}, None, None, 1_234, None),
        ({"KV cache": "40.00 MiB for 4,096 tokens"}, None, None, 4_096, None),
        ({}, None, None, None, None),
    ],
)  # fmt: skip
def test_what_engines_log_of_their_memory(
    facts: dict[str, str], kv: float | None, weights: float | None, tokens: int | None, running: int | None
) -> None:
    rows = [{"label": label, "value": value, "source": "its log"} for label, value in facts.items()]
    found = served_of("now", {}, {"facts": rows, "version": "1"})
    assert (found.tokens, found.running, found.version) == (tokens, running, "1")
    assert found.measured.kv_pool == (int(kv * GIB) if kv else None)
    assert found.measured.weights == (int(weights * GIB) if weights else None)


# --- It has served, and holds less than its flags promise


SHORT = replace(SERVED, measured=replace(SERVED.measured, kv_pool=2 * GIB))
"""The pool that was measured holds less than one request of 128K."""


def test_what_serves_with_less_than_its_whole_context_is_told_apart_from_what_fits() -> None:
    made = fitted(serving_machine(), replace(KNOWN, served=SHORT))
    found = made.data["fit"]
    assert (found["verdict"], found["word"], found["status"]) == ("fits", "Starts with less context", "unknown")
    assert "Not one request of its whole context goes in." in found["reason"]
    (warning,) = made.data["warnings"]
    assert "131,072 tokens are allowed, there is room for 6" in warning["text"] and not warning["blocks"]
    assert found["tables"]["rows"][0]["requests"] == ["0", "2", "8"]


def test_the_table_has_whole_requests_and_one_sentence_for_what_limits_them() -> None:
    tables = fit(serving_machine(), flags="--context-length 131072 --max-running-requests 20")["tables"]
    bf16 = tables["rows"][0]
    assert all(count.isdecimal() for count in bf16["requests"]) and bf16["requests"][-1] == "20"
    assert tables["limited"].startswith("the KV cache allows no more of 128K")
    assert tables["limited"].endswith("the number of running requests allows no more of 8K.")
    running = next(row for row in tables["limits"] if row["name"] == "number of running requests")
    assert running["value"] == "20 of 128K, 20 of 32K, 20 of 8K"
