"""Can a card be used at all? Usable, not usable, or unknown, with the reason and what a person must do. PURE.

That is another question than whether it is free: a card that waits for a reset holds no memory, and no program starts
on it. Nobody but a person mends that, so it is asked before anything is stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from hosts.probe.gpus import LOST, MISMATCH, NEEDS_RESET, NOT_LOADED, Recovery

RECENT_SECONDS = 24 * 3600.0
"""A fault that is older counts no more by itself: what it left behind, the driver still says."""
RECOVERY_CHANGED = 154
"""The driver says what the card needs now: "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
"""
FATAL: dict[int, tuple[str, Recovery]] = {
    48: ("memory errors that could not be corrected", Recovery.RESET),
    62: ("its power management unit stopped", Recovery.RESET),
    64: ("a faulty part of its memory could not be taken out of use", Recovery.RESET),
    74: ("its NVLink connection failed", Recovery.RESET),
    79: ("it has fallen off the bus", Recovery.REBOOT),
    95: ("memory errors that could not be contained", Recovery.RESET),
    119: ("its own processor (GSP) does not answer the driver", Recovery.RESET),
    120: ("its own processor (GSP) crashed", Recovery.RESET),
    RECOVERY_CHANGED: ("the driver asks for it", Recovery.RESET),
}
"""Xids after which the card works again only after a reset or a reboot, in words. Others are faults of a program
(13, 31, 43, 45) or notices (63, 92, 94): the next program can use the card."""
DRIVERS_WORD: dict[str, tuple[str, Recovery]] = {
    LOST: ("is lost: it has fallen off the bus", Recovery.REBOOT),
    NEEDS_RESET: ("waits for a reset", Recovery.RESET),
    MISMATCH: ("cannot be used: the driver was updated under the running one", Recovery.REBOOT),
}
"""What the driver says of a card that it does not list, and that is sure."""


Rank = tuple[bool, bool, float]
"""Of a fault among others: one that needs a reboot, then one that names the cause, then the newest."""


class Usability(StrEnum):
    """Whether a program could use the card now."""

    USABLE = "usable"
    NOT_USABLE = "not usable"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class CardFault:
    """An Xid of this card. `age`: in seconds. `outlived`: a program came after it and uses the card's memory.

    `opened_by`: one that came after it and only has the card open, as what watches cards does; empty for none.
    """

    code: int
    text: str
    age: float
    outlived: bool = False
    opened_by: str = ""


@dataclass(frozen=True)
class Condition:
    """What was seen of one card, to be judged.

    `listed` None: the driver could not be asked. `said`: why it does not list the card, in its sentences.
    `needs` None: the driver does not tell. `sure_of_none`: its "nothing" speaks of every kind of fault.
    `faults` None: the kernel's log was not read. `log_note`: what it could not tell, and why.
    """

    uuid: str
    label: str
    machine: str
    listed: bool | None
    said: tuple[str, ...] = ()
    needs: Recovery | None = None
    sure_of_none: bool = False
    faults: tuple[CardFault, ...] | None = ()
    log_note: str = ""
    missing_files: tuple[str, ...] = ()
    container: str = ""
    """The container that misses the files; empty on a plain host."""
    fabric_state: str = ""
    fabric_status: str = ""
    manager_missing: bool = False
    """The cards are joined by NVSwitches, and their fabric manager does not run."""


@dataclass(frozen=True)
class Reason:
    """Why a card cannot be used, and what a person must do."""

    text: str
    todo: str


@dataclass(frozen=True)
class CardUsable:
    """The verdict on one card. `notes`: what could not be seen, and what was seen but is over."""

    uuid: str
    label: str
    value: Usability
    reasons: tuple[Reason, ...] = ()
    notes: tuple[str, ...] = ()


def judge(seen: Condition) -> CardUsable:
    """The verdict. What is sure counts first; without it, what could not be asked makes it unknown.

    A kernel's log that may not be read is a note. It leaves the card unknown only where the driver does not say
    either whether the card needs a reset.
    """
    old, new = _faults(seen)
    reasons = (*_driver(seen), *new, *_files(seen), *_fabric(seen))
    notes = [*old, *([seen.log_note] if seen.log_note else [])]
    if reasons:
        return CardUsable(seen.uuid, seen.label, Usability.NOT_USABLE, _one_for_each(reasons), tuple(notes))
    if seen.listed is not True:
        notes.insert(0, " ".join(seen.said) or "The driver could not be asked.")
    unseen = seen.listed is not True or (seen.faults is None and seen.needs is None and bool(seen.log_note))
    return CardUsable(seen.uuid, seen.label, Usability.UNKNOWN if unseen else Usability.USABLE, (), tuple(notes))


def not_usable(cards: Sequence[CardUsable]) -> tuple[Reason, ...]:
    """All that keeps the cards from being used; the same thing to do is said once, of all that call for it."""
    texts: dict[str, list[str]] = {}
    for reason in _one_for_each([reason for card in cards for reason in card.reasons]):
        texts.setdefault(reason.todo, []).append(reason.text)
    return tuple(Reason(" ".join(said), todo) for todo, said in texts.items())


def _driver(seen: Condition) -> tuple[Reason, ...]:
    """What the driver itself says of the card."""
    if seen.listed is False:
        for sentence in seen.said:
            if sentence in DRIVERS_WORD:
                words, needed = DRIVERS_WORD[sentence]
                return (Reason(f"{seen.label} {words}.", _todo(seen, needed)),)
        if NOT_LOADED in seen.said:
            return (
                Reason(NOT_LOADED, f"Load it as root on {seen.machine} (modprobe nvidia), or reboot {seen.machine}."),
            )
        if not seen.said:
            todo = f"Look on {seen.machine} whether the card is still there, and may be used from here."
            return (Reason(f"{seen.label} is not among the cards that the driver shows.", todo),)
    if seen.needs in (None, Recovery.NONE):
        return ()
    words = "needs a reboot of its machine" if seen.needs == Recovery.REBOOT else "waits for a reset"
    return (Reason(f"{seen.label} {words}: the driver says so.", _todo(seen, seen.needs)),)


def _todo(seen: Condition, needed: Recovery | None) -> str:
    if needed == Recovery.REBOOT:
        return f"Reboot {seen.machine}. If it happens again, have the card looked at."
    reset = f"reset it as root on {seen.machine} (nvidia-smi --gpu-reset -i {seen.uuid}), or reboot {seen.machine}."
    if needed == Recovery.DRAIN:
        return f"End the programs on it and on the cards that it works together with, then {reset}"
    return f"When no program uses it, {reset}"


def _faults(seen: Condition) -> tuple[list[str], list[Reason]]:
    """The notes and the reasons that the kernel's log gives, of the worst fault each."""
    notes: list[tuple[Rank, str]] = []
    reasons: list[tuple[Rank, Reason]] = []
    for fault, words, needed in _fatal(seen.faults or ()):
        said = f"The kernel's log has a fault of {seen.label} (Xid {fault.code}, {_before(fault.age)}): {words}."
        rank = (needed == Recovery.REBOOT, fault.code != RECOVERY_CHANGED, -fault.age)
        over = _why_over(seen, fault)
        if over:
            notes.append((rank, f"{said} That is over: {over}."))
            continue
        reasons.append((rank, Reason(said, _todo(seen, needed))))
        if fault.opened_by:
            notes.append((rank, _no_proof(seen, fault)))
    worst_note = [max(notes)[1]] if notes else []
    return worst_note, [max(reasons, key=lambda entry: entry[0])[1]] if reasons else []


def _fatal(faults: Sequence[CardFault]) -> list[tuple[CardFault, str, Recovery]]:
    """Those that call for more than a new program. The driver's later "needs nothing" ends all that came before."""
    found: list[tuple[CardFault, str, Recovery]] = []
    for fault in sorted(faults, key=lambda fault: -fault.age):
        if fault.code not in FATAL:
            continue
        words, needed = FATAL[fault.code]
        if fault.code == RECOVERY_CHANGED:
            needed = _new_action(fault.text)
            if needed == Recovery.NONE:
                found = []
                continue
        found.append((fault, words, needed))
    return found


def _why_over(seen: Condition, fault: CardFault) -> str:
    """Why a fault counts no more; empty when it does."""
    if fault.outlived:
        return "a program uses the card that was started after it"
    if seen.sure_of_none and seen.needs == Recovery.NONE:
        return "the driver says now that the card needs nothing"
    if fault.age > RECENT_SECONDS:
        return "it is more than a day old, and the driver has no complaint now"
    return ""


def _no_proof(seen: Condition, fault: CardFault) -> str:
    return (
        f"{fault.opened_by} was started after that fault (Xid {fault.code}) and has {seen.label} open. It uses no "
        "memory there that the driver tells of, so it does not show that the card works."
    )


def _new_action(text: str) -> Recovery:
    """The action behind "... to 0x2 (Node Reboot Required)": by number, since the words differ between drivers."""
    number = text.rpartition(" to 0x")[2][:1]
    known = {"0": Recovery.NONE, "2": Recovery.REBOOT, "3": Recovery.DRAIN, "4": Recovery.DRAIN}
    return known.get(number, Recovery.RESET)


def _before(seconds: float) -> str:
    """How long before the look: the sentence is stored, so that an age would grow wrong."""
    if seconds < 120:
        return "less than 2 minutes before this look"
    if seconds < 7200:
        length = f"{seconds / 60:.0f} minutes"
    else:
        length = f"{seconds / 3600:.0f} hours" if seconds < 2 * 86400 else f"{seconds / 86400:.0f} days"
    return f"{length} before this look"


def _files(seen: Condition) -> tuple[Reason, ...]:
    if not seen.missing_files:
        return ()
    text = f"{' and '.join(seen.missing_files)} {'is' if len(seen.missing_files) == 1 else 'are'} missing"
    make = f"As root on {seen.machine}, run nvidia-smi, and nvidia-modprobe -u -c 0"
    if seen.container:
        return (Reason(f"{text} in {seen.container}.", f"{make}; then restart {seen.container}."),)
    return (Reason(f"{text} on {seen.machine}, as after a boot.", f"{make}."),)


def _fabric(seen: Condition) -> tuple[Reason, ...]:
    """Cards that are joined by NVSwitches start no program before the fabric manager has set them up."""
    start = f"Start the fabric manager as root on {seen.machine} (systemctl start nvidia-fabricmanager)."
    joined = (seen.fabric_state, seen.fabric_status) == ("Completed", "Success")
    if seen.manager_missing and not joined:
        return (Reason(f"The fabric manager does not run on {seen.machine}, and its cards need it.", start),)
    if seen.fabric_state in ("Not Started", "In Progress"):
        text = f"{seen.label} has not joined its NVLink fabric ({seen.fabric_state})."
        return (Reason(text, f"If that stays so for a minute: {start[0].lower()}{start[1:]}"),)
    if seen.fabric_state == "Completed" and seen.fabric_status not in ("", "Success"):
        text = f"{seen.label} could not join its NVLink fabric: {seen.fabric_status}."
        return (Reason(text, f"Look at the fabric manager's log on {seen.machine}, and restart it."),)
    return ()


def _one_for_each(reasons: Sequence[Reason]) -> tuple[Reason, ...]:
    return tuple({reason.text: reason for reason in reasons}.values())
