"""The lines in which SGLang says what it made of its arguments, from 0.5.9 to 0.5.23. PURE.

Templates and their changes with the version: its server_args, model_runner, memory pool and cuda graph runner modules.
"GB" in them is GiB. Every rank writes the same lines; those of the first rank count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from deployments.engines.configuration import MOST_NOTES, Fact, dtype_name
from deployments.engines.printed import Scalar, settings_printed

PREFIX = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?((?: [A-Z_]+\d+)*)\] ", re.ASCII)
ARGUMENTS = re.compile(r"server_args=(?=ServerArgs\(|\{)")
NUMBER = r"(\d[\d.]*)"
WEIGHTS = re.compile(
    rf"Load weight end\. elapsed={NUMBER} s, type=(\w+)(?:, dtype=(?P<dtype>[\w.]+))?(?:, quant=(?P<quant>[\w.-]+))?"
    rf".*?mem usage={NUMBER} GB"
)
KV_DTYPE = re.compile(r"Using KV cache dtype: ([\w.]+)")
KV = re.compile(
    rf"KV Cache is allocated\. (?:dtype: (?P<dtype>[\w.]+), )?#tokens: (?P<tokens>\d+), "
    rf"(?:K size: (?P<k>{NUMBER}) GB, V size: (?P<v>{NUMBER}) GB|KV size: (?P<kv>{NUMBER}) GB)"
)
STATE = re.compile(
    rf"Mamba Cache is allocated\. max_mamba_cache_size: (\d+), conv_state size: {NUMBER}\s?GB, "
    rf"ssm_state size: {NUMBER}\s?GB(?:.*?intermediate_ssm_state_cache size: {NUMBER}\s?GB)?"
)
POOL = re.compile(r"max_total_num_tokens=\d+, .*max_running_requests=\d+")
GRAPHS = re.compile(
    rf"Capture (?P<what>[\w ]*?)(?:cuda|CUDA) graph end\. (?:Time elapsed: |elapsed=)(?P<s>{NUMBER}) s[.,] "
    rf"mem usage=(?P<gib>{NUMBER}) GB"
)
TIMINGS = re.compile(r"Engine startup timings \(s\): (.*)")
ATTENTION = re.compile(r"Attention backend not specified\. Use (\w+) backend by default\.")
UNIT_SCALES = "Using FP8 KV cache but no scaling factors provided. Defaulting to scaling factors of 1.0."
CHANGES = re.compile(
    r"[Dd]isabl(?:e|ed|es|ing) .{1,120}?(?: because | since | as )|is reset to |is adjusted to |changing \w+ from "
    r"|Setting attention backend to |is larger than the profiled value|Auto-enabl|backend by default"
    r"|as MoE runner backend|Defaulting to scaling factors of"
)


@dataclass
class Said:
    """What was found. Empty or None: no such line."""

    arguments: dict[str, Scalar] = field(default_factory=dict)
    architecture: str = ""
    dtype: str = ""
    quantization: str = ""
    kv_dtype: str = ""
    attention: str = ""
    state_slots: int | None = None
    unit_scales: bool = False
    pool: dict[str, Scalar] = field(default_factory=dict)
    """Of the line that sums up: max_total_num_tokens, max_running_requests, context_len and others."""
    facts: list[Fact] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def note(self, *words: str) -> str:
        """The first line about a change that holds all these words; empty when there is none."""
        return next((note for note in self.notes if all(word in note.lower() for word in words)), "")


def read_log(lines: Iterable[str]) -> Said:
    """Everything that the first rank says about the configuration."""
    said = Said()
    for line in lines:
        prefix = PREFIX.match(line)
        if prefix is not None and re.search(r"[1-9]", prefix[1]):
            continue  # another rank says the same of its own card
        _read(said, line[prefix.end() :] if prefix is not None else line)
    return said


def _read(said: Said, text: str) -> None:
    arguments = ARGUMENTS.search(text)
    if arguments is not None:
        said.arguments = said.arguments or settings_printed(text[arguments.end() :])
        return
    _read_memory(said, text)
    if (found := KV_DTYPE.search(text)) and not said.kv_dtype:
        said.kv_dtype = dtype_name(found[1])
    elif found := ATTENTION.search(text):
        said.attention = found[1]
    elif POOL.search(text):
        said.pool = settings_printed(text)
        said.facts += _pool_facts(said.pool)
    elif found := TIMINGS.search(text):
        said.facts.append(Fact("Time by phase, in seconds", found[1][:300]))
    said.unit_scales = said.unit_scales or UNIT_SCALES in text
    if CHANGES.search(text) and len(said.notes) < MOST_NOTES and text.strip()[:500] not in said.notes:
        said.notes.append(text.strip()[:500])


def _read_memory(said: Said, text: str) -> None:
    if found := WEIGHTS.search(text):
        said.architecture = said.architecture or found[2]
        said.dtype = said.dtype or dtype_name(found["dtype"] or "")
        said.quantization = said.quantization or (found["quant"] or "")
        label = "Weights" if not any(fact.label == "Weights" for fact in said.facts) else "Weights of the draft model"
        said.facts.append(Fact(label, f"{found[found.re.groups]} GiB per card, loaded in {found[1]} s"))
    elif found := KV.search(text):
        draft = any(fact.label == "KV cache" for fact in said.facts)
        if found["dtype"] and not draft:
            said.kv_dtype = dtype_name(found["dtype"])
        sizes = f"K {found['k']} GiB, V {found['v']} GiB" if found["k"] else f"{found['kv']} GiB"
        said.facts.append(
            Fact("KV cache of the draft model" if draft else "KV cache", f"{int(found['tokens']):,} tokens, {sizes}")
        )
    elif found := STATE.search(text):
        said.state_slots = int(found[1])
        more = f", {found[4]} GiB for speculative steps" if found[4] else ""
        said.facts.append(Fact("Recurrent state", f"{found[1]} slots, {found[2]} + {found[3]} GiB{more}"))
    elif found := GRAPHS.search(text):
        what = f"{found['what'].strip()} " if found["what"].strip() else ""
        said.facts.append(Fact(f"CUDA graphs {what}".strip(), f"{found['gib']} GiB, captured in {found['s']} s"))


def _pool_facts(pool: dict[str, Scalar]) -> list[Fact]:
    names = {
        "max_running_requests": "Requests at the same time, at most",
        "context_len": "Context, in tokens",
        "available_gpu_mem": "Free memory of a card afterwards",
    }
    found = [(label, str(pool[name])) for name, label in names.items() if name in pool]
    return [
        Fact(label, f"{int(value):,}" if value.isdecimal() else value.replace("GB", "GiB")) for label, value in found
    ]
