"""Config fields of the ``observability`` namespace."""

from __future__ import annotations

from typing import Optional

from sglang.srt.arg_groups.arg_utils import A


class Observability:
    """Namespace ``observability``."""

    watchdog_timeout: A[float, "Of the watchdog timeout."] = 300
    soft_watchdog_timeout: A[Optional[float], "Of the soft watchdog timeout."] = None
    log_level: A[str, "Of the log level."] = "info"
    log_requests: A[bool, "Of the log requests."] = False
    crash_dump_folder: A[Optional[str], "Of the crash dump folder."] = None
    enable_metrics: A[bool, "Serve /metrics."] = False
    decode_log_interval: A[int, "Of the decode log interval."] = 40
