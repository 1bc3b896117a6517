"""What llama-server runs with: /props, and the lines of its log about the context and the KV cache. PURE.

A llama.cpp that was told to fit what it was not given, or whose context is shared by its slots, differs from its flags.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from deployments.engines.configuration import MOST_NOTES, NOTHING, Configuration, Fact, Seen, Table
from deployments.engines.printed import Scalar

PROPS = "/props"
PAGES = (PROPS,)
ALIASES = {
    "m": "model_path",
    "model": "model_path",
    "c": "ctx_size",
    "ctx_size": "ctx_size",
    "np": "parallel",
    "ngl": "n_gpu_layers",
    "gpu_layers": "n_gpu_layers",
    "a": "alias",
    "ctk": "cache_type_k",
    "ctv": "cache_type_v",
    "fa": "flash_attn",
    "b": "batch_size",
    "ub": "ubatch_size",
}
LINES = {
    "ctx_size": re.compile(r"\bn_ctx +(?:=|:) +(\d+)"),
    "ctx_of_slot": re.compile(r"\bn_ctx_(?:slot|per_seq|seq) +(?:=|:) +(\d+)"),
    "batch_size": re.compile(r"\bn_batch +(?:=|:) +(\d+)"),
    "ubatch_size": re.compile(r"\bn_ubatch +(?:=|:) +(\d+)"),
    "parallel": re.compile(r"\b(?:n_seq_max|n_slots) +(?:=|:) +(\d+)"),
    "flash_attn": re.compile(r"\bflash_attn +(?:=|:) +(\w+)"),
    "kv_unified": re.compile(r"\bkv_unified +(?:=|:) +'?(\w+)"),
}
OFFLOADED = re.compile(r"offloaded (\d+)/(\d+) layers to GPU")
KV = re.compile(
    r"kv_cache\w*: size = +([\d.]+) MiB \( *(\d+) cells, +\d+ layers?, +[\d/ ]+seqs?\), "
    r"K \((\w+)\): +([\d.]+) MiB, V \((\w+)\): +([\d.]+) MiB"
)
CHANGES = re.compile(
    r"exceeds .{1,80} capping|[Ff]alling back|[Rr]educing |is not supported|[Dd]isabling |fit(?:ting|ted) "
)
FITTED = "llama-server fits what it was not given to the memory that is free (--fit)."


def effective(seen: Seen) -> Configuration:
    """The configuration, from /props and the log."""
    props = seen.page(PROPS)
    found, facts, notes = _read(seen.lines())
    told = {**found, **_told(props)}
    _add_context(told)
    build = props.get("build_info")
    if not told:
        return NOTHING
    table = Table(seen.argv, told, aliases=ALIASES, source=PROPS if props else "its log")
    for key in ("ctx_size", "parallel", "n_gpu_layers"):
        if key in told and table.asked(key) in (None, "0", "-1", "auto"):
            table.put(key, told[key], why="Chosen by llama-server for this model and these cards.", changed=False)
    table.explain("ctx_size", next((note for note in notes if "context" in note), FITTED))
    table.explain("n_gpu_layers", "Not every layer fits on the cards, or the model has fewer.")
    if isinstance(told.get("ctx_of_slot"), int) and told["ctx_of_slot"] != told.get("ctx_size"):
        facts.append(Fact("Context of one slot, in tokens", f"{told['ctx_of_slot']:,}", PROPS if props else "its log"))
    return Configuration(
        version=build if isinstance(build, str) else "",
        rows=table.rows,
        facts=tuple(facts),
        notes=tuple(notes),
        told=told,
    )


def _add_context(told: dict[str, Scalar]) -> None:
    """The whole context, where only the share of a slot is told: the slots have it together, or each its own."""
    slot, slots = told.get("ctx_of_slot"), told.get("parallel")
    if "ctx_size" in told or not isinstance(slot, int) or not isinstance(slots, int):
        return
    if told.get("kv_unified") == "true":
        told["ctx_size"] = slot
    elif told.get("kv_unified") == "false":
        told["ctx_size"] = slot * slots


def _told(props: Mapping[str, Any]) -> dict[str, Scalar]:
    settings = props.get("default_generation_settings")
    context = settings.get("n_ctx") if isinstance(settings, dict) else None
    wanted = {
        "alias": props.get("model_alias"),
        "model_path": props.get("model_path"),
        "parallel": props.get("total_slots"),
        "ctx_of_slot": context,
    }
    return {key: value for key, value in wanted.items() if isinstance(value, int | str)}


def _read(lines: Iterable[str]) -> tuple[dict[str, Scalar], list[Fact], list[str]]:
    told: dict[str, Scalar] = {}
    facts: list[Fact] = []
    notes: list[str] = []
    for line in lines:
        if CHANGES.search(line) and len(notes) < MOST_NOTES:
            notes.append(line.strip()[:500])
        for key, pattern in LINES.items():
            if key not in told and (found := pattern.search(line)):
                told[key] = int(found[1]) if found[1].isdecimal() else found[1]
        if found := OFFLOADED.search(line):
            told["n_gpu_layers"] = int(found[1])
            facts.append(Fact("Layers on the cards", f"{found[1]} of {found[2]}"))
        elif found := KV.search(line):
            told["cache_type_k"], told["cache_type_v"] = found[3], found[5]
            facts.append(Fact("KV cache", f"{found[1]} MiB for {int(found[2]):,} tokens"))
    return told, facts, notes
