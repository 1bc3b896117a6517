"""Is it free? What the driver may say instead of a number."""

from __future__ import annotations

import re
from functools import partial

from hosts.probe.probe import script
from tests.verdicts.looks import AT_ONCE, odd
from tests.verdicts.scene import Scene
from tests.verdicts.situation import ALL, FREE, LOCAL, NOT_FREE, PCT, SSH, UNMEASURED, Outcome, Table

MEMORY_FIELDS = re.findall(r"^MEMORY_FIELDS=(\S+)$", script(), re.M)[0]
"""What verify asks nvidia-smi for, in that order."""
TABLE = Table(policy=AT_ONCE)
row = TABLE.row
BY_SMI = (SSH, PCT)
"""Faults of what nvidia-smi prints: NVML itself has none of these."""


def told(lines: tuple[str, ...], s: Scene) -> Outcome:
    """Look while the driver does this."""
    s.gpu(*lines)
    return s.look()


def fault(key: str, title: str, expect: str, says: str, *lines: str, **more: object) -> None:
    """A row that is nothing but a fault of the driver, on idle cards."""
    TABLE.add(key, title, partial(told, lines), expect, says, **more)


for name, words in {
    "no-driver": "not loaded",
    "no-library": "libnvidia-ml",
    "mismatch": "needs a reboot",
    "no-permission": "not permitted",
    "blocked": "blocks access",
    "unknown-error": "taken away",
    "in-use": "another client",
    "no-devices": "sees no card|names? no card|No devices",
    "count-failed": "count|Unknown Error",
}.items():
    fault(name.replace("-", "_"), f"the driver says: {name}", UNMEASURED, words, name)

fault("lost", "the card has fallen off the bus", UNMEASURED, "lost", "lost 0")
fault("lost_other", "a card of others has fallen off the bus", FREE, "", "lost 1")
fault("lost_by_bus", "a card of others is lost, and named by its bus", FREE, "", "lost 1\nbus-in-message")
fault("reset", "the card needs a reset", UNMEASURED, "reset", "reset 0")
fault("reset_other", "a card of others needs a reset", FREE, "", "reset 1")
fault("broken", "the card has an unknown error", UNMEASURED, "does not answer|Unknown Error", "broken 0")
fault("broken_other", "a card of others has an unknown error", FREE, "", "broken 1")
fault("denied", "the card is left out without a word", UNMEASURED, "does not list", "denied 0")
fault("denied_other", "a card of others is left out", FREE, "", "denied 1")
fault("one_of_two_lost", "one of two cards is lost", UNMEASURED, "lost", "lost 2", slots=(0, 2))

for key, cell, words in (
    ("not_reported", "[N/A]", "does not report"),
    ("needs_reset", "[GPU requires reset]", "reset"),
    ("is_lost", "[GPU is lost]", "lost"),
    ("unknown_cell", "[Unknown Error]", "failed to read|Unknown"),
    ("not_permitted", "[Insufficient Permissions]", "may not read"),
    ("error_cell", "ERR!", "ERR!|failed"),
    ("negative", "-1", "driver says|failed|Unknown"),
    ("word", "free", "driver says|failed|Unknown"),
):
    fault(f"used_{key}", f"memory in use: {cell}", UNMEASURED, words, f"cell 0 memory.used {cell}", on=BY_SMI)
fault("used_all_na", "no card tells its memory", UNMEASURED, "does not report", "cell * memory.* [N/A]")
fault(
    "used_other", "a card of others does not tell its memory", FREE, "", "cell 1 memory.used [Unknown Error]", on=BY_SMI
)
fault("too_much", "more in use than there is", UNMEASURED, "contradict", "cell 0 memory.used 99999", on=BY_SMI)
fault("total_na", "the card's size is not told", FREE, "", "cell 0 memory.total [N/A]", on=BY_SMI)
fault(
    "uuid",
    "the card does not tell which one it is",
    UNMEASURED,
    "list|garbled",
    "cell 0 uuid [Unknown Error]",
    on=BY_SMI,
)
fault("utilization", "how busy it is cannot be told", FREE, "", "cell 0 utilization.gpu [Unknown Error]")
fault("temperature", "the temperature cannot be told", FREE, "", "cell 0 temperature.gpu [N/A]")
fault(
    "old_driver", "the driver does not know a field of the whole list", FREE, "", "missing memory.reserved", on=BY_SMI
)
fault(
    "no_field",
    "the driver does not know the memory in use",
    UNMEASURED,
    "does not know",
    "missing memory.used",
    on=BY_SMI,
)

fault("hang", "the driver does not come back", UNMEASURED, "did not answer|hang", "hang 40")
fault("slow", "the driver takes a second", FREE, "", "slow 1", on=BY_SMI)
fault("slow_nvml", "the driver takes its time for each question", FREE, "", "slow 0.02", on=(LOCAL,))
fault("cut", "the answer ends in the middle of a row", UNMEASURED, "", "cut 60", on=BY_SMI)
fault("empty", "no answer at all, and no failure", UNMEASURED, "", "empty", on=BY_SMI)
fault(
    "exit_3",
    "nvidia-smi fails in a way that nobody knows",
    UNMEASURED,
    "status 3|what",
    "exit 3 what is this",
    on=BY_SMI,
)
fault("exit_0", "nvidia-smi says something else, and no failure", UNMEASURED, "", "exit 0 all 0 MiB", on=BY_SMI)

fault("hidden", "processes are not told, and nobody is there", FREE, "", "hide")
fault("apps_refused", "the list of processes is refused", FREE, "", "apps [Insufficient Permissions]", on=BY_SMI)
fault("ghost", "a process is told that is not there", FREE, "", "app 0 31999 900 [Not Found]", on=BY_SMI)


@row("the answer ends within the number: 20000 becomes 20", UNMEASURED, on=BY_SMI)
def cut_number(s: Scene) -> Outcome:
    s.leak(0, 20000)
    answer = s.ask(f"nvidia-smi --query-gpu={MEMORY_FIELDS} --format=csv,nounits")
    return told((f"cut {answer.index(', 20000') + 4}",), s)


@row("processes are not told, but a stranger holds the card", NOT_FREE, "holds GPU")
def hidden_stranger(s: Scene) -> Outcome:
    s.stranger(0, 10)
    return told(("hide",), s)


@row("a thread's number is told for the stranger's", NOT_FREE, "holds GPU")
def thread_ids(s: Scene) -> Outcome:
    s.stranger(0, 3000)
    return told(("thread-ids",), s)


@row("only one thread of a stranger has the card open, and its number is told", NOT_FREE, "holds GPU")
def thread_of_thread(s: Scene) -> Outcome:
    odd(s, "thread-files", 10)
    return told(("thread-ids",), s)


@row("only one thread of a stranger has the card open, and processes are not told", NOT_FREE, "holds GPU")
def hidden_thread(s: Scene) -> Outcome:
    odd(s, "thread-files", 10)
    return told(("hide",), s)


@row("the card is lost, and a stranger holds it", NOT_FREE, "holds", on=ALL)
def lost_and_held(s: Scene) -> Outcome:
    s.stranger(0, 3000)
    return told(("lost 0",), s)


@row("one of two cards is lost, the other is in use", NOT_FREE, "still holds", slots=(0, 2))
def lost_and_leak(s: Scene) -> Outcome:
    s.leak(2, 9000)
    return told(("lost 0",), s)


@row("the cards were taken from this container alone", UNMEASURED, "taken away", on=(PCT,))
def container_forgot(s: Scene) -> Outcome:
    s.faults.ct_gpu(s.machine, "unknown-error")
    s.way_back.append(lambda: s.faults.ct_gpu(s.machine, "none"))
    return s.look()


@row("another container has lost its cards", FREE, on=(PCT,))
def other_container_forgot(s: Scene) -> Outcome:
    other = s.elsewhere["container"].place
    s.faults.ct_gpu(other, "unknown-error")
    s.way_back.append(lambda: s.faults.ct_gpu(other, "none"))
    return s.look()
