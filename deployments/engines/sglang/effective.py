"""What SGLang runs with: its arguments as printed, what its scheduler says, and what its log says. PURE.

Three views, the later the better: ``server_args=`` and the top of /server_info are the parent's, before the model was
seen; ``internal_states`` are the scheduler's; the log's lines name what was really allocated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from deployments.engines.configuration import NOTHING, Configuration, Fact, Seen, Table, scalars
from deployments.engines.printed import Scalar
from deployments.engines.sglang.log import Said, read_log

INFO, MODEL = "/server_info", "/model_info"
PAGES = (INFO, MODEL)
ALIASES = {
    "tp": "tp_size",
    "tensor_parallel_size": "tp_size",
    "dp": "dp_size",
    "data_parallel_size": "dp_size",
    "ep": "ep_size",
    "expert_parallel_size": "ep_size",
    "pipeline_parallel_size": "pp_size",
    "model": "model_path",
    "nccl_init_addr": "dist_init_addr",
    "speculative_draft_model": "speculative_draft_model_path",
}
CHOSEN = {
    "mem_fraction_static": "Chosen by SGLang from the memory of the smallest card.",
    "chunked_prefill_size": "Chosen by SGLang from the memory of the smallest card.",
    "cuda_graph_max_bs": "Chosen by SGLang from the memory of the smallest card.",
    "cuda_graph_max_bs_decode": "Chosen by SGLang from the memory of the smallest card.",
    "attention_backend": "Chosen by SGLang for these cards and this model.",
    "moe_runner_backend": "Chosen by SGLang for these cards and this model.",
    "page_size": "Set by the attention backend.",
}
"""What SGLang fills in where nothing was asked for."""
SWITCHED_OFF = ("disable_overlap_schedule", "disable_radix_cache", "disable_piecewise_cuda_graph", "disable_cuda_graph")
NO_REASON = "SGLang switched it off by itself and gives no reason."
OFF_BY_DEFAULT = {
    "enable_single_batch_overlap": "It is off unless a flag asks for it.",
    "enable_flashinfer_allreduce_fusion": "SGLang turns it on by itself only on SM90 and SM100 cards, several of them "
    "in one machine.",
    "enable_nccl_nvls": "It needs NVLink with SM90 or newer cards, and is off unless a flag asks for it.",
}
"""Of a server over several cards: what people expect to be on."""
NO_PIECEWISE = ("DeepseekV32", "Qwen3Next", "GlmMoeDsa", "BailingMoeV2_5", "LLaDA")
MULTIMODAL = re.compile(r"ForConditionalGeneration$|VLForCausalLM$")
PIECEWISE_RULES: tuple[tuple[str, Callable[[Scalar], bool], str], ...] = (
    ("enable_dp_attention", bool, "attention runs data-parallel"),
    ("enable_torch_compile", bool, "torch compile is on"),
    ("pp_size", lambda value: value not in (None, 1), "the model is split by pipeline"),
    ("moe_a2a_backend", lambda value: value not in (None, "none"), "experts are spread by all-to-all"),
    ("enable_lora", bool, "LoRA is on"),
    ("load_format", lambda value: value == "gguf", "the model is a GGUF file"),
    ("cpu_offload_gb", lambda value: bool(value), "weights are offloaded to the host"),
    ("enable_hierarchical_cache", bool, "the hierarchical cache is on"),
    ("enable_deterministic_inference", bool, "deterministic inference is on"),
    ("enable_symm_mem", bool, "symmetric memory is on"),
    ("enable_eplb", bool, "expert load balancing is on"),
)
"""When SGLang 0.5.10 and newer gives up piecewise graphs, in its own order after the model's architecture."""
CHECKPOINT_FP8 = (
    "The checkpoint asks for an FP8 KV cache (hf_quant_config.json, or quantization_config in config.json). Where it "
    "holds no scales, SGLang uses scales of 1.0, which can cost accuracy. Ask for bf16 to have full precision."
)
UNIT_SCALES = "SGLang says that it found no scales and uses 1.0, which can cost accuracy."


@dataclass(frozen=True)
class Known:
    """The three views. ``outer``: the parent's; ``inner``: the scheduler's, of the first where there are several."""

    outer: Mapping[str, Scalar]
    inner: Mapping[str, Scalar]
    said: Said
    architecture: str

    def value(self, key: str) -> Scalar:
        """What the best page says."""
        return self.inner.get(key, self.outer.get(key))


def effective(seen: Seen) -> Configuration:
    """The configuration of a server, from as much as could be seen of it."""
    info, said = seen.page(INFO), read_log(seen.lines())
    known = Known(scalars(info) or said.arguments, _inner(info), said, _architecture(seen, said))
    told = {**known.outer, **known.inner}
    if not told:
        return NOTHING
    source = INFO if info else "its log"
    table = Table(seen.argv, known.outer, aliases=ALIASES, source=source)
    for rule in RULES:
        rule(table, known)
    version = info.get("version")
    return Configuration(
        version=version if isinstance(version, str) else "",
        rows=table.rows,
        facts=tuple(said.facts) or _facts(info),
        notes=tuple(said.notes),
        told=told,
    )


def _inner(info: Mapping[str, Any]) -> dict[str, Scalar]:
    states = info.get("internal_states")
    first = states[0] if isinstance(states, list) and states and isinstance(states[0], dict) else {}
    return scalars(first)


def _architecture(seen: Seen, said: Said) -> str:
    named = seen.page(MODEL).get("architectures")
    first = named[0] if isinstance(named, list) and named and isinstance(named[0], str) else ""
    return said.architecture or first


def _facts(info: Mapping[str, Any]) -> tuple[Fact, ...]:
    """What the page tells of the memory, for a server whose log is not ours."""
    states = info.get("internal_states")
    used = states[0].get("memory_usage") if isinstance(states, list) and states and isinstance(states[0], dict) else {}
    used = used if isinstance(used, dict) else {}
    names = {"weight": "Weights", "kvcache": "KV cache", "graph": "CUDA graphs"}
    found = [
        Fact(label, f"{used[key]} GiB per card", INFO)
        for key, label in names.items()
        if isinstance(used.get(key), int | float)
    ]
    if isinstance(used.get("token_capacity"), int):
        found.append(Fact("KV cache, in tokens", f"{used['token_capacity']:,}", INFO))
    return tuple(found)


# --- Rules: each looks at one thing that SGLang decides ---------------------------------------------------------------


def _scheduler_differs(table: Table, known: Known) -> None:
    """What the scheduler changed after the parent had printed its arguments."""
    for key, value in known.inner.items():
        if key in known.outer and known.outer[key] != value and key != "random_seed":
            table.put(key, value, why="Changed when the model was loaded.", source=f"{INFO}, internal_states")


def _chosen(table: Table, known: Known) -> None:
    for key, why in CHOSEN.items():
        value = known.value(key)
        if table.asked(key) is None and value not in (None, "auto"):
            table.put(key, value, why=why)
    if known.said.attention and table.asked("attention_backend") is None:
        why = CHOSEN["attention_backend"]
        table.put("attention_backend", known.value("attention_backend") or known.said.attention, why=why)
    fraction = known.value("mem_fraction_static")
    if table.asked("mem_fraction_static") is None and isinstance(fraction, float) and _is_multimodal(known):
        why = f"{CHOSEN['mem_fraction_static']} Lowered for the vision part of the model."
        table.put("mem_fraction_static", fraction, why=why)


def _kv_cache(table: Table, known: Known) -> None:
    asked = table.asked("kv_cache_dtype")
    value = known.said.kv_dtype or known.inner.get("kv_cache_dtype")
    if value in (None, "", "auto"):
        return
    source = "its log" if known.said.kv_dtype else f"{INFO}, internal_states"
    by_itself = asked in (None, "auto")
    is_fp8 = str(value).startswith("fp8")
    why = ""
    if by_itself:
        why = CHECKPOINT_FP8 if is_fp8 else "As the model's own precision."
    elif is_fp8 and known.said.unit_scales:
        why = UNIT_SCALES
    table.put("kv_cache_dtype", value, why=why, source=source, changed=is_fp8 if by_itself else None)


def _switched_off(table: Table, known: Known) -> None:
    for key in SWITCHED_OFF:
        if known.value(key) is True and table.asked(key) is None:
            what = key.removeprefix("disable_").replace("_", " ").split()
            why = _piecewise(known) if key == "disable_piecewise_cuda_graph" else ""
            note = known.said.note("disabl", *what) if not why else ""
            note = "" if "because --" in note else note  # the line names the flag also where nobody has set it
            table.put(key, True, why=why or note or NO_REASON, changed=True)
    prefill = "cuda_graph_backend_prefill"
    if str(known.value(prefill)).endswith("disabled") and table.asked(prefill) is None:
        table.put(prefill, "disabled", why=_piecewise(known) or NO_REASON, changed=True)


def _piecewise(known: Known) -> str:
    """Why there are no piecewise graphs. The log's own line names a flag that nobody has set."""
    if "some layers do not apply standard gqa" in known.said.note("piecewise", "standard gqa").lower():
        return "Some layers do not apply standard grouped-query attention."
    if _is_multimodal(known):
        name = known.architecture or "the model"
        return f"SGLang does not use them for multimodal models, and {name} counts as one."
    if known.architecture.startswith(NO_PIECEWISE):
        return f"SGLang does not use them for {known.architecture}."
    reasons = [words for key, applies, words in PIECEWISE_RULES if applies(known.value(key))]
    return f"SGLang does not use them where {reasons[0]}." if reasons else ""


def _is_multimodal(known: Known) -> bool:
    return bool(MULTIMODAL.search(known.architecture))


def _off_by_default(table: Table, known: Known) -> None:
    cards = known.value("tp_size")
    for key, why in OFF_BY_DEFAULT.items():
        if isinstance(cards, int) and cards > 1 and known.value(key) is False and table.asked(key) is None:
            table.put(key, False, why=why)


def _requests(table: Table, known: Known) -> None:
    """How many requests run at once, for whatever was asked."""
    value = known.said.pool.get("max_running_requests", known.inner.get("effective_max_running_requests_per_dp"))
    if value is None:
        return
    asked, slots = table.asked("max_running_requests"), known.said.state_slots
    why = "As many as the KV cache allows."
    if slots and isinstance(value, int) and value <= slots and slots // max(1, value) <= 6:
        why = f"The pool of recurrent state has {slots:,} slots, {slots // max(1, value)} for each request."
    elif asked is None and value == known.outer.get("max_running_requests") and known.value("speculative_algorithm"):
        why = "SGLang sets it where speculative decoding is on and nothing was asked for."
    source = "its log" if "max_running_requests" in known.said.pool else f"{INFO}, internal_states"
    table.put("max_running_requests", value, why="" if asked == str(value) else why, source=source)


def _context(table: Table, known: Known) -> None:
    value = known.said.pool.get("context_len")
    if value is not None:
        why = "" if table.asked("context_length") is not None else "As the model allows."
        table.put("context_length", value, why=why, source="its log")


def _speculation(table: Table, known: Known) -> None:
    if table.asked("speculative_algorithm") == "NEXTN" and known.value("speculative_algorithm") == "EAGLE":
        table.put("speculative_algorithm", "EAGLE", why="NEXTN is another name of EAGLE here.", changed=False)
    if not known.value("speculative_algorithm"):
        return
    for key in ("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens"):
        if table.asked(key) is None and known.value(key) is not None:
            table.put(key, known.value(key), why="Chosen by SGLang: nothing was asked for.")
    table.explain("speculative_num_draft_tokens", "With one branch it is the number of steps and one more.")


def _precision(table: Table, known: Known) -> None:
    if known.said.dtype and table.asked("dtype") in (None, "auto"):
        table.put("dtype", known.said.dtype, why="As the checkpoint says.", source="its log", changed=False)
    quantization = known.said.quantization or known.inner.get("quantization")
    if quantization and table.asked("quantization") is None:
        table.put("quantization", quantization, why="As the checkpoint says.")


def _explained_by_log(table: Table, known: Known) -> None:
    """What changed for no reason that is known here: a line of the log that names it."""
    for row in table.rows:
        if row.changed and not row.why:
            key = row.name.lstrip("-").replace("-", "_")
            note = known.said.note(key) or known.said.note(key.replace("_", " "))
            table.explain(key, f"SGLang says: {note}" if note else "SGLang gives no reason.")


RULES: tuple[Callable[[Table, Known], None], ...] = (
    _scheduler_differs,
    _chosen,
    _kv_cache,
    _switched_off,
    _off_by_default,
    _requests,
    _context,
    _speculation,
    _precision,
    _explained_by_log,
)
