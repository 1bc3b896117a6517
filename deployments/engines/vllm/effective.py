"""What vLLM runs with: it has no page for that outside of its development mode, so its log says it. PURE.

Facts: the lines of its api_server, llm engine, model runner and KV cache modules, 0.19 and 0.33.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from deployments.engines.configuration import (
    MOST_NOTES,
    NOTHING,
    Configuration,
    Fact,
    Seen,
    Table,
    dtype_name,
)
from deployments.engines.printed import Scalar, settings_printed

VERSION, MODELS = "/version", "/v1/models"
PAGES = (VERSION, MODELS)
ALIASES = {
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "dp": "data_parallel_size",
    "max_model_len": "max_seq_len",
    "model_tag": "model",
}
ARGUMENTS = re.compile(r"non-default args: (?=\{)")
CONFIG = re.compile(r"Initializing an? .{0,20}LLM engine \(v([\w.+-]+)\) with config: ")
API_VERSION = re.compile(r"vLLM API server version ([\w.+-]+)")
NUMBER = r"([\d,]+(?:\.\d+)?)"
FACTS = (
    ("Weights", re.compile(rf"Model loading took {NUMBER} GiB(?: memory)? and {NUMBER} seconds"), "{0} GiB, in {1} s"),
    ("Memory left for the KV cache", re.compile(rf"Available KV cache memory: {NUMBER} GiB"), "{0} GiB per card"),
    ("KV cache", re.compile(rf"GPU KV cache size: {NUMBER} tokens"), "{0} tokens"),
    (
        "Requests of the whole context at the same time",
        re.compile(rf"Maximum concurrency for {NUMBER} tokens per request: {NUMBER}x"),
        "{1} of {0} tokens",
    ),
    ("CUDA graphs", re.compile(rf"Graph capturing finished in {NUMBER} secs, took {NUMBER} GiB"), "{1} GiB, in {0} s"),
    ("Start of the engine", re.compile(rf"init engine \(.*?\) took {NUMBER} s"), "{0} s"),
)
FP8_KV = re.compile(r"Using (fp8\w*) data type to store kv cache")
UNIT_SCALES = re.compile(r"Using KV cache scaling factor 1\.0 for (fp8\w*)")
CHANGES = re.compile(
    r"[Dd]isabl(?:e|ed|es|ing) .{1,120}?(?: because | since | as )|is not supported .{0,80}(?:falling back|disabl)"
    r"|[Ff]alling back to |has been (?:reset|changed|set) to |Overriding |scaling factor|Setting .{1,60} to "
)
SCALES = "vLLM says that it uses scales of 1.0 for the FP8 KV cache, which can cost accuracy."
CHECKPOINT = "The checkpoint asks for an FP8 KV cache. Ask for bfloat16 to have full precision."


@dataclass
class _Said:
    version: str = ""
    config: dict[str, Scalar] = field(default_factory=dict)
    given: dict[str, Scalar] = field(default_factory=dict)
    kv_dtype: str = ""
    unit_scales: bool = False
    facts: dict[str, Fact] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def effective(seen: Seen) -> Configuration:
    """The configuration, from the log and from the few pages that answer without a key."""
    said = _Said()
    for line in seen.lines():
        _read(said, line)
    version = seen.page(VERSION).get("version")
    context = _context(seen)
    told = {**said.given, **said.config, **({} if context is None else {"max_seq_len": context})}
    if not told:
        return Configuration(version=version) if isinstance(version, str) else NOTHING
    table = Table(seen.argv, told, aliases=ALIASES, source="its log" if said.config or said.given else MODELS)
    _kv_cache(table, told, said)
    if context is not None and table.asked("max_seq_len") is None:
        table.put("max_model_len", context, why="As the model allows.", source=MODELS)
    for row in table.rows:
        if row.changed and not row.why:
            key = row.name.lstrip("-").replace("-", "_")
            note = next((note for note in said.notes if key in note or row.name.lstrip("-") in note), "")
            table.explain(ALIASES.get(key, key), f"vLLM says: {note}" if note else "vLLM gives no reason.")
    return Configuration(
        version=version if isinstance(version, str) else said.version,
        rows=table.rows,
        facts=tuple(said.facts.values()),
        notes=tuple(said.notes),
        told=told,
    )


def _context(seen: Seen) -> int | None:
    data = seen.page(MODELS).get("data")
    first = data[0] if isinstance(data, list) and data and isinstance(data[0], dict) else {}
    value = first.get("max_model_len")
    return value if isinstance(value, int) else None


def _read(said: _Said, line: str) -> None:
    if found := CONFIG.search(line):
        said.version, said.config = said.version or found[1], said.config or settings_printed(line[found.end() :])
        return
    if found := ARGUMENTS.search(line):
        said.given = said.given or settings_printed(line[found.end() :])
        return
    if found := API_VERSION.search(line):
        said.version = found[1]
    if found := FP8_KV.search(line):
        said.kv_dtype = dtype_name(found[1])
    said.unit_scales = said.unit_scales or UNIT_SCALES.search(line) is not None
    for label, pattern, words in FACTS:
        if (match := pattern.search(line)) and label not in said.facts:
            said.facts[label] = Fact(label, words.format(*match.groups()))
    note = line.strip()[:500]
    if CHANGES.search(line) and len(said.notes) < MOST_NOTES and note not in said.notes:
        said.notes.append(note)


def _kv_cache(table: Table, told: dict[str, Scalar], said: _Said) -> None:
    value = said.kv_dtype or told.get("kv_cache_dtype")
    if value in (None, ""):
        return
    asked = table.asked("kv_cache_dtype")
    if asked in (None, "auto") and value == "auto":
        value = told.get("dtype", "auto")
        named = dtype_name(value) if isinstance(value, str) else "auto"
        table.put("kv_cache_dtype", named, why="As the model's own precision.", changed=False)
        return
    is_fp8, by_itself = str(value).startswith("fp8"), asked in (None, "auto")
    why = SCALES if said.unit_scales else CHECKPOINT if is_fp8 and by_itself else ""
    table.put("kv_cache_dtype", value, why=why if is_fp8 else "", changed=is_fp8 if by_itself else None)
