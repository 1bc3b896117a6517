"""One question to the driver at a time on a machine: what ``cardlock.sh`` brings to scripts. PURE."""

from functools import cache
from pathlib import Path

PLACES = (Path("/run/lock"), Path("/tmp"))  # the lock has its own name there, and nobody writes to it
NAME = "relaunch-nvidia-smi.lock"
SECONDS = 5.0
"""How long whoever asks waits for another's question to end."""
BUSY = "another nvidia-smi is still running"
BUSY_STATUS = 75
"""What is said instead of an answer, then."""


@cache
def script() -> str:
    """The shell function ``lock_cards``."""
    return Path(__file__).with_name("cardlock.sh").read_text()
