"""The machine's ledger of engine starts (beside its GPU state), from which tests see what was started twice."""

import json
import os
import time
from pathlib import Path


def note_start(kind: str, *, port: int) -> None:
    """Append a line: time, pid, kind, port, and the launch that the panel named in the environment (or "")."""
    entry = {
        "time": time.time(),
        "pid": os.getpid(),
        "kind": kind,
        "port": port,
        "launch": os.environ.get("RELAUNCH_LAUNCH_ID", ""),
    }
    try:
        descriptor = os.open(_path(), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        return  # a machine without a ledger: the engine runs all the same
    os.write(descriptor, json.dumps(entry).encode() + b"\n")
    os.close(descriptor)


def _path() -> Path:
    return Path(os.environ.get("FAKEGPU_DIR", "/var/lib/fakegpu"), "ledger")
