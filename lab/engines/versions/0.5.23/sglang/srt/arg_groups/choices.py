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
