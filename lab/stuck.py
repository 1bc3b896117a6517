"""A file that blocks its reader until this process ends: who reads it is in uninterruptible sleep (state D) from the
first signal on, and SIGKILL waits as well, as it does in a driver that does not come back.

    python -m lab.stuck PID FILE SECONDS     mounts FILE in the mount namespace of process PID

The kernel asks a process for the file's contents (FUSE); ours answers everything but READ. It says "ready" on
standard output, and "caught" when somebody reads. It ends after SECONDS, or on SIGTERM: then the reader gets an
error, and dies of what was sent to it meanwhile.
"""

import errno
import os
import select
import signal
import stat
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from lab import syscalls

DEVICE = Path("/dev/fuse")
LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT, INTERRUPT, DESTROY = 1, 2, 3, 14, 15, 18, 25, 26, 36, 38
NO_ANSWER = (FORGET, INTERRUPT, READ)
ROOT, SIZE, DIRECT_IO = 1, 4096, 1
HEADER = struct.Struct("<IIQQ")
PACKET = 1 << 17


def is_possible() -> bool:
    """Whether this user may speak FUSE here."""
    return os.access(DEVICE, os.R_OK | os.W_OK)


def block(pid: int, file: str, *, seconds: float, record: Path) -> "subprocess.Popen[bytes]":
    """Make FILE, as process `pid` sees it, block its readers; `record` is a directory for what `release` needs.

    Returns the process that serves it. Raises OSError.
    """
    words = [sys.executable, "-m", "lab.stuck", str(pid), file, str(seconds)]
    repository = str(Path(__file__).resolve().parents[1])
    environment = {**os.environ, "PYTHONPATH": repository}
    daemon = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        bufsize=0,
        env=environment,
        start_new_session=True,
    )
    assert daemon.stdout is not None
    if daemon.stdout.readline() != b"ready\n":
        raise OSError(f"The blocking file {file} could not be mounted (FUSE).")
    record.mkdir(parents=True, exist_ok=True)
    (record / str(daemon.pid)).touch()
    return daemon


def has_caught(daemon: "subprocess.Popen[bytes]", *, timeout: float) -> bool:
    """Wait for the first reader: from now on SIGKILL does not end it."""
    assert daemon.stdout is not None
    return bool(select.select([daemon.stdout], [], [], timeout)[0]) and daemon.stdout.readline() == b"caught\n"


def release(record: Path) -> None:
    """Let every reader go that `block` with this record has caught."""
    for entry in record.iterdir() if record.is_dir() else ():
        with suppress(OSError):
            if b"lab.stuck" in Path("/proc", entry.name, "cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGTERM)
        entry.unlink(missing_ok=True)


def _attributes() -> bytes:
    return struct.pack("<6Q3I7I", ROOT, SIZE, 0, 0, 0, 0, 0, 0, 0, stat.S_IFREG | 0o666, 1, 0, 0, 0, SIZE, 0)


def _answer(operation: int) -> tuple[int, bytes]:
    """Error number and body."""
    if operation == INIT:
        return 0, struct.pack("<4I2H3I", 7, 31, SIZE, 0, 12, 10, SIZE, 1, 0) + bytes(32)
    if operation == GETATTR:
        return 0, struct.pack("<QII", 1, 0, 0) + _attributes()
    if operation == OPEN:
        return 0, struct.pack("<QII", 0, DIRECT_IO, 0)
    return (0, b"") if operation in (RELEASE, FLUSH) else (38, b"")  # ENOSYS


def _serve(channel: int, *, until: float) -> None:
    while (left := until - time.monotonic()) > 0:
        if not select.select([channel], [], [], left)[0]:
            return
        try:
            packet = os.read(channel, PACKET)
        except OSError as trouble:
            if trouble.errno == errno.ENOENT:  # a request that was taken back
                continue
            return  # unmounted
        _, operation, unique, _ = HEADER.unpack_from(packet)
        if operation == DESTROY:
            return
        if operation == READ:
            with suppress(OSError):  # whoever started this has gone since the first one
                os.write(1, b"caught\n")
        if operation not in NO_ANSWER:
            error, body = _answer(operation)
            with suppress(OSError):  # whoever asked is gone
                os.write(channel, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)


def main(pid: int, file: str, seconds: float) -> None:
    channel = os.open(DEVICE, os.O_RDWR)
    syscalls.enter_mounts(pid)
    target = Path(file)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.touch()
    options = f"fd={channel},rootmode={stat.S_IFREG:o},user_id={os.getuid()},group_id={os.getgid()},allow_other"
    syscalls.mount("lab-stuck", file, kind="fuse", options=options)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        print("ready", flush=True)
        _serve(channel, until=time.monotonic() + seconds)
    finally:
        with suppress(OSError):
            syscalls.unmount(file)
        os.close(channel)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
