"""Control groups of the simulated machines that need them: where systemd or containers are to be real.

They are directories in the version 2 hierarchy of the machine that runs the lab, so root is needed, and a hierarchy
that may be written to.
"""

import hashlib
import os
import secrets
import time
from contextlib import suppress
from pathlib import Path

PREFIX = "relaunch-lab-"
SYSTEMD = Path("/usr/lib/systemd/systemd")
END_SECONDS = 5.0
STALE_SECONDS = 60.0
"""A group without a process may belong to a machine that just starts; after this long nobody wants it any more."""


def one_user_only() -> bool:
    """Whether this lab's user namespace maps a single id, so that no second login can exist."""
    entries = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
    return sum(int(size) for _, _, size in entries) == 1


def why_not() -> str:
    """Why there can be no control groups of our own here; empty when there can."""
    if os.geteuid() != 0 or one_user_only():
        return "control groups need real root (here: a plain user or a user namespace)"
    root = _hierarchy()
    if root is None:
        return "no control group hierarchy of version 2 is mounted here"
    probe = root / f"{PREFIX}probe-{os.getpid()}-{secrets.token_hex(4)}"  # labs may have the same pids
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        return f"control groups cannot be made below {root}: {error.strerror}"
    return ""


def why_no_systemd() -> str:
    """Why no machine can have systemd as its PID 1 here; empty when one can."""
    if not SYSTEMD.exists():
        return "systemd is not installed here (Debian: apt-get install systemd)"
    return why_not()


def _hierarchy() -> Path | None:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        if after.startswith("cgroup2 ") and before.split()[3] == "/":
            return Path(before.split()[4])
    return None


def group_of(fleet: Path, machine: str) -> Path:
    """The group of one machine of the fleet in this directory. Only where ``why_not()`` is empty."""
    root = _hierarchy()
    assert root is not None
    return root / f"{PREFIX}{hashlib.sha256(str(fleet).encode()).hexdigest()[:12]}" / machine


def remove(group: Path) -> None:
    """Take a group away with all below it, once its processes are gone; what has one for longer than that stays."""
    deadline = time.monotonic() + END_SECONDS
    while _populated(group) and time.monotonic() < deadline:
        time.sleep(0.005)
    for directory, _, _ in os.walk(group, topdown=False):
        with suppress(OSError):
            Path(directory).rmdir()
    with suppress(OSError):
        group.parent.rmdir()


def _populated(group: Path) -> bool:
    try:
        return "populated 1" in (group / "cgroup.events").read_text()
    except OSError:
        return False


def sweep() -> None:
    """Take away what labs have left that were killed."""
    root = _hierarchy()
    for group in root.glob(f"{PREFIX}*") if root is not None else ():
        with suppress(OSError):
            if time.time() - group.stat().st_mtime > STALE_SECONDS and not _populated(group):
                remove(group)
