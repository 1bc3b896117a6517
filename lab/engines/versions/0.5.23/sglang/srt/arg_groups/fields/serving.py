"""Config fields of the ``serving`` namespace."""

from __future__ import annotations

from typing import Optional

from sglang.srt.arg_groups.arg_utils import A


class Serving:
    """Namespace ``serving``."""

    host: A[str, "The address to listen on."] = "127.0.0.1"
    port: A[int, "The port to listen on."] = 30000
    skip_server_warmup: A[bool, "Of the skip server warmup."] = False
    random_seed: A[Optional[int], "Of the random seed."] = None
    api_key: A[Optional[str], "A key that clients must send."] = None
    admin_api_key: A[Optional[str], "Of the admin api key."] = None
    chat_template: A[Optional[str], "Of the chat template."] = None
    reasoning_parser: Optional[str] = None
    tool_call_parser: Optional[str] = None
    config: A[Optional[str], "Flags from a YAML file."] = None
    incremental_streaming_output: A[bool, "Of the incremental streaming output."] = False
