"""Where a fleet keeps its files, and what every simulated machine of it sees below /lab."""

import os
import shutil
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lab.build import BUILD, LAB
from lab.engines import environment

LIBEXEC = ("cell", "lxc-attach", "nogroups.so")
NOT_FOR_HOSTS = {*LIBEXEC, "libnvidia-ml.so.1", "nvidia-smi"}


@dataclass(frozen=True)
class FleetPaths:
    """The fleet's directory and the names in it."""

    directory: Path

    @property
    def keys(self) -> Path:
        return self.directory / "keys"

    @property
    def client_key(self) -> Path:
        return self.keys / "client"

    @property
    def record(self) -> Path:
        """What a second shell needs to find this fleet."""
        return self.directory / "fleet.json"

    @property
    def bin(self) -> Path:
        """/lab/bin of every machine."""
        return self.directory / "trees/bin"

    @property
    def libexec(self) -> Path:
        """/lab/libexec: helpers that are no command of their own."""
        return self.directory / "trees/libexec"

    @property
    def driver(self) -> Path:
        """Laid over /usr where there is a driver."""
        return self.directory / "trees/driver"

    @property
    def proxmox(self) -> Path:
        """Laid over /usr on a node."""
        return self.directory / "trees/proxmox"

    @property
    def docker(self) -> Path:
        """Laid over /usr where systemd is PID 1; a docker of the machine itself is hidden there."""
        return self.directory / "trees/docker"

    def machine(self, name: str) -> Path:
        return self.directory / "machines" / name

    def assemble(self) -> None:
        """(Re)make the trees from what is built and from the engine scripts."""
        environment.ensure()
        shutil.rmtree(self.directory / "trees", ignore_errors=True)
        library = self.driver / "lib" / (sysconfig.get_config_var("MULTIARCH") or "")
        _install(self.libexec, [BUILD / name for name in LIBEXEC])
        _install(self.bin, _commands())
        (self.bin / "sudo").chmod(0o4755)
        _install(self.driver / "bin", [BUILD / "nvidia-smi", LAB / "gpus/dmesg"])
        _install(library, [BUILD / "libnvidia-ml.so.1"])
        _install(self.proxmox / "sbin", [LAB / "pct"])
        _install(self.docker / "local/bin", (LAB / "containers/bin").iterdir())


def _commands() -> list[Path]:
    built = [path for path in BUILD.iterdir() if not path.name.startswith(".")]
    return [path for path in built if path.name not in NOT_FOR_HOSTS] + list((LAB / "engines/bin").iterdir())


def _install(directory: Path, sources: Iterable[Path]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for source in sources:
        if source.is_file():
            shutil.copy2(source, directory / source.name)
            (directory / source.name).chmod(0o755)


def python_prefixes() -> list[Path]:
    """Directories outside /usr that our own Python needs, so that engines written in it run on hosts."""
    found = {Path(os.path.realpath(sys.base_prefix)), Path(sys.base_prefix), Path(sys.prefix)}
    return sorted(path for path in found if not path.is_relative_to("/usr"))
