"""The cards of the panel's own machine, by NVML, in the words of nvidia-smi.

A driver call that hangs cannot be interrupted, so NVML is only ever called in a child of its own:
`python -m hosts.nvml TOKEN SECTIONS` prints the same frames as the probe script, and `read_cards` runs it with a
deadline. This is the only place that imports pynvml.
"""

import contextlib
import fcntl
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pynvml

from hosts.probe import cardlock
from hosts.probe.frames import Frame, Section, parse_frame
from hosts.transport.base import CommandTimeout, Transport, no_tick

DEADLINE_SECONDS = 10.0
TIMED_OUT = 124
MIB = 1024 * 1024
ROOT = Path(__file__).resolve().parent.parent
SECTIONS = ("memory", "gpus", "apps")
HEALTH = ("usable",)
"""Asked for with those: more columns in the tables of cards, no section of its own."""
SMI_WORDS = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "couldn't communicate with the NVIDIA driver",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "Failed to initialize NVML: Driver/library version mismatch",
    pynvml.NVML_ERROR_OPERATING_SYSTEM: "Failed to initialize NVML: GPU access blocked by the operating system",
    pynvml.NVML_ERROR_NO_PERMISSION: "Failed to initialize NVML: Insufficient Permissions",
    pynvml.NVML_ERROR_UNKNOWN: "Failed to initialize NVML: Unknown Error",
    pynvml.NVML_ERROR_IN_USE: "Failed to initialize NVML: In use by another client",
}
"""What nvidia-smi prints when NVML cannot be started, so that one table explains both."""
CELL_WORDS = {
    pynvml.NVML_ERROR_NOT_SUPPORTED: "[N/A]",
    pynvml.NVML_ERROR_NO_PERMISSION: "[Insufficient Permissions]",
    pynvml.NVML_ERROR_NOT_FOUND: "[Not Found]",
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "[Function Not Found]",
    pynvml.NVML_ERROR_GPU_IS_LOST: "[GPU is lost]",
    pynvml.NVML_ERROR_RESET_REQUIRED: "[GPU requires reset]",
}
GPU_COLUMNS: dict[str, Callable[[Any], object]] = {
    "uuid": lambda card: _text(pynvml.nvmlDeviceGetUUID(card)),
    "pci.bus_id": lambda card: _text(pynvml.nvmlDeviceGetPciInfo(card).busId),
    "memory.total": lambda card: _memory(card).total // MIB,
    "memory.used": lambda card: _memory(card).used // MIB,
    "memory.free": lambda card: _memory(card).free // MIB,
    "memory.reserved": lambda card: _memory(card).reserved // MIB,
    "utilization.gpu": lambda card: pynvml.nvmlDeviceGetUtilizationRates(card).gpu,
    "temperature.gpu": lambda card: pynvml.nvmlDeviceGetTemperature(card, pynvml.NVML_TEMPERATURE_GPU),
    "power.draw": lambda card: f"{pynvml.nvmlDeviceGetPowerUsage(card) / 1000:.2f}",
    "driver_version": lambda _: _text(pynvml.nvmlSystemGetDriverVersion()),
    "mig.mode.current": lambda card: "Enabled" if pynvml.nvmlDeviceGetMigMode(card)[0] else "Disabled",
    "display_active": lambda card: "Enabled" if pynvml.nvmlDeviceGetDisplayActive(card) else "Disabled",
    "name": lambda card: _text(pynvml.nvmlDeviceGetName(card)),
}
RECOVERY_ACTIONS = {
    pynvml.NVML_GPU_RECOVERY_ACTION_NONE: "None",
    pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET: "GPU Reset",
    pynvml.NVML_GPU_RECOVERY_ACTION_NODE_REBOOT: "Node Reboot",
    pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_P2P: "Drain P2P",
    pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET: "Drain and Reset",
    pynvml.NVML_GPU_RECOVERY_ACTION_BUS_RESET: "Bus Reset",
    pynvml.NVML_GPU_RECOVERY_ACTION_SYSTEM_REBOOT: "System Reboot",
}
FABRIC_STATES = {
    pynvml.NVML_GPU_FABRIC_STATE_NOT_SUPPORTED: "N/A",
    pynvml.NVML_GPU_FABRIC_STATE_NOT_STARTED: "Not Started",
    pynvml.NVML_GPU_FABRIC_STATE_IN_PROGRESS: "In Progress",
    pynvml.NVML_GPU_FABRIC_STATE_COMPLETED: "Completed",
}
HEALTH_COLUMNS: dict[str, Callable[[Any], object]] = {
    "gpu_recovery_action": lambda card: _recovery_action(card),
    "fabric.state": lambda card: FABRIC_STATES.get(_fabric(card).state, "N/A"),
    "fabric.status": lambda card: _fabric_status(_fabric(card)),
}
COLUMNS = GPU_COLUMNS | HEALTH_COLUMNS
MEMORY_COLUMNS = ("uuid", "pci.bus_id", "memory.total", "memory.used", "memory.free")


def read_cards(
    transport: Transport, *, sections: Sequence[str], timeout: float, tick: Callable[[], None] = no_tick
) -> Frame:
    """The cards' sections, by a child that has at most `timeout` seconds and is killed after them.

    A child that hangs or dies gives sections that say so, as a hung nvidia-smi does.
    """
    wanted = [name for name in sections if name in (*SECTIONS, *HEALTH)]
    token = os.urandom(8).hex()
    command = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "hosts.nvml", token, ",".join(wanted)]
    try:
        result = transport.run(command, timeout=min(timeout, DEADLINE_SECONDS), tick=tick)
    except CommandTimeout:
        return _failed(wanted, b"", TIMED_OUT)
    frame = parse_frame(result.stdout, token=token)
    return frame if frame.complete else _failed(wanted, b"the NVML library crashed", result.exit_status or 255)


def _failed(sections: Sequence[str], text: bytes, status: int) -> Frame:
    return Frame(MappingProxyType({name: Section(name, text, status) for name in sections}), complete=True)


def main(argv: Sequence[str]) -> int:
    """Print one frame."""
    token, sections = argv[0], argv[1].split(",")
    out = sys.stdout.buffer
    out.write(f"\n@relaunch {token} begin\n".encode())
    answers = _answers(sections) if _lock_cards() else _busy(sections)
    for name, (text, status) in answers.items():
        out.write(f"\n@relaunch {token} section {name}\n{text}\n@relaunch {token} status {status}\n".encode())
    out.write(f"\n@relaunch {token} end\n".encode())
    out.flush()
    return 0


def _busy(asked: Sequence[str]) -> dict[str, tuple[str, int]]:
    return {name: (cardlock.BUSY, cardlock.BUSY_STATUS) for name in asked if name in SECTIONS}


def _lock_cards() -> bool:
    """One question to the driver at a time on this machine. Whoever hangs in it keeps the lock, killed or not.

    False when another has it for longer. Without a place for the lock nobody is kept out.
    """
    found = next((lock for place in cardlock.PLACES if (lock := _opened(place / cardlock.NAME)) >= 0), -1)
    end = time.monotonic() + cardlock.SECONDS
    while found >= 0:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break  # it stays open until this process has ended
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def _opened(lock: Path) -> int:
    """The file, made when it is not there, or -1. Nobody needs to write it."""
    with contextlib.suppress(OSError):
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    with contextlib.suppress(OSError):
        return os.open(lock, os.O_RDONLY | os.O_CLOEXEC) if lock.is_file() else -1
    return -1


def _answers(asked: Sequence[str]) -> dict[str, tuple[str, int]]:
    sections = [name for name in asked if name in SECTIONS]
    more = tuple(HEALTH_COLUMNS) if set(asked) & {*HEALTH} else ()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        text = SMI_WORDS.get(error.value, str(error))
        return dict.fromkeys(sections, (text, min(error.value, 255)))
    try:
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        return dict.fromkeys(sections, (f"Unable to determine the number of GPUs: {error}", min(error.value, 255)))
    if not count:
        return dict.fromkeys(sections, ("No devices were found", 6))
    cards, faults = _handles(count)
    found: dict[str, tuple[str, int]] = {}
    for name in sections:
        found |= _apps(cards, faults) if name == "apps" else _table(name, cards, faults, more=more)
    return found


def _handles(count: int) -> tuple[dict[int, Any], dict[int, pynvml.NVMLError]]:
    """One bad card costs its own handle, not the others'."""
    cards: dict[int, Any] = {}
    faults: dict[int, pynvml.NVMLError] = {}
    for index in range(count):
        try:
            cards[index] = pynvml.nvmlDeviceGetHandleByIndex(index)
        except pynvml.NVMLError as error:
            if error.value != pynvml.NVML_ERROR_NO_PERMISSION:  # not given to this container: not ours to tell
                faults[index] = error
    return cards, faults


def _table(
    name: str, cards: dict[int, Any], faults: dict[int, Any], *, more: Sequence[str]
) -> dict[str, tuple[str, int]]:
    columns = (*more, *(MEMORY_COLUMNS if name == "memory" else tuple(GPU_COLUMNS)))
    header = ", ".join(("index", *columns))
    rows = {index: _row(index, card, columns) for index, card in cards.items()}
    if not faults:
        return {name: ("\n".join([header, *rows.values()]), 0 if rows else 6)}
    whole = "\n".join(f"Unable to determine the device handle for GPU{n}: {e}" for n, e in faults.items())
    single = {f"{name}.{index}": (f"{header}\n{row}", 0) for index, row in rows.items()}
    broken = {f"{name}.{index}": (_handle_words(error), 255) for index, error in faults.items()}
    return {name: (whole, 255), **single, **broken}


def _handle_words(error: Any) -> str:
    return CELL_WORDS.get(error.value, "device handle: Unknown Error")


def _row(index: int, card: Any, columns: Sequence[str]) -> str:
    return ", ".join([str(index), *(_cell(COLUMNS[column], card) for column in columns)])


def _cell(read: Callable[[Any], object], card: Any) -> str:
    try:
        return str(read(card))
    except pynvml.NVMLError as error:
        return CELL_WORDS.get(error.value, "[Unknown Error]")


def _apps(cards: dict[int, Any], faults: dict[int, Any]) -> dict[str, tuple[str, int]]:
    rows = ["pid, gpu_uuid, used_gpu_memory, process_name"]
    groups: list[str] = []
    rows += [f"{_handle_words(error)}, [Unknown Error], [Unknown Error], ?" for error in faults.values()]
    for card in cards.values():
        uuid = _cell(GPU_COLUMNS["uuid"], card)
        try:
            processes = pynvml.nvmlDeviceGetComputeRunningProcesses(card)
        except pynvml.NVMLError as error:
            cell = CELL_WORDS.get(error.value, "[Unknown Error]")
            rows.append(f"{cell}, {uuid}, {cell}, {cell}")
            continue
        for process in processes:
            used = "[N/A]" if process.usedGpuMemory is None else process.usedGpuMemory // MIB
            rows.append(f"{process.pid}, {uuid}, {used}, {_process_name(process.pid)}")
            groups.append(_group(process.pid))
    return {"groups": ("\n".join(filter(None, groups)), 0), "apps": ("\n".join(rows), 0)}


def _group(pid: int) -> str:
    """As the probe's grep says to which process this number belongs, which may be a thread's."""
    path = Path(f"/proc/{pid}/status")
    with contextlib.suppress(OSError):
        return "".join(f"{path}:{line}" for line in path.read_text(errors="replace").split("\n") if line[:5] == "Tgid:")
    return ""


def _process_name(pid: int) -> str:
    try:
        return _text(pynvml.nvmlSystemGetProcessName(pid)).replace(",", "?").replace("\n", "?")
    except (pynvml.NVMLError, UnicodeDecodeError):
        return "[Not Found]"


def _memory(card: Any) -> Any:
    """Version 2, whose `used` leaves out what the driver keeps, as nvidia-smi's does."""
    return pynvml.nvmlDeviceGetMemoryInfo(card, version=pynvml.nvmlMemory_v2)


def _recovery_action(card: Any) -> str:
    """What the driver says that the card needs. Raises NVMLError where it does not tell."""
    value = pynvml.nvmlDeviceGetFieldValues(card, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])[0]
    if value.nvmlReturn != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(value.nvmlReturn)
    return RECOVERY_ACTIONS.get(value.value.uiVal, f"action {value.value.uiVal}")


def _fabric(card: Any) -> Any:
    info = pynvml.c_nvmlGpuFabricInfo_v2_t()
    pynvml.nvmlDeviceGetGpuFabricInfoV(card, pynvml.byref(info))
    return info


def _fabric_status(info: Any) -> str:
    """Of a card that has joined its fabric: Success, or what went wrong."""
    if info.state != pynvml.NVML_GPU_FABRIC_STATE_COMPLETED:
        return "N/A"
    return "Success" if info.status == pynvml.NVML_SUCCESS else str(pynvml.NVMLError(info.status))


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
