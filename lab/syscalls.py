"""The few system calls that Python 3.11 has no function for. Each raises OSError."""

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_REMOUNT = 0x20
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 2
PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Leave the namespaces of `flags`; the caller must have one thread only."""
    _checked(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, *, kind: str = "", flags: int = 0, options: str = "") -> None:
    arguments = [text.encode() if text else None for text in (source, target, kind)]
    _checked(
        _libc.mount(*arguments, ctypes.c_ulong(flags), options.encode() if options else None),
        f"mount {kind} on {target}",
    )


def unmount(target: str) -> None:
    """Take a mount away at once, also when it is in use."""
    _checked(_libc.umount2(target.encode(), MNT_DETACH), f"umount {target}")


def enter_mounts(pid: int) -> None:
    """Join the mount namespace of a process; the caller must have one thread only."""
    handle = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
    try:
        _checked(_libc.setns(handle, CLONE_NEWNS), "setns")
    finally:
        os.close(handle)


def die_with_parent(signal_number: int) -> None:
    """Ask the kernel to send this process a signal when its parent ends."""
    _checked(_libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal_number), 0, 0, 0), "prctl")
