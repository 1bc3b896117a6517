"""One simulated machine without namespaces: its GPUs in a temporary directory, its programs run from here."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from lab.build import build
from lab.engines import environment
from lab.gpus import state
from lab.specs import CardSpec

H200 = CardSpec(name="NVIDIA H200", memory_mib=143771, reserved_mib=614, driver="550.163.01")


def wait_until(condition: Callable[[], object], *, timeout: float = 10) -> None:
    """Poll until true; fails after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.01)


class Machine:
    """Where the programs of lab/gpus and lab/engines find their cards."""

    def __init__(self, directory: Path, cards: Sequence[CardSpec]) -> None:
        self.directory = directory
        self.cards = [card.placed("machine", index) for index, card in enumerate(cards)]
        self.build = build()
        self.processes: list[subprocess.Popen[bytes]] = []
        state.write_cards(directory, self.cards)

    def environ(self, **extra: str) -> dict[str, str]:
        return {
            "PATH": f"{self.build}:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": str(self.build),
            "FAKEGPU_DIR": str(self.directory),
            "FAKEGPU_DEV": str(self.directory / "dev"),
            "HOME": str(self.directory),
            "PYTHONDONTWRITEBYTECODE": "1",
            **extra,
        }

    def run(self, *argv: str, timeout: float = 20, **extra: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(argv, env=self.environ(**extra), capture_output=True, text=True, timeout=timeout)

    def start(self, *argv: str, log: Path | None = None, **extra: str) -> "subprocess.Popen[bytes]":
        """In a process group of its own, ended with the machine."""
        with (log or self.directory / "output").open("ab") as output:
            process = subprocess.Popen(
                argv,
                env=self.environ(**extra),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def hold(self, mib: int, *, gpu: str = "0", options: Sequence[str] = ()) -> "subprocess.Popen[bytes]":
        """A process that holds memory; returns when it does."""
        before = len(state.read_contexts(self.directory))
        process = self.start("gpu-hold", "--gpu", gpu, "--mib", str(mib), *options, "--", "sleep", "60")
        expected = before + len(gpu.split(","))
        wait_until(lambda: len(state.read_contexts(self.directory)) == expected)
        return process

    def smi(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return self.run(str(self.build / "nvidia-smi"), *arguments)

    def gpu(self, *fields: str, options: Sequence[str] = ()) -> list[list[str]]:
        """Cells of --query-gpu without header and units."""
        done = self.smi(f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits", *options)
        assert done.returncode == 0, done.stdout
        return [line.split(", ") for line in done.stdout.splitlines()]

    def used(self, card: int = 0) -> int:
        return int(self.gpu("memory.used")[card][0])

    def apps(self) -> list[list[str]]:
        fields = "--query-compute-apps=pid,process_name,gpu_uuid,used_memory"
        done = self.smi(fields, "--format=csv,noheader,nounits")
        assert done.returncode == 0, done.stdout
        return [line.split(", ") for line in done.stdout.splitlines()]

    def break_gpus(self, text: str | None) -> None:
        state.set_fault(self.directory, text)

    def ledger(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in (self.directory / "ledger").read_text().splitlines()]

    def close(self) -> None:
        for process in self.processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def running_machine(directory: Path, cards: Sequence[CardSpec] = (H200, H200)) -> Iterator[Machine]:
    environment.ensure()
    machine = Machine(directory, cards)
    try:
        yield machine
    finally:
        machine.close()


def kill(process: "subprocess.Popen[bytes]") -> None:
    """SIGKILL and reap."""
    process.kill()
    process.wait(10)


def fields_of(pid: int) -> list[str]:
    """/proc/PID/stat from the state on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def open_files(pid: int) -> set[str]:
    """Where the descriptors of a process lead; one may be closed meanwhile."""
    links = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            links.add(str(entry.readlink()))
    return links
