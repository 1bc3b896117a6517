"""Asked for and in effect, from SGLang's pages and log lines of several versions."""

from typing import Any

import pytest

from controlpanel.masking import MASK, mask_values
from deployments.engines.configuration import NOTHING, Configuration, Row, Seen
from deployments.engines.sglang.effective import effective

COMMAND = ["/venv/bin/python", "-m", "sglang.launch_server", "--model-path", "/models/m", "--tp", "2"]
ARGS: dict[str, Any] = {
    "model_path": "/models/m", "tp_size": 2, "pp_size": 1, "dp_size": 1, "kv_cache_dtype": "auto", "dtype": "auto",
    "mem_fraction_static": 0.88, "attention_backend": None, "max_running_requests": None, "context_length": None,
    "speculative_algorithm": None, "disable_radix_cache": False, "disable_overlap_schedule": False,
    "disable_cuda_graph": False, "random_seed": 7, "api_key": None, "enable_single_batch_overlap": False,
    "enable_nccl_nvls": False, "moe_a2a_backend": "none",
}  # fmt: skip
STAMP = "[2026-04-14 16:08:44 TP0] "


def arguments(shape: str, **more: Any) -> str:
    """The line in which it prints its arguments, as a call (to 0.5.19) or as a dict."""
    args = ARGS | more
    body = f"ServerArgs({', '.join(f'{k}={v!r}' for k, v in args.items())})" if shape == "call" else repr(args)
    return f"[2026-04-14 16:08:41] server_args={body}\n"


def log(*lines: str, shape: str = "call", rank: str = "TP0", **more: Any) -> str:
    stamp = STAMP.replace("TP0", rank)
    return arguments(shape, **more) + "".join(f"{stamp}{line}\n" for line in lines)


def info(inner: dict[str, Any] | None = None, **outer: Any) -> dict[str, Any]:
    return {**ARGS, **outer, "internal_states": [{**ARGS, **outer, **(inner or {})}], "version": "0.5.9"}


def row(found: Configuration, name: str) -> Row:
    return next(row for row in found.rows if row.name == name)


def see(*flags: str, log: str = "", **pages: Any) -> Configuration:
    return effective(Seen([*COMMAND, *flags], log, {"/" + path: page for path, page in pages.items()}))


@pytest.mark.parametrize("shape", ["call", "dict"])
def test_both_shapes_of_the_arguments(shape: str) -> None:
    found = see(
        "--mem-fraction-static", "0.880", "--context-length", "128k", log=log(shape=shape, context_length=128000)
    )
    assert row(found, "--tp") == Row("--tp", "2", "2", False, "", "its log")
    assert row(found, "--mem-fraction-static").effective == "0.880"
    assert not found.changed


def test_a_flag_that_is_not_told_is_said_to_be_that() -> None:
    found = see("--brand-new-flag", "3", server_info=info())
    assert row(found, "--brand-new-flag") == Row("--brand-new-flag", "3", None)


def test_nothing_told_is_nothing() -> None:
    assert see(log="[2026-04-14 16:08:41] Loading\n") == NOTHING
    assert see(server_info=["odd"]) == NOTHING


def test_auto_becomes_fp8_by_the_checkpoint() -> None:
    lines = "Using KV cache dtype: torch.float8_e4m3fn"
    for found in (
        see(log=log(lines), server_info=info({"kv_cache_dtype": "fp8_e4m3"})),
        see(server_info=info({"kv_cache_dtype": "fp8_e4m3"})),
        see("--kv-cache-dtype", "auto", log=log(lines)),
        see(
            log=log("KV Cache is allocated. dtype: torch.float8_e4m3fn, #tokens: 10, K size: 1.00 GB, V size: 1.00 GB")
        ),
    ):
        kv = row(found, "--kv-cache-dtype")
        assert (kv.effective, kv.changed) == ("fp8_e4m3", True)
        assert "checkpoint" in kv.why and "1.0" in kv.why


def test_auto_becomes_the_precision_of_the_model() -> None:
    kv = row(see(log=log("Using KV cache dtype: torch.bfloat16")), "--kv-cache-dtype")
    assert (kv.asked, kv.effective, kv.changed) == (None, "bfloat16", False)


def test_what_was_asked_for_in_other_words_is_not_a_change() -> None:
    found = see("--kv-cache-dtype", "bf16", log=log("Using KV cache dtype: torch.bfloat16", kv_cache_dtype="bf16"))
    assert row(found, "--kv-cache-dtype") == Row("--kv-cache-dtype", "bf16", "bf16", False, "", "its log")


def test_scales_that_were_not_found_are_named() -> None:
    line = (
        "Using FP8 KV cache but no scaling factors provided. Defaulting to scaling factors of 1.0. "
        "This may lead to less accurate results!"
    )
    found = see(
        "--kv-cache-dtype", "fp8_e4m3",
        log=log("Using KV cache dtype: torch.float8_e4m3fn", line, kv_cache_dtype="fp8_e4m3"),
    )  # fmt: skip
    kv = row(found, "--kv-cache-dtype")
    assert not kv.changed and "1.0" in kv.why
    assert found.notes == (line,)


def weights(architecture: str) -> str:
    return f"Load weight end. elapsed=5.50 s, type={architecture}, avail mem=14.08 GB, mem usage=8.85 GB."


@pytest.mark.parametrize(
    ("architecture", "more", "reason"),
    [
        ("Qwen3_5MoeForConditionalGeneration", {}, "multimodal"),
        ("Qwen3NextForCausalLM", {}, "Qwen3NextForCausalLM"),
        ("LlamaForCausalLM", {"enable_torch_compile": True}, "torch compile"),
        ("LlamaForCausalLM", {"pp_size": 2}, "pipeline"),
        ("LlamaForCausalLM", {}, "no reason"),
    ],
)
def test_why_there_are_no_piecewise_graphs(architecture: str, more: dict[str, Any], reason: str) -> None:
    line = "Disable piecewise CUDA graph because --disable-piecewise-cuda-graph is set"
    text = log(weights(architecture), line, disable_piecewise_cuda_graph=True, **more)
    graphs = row(see(log=text), "--disable-piecewise-cuda-graph")
    assert (graphs.asked, graphs.effective, graphs.changed) == (None, "(set)", True)
    assert reason in graphs.why


def test_the_architecture_comes_from_the_page_where_there_is_no_log() -> None:
    model = {"architectures": ["Qwen3_5ForConditionalGeneration"]}
    found = see(server_info=info(disable_piecewise_cuda_graph=True), model_info=model)
    assert "multimodal" in row(found, "--disable-piecewise-cuda-graph").why


def test_what_was_asked_to_be_off_is_no_change() -> None:
    found = see("--disable-piecewise-cuda-graph", server_info=info(disable_piecewise_cuda_graph=True))
    assert not row(found, "--disable-piecewise-cuda-graph").changed


def test_the_prefill_graphs_of_0_5_23() -> None:
    text = log(weights("Qwen3_5ForConditionalGeneration"), shape="dict", cuda_graph_backend_prefill="disabled")
    assert "multimodal" in row(see(log=text), "--cuda-graph-backend-prefill").why


def test_the_overlap_and_the_radix_cache_are_switched_off_with_the_engines_own_reason() -> None:
    said = "Disabling overlap schedule since mamba no_buffer is not compatible with overlap schedule, try extra_buffer"
    found = see(log=log(said, disable_overlap_schedule=True, disable_radix_cache=True))
    assert row(found, "--disable-overlap-schedule").why == said
    assert "no reason" in row(found, "--disable-radix-cache").why
    assert [row.name for row in found.changed] == ["--disable-overlap-schedule", "--disable-radix-cache"]


def test_fewer_requests_than_asked_for_because_of_the_state_pool() -> None:
    text = log(
        "Mamba Cache is allocated. max_mamba_cache_size: 186, conv_state size: 0.10GB, ssm_state size: 4.38GB ",
        "KV Cache is allocated. #tokens: 327310, K size: 2.50 GB, V size: 2.50 GB",
        "max_total_num_tokens=327310, chunked_prefill_size=2048, max_prefill_tokens=16384, max_running_requests=62, "
        "context_len=262144, available_gpu_mem=4.49 GB",
        max_running_requests=128,
    )
    found = see("--max-running-requests", "128", log=text)
    requests = row(found, "--max-running-requests")
    assert (requests.effective, requests.changed) == ("62", True)
    assert "186 slots, 3 for each request" in requests.why
    assert row(found, "--context-length").effective == "262144"
    told = {fact.label: fact.value for fact in found.facts}
    assert told["KV cache"] == "327,310 tokens, K 2.50 GiB, V 2.50 GiB"
    assert told["Recurrent state"] == "186 slots, 0.10 + 4.38 GiB"
    assert told["Free memory of a card afterwards"] == "4.49 GiB"


@pytest.mark.parametrize(
    "line",
    [
        "KV Cache is allocated. #tokens: 992896, K size: 68.18 GB, V size: 68.18 GB",
        "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 992896, K size: 68.18 GB, V size: 68.18 GB",
        "target KV Cache is allocated. dtype: torch.bfloat16, #tokens: 992896, K size: 68.18 GB, V size: 68.18 GB",
    ],
)
def test_the_pool_line_of_every_version_and_the_draft_models_own(line: str) -> None:
    draft = "KV Cache is allocated. #tokens: 992896, K size: 1.08 GB, V size: 1.08 GB"
    told = {fact.label: fact.value for fact in see(log=log(line, draft)).facts}
    assert told["KV cache"] == "992,896 tokens, K 68.18 GiB, V 68.18 GiB"
    assert told["KV cache of the draft model"] == "992,896 tokens, K 1.08 GiB, V 1.08 GiB"


def test_a_pool_of_one_size() -> None:
    found = see(log=log("KV Cache is allocated. #tokens: 2454421, KV size: 160.63 GB"))
    assert found.facts[0].value == "2,454,421 tokens, 160.63 GiB"


@pytest.mark.parametrize(
    ("line", "label", "value"),
    [
        (
            "Load weight end. elapsed=1.97 s, type=Qwen3ForCausalLM, dtype=torch.bfloat16, avail mem=162.30 GB, "
            "mem usage=15.28 GB.",
            "Weights", "15.28 GiB per card, loaded in 1.97 s",
        ),
        (
            "Load weight end. elapsed=1.97 s, type=Qwen3ForCausalLM, quant=auto-round, bits=4, avail mem=162.30 GB, "
            "mem usage=15.28 GB.",
            "Weights", "15.28 GiB per card, loaded in 1.97 s",
        ),
        (
            "Capture cuda graph end. Time elapsed: 3.74 s. mem usage=0.60 GB. avail mem=23.54 GB.",
            "CUDA graphs", "0.60 GiB, captured in 3.74 s",
        ),
        (
            "Capture target decode CUDA graph end. elapsed=3.74 s, mem usage=0.60 GB, avail mem=23.54 GB.",
            "CUDA graphs target decode", "0.60 GiB, captured in 3.74 s",
        ),
        (
            "Engine startup timings (s): load_weight=1.97, kv_cache_allocation=0.10, scheduler_e2e=9.00",
            "Time by phase, in seconds", "load_weight=1.97, kv_cache_allocation=0.10, scheduler_e2e=9.00",
        ),
    ],
)  # fmt: skip
def test_the_lines_of_every_version(line: str, label: str, value: str) -> None:
    assert {fact.label: fact.value for fact in see(log=log(line)).facts} == {label: value}


def test_another_rank_and_a_progress_bar_say_nothing_new() -> None:
    other = f"{STAMP.replace('TP0', 'TP1')}Using KV cache dtype: torch.float8_e4m3fn\n"
    bar = "Loading safetensors checkpoint shards:  41% Completed | 7/17\r" * 5
    text = arguments("call") + other + bar + f"{STAMP}Using KV cache dtype: torch.bfloat16\n"
    assert row(see(log=text), "--kv-cache-dtype").effective == "bfloat16"
    assert row(see(log=text.replace("TP0", "DP0 TP0")), "--kv-cache-dtype").effective == "bfloat16"


def test_speculation_that_was_filled_in() -> None:
    spec = {"speculative_algorithm": "EAGLE", "speculative_num_steps": 3, "speculative_num_draft_tokens": 4}
    found = see("--speculative-algorithm", "NEXTN", server_info=info(max_running_requests=48, **spec))
    algorithm = row(found, "--speculative-algorithm")
    assert (algorithm.effective, algorithm.changed) == ("EAGLE", False) and algorithm.why
    assert row(found, "--speculative-num-steps").effective == "3"


def test_draft_tokens_that_were_adjusted() -> None:
    spec = {"speculative_algorithm": "EAGLE", "speculative_num_steps": 1, "speculative_num_draft_tokens": 2}
    found = see("--speculative-num-draft-tokens", "4", server_info=info(**spec))
    assert row(found, "--speculative-num-draft-tokens").why.startswith("With one branch")


def test_what_the_scheduler_changed_is_told() -> None:
    found = see("--page-size", "1", server_info=info({"page_size": 64}, page_size=1))
    page = row(found, "--page-size")
    assert (page.effective, page.changed) == ("64", True)
    assert page.source == "/server_info, internal_states"


def test_what_was_never_on_is_named_for_several_cards_only() -> None:
    names = {row.name: row for row in see(server_info=info()).rows}
    assert "SM90" in names["--enable-nccl-nvls"].why and not names["--enable-nccl-nvls"].changed
    assert "--enable-single-batch-overlap" in names
    assert "--enable-nccl-nvls" not in {row.name for row in see(server_info=info(tp_size=1)).rows}


def test_an_unknown_change_says_so() -> None:
    found = see("--schedule-policy", "lpm", server_info=info(schedule_policy="fcfs"))
    assert row(found, "--schedule-policy").why == "SGLang gives no reason."


def test_memory_of_a_server_whose_log_is_not_ours() -> None:
    memory = {"weight": 26.4, "kvcache": 10.0, "token_capacity": 327310, "graph": {"decode": 0.6}}
    found = see(server_info=info({"memory_usage": memory, "effective_max_running_requests_per_dp": 62}))
    assert [(fact.label, fact.value) for fact in found.facts] == [
        ("Weights", "26.4 GiB per card"), ("KV cache", "10.0 GiB per card"), ("KV cache, in tokens", "327,310"),
    ]  # fmt: skip
    assert row(found, "--max-running-requests").effective == "62"


def test_no_secret_is_left_in_what_is_stored() -> None:
    found = see("--api-key", "sesame-street", server_info=info(api_key="sesame-street", admin_api_key="open-sesame"))
    stored = mask_values(found.as_data())
    assert "sesame" not in repr(stored)
    assert stored["told"]["api_key"] == MASK and stored["told"]["max_running_requests"] is None
    assert stored["told"]["tp_size"] == 2
