"""Compile what the simulated machines run into `lab/build/`, once per state of the sources."""

import fcntl
import hashlib
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from lab.gpus.sources import SOURCES

LAB = Path(__file__).resolve().parent
BUILD = LAB / "build"
COMMON = ("-O2", "-Wall", "-Wextra")


class BuildError(Exception):
    """Something could not be compiled; the text says what and what to install."""


@dataclass(frozen=True)
class Target:
    """One output of the compiler. `sources` are relative to `lab/`, `output` to `lab/build/`."""

    output: str
    sources: tuple[str, ...]
    flags: tuple[str, ...] = ()

    def command(self, output: Path) -> list[str]:
        return ["cc", *COMMON, *self.flags, "-o", str(output), *map(str, self.paths())]

    def paths(self) -> list[Path]:
        return [LAB / source for source in self.sources]

    def digest(self) -> str:
        """Changes when a source, a header beside it, or the command changes."""
        text = hashlib.sha256(repr(self).encode() + repr(COMMON).encode())
        for path in (*self.paths(), *sorted(self.paths()[0].parent.glob("*.h"))):
            text.update(path.read_bytes())
        return text.hexdigest()


TARGETS = (
    Target("cell", ("native/cell.c", "native/plan.c")),
    Target("bystander", ("native/bystander.c",)),
    Target("lxc-attach", ("native/attach.c",)),
    Target("sudo", ("native/sudo.c",)),
    Target("nogroups.so", ("native/nogroups.c",), ("-shared", "-fPIC")),
    *(Target(output, sources, flags) for output, sources, flags in SOURCES),
)


def _is_fresh(target: Target) -> bool:
    stamp = BUILD / f".{target.output}.hash"
    return (BUILD / target.output).exists() and stamp.exists() and stamp.read_text() == target.digest()


def _compile(target: Target) -> None:
    fresh = BUILD / f".{target.output}.new"
    done = subprocess.run(target.command(fresh), capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"Could not compile {target.output}:\n{done.stderr}")
    fresh.replace(BUILD / target.output)
    (BUILD / f".{target.output}.hash").write_text(target.digest())


def build() -> Path:
    """Compile every target that is not up to date and return the directory with the results.

    Raises BuildError. Two callers at once are fine: the second waits.
    """
    if all(_is_fresh(target) for target in TARGETS):
        return BUILD
    if shutil.which("cc") is None:
        raise BuildError("No C compiler: install gcc and libc6-dev (Debian: apt-get install gcc libc6-dev).")
    BUILD.mkdir(exist_ok=True)
    with (BUILD / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for target in TARGETS:
            if not _is_fresh(target):
                _compile(target)
    return BUILD


if __name__ == "__main__":
    try:
        print(build())
    except BuildError as error:
        sys.exit(str(error))
