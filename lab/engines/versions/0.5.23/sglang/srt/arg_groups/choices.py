"""Values that several flags share."""

QUANTIZATION_CHOICES = [
    "awq", "fp8", "mxfp8", "gptq", "gptq_marlin", "awq_marlin", "bitsandbytes", "gguf", "modelopt",
    "modelopt_fp8", "modelopt_fp4", "petit_nvfp4", "w8a8_int8", "w8a8_fp8", "moe_wna16", "w4afp8",
    "mxfp4", "auto-round", "compressed-tensors", "modelslim", "quark_int4fp8_moe", "modelopt_mixed",
    "unquant", "nvfp4_online", "quark", "humming",
]  # fmt: skip
ATTENTION_BACKEND_CHOICES = [
    "triton", "torch_native", "flex_attention", "nsa", "fa3", "fa4", "flashinfer", "flashmla",
    "trtllm_mla", "trtllm_mha", "aiter", "wave", "intel_amx", "ascend", "intel_xpu", "dsa", "qsa",
]  # fmt: skip
LOAD_FORMAT_CHOICES = [
    "auto", "pt", "safetensors", "npcache", "dummy", "sharded_state", "gguf", "bitsandbytes",
    "layered", "flash_rl", "remote", "remote_instance", "fastsafetensors", "private", "mistral",
    "runai_streamer",
]  # fmt: skip
DetectorMap = {
    "auto": None, "deepseek-r1": None, "deepseek-v3": None, "glm45": None, "gpt-oss": None, "kimi":
    None, "kimi_k2": None, "qwen3": None, "qwen3-thinking": None, "minimax": None,
    "minimax-append-think": None, "step3": None, "step3p5": None, "nemotron_3": None, "interns1":
    None, "hunyuan": None, "mimo": None, "mistral": None, "gemma4": None,
}  # fmt: skip
ToolCallParserEnum = {
    "auto": None, "deepseekv3": None, "deepseekv31": None, "deepseekv32": None, "glm": None,
    "glm45": None, "glm47": None, "gpt-oss": None, "kimi_k2": None, "lfm2": None, "llama3": None,
    "mimo": None, "mistral": None, "pythonic": None, "qwen": None, "qwen25": None, "qwen3_coder":
    None, "step3": None, "step3p5": None, "minimax-m2": None, "trinity": None, "interns1": None,
    "hermes": None, "gigachat3": None, "hunyuan": None, "gemma4": None,
}  # fmt: skip
