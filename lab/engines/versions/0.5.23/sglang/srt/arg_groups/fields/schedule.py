"""Config fields of the ``schedule`` namespace."""

from __future__ import annotations

from typing import Optional

from sglang.srt.arg_groups.arg_utils import A, Arg


class Schedule:
    """Namespace ``schedule``."""

    max_running_requests: A[Optional[int], "How many requests run at once."] = None
    max_queued_requests: A[Optional[int], "Of the max queued requests."] = None
    chunked_prefill_size: A[Optional[int], "Into pieces of how many tokens a prompt is cut."] = None
    max_prefill_tokens: A[int, "Of the max prefill tokens."] = 16384
    schedule_policy: A[
        str,
        Arg(
            choices=[
                "lpm",
                "random",
                "fcfs",
                "dfs-weight",
                "lof",
                "priority",
                "routing-key",
                "hrrn",
                "shortest-prefill-first",
            ]
        ),
    ] = "fcfs"
    schedule_conservativeness: A[float, "Of the schedule conservativeness."] = 1.0
    enable_metrics_for_all_schedulers: A[bool, "Of the enable metrics for all schedulers."] = False
    disable_overlap_schedule: A[bool, "Of the disable overlap schedule."] = False
    enable_mixed_chunk: A[bool, "Of the enable mixed chunk."] = False
    enable_two_batch_overlap: A[bool, "Of the enable two batch overlap."] = False
    enable_single_batch_overlap: A[bool, "Of the enable single batch overlap."] = False
