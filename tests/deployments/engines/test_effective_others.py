"""Asked for and in effect, from the words of vLLM and llama-server."""

from typing import Any

from deployments.engines.configuration import NOTHING, Configuration, Row, Seen
from deployments.engines.llama_server.effective import effective as of_llama
from deployments.engines.registry import ENGINES
from deployments.engines.vllm.effective import effective as of_vllm

VLLM = """(APIServer pid=7) INFO 11-20 10:00:00 [api_server.py:1977] vLLM API server version 0.19.1
(APIServer pid=7) INFO 11-20 10:00:00 [utils.py:253] non-default args: {'model_tag': '/m', 'tensor_parallel_size': 2}
(EngineCore pid=9) INFO 11-20 10:00:09 [core.py:93] Initializing a V1 LLM engine (v0.19.1) with config: model='/m', \
speculative_config=None, dtype=torch.bfloat16, max_seq_len=40960, tensor_parallel_size=2, kv_cache_dtype=KVTYPE, \
enforce_eager=False, compilation_config={'level': 3, 'mode': <CompilationMode.VLLM: 3>}, seed=0
(Worker_TP0 pid=10) INFO 11-20 10:00:20 [gpu_model_runner.py:2653] Model loading took 15.2900 GiB and 6.412 seconds
(Worker_TP0 pid=10) INFO 11-20 10:00:30 [gpu_worker.py:298] Available KV cache memory: 51.27 GiB
(EngineCore pid=9) INFO 11-20 10:00:30 [kv_cache_utils.py:1087] GPU KV cache size: 746,720 tokens
(EngineCore pid=9) INFO 11-20 10:00:30 [kv_cache_utils.py:91] Maximum concurrency for 40,960 tokens per request: 18.23x
(Worker_TP0 pid=10) INFO 11-20 10:00:40 [gpu_model_runner.py:3480] Graph capturing finished in 4 secs, took 0.59 GiB
(EngineCore pid=9) INFO 11-20 10:00:41 [core.py:210] init engine (profile, create kv cache, warmup model) took 21.20 s
"""


def row(found: Configuration, name: str) -> Row:
    return next(row for row in found.rows if row.name == name)


def vllm(*flags: str, kv: str = "auto", more: str = "", **pages: Any) -> Configuration:
    log = VLLM.replace("KVTYPE", kv) + more
    return of_vllm(Seen(["vllm", "serve", "/m", *flags], log, {"/" + key: page for key, page in pages.items()}))


def test_vllm_tells_its_version_and_what_it_measured() -> None:
    found = vllm("-tp", "2", "--max-model-len", "40960")
    assert found.version == "0.19.1"
    assert row(found, "-tp").effective == "2"
    assert row(found, "--max-model-len").effective == "40960"
    assert not found.changed
    assert [(fact.label, fact.value) for fact in found.facts] == [
        ("Weights", "15.2900 GiB, in 6.412 s"),
        ("Memory left for the KV cache", "51.27 GiB per card"),
        ("KV cache", "746,720 tokens"),
        ("Requests of the whole context at the same time", "18.23 of 40,960 tokens"),
        ("CUDA graphs", "0.59 GiB, in 4 s"),
        ("Start of the engine", "21.20 s"),
    ]


def test_vllm_resolves_auto() -> None:
    kv = row(vllm(), "--kv-cache-dtype")
    assert (kv.effective, kv.changed) == ("bfloat16", False)


def test_vllm_takes_fp8_from_the_checkpoint() -> None:
    for found in (
        vllm(kv="fp8_e4m3"),
        vllm(more="INFO 11-20 [x.py:1] Using fp8 data type to store kv cache. It ...\n"),
    ):
        kv = row(found, "--kv-cache-dtype")
        assert (kv.effective, kv.changed) == ("fp8_e4m3", True) and "checkpoint" in kv.why


def test_vllm_names_scales_of_one() -> None:
    warning = (
        "WARNING 11-20 [kv_cache.py:92] Using KV cache scaling factor 1.0 for fp8_e4m3. If this is unintended, ...\n"
    )
    kv = row(vllm("--kv-cache-dtype", "fp8", kv="fp8", more=warning), "--kv-cache-dtype")
    assert not kv.changed and "1.0" in kv.why


def test_vllm_without_a_log_tells_what_its_pages_do() -> None:
    argv = ["vllm", "serve", "/m", "--port", "8000"]
    pages: dict[str, object] = {"/version": {"version": "0.33.0"}, "/v1/models": {"data": [{"max_model_len": 4096}]}}
    found = of_vllm(Seen(argv, "", pages))
    assert found.version == "0.33.0"
    assert row(found, "--max-model-len").effective == "4096"
    assert row(found, "--port") == Row("--port", "8000", None)
    assert of_vllm(Seen(argv, "", {"/version": {"version": "0.33.0"}})).version == "0.33.0"
    assert of_vllm(Seen(argv)) == NOTHING


PROPS = {
    "default_generation_settings": {"n_ctx": 512}, "total_slots": 2, "model_alias": "tiny", "model_path": "/m.gguf",
    "build_info": "b4242-abc",
}  # fmt: skip
LLAMA = """0.00.015.442 W llama_context: n_ctx_seq (2048) > n_ctx_train (512) -- possible training context overflow
0.00.018.676 W srv    load_model: the slot context (2048) exceeds the training context of the model (512) - capping
0.00.019.976 I srv    load_model: initializing, n_slots = 2, n_ctx_slot = 512, kv_unified = 'false'
"""


def llama(*flags: str, log: str = "", props: object = PROPS) -> Configuration:
    return of_llama(Seen(["llama-server", "-m", "/m.gguf", *flags], log, {"/props": props}))


def test_llama_shows_a_context_that_was_cut() -> None:
    found = llama("-c", "4096", "-np", "2", log=LLAMA)
    context = row(found, "-c")
    assert (context.effective, context.changed) == ("1024", True) and "capping" in context.why
    assert row(found, "-np").effective == "2"
    assert found.version == "b4242-abc"
    assert [(fact.label, fact.value) for fact in found.facts] == [("Context of one slot, in tokens", "512")]


def test_llama_whose_slots_share_the_context() -> None:
    log = "srv load_model: initializing, n_slots = 4, n_ctx_slot = 8192, kv_unified = 'true'\n"
    found = llama("-c", "8192", log=log, props={})
    assert row(found, "-c").effective == "8192" and not found.changed
    assert row(found, "--parallel").effective == "4"


def test_llama_tells_layers_and_cache_types() -> None:
    log = (
        "load_tensors: offloaded 28/29 layers to GPU\n"
        "llama_kv_cache: size =  448.00 MiB (  4096 cells,  28 layers,  1/1 seqs), K (q8_0): 224.00 MiB, "
        "V (f16): 224.00 MiB\n"
    )
    found = llama("-ngl", "99", "-ctk", "q8_0", log=log)
    assert (row(found, "-ngl").effective, row(found, "-ngl").changed) == ("28", True)
    assert row(found, "-ctk").effective == "q8_0"
    assert [fact.value for fact in found.facts[:2]] == ["28 of 29", "448.00 MiB for 4,096 tokens"]


def test_llama_that_tells_nothing() -> None:
    assert llama(props="busy") == NOTHING


def test_every_engine_with_pages_can_read_them() -> None:
    for engine in ENGINES.values():
        assert (engine.configuration is not None) == bool(engine.pages)
