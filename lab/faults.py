"""What can go wrong with a machine of the fleet, one function a fault, and the way back.

The same functions serve tests (`fleet.faults.link_down(host)`) and the command line (`link-down gpu1`).
"""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lab import network, port_hold, stuck, syscalls, tree
from lab.gpus import kernel, state
from lab.host import Host, MachineError, wait_until
from lab.node import Container
from lab.processes import Process
from lab.specs import CardSpec

MIB = 1024 * 1024
_SWITCHES = ("/dev/nvidia-nvswitchctl", "/dev/nvidia-nvswitch0")
_HOLD = "/lab/bin/gpu-hold"  # a login shell sets a PATH of its own


class Faults:
    """Faults of hosts and nodes, of their sshd, of their GPUs, and of containers."""

    # -- the network

    def link_down(self, host: Host) -> None:
        """Pull the cable: packets vanish, connections hang."""
        network.ip([f"link set {host.link} down"])

    def link_up(self, host: Host) -> None:
        network.ip([f"link set {host.link} up"])

    # -- sshd

    def sshd_stop(self, host: Host) -> None:
        """No new connections (refused); sessions go on."""
        listener = self._sshd(host, listener=True)
        _signal(listener, signal.SIGTERM)
        wait_until(lambda: not self._sshd(host, listener=True), timeout=10, what=f"end of sshd on {host.name}")

    def sshd_start(self, host: Host) -> None:
        if not self._sshd(host, listener=True):
            host.restart_sshd()

    def sshd_freeze(self, host: Host) -> None:
        """Sessions and listener hang: connections are accepted by the kernel and then silent."""
        _signal(self._sshd(host), signal.SIGSTOP)

    def sessions_freeze(self, host: Host) -> None:
        """The sessions of now hang, without an end; new ones can be made."""
        _signal(self._sshd(host, listener=False), signal.SIGSTOP)

    def sshd_thaw(self, host: Host) -> None:
        """The way back from both freezes."""
        _signal(self._sshd(host), signal.SIGCONT)

    def sessions_drop(self, host: Host) -> None:
        """End every ssh session; what they started lives on."""
        _signal(self._sshd(host, listener=False), signal.SIGKILL)

    def host_key_swap(self, host: Host) -> None:
        """Show another host key from now on, as a machine that was set up anew does."""
        key = host.directory / "swapped_key"
        for path in (key, key.with_suffix(".pub")):
            path.unlink(missing_ok=True)
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", host.name, "-f", str(key)]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
        self._use_key(host, key)

    def host_key_restore(self, host: Host) -> None:
        self._use_key(host, host.host_key)

    def _use_key(self, host: Host, key: Path) -> None:
        tree.install_host_key(host.root, host_key=key)
        self.sshd_stop(host)
        self.sshd_start(host)

    def _sshd(self, host: Host, *, listener: bool | None = None) -> list[Process]:
        found = [process for process in host.processes() if _is_sshd(process.title)]
        return [process for process in found if listener is None or ("[listener]" in process.title) == listener]

    # -- the machine

    def disk_full(self, host: Host) -> None:
        """Not a byte more fits on the machine's disk (/tmp and /run are not on it)."""
        usage = os.statvfs(host.root)
        used = (usage.f_blocks - usage.f_bfree) * usage.f_frsize
        self._resize_disk(host, used)

    def disk_free(self, host: Host) -> None:
        self._resize_disk(host, host.spec.disk_mib * MIB)

    def _resize_disk(self, host: Host, size: int) -> None:
        syscalls.mount("", str(host.root), flags=syscalls.MS_REMOUNT, options=f"size={size}")

    def boot_id_change(self, host: Host) -> None:
        """Another boot id, and nothing else: what a panel sees that missed a reboot."""
        host.new_boot_id()

    def reboot(self, host: Host) -> None:
        """Everything that runs ends, the disk stays; back when sshd listens."""
        host.stop()
        host.start()

    def power_off(self, host: Host) -> None:
        host.stop()

    def power_on(self, host: Host) -> None:
        host.start()

    # -- ports

    def port_hold(self, host: Host | Container, kind: str, port: int | str) -> int:
        """Let a process have a port in one of the ways of port_hold.py. Returns its pid in the machine."""
        words = [sys.executable, "-", "port-hold", kind, str(int(port))]
        done = host.exec(words, timeout=20, stdin=Path(port_hold.__file__).read_bytes())
        if done.returncode:
            raise MachineError(f"{host.name}: {done.stderr.decode().strip().splitlines()[-1]}")
        return int(done.stdout)

    def port_free(self, host: Host | Container) -> None:
        """End those processes. What is left of their connections stays for a minute, as it does."""
        holders = [process for process in host.processes() if process.cmdline[2:3] == ("port-hold",)]
        _signal(holders, signal.SIGKILL)
        wait_until(lambda: not any(map(_runs, holders)), timeout=10, what="end of port-hold")

    # -- GPUs

    # A card is named by its slot (0 is the first of the spec), its device file (nvidia3), its uuid or its bus id.

    def gpu(self, host: Host, *words: str) -> None:
        """What nvidia-smi and NVML do wrong (`hang 30`, `lost 0`; see gpus/fault.h); `none`: nothing."""
        text = " ".join(words)
        with _in_words():
            state.check_fault(text, host.cards)
        state.set_fault(host.gpu_state, None if text in ("", "none") else text)

    def gpu_add(self, host: Host, *words: str) -> None:
        """One fault more beside those that the GPUs have."""
        before = host.gpu_state / "fault"
        self.gpu(host, (before.read_text() if before.exists() else "") + " ".join(words))

    def gpu_leak(self, host: Host, card: int | str, mib: int) -> None:
        """Memory in use that no process holds."""
        self._hold(host, "--gpu", _card(host, card).uuid, "--mib", mib, "--mode", "leak", "--", "true")

    def gpu_hold(self, host: Host, card: int | str, mib: int) -> None:
        """A stranger's process that holds memory until it is killed."""
        before = {process.pid for process in _holders(host)}
        start = (
            f"exec setsid -f gpu-hold --gpu {_card(host, card).uuid} --mib {int(mib)} -- sleep 86400 >/dev/null 2>&1"
        )
        host.exec(["sh", "-c", start], timeout=20)
        wait_until(lambda: {process.pid for process in _holders(host)} - before, timeout=10, what="gpu-hold")

    def gpu_odd(self, host: Host, kind: str, card: int | str, mib: int) -> None:
        """A holder that is easily missed (gpus/gpu_odd.c): `zombie-leader`, `thread-files`, or `vfork`, which is in
        state D but dies of SIGKILL."""
        self._start(host, ["gpu-odd", kind, "--gpu", _card(host, card).uuid, "--mib", str(int(mib))], host.gpu_state)

    def gpu_stuck(self, host: Host, card: int | str, mib: int, seconds: float = 3600) -> None:
        """A holder in state D that survives SIGKILL, for so long or until gpu-unstick.

        It needs /dev/fuse. Without, it is one in state D that SIGKILL ends, and a line says so.
        """
        self._stuck(host, _card(host, card), mib, seconds)

    def gpu_unstick(self, host: Host) -> None:
        """What was stuck goes on: it dies if it was killed. Containers' as well."""
        stuck.release(host.stuck)

    def gpu_session(self, host: Host, card: int | str, mib: int) -> None:
        """Two holders in one session, started from the prompt of one shell."""
        hold = f"{_HOLD} --gpu {_card(host, card).uuid} --mib {int(mib)} -- sleep 86400"
        line = f"exec -a -bash bash --norc -c '{hold} & {hold} & wait'"
        self._start(host, ["bash", "-c", line], host.gpu_state, pieces=2)

    def gpu_tmux(self, host: Host, card: int | str, mib: int) -> None:
        """A holder in a pane of tmux: its shell leads the session, and a server that holds nothing is above it."""
        hold = [_HOLD, "--gpu", _card(host, card).uuid, "--mib", str(int(mib)), "--", "sleep", "86400"]
        self._start(host, ["gpu-odd", "tmux", "--", *hold], host.gpu_state)

    def _stuck(self, place: Host | Container, card: CardSpec, mib: int, seconds: float) -> None:
        words = ["--gpu", card.uuid, "--mib", str(int(mib))]
        if not stuck.is_possible():
            print("No /dev/fuse here: this one is in state D, but SIGKILL ends it.", file=sys.stderr)
            self._start(place, ["gpu-odd", "vfork", *words], place.gpu_state)
            return
        file = f"/run/lab/stuck-{time.monotonic_ns()}"
        daemon = stuck.block(place.pid1, file, seconds=float(seconds), record=place.stuck)
        self._start(place, ["gpu-odd", "stuck", *words, "--file", file], place.gpu_state)
        if not stuck.has_caught(daemon, timeout=10):
            raise MachineError(f"{place.name}: nobody reads the file that blocks")

    def _start(self, place: Host | Container, words: list[str], cards: Path, *, pieces: int = 1) -> None:
        """Start a program without a parent; returns when it holds memory."""
        wanted = _live(cards) + pieces
        done = place.exec(["sh", "-c", f"exec setsid -f {shlex.join(words)} >/run/holder.log 2>&1"], timeout=20)
        if done.returncode:
            raise MachineError(done.stderr.decode().strip())
        wait_until(lambda: _live(cards) >= wanted, timeout=10, what=shlex.join(words))

    def gpu_clear(self, host: Host) -> None:
        """Reset the GPUs: leaked memory is free, the kernel's log has no more faults, all device files are there."""
        state.clear_leaks(host.gpu_state)
        kernel.begin(host.root)
        for name in _SWITCHES:
            host.seen(name).unlink(missing_ok=True)
        for name in state.device_names(host.cards):
            host.seen(f"/dev/{name}").touch(mode=0o666)
            host.seen(f"/dev/{name}").chmod(0o666)

    def _hold(self, host: Host, *words: object) -> None:
        done = host.exec(["gpu-hold", *map(str, words)], timeout=20)
        if done.returncode:
            raise MachineError(done.stderr.decode().strip())

    def gpu_nodes_missing(self, host: Host) -> None:
        """No /dev/nvidia*, as after a boot: until root runs nvidia-smi (or a CUDA program) on the host."""
        host.exec(["sh", "-c", "rm -f /dev/nvidia*"], timeout=10)

    def gpu_xid(self, host: Host, card: int | str, code: int, seconds_ago: float = 0.0) -> None:
        """A fault of a card in the kernel's log: 79 has fallen off the bus, 31 is a program's own.

        A newer driver also says what the card needs. It still answers for the card: for all else see `gpu lost`.
        """
        found, needs = _card(host, card), kernel.NEEDS.get(int(code), 0)
        kernel.say(host.root, kernel.xid(found, int(code)), ago=float(seconds_ago))
        if needs and int(found.driver.split(".")[0]) >= kernel.TELLS_FROM:
            kernel.say(host.root, kernel.recovery_changed(found, 0, needs), ago=float(seconds_ago))
            action = kernel.ACTIONS[needs].removesuffix(" Required")
            self.gpu_add(host, f"\ncell {found.uuid} gpu_recovery_action {action}")

    def gpu_recovery(self, host: Host, card: int | str, before: int, after: int) -> None:
        """The kernel's log says that a card needs something else now (0 nothing, 1 a reset, 2 a reboot)."""
        kernel.say(host.root, kernel.recovery_changed(_card(host, card), int(before), int(after)))

    def fabric_manager_down(self, host: Host) -> None:
        """The machine has NVSwitches, and what sets them up does not run: no card has joined the fabric."""
        host.exec(["sh", "-c", f"pkill -x nv-fabricmanage; touch {' '.join(_SWITCHES)}"], timeout=10)
        self.gpu_add(host, "\ncell * fabric.state In Progress")

    def fabric_manager_up(self, host: Host) -> None:
        """The same machine as it should be."""
        script = "touch $0 $1; printf '#!/bin/sh\\nwhile sleep 86400; do :; done\\n' >/run/nv-fabricmanager"
        start = "chmod 755 /run/nv-fabricmanager; exec setsid -f /run/nv-fabricmanager >/dev/null 2>&1 </dev/null"
        host.exec(["sh", "-c", f"{script}; {start}", *_SWITCHES], timeout=10)
        self.gpu(host, "cell * fabric.state Completed\ncell * fabric.status Success")

    # -- containers

    def ct_nodes_missing(self, container: Container, *names: str) -> None:
        """Device files that the container does not get (`nvidia-uvm`), as when it started before they were made."""
        for name in names:
            done = container.exec(["sh", "-c", f"umount -l /dev/{name} && rm /dev/{name}"], timeout=10)
            if done.returncode:
                raise MachineError(f"/dev/{name} of {container.name}: {done.stderr.decode().strip()}")

    def ct_stop(self, container: Container) -> None:
        container.stop()

    def ct_start(self, container: Container) -> None:
        container.start()

    def ct_gpu(self, container: Container, *words: str) -> None:
        """A GPU fault inside this container alone (`unknown-error`: its cgroup forgot the cards); `none`: nothing."""
        text = " ".join(words)
        with _in_words():
            state.check_fault(text, container.node.cards)
        state.set_fault_here(container.seen("/run"), None if text in ("", "none") else text)

    def ct_port_hold(self, container: Container, kind: str, port: int | str) -> int:
        """port-hold inside a container, whose ports are not its node's."""
        return self.port_hold(container, kind, port)

    def ct_port_free(self, container: Container) -> None:
        self.port_free(container)

    def ct_stuck(self, container: Container, card: int | str, mib: int, seconds: float = 3600) -> None:
        """gpu-stuck inside a container; gpu-unstick on its node lets it go. The card is named as on the node."""
        with _in_words():
            self._stuck(container, state.find_card(container.node.cards, str(card)), mib, seconds)

    def ct_lock(self, container: Container, reason: str = "backup") -> None:
        """start and stop are refused; exec works."""
        self.ct_unlock(container)
        with container.config.open("a") as config:
            config.write(f"lock: {reason}\n")

    def ct_unlock(self, container: Container) -> None:
        lines = container.config.read_text().splitlines(keepends=True)
        container.config.write_text("".join(line for line in lines if not line.startswith("lock: ")))

    def ct_freeze(self, container: Container) -> None:
        """As during a snapshot: status says running, exec blocks, nothing in it moves."""
        self._frozen(container).touch()
        _signal(container.processes(), signal.SIGSTOP)

    def ct_thaw(self, container: Container) -> None:
        _signal(container.processes(), signal.SIGCONT)
        self._frozen(container).unlink(missing_ok=True)

    def _frozen(self, container: Container) -> Path:
        return container.node.seen(f"/run/lxc/{container.vmid}.frozen")

    def pct_slow(self, host: Host, seconds: float) -> None:
        """Every pct call takes so much longer (the real one starts a Perl); 0: no longer."""
        (host.root / "etc/pve/start-cost").write_text(f"{float(seconds)}\n" if float(seconds) else "")


def verbs() -> list[str]:
    """The faults by the names that the command line uses."""
    return [name.replace("_", "-") for name in vars(Faults) if not name.startswith("_")]


def _card(host: Host, name: int | str) -> CardSpec:
    with _in_words():
        return state.find_card(host.cards, str(name))


def _live(cards: Path) -> int:
    """Pieces of memory that a process holds (records of dead ones may lie about)."""
    return sum(context.live for context in state.read_contexts(cards))


@contextmanager
def _in_words() -> Iterator[None]:
    try:
        yield
    except KeyError as error:
        raise MachineError(error.args[0]) from None


def _is_sshd(title: str) -> bool:
    return title.startswith(("sshd:", "sshd-session:", "sshd-auth:"))


def _holders(host: Host) -> list[Process]:
    return [process for process in host.processes() if process.cmdline[:2] == ("sleep", "86400")]


def _signal(found: Iterable[Process], number: signal.Signals) -> None:
    for process in found:
        try:
            os.kill(process.lab_pid, number)
        except ProcessLookupError:
            continue


def _runs(process: Process) -> bool:
    try:
        return Path(f"/proc/{process.lab_pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
