"""Config fields of the ``model`` namespace."""

from __future__ import annotations

from typing import List, Optional

from sglang.srt.arg_groups.arg_utils import A, Arg
from sglang.srt.arguments import human_readable_int


class Model:
    """Namespace ``model``."""

    model_path: A[str, Arg(help="The model: a directory, or a repository of the hub.", aliases=["--model"])]
    tokenizer_path: A[Optional[str], "Of the tokenizer path."] = None
    tokenizer_mode: A[str, Arg(choices=["auto", "slow"])] = "auto"
    tokenizer_worker_num: A[int, "Of the tokenizer worker num."] = 1
    skip_tokenizer_init: A[bool, "Of the skip tokenizer init."] = False
    load_format: A[
        str,
        Arg(
            choices=[
                "auto",
                "pt",
                "safetensors",
                "npcache",
                "dummy",
                "sharded_state",
                "gguf",
                "bitsandbytes",
                "layered",
                "flash_rl",
                "remote",
                "remote_instance",
                "fastsafetensors",
                "private",
            ]
        ),
    ] = "auto"
    model_loader_extra_config: A[str, "Of the model loader extra config."] = "{}"
    trust_remote_code: A[bool, "Of the trust remote code."] = False
    context_length: A[
        Optional[int], Arg(help="The longest context; the model's own when not given.", type_parser=human_readable_int)
    ] = None
    is_embedding: A[bool, "Of the is embedding."] = False
    enable_multimodal: A[Optional[bool], "Of the enable multimodal."] = None
    revision: A[Optional[str], "Of the revision."] = None
    model_impl: A[str, "Of the model impl."] = "auto"
    dtype: A[str, Arg(choices=["auto", "half", "float16", "bfloat16", "float", "float32"])] = "auto"
    quantization: A[
        Optional[str],
        Arg(
            help="How the weights are quantized.",
            choices=[
                "awq",
                "fp8",
                "mxfp8",
                "gptq",
                "marlin",
                "gptq_marlin",
                "awq_marlin",
                "bitsandbytes",
                "gguf",
                "modelopt",
                "modelopt_fp8",
                "modelopt_fp4",
                "petit_nvfp4",
                "w8a8_int8",
                "w8a8_fp8",
                "moe_wna16",
                "qoq",
                "w4afp8",
                "mxfp4",
                "auto-round",
                "compressed-tensors",
                "modelslim",
                "quark_int4fp8_moe",
            ],
        ),
    ] = None
    quantization_param_path: A[Optional[str], "Of the quantization param path."] = None
    download_dir: A[Optional[str], "Of the download dir."] = None
    served_model_name: A[Optional[str], "Of the served model name."] = None
    json_model_override_args: A[str, "Of the json model override args."] = "{}"
    language_only: A[bool, "Serve the language part beside encoders on other machines."] = False
    encoder_only: A[bool, "Of the encoder only."] = False
    encoder_urls: A[Optional[List[str]], Arg(nargs="+")] = None
    language_model_only: A[bool, "Leave the vision part of the model out."] = False
