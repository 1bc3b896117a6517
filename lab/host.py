"""One simulated machine: how it is started, entered and ended. State is in files, so any process of the lab
may hold a Host for a machine that another one started."""

import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lab import cgroups, init, network, processes, stuck, syscalls, tree
from lab.gpus import kernel, procfs, state
from lab.paths import FleetPaths
from lab.processes import Process
from lab.specs import CardSpec, HostSpec

ENVIRONMENT = {"PATH": tree.PATH, "HOME": "/root", "USER": "root", "LOGNAME": "root", "LANG": "C.UTF-8"}


class MachineError(Exception):
    """A simulated machine did not do what it was told; the text says which and why."""


def wait_until(condition: "Callable[[], object]", *, timeout: float, what: str) -> None:
    """Poll until `condition()` is true. Raises MachineError after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise MachineError(f"{what}: not within {timeout:g} s")
        time.sleep(0.005)


class Host:
    """A machine with its own sshd on port 22, reachable from the lab at `address`."""

    user, port = "root", 22

    def __init__(self, spec: HostSpec, *, index: int, address: str, paths: FleetPaths) -> None:
        self.spec, self.index, self.address, self.paths = spec, index, address, paths
        self.name = spec.name
        self.link = f"v{index}"
        self.directory = paths.machine(spec.name)
        self.root = self.directory / "rootfs"
        self.gpu_state = self.directory / "fakegpu"
        self.host_key = paths.keys / spec.name
        self.stuck = self.directory / "stuck"

    @property
    def cards(self) -> tuple[CardSpec, ...]:
        return tuple(card.placed(self.name, index) for index, card in enumerate(self.spec.cards))

    @property
    def host_key_line(self) -> str:
        """`ssh-ed25519 AAAA...` of the key that sshd shows."""
        text = (self.root / "etc/ssh/ssh_host_ed25519_key.pub").read_text()
        return " ".join(text.split()[:2])

    @property
    def pid1(self) -> int:
        """Init of the machine, as the lab numbers it. Raises MachineError when it is off."""
        try:
            pid = int((self.directory / "pid").read_text())
            if os.path.samestat(Path(f"/proc/{pid}/root").stat(), self.root.stat()):
                return pid
        except (OSError, ValueError):
            pass
        # no file, or one that is left over from a lab that was killed: the number is somebody else's now
        raise MachineError(f"{self.name} is not running")

    @property
    def is_running(self) -> bool:
        try:
            return bool(self.pid1)
        except MachineError:
            return False

    @property
    def boot_id(self) -> str:
        return (self.directory / "boot_id").read_text().strip()

    # -- starting and ending

    def prepare(self, *, authorized: str) -> None:
        """Give the machine an empty disk and write on it what it needs."""
        for directory in (self.root, self.gpu_state):
            directory.mkdir(parents=True, exist_ok=True)
        if not os.path.ismount(self.root):
            size = f"size={self.spec.disk_mib}m,mode=755"
            syscalls.mount("disk", str(self.root), kind="tmpfs", options=size)
        hosts = f"127.0.0.1 localhost\n{self.address} {self.name}\n"
        tree.write_etc(self.root, name=self.name, hosts=hosts)
        tree.write_sshd(self.root, host_key=self.host_key)
        tree.authorize(self.root, authorized)
        if self.spec.systemd:
            init.write_systemd(self.root, sshd=tree.sshd_command())
        shutil.rmtree(self.gpu_state)
        self.gpu_state.mkdir()
        state.write_cards(self.gpu_state, self.cards, devices=False)
        shutil.rmtree(self.directory / "driver", ignore_errors=True)
        procfs.write(self.directory / "driver", self.cards if self.spec.driver else ())
        (self.directory / "plan").write_text(self.plan())

    def plan(self) -> str:
        layers = [self.paths.driver] if self.spec.driver else []
        return self._plan(layers, node=False)

    def _plan(self, layers: Sequence[Path], *, node: bool) -> str:
        devices = state.device_names(self.cards)
        layers = [*layers, self.paths.docker] if self.spec.systemd else layers
        return tree.host_plan(
            self.paths,
            name=self.name,
            devices=devices,
            layers=layers,
            node=node,
            group=self.group,
            systemd=self.spec.systemd,
        )

    @property
    def needs_group(self) -> bool:
        """Whether something on it needs control groups."""
        return self.spec.systemd

    @property
    def group(self) -> Path | None:
        """Its control group, where it needs one. Raises MachineError where it cannot have one."""
        if not self.needs_group:
            return None
        if why_not := cgroups.why_no_systemd():
            raise MachineError(f"{self.name} cannot run systemd: {why_not}")
        return cgroups.group_of(self.paths.directory, self.name)

    def power_on(self) -> "subprocess.Popen[str]":
        """Begin to start, with a new boot id; `finish_start` waits for it."""
        self.new_boot_id()
        kernel.begin(self.root)
        command = [
            str(self.paths.libexec / "cell"),
            str(self.directory / "pid"),
            str(self.directory / "plan"),
        ]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)

    def finish_start(self, booting: "subprocess.Popen[str]") -> None:
        """Raises MachineError with the reason when the machine did not come up."""
        _, trouble = booting.communicate(timeout=30)
        if booting.returncode:
            raise MachineError(f"{self.name} did not start: {trouble.strip()}")

    def restart_sshd(self) -> None:
        """Start sshd on a machine that runs without one."""
        self.exec(tree.sshd_command(), timeout=20, env=tree.sshd_environment())
        self.wait_for_sshd(timeout=20)

    def plug_lines(self) -> list[str]:
        """The `ip` commands, in the lab, that give the started machine its cable."""
        return network.plug_lines(self.link, address=self.address, pid=self.pid1)

    def configure_network(self) -> None:
        """Give the machine its address, once it is plugged in."""
        network.ip(network.host_lines(self.address), inside=self.pid1)

    def wait_for_sshd(self, *, timeout: float) -> None:
        pid = self.pid1
        wait_until(lambda: processes.listening_sockets(pid, 22), timeout=timeout, what=f"sshd of {self.name}")

    def start(self) -> None:
        """Start a machine that was stopped; its disk is as it was."""
        self.finish_start(self.power_on())
        network.ip(self.plug_lines())
        self.configure_network()
        self.wait_for_sshd(timeout=20)

    def stop(self) -> None:
        """Cut the power: every process of the machine ends at once. No harm when it is off."""
        subprocess.run(["ip", "link", "del", self.link], capture_output=True, check=False)
        try:
            os.kill(self.pid1, signal.SIGKILL)
        except (MachineError, ProcessLookupError):
            (self.directory / "pid").unlink(missing_ok=True)
        stuck.release(self.stuck)
        wait_until(lambda: not self.is_running, timeout=10, what=f"end of {self.name}")
        if self.needs_group and not cgroups.why_not():
            cgroups.remove(cgroups.group_of(self.paths.directory, self.name))

    def remove(self) -> None:
        """After `stop`: take the disk away."""
        if os.path.ismount(self.root):
            syscalls.unmount(str(self.root))
        for leftover in ("plan", "boot_id"):
            (self.directory / leftover).unlink(missing_ok=True)

    def new_boot_id(self) -> None:
        (self.directory / "boot_id").write_text(f"{uuid.uuid4()}\n")

    # -- using it

    def seen(self, path: str) -> Path:
        """A path of the machine, its own /run, /dev and /proc included, as a path of the lab."""
        return Path(f"/proc/{self.pid1}/root{path}")

    def allow_sudo(self, *logins: str) -> None:
        """Who may become root by `sudo -n` from now on; everybody else is asked for a password."""
        (self.root / "etc/sudoers.lab").write_text("".join(f"{login}\n" for login in logins))

    def authorize(self, line: str) -> None:
        """Let the owner of this public key (`ssh-ed25519 AAAA... comment`) log in."""
        tree.authorize(self.root, line)

    def exec(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run a command in the machine as root, from outside, without ssh. `timeout` in seconds."""
        return enter(self.pid1, argv, timeout=timeout, stdin=stdin, env=env)

    def processes(self) -> list[Process]:
        """What runs in the machine, its init included."""
        return sorted(processes.in_spaces({processes.space(self.pid1)}, depth=1), key=lambda process: process.pid)


def _sees_other_groups(pid: int) -> bool:
    """Whether a machine has control groups of its own. (The lab's are not to be entered: a plain user may not.)"""
    return Path(f"/proc/{pid}/ns/cgroup").readlink() != Path("/proc/self/ns/cgroup").readlink()


def enter(
    pid: int, argv: Sequence[str], *, timeout: float, stdin: bytes | None, env: Mapping[str, str] | None
) -> "subprocess.CompletedProcess[bytes]":
    """Run a command in the namespaces of process `pid`, as root, without a shell. `timeout` in seconds."""
    nsenter = [
        shutil.which("nsenter") or "nsenter",
        "-t",
        str(pid),
        "-m",
        "-u",
        "-i",
        "-n",
        "-p",
        "-r",
        "-w",
        *(["-C"] if _sees_other_groups(pid) else []),
        "--",
    ]
    return subprocess.run(
        [*nsenter, *argv],
        input=stdin if stdin is not None else b"",
        capture_output=True,
        timeout=timeout,
        env={**ENVIRONMENT, **(env or {})},
        check=False,
    )
