"""``make bench``: run the benchmarks, or the one named by ONLY."""

import os
import shutil
import sys

from tests.bench import setting

NAMES = ("restart", "release", "idle", "benchmark", "history", "logs", "fleet", "live", "plan")


def main() -> int:
    """0 when all that was asked for ran; a goal that is missed shows in its line."""
    only = os.environ.get("ONLY", "").split()
    if unknown := [name for name in only if name not in NAMES]:
        print(f"There is no benchmark {unknown[0]}. There are: {', '.join(NAMES)}.", file=sys.stderr)
        return 2
    directory = setting.prepare()
    try:
        from tests.bench import (
            bench_benchmark,
            bench_fleet,
            bench_history,
            bench_idle,
            bench_live,
            bench_logs,
            bench_plan,
            bench_release,
            bench_restart,
        )

        ways = {
            "restart": bench_restart.run,
            "release": bench_release.run,
            "idle": bench_idle.run,
            "benchmark": bench_benchmark.run,
            "history": bench_history.run,
            "logs": bench_logs.run,
            "fleet": bench_fleet.run,
            "live": bench_live.run,
            "plan": bench_plan.run,
        }
        for name in only or NAMES:
            ways[name](directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
