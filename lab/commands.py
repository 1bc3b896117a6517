"""What the verbs of `python -m lab` do. Those for a running fleet work from any shell of the same user."""

import inspect
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from lab import namespaces, record
from lab.faults import Faults, verbs
from lab.fleet import Container, Fleet, Host, MachineError, demo_specs, numbered_specs
from lab.paths import FleetPaths

REPOSITORY = Path(__file__).resolve().parents[1]
DEFAULT_DIRECTORY = REPOSITORY / "var/lab"


class UsageError(Exception):
    """What was asked for does not exist; the text says what does."""


def go_inside(directory: Path, arguments: Sequence[str]) -> int:
    """Run this command line again inside the lab of the fleet in `directory`. Raises NoFleetError."""
    init = record.Record.read(FleetPaths(directory).record).init_outside()
    environment = {**os.environ, "LAB_ENTERED": "1", "PYTHONPATH": str(REPOSITORY)}
    command = [*record.way_in(init), sys.executable, "-m", "lab", *arguments]
    return subprocess.run(command, env=environment, check=False).returncode


def up(directory: Path, *, hosts: int | None) -> int:
    """Start a fleet (`hosts` None: the demo's) and keep it until Ctrl-C or SIGTERM."""
    if not namespaces.is_inside():
        wanted = ["--hosts", str(hosts)] if hosts is not None else []
        command = [sys.executable, "-m", "lab", "up", "--directory", str(directory), *wanted]
        os.chdir(REPOSITORY)
        return namespaces.enter(command, listen=None)
    ending = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    specs = demo_specs() if hosts is None else (numbered_specs(hosts), [])
    with Fleet(directory, hosts=specs[0], nodes=specs[1]) as fleet:
        print(f"{len(fleet.machines)} hosts up in {fleet.seconds:.2f} s", flush=True)
        signal.sigwait(ending)
    return 0


def status(directory: Path) -> int:
    """One line a machine."""
    fleet = Fleet.attach(directory)
    for machine in fleet.machines:
        print(f"{machine.name:<12} {machine.address:<15} {'on' if machine.is_running else 'off':<8} {_load(machine)}")
        for container in getattr(machine, "containers", {}).values() if machine.is_running else ():
            state = "running" if container.is_running else "stopped"
            print(f"  {container.vmid:<10} {container.address:<15} {state:<8} {container.name}")
    return 0


def _load(machine: Host) -> str:
    fault = machine.gpu_state / "fault"
    trouble = ", GPU fault: " + "; ".join(fault.read_text().splitlines()) if fault.exists() else ""
    running = f", {len(machine.processes())} processes" if machine.is_running else ""
    return f"{len(machine.cards)} cards{running}{trouble}"


def fault(directory: Path, *, name: str, verb: str, words: Sequence[str]) -> int:
    """Let one machine (or container, by number) have a fault; `help` lists them. Raises UsageError."""
    if verb == "help":
        print("\n".join(help_lines()))
        return 0
    fleet = Fleet.attach(directory)
    if verb not in verbs():
        raise UsageError(f"No fault is called {verb}. `python -m lab fault {name} help` lists them.")
    machine = _find(fleet, name)
    if isinstance(machine, Container) != verb.startswith("ct-"):
        raise UsageError(f"{verb} is for {'a container, by number' if verb.startswith('ct-') else 'a host, by name'}.")
    act = getattr(Faults(), verb.replace("-", "_"))
    try:
        inspect.signature(act).bind(machine, *words)
    except TypeError as error:
        raise UsageError(f"{verb}: {error}.") from error
    act(machine, *words)
    return 0


def help_lines() -> list[str]:
    """A line a fault: its name with its arguments (those in brackets may be left out), and what it does."""
    lines = []
    for verb in verbs():
        act = getattr(Faults, verb.replace("-", "_"))
        arguments = list(inspect.signature(act).parameters.values())[2:]  # after self and the machine
        said = " ".join((inspect.getdoc(act) or "").partition("\n\n")[0].split()).partition(". ")[0].rstrip(".")
        lines.append(f"{' '.join([verb, *map(_in_words, arguments)]):<42} {said}".rstrip())
    return lines


def _in_words(argument: inspect.Parameter) -> str:
    name = argument.name.upper().replace("_", "-")
    if argument.kind == inspect.Parameter.VAR_POSITIONAL:
        return f"{name}..."
    return name if argument.default is inspect.Parameter.empty else f"[{name}]"


def _find(fleet: Fleet, name: str) -> Host | Container:
    try:
        return fleet.container(int(name)) if name.isdigit() else fleet.host(name)
    except KeyError:
        known = ", ".join(machine.name for machine in fleet.machines)
        raise UsageError(f"No machine is called {name}. There are: {known}.") from None


def ssh(directory: Path, *, name: str, command: Sequence[str]) -> int:
    """Log in to a machine, or run a command there; a container is reached through `pct exec` on its node."""
    fleet = Fleet.attach(directory)
    machine = _find(fleet, name)
    words = list(command)
    if isinstance(machine, Container):
        words = ["pct", "exec", name, "--", *(words or ["bash"])]
        machine = machine.node
    options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "IdentitiesOnly=yes"]
    line = ["ssh", "-i", str(fleet.client_key), *(word for option in options for word in ("-o", option))]
    remote = [shlex.join(words)] if words else []
    return subprocess.run([*line, f"root@{machine.address}", *remote], check=False).returncode


__all__ = ["DEFAULT_DIRECTORY", "MachineError", "UsageError", "fault", "go_inside", "ssh", "status", "up"]
