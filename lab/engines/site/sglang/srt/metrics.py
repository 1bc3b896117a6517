"""/metrics and /v1/loads of the simulated server."""

import time
from typing import Any

from . import traits
from .manager import Manager


def _values(manager: Manager) -> dict[str, float]:
    report = manager.workers.report
    used = sum(item.prompt_tokens + item.done for item in manager.running.values())
    return {
        "num_running_reqs": len(manager.running) - manager.queued,
        "num_queue_reqs": manager.queued,
        "num_used_tokens": used,
        "token_usage": used / report["tokens"] if report["tokens"] else 0.0,
        "max_total_num_tokens": report["tokens"],
        "gen_throughput": manager.totals.last_throughput,
        "cache_hit_rate": 0.0,
        "spec_accept_length": manager.accept_length if manager.args.speculative_algorithm else 0.0,
    }


def render(manager: Manager) -> str:
    """Prometheus text: gauges, counters and the histograms' sums and counts."""
    labels = (
        f'{{model_name="{manager.args.served_model_name}",engine_type="unified",tp_rank="0",pp_rank="0",'
        'moe_ep_rank="0",dp_rank="0"}'
    )
    totals = manager.totals
    counters = {
        "prompt_tokens_total": totals.prompt_tokens,
        "generation_tokens_total": totals.generated_tokens,
        "num_requests_total": totals.requests,
        "num_aborted_requests_total": totals.aborted,
        "time_to_first_token_seconds_sum": totals.first_token_seconds,
        "time_to_first_token_seconds_count": totals.requests,
    }
    lines = []
    for name, value in _values(manager).items():
        lines += [f"# TYPE sglang:{name} gauge", f"sglang:{name}{labels} {float(value)}"]
    for name, value in counters.items():
        lines += [f"# TYPE sglang:{name} counter", f"sglang:{name}{labels} {float(value)}"]
    return "\n".join(lines) + "\n"


def loads(manager: Manager, *, version: str) -> dict[str, Any]:
    """/v1/loads in this version's shape."""
    values, report = _values(manager), manager.workers.report
    running, waiting = int(values["num_running_reqs"]), int(values["num_queue_reqs"])
    load = {
        "dp_rank": 0,
        "num_running_reqs": running,
        "num_waiting_reqs": waiting,
        "num_used_tokens": int(values["num_used_tokens"]),
        "max_total_num_tokens": report["tokens"],
        "token_usage": round(values["token_usage"], 4),
        "gen_throughput": round(values["gen_throughput"], 2),
        "cache_hit_rate": 0.0,
        "utilization": 0.0,
        "max_running_requests": report["max_running"],
    }
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S")
    if not traits.LOADS_AGGREGATE:
        machine = {"accelerator": "cuda", "num_accelerators": manager.args.tp_size}
        return {"timestamp": stamp, "version": version, **machine, "loads": [load]}
    load["num_total_reqs"] = running + waiting
    if traits.WATCHES_CHILDREN:
        load["num_total_tokens"] = load["num_used_tokens"]
    aggregate = {
        "total_running_reqs": running,
        "total_waiting_reqs": waiting,
        "total_reqs": running + waiting,
        "avg_token_usage": load["token_usage"],
        "avg_throughput": load["gen_throughput"],
        "avg_utilization": 0.0,
    }
    return {"timestamp": stamp, "version": version, "dp_rank_count": 1, "loads": [load], "aggregate": aggregate}
