"""Whether it fits, as the plan's page shows it, and what its approver should know of it. PURE."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from deployments.fit.estimate import Verdict
from deployments.fit.explain import context, requests, size, tokens, whole_requests
from deployments.fit.files import ModelFiles
from deployments.fit.outcome import Outcome, Pools
from deployments.fit.served import Served
from deployments.fit.span import MIB
from deployments.plan.fitting import Fit, Room, ToFit, held_beyond
from deployments.plan.warnings import Cure, warning
from hosts.probe.frames import Unknown

STATUS = {
    Verdict.FITS: "ok",
    Verdict.DOES_NOT_FIT: "not ok",
    Verdict.TOO_CLOSE: "unknown",
    Verdict.UNKNOWN: "unknown",
}
WORDS = {
    Verdict.FITS: "It fits",
    Verdict.DOES_NOT_FIT: "It does not fit",
    Verdict.TOO_CLOSE: "Too close to say",
    Verdict.UNKNOWN: "Not known",
}
TOO_SHORT = "Starts with less context"
SHORTER = (131072, 32768, 8192)
"""Lengths of a request, in tokens, that are shown beside the longest: of these those below it."""
MOST_LENGTHS = 3


def fit_table(fit: Fit | None) -> dict[str, Any] | None:
    """The section of the page as data; None where nothing is launched, or by an engine whose needs nobody knows."""
    if fit is None:
        return None
    found = fit.found
    outcome = found.outcome
    return {
        "verdict": fit.verdict.value,
        "word": TOO_SHORT if fit.starts_too_short else WORDS[fit.verdict],
        "status": "unknown" if fit.starts_too_short else STATUS[fit.verdict],
        "reason": _reason(fit),
        "served": _served(fit),
        "tables": _tables(fit, outcome),
        "changes": [_change(change.words, change.flags) for change in fit.changes],
        "elsewhere": _elsewhere(fit),
        "rooms": [] if isinstance(fit.rooms, Unknown) else _rooms(fit.rooms),
        "rows": [{"label": row.label, "value": row.value, "how": row.how, "source": row.source} for row in found.rows],
        "requests": [
            {"label": row.label, "value": row.value, "how": row.how}
            for length in (_lengths(outcome) if outcome is not None else ())
            for row in found.requests_of(length)
        ],
        "notes": list(found.notes),
    }


def _reason(fit: Fit) -> str:
    if not fit.room_as_then:
        return fit.found.reason
    assert fit.known.served is not None
    words = "This revision has served on these cards, and as much memory will be free as it used then."
    if fit.starts_too_short:
        return f"{words} Not one request of its whole context goes in."
    return f"{words} {fit.found.reason}" if fit.found.verdict is Verdict.FITS else words


def _served(fit: Fit) -> dict[str, Any] | None:
    """What was measured when it served last."""
    served = fit.known.served
    if served is None:
        return None
    more = [
        f"{served.tokens:,} tokens of KV cache" if served.tokens is not None else "",
        f"at most {served.running:,} requests at once" if served.running is not None else "",
        f"{fit.engine.label} {served.version}" if served.version else "",
    ]
    return {"at": served.at, "text": ", ".join(filter(None, more)), "less": _less(fit, served)}


def _less(fit: Fit, served: Served) -> list[str]:
    """The cards on which there will be less room than then."""
    return [] if isinstance(fit.rooms, Unknown) else held_beyond(fit.rooms, served.used)


def _lengths(outcome: Outcome) -> Sequence[int]:
    """Of requests, in tokens: the longest first."""
    return [outcome.context, *(length for length in SHORTER if length < outcome.context)][:MOST_LENGTHS]


def _tables(fit: Fit, outcome: Outcome | None) -> dict[str, Any] | None:
    """Tokens and requests for each precision of the KV cache."""
    if outcome is None or fit.found.precisions is None:
        return None
    lengths = _lengths(outcome)
    return {
        "lengths": [context(length) for length in lengths],
        "rows": [_precision(name, pools, lengths, outcome) for name, pools in fit.found.precisions.items()],
        "limited": _limited(outcome.pools, lengths),
        "limits": _limits(outcome.pools, lengths),
    }


def _limits(pools: Pools, lengths: Sequence[int]) -> list[dict[str, Any]]:
    """How many requests each pool allows by itself; none where there is only one."""
    found = [pools.limits(length) for length in lengths]
    rows = []
    for name in found[0]:
        counts = [requests(limits[name].likely) for limits in found]
        value = ", ".join(f"{count} of {context(length)}" for count, length in zip(counts, lengths, strict=True))
        rows.append({"name": name, "requests": counts, "value": value})
    return rows if len(rows) > 1 else []


def _limited(pools: Pools, lengths: Sequence[int]) -> str:
    """What allows no more, as the rest of a sentence."""
    by_limit: dict[str, list[str]] = {}
    for length in lengths:
        by_limit.setdefault(pools.limiting(length), []).append(context(length))
    if len(by_limit) == 1:
        return f"the {next(iter(by_limit))} allows no more."
    parts = [f"the {name} allows no more of {' and '.join(those)}" for name, those in by_limit.items()]
    return f"{'; '.join(parts)}."


def _precision(name: str, pools: Pools, lengths: Sequence[int], outcome: Outcome) -> dict[str, Any]:
    return {
        "name": name,
        "in_use": name == outcome.pools.precision,
        "size": size(max(0.0, pools.kv.likely)),
        "held": tokens(pools.tokens(outcome.context).likely),
        "requests": [whole_requests(pools.requests(length)) for length in lengths],
    }


def _elsewhere(fit: Fit) -> str:
    change = fit.elsewhere
    return f"It would fit on {change.cards} cards like these; this host has {fit.there}." if change is not None else ""


def _change(words: str, flags: Sequence[str]) -> dict[str, str]:
    return {"words": words, "flags": shlex.join(flags)}


def _rooms(rooms: Sequence[Room]) -> list[dict[str, str]]:
    """A row for each card, or one for all where they are alike."""
    rows = [_room(room) for room in rooms]
    alike = len(rows) > 1 and all({**row, "label": ""} == {**rows[0], "label": ""} for row in rows)
    return [rows[0] | {"label": f"Each of the {len(rows)} cards"}] if alike else rows


def _room(room: Room) -> dict[str, str]:
    value = f"{size(room.free_mib * MIB)} of {size(room.total_mib * MIB)}"
    return {"label": room.label, "value": value, "how": room.why}


def model_table(known: ToFit | None) -> list[dict[str, Any]]:
    """Whether the model's files are all there, by its index and their sizes; no table where nobody has looked."""
    if known is None:
        return []
    status, value, detail = _files(known.files)
    rows = [{"label": "Its files", "value": value, "status": status, "detail": detail}]
    return [{"title": "Model", "rows": rows}]


def _files(files: ModelFiles | Unknown) -> tuple[str, str, str]:
    """Status, value and detail."""
    if isinstance(files, Unknown):
        return "unknown", "not known", files.reason
    if isinstance(files.gguf, Unknown):
        return "unknown", "not known", files.gguf.reason
    there = f"{len(files.sizes)} weight file{'' if len(files.sizes) == 1 else 's'}, {size(sum(files.sizes.values()))}"
    if files.gguf is not None:
        return "ok", "complete", there
    if isinstance(files.index, Unknown):
        return "unknown", there, f"Its index could not be read: {files.index.reason}"
    if files.index is None:
        return "info", there, "It has no index to compare them with." if len(files.sizes) != 1 else ""
    if files.missing:
        return "not ok", "not complete", f"{len(files.missing)} of {len(files.index.shards)} weight files are missing"
    total = sum(files.sizes.get(name, 0) for name in files.index.shards)
    if files.index.total is not None and total < files.index.total:
        return "not ok", "not complete", f"{size(total)} of the {size(files.index.total)} that its index names"
    return "ok", "complete", f"{there}, as its index says"


def fit_warnings(fit: Fit | None, *, name: str) -> list[dict[str, Any]]:
    """In the words of a plan; none of them stands in the way. ``name``: of the revision."""
    if fit is None:
        return []
    found = [warning(caution.text, caution.why, caution.todo, cure=Cure.FLAGS) for caution in fit.cautions]
    if fit.verdict is Verdict.DOES_NOT_FIT:
        why = "The start will fail for want of memory, and what serves now would be stopped for nothing."
        if fit.is_only_too_long:
            why = "It starts all the same, and refuses each request that is longer than what goes in."
        text = f"{name} does not fit on these cards. {fit.found.reason}"
        fails = not fit.is_only_too_long
        despite = "although it does not fit" if fails else ""
        found.insert(0, warning(text, why, _todo(fit), asks=fails, despite=despite, cure=Cure.FLAGS))
    elif fit.verdict is Verdict.TOO_CLOSE and _is_unlikely(fit):
        why = "Some of what an engine takes is only known between bounds. It may start, and it may not."
        found.insert(
            0, warning(f"{name} may not fit on these cards. {fit.found.reason}", why, _todo(fit), cure=Cure.FLAGS)
        )
    return found


def _is_unlikely(fit: Fit) -> bool:
    """Is it short by the likely value? The bounds alone are wide for much that works."""
    outcome = fit.found.outcome
    return outcome is not None and any(margin.left.likely < 0 for margin in outcome.margins)


def _todo(fit: Fit) -> str:
    """The least change first; the section has the others."""
    if not fit.changes:
        words = "No single change that Relaunch tries makes it fit here: take a smaller model, or more cards."
        return f"{words} {_elsewhere(fit)}".rstrip()
    first = fit.changes[0]
    more = " The other ways stand under “Does it fit”." if len(fit.changes) > 1 else ""
    return f"{first.words} In a new revision: {shlex.join(first.flags)}.{more}"


def fit_after_failure(fit: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What the plan had said, beside a start on clean cards that failed for want of memory; None where it said nothing.

    ``fit``: the section of the plan that was approved.
    """
    if fit is None:
        return None
    said = {
        Verdict.FITS: "The plan had said that it fits, so this model takes more than the estimate knows.",
        Verdict.DOES_NOT_FIT: "The plan had said that it does not fit.",
        Verdict.TOO_CLOSE: "The plan had said that it is too close to say.",
        Verdict.UNKNOWN: "Whether it fits was not known before the start.",
    }[Verdict(fit["verdict"])]
    if fit["verdict"] == Verdict.FITS and fit["served"]:
        said = "It has served on these cards before, with no more memory free: look for what has changed since."
    return {"text": f"{said} {fit['reason']}", "changes": fit["changes"]}
