"""The Python environments in which the simulated engines run: venvs of a few files, made in `lab/build`.

One for each simulated SGLang, with a package, its metadata and a command `sglang` where a real installation has them;
`ENVIRONMENT` is that of the oldest. They work at both of their addresses, in the repository and below /lab/src on a
simulated machine, where `/opt/sglang-VERSION` leads to them: our own code is reached by relative links.
`python -m sglang.launch_server` in one is an ordinary interpreter with an ordinary command line: no wrapper and no
variable shows what is simulated.
"""

import os
import sys
import sysconfig
from pathlib import Path

LAB = Path(__file__).resolve().parents[1]
BUILD = LAB / "build"
ENVIRONMENT = BUILD / "engine-env"
VERSIONS = ("0.5.9", "0.5.11", "0.5.23")
HOME = "/opt/sglang-{version}"
"""Where a simulated machine has it."""
_COMMAND = 'from sglang.cli.main import main\n\nif __name__ == "__main__":\n    main()\n'
_TO_LAB = "../../../../.."


def environment_of(version: str) -> Path:
    """The environment of one SGLang, in the repository."""
    return BUILD / f"sglang-{version}"


def ensure() -> Path:
    """Make or refresh all of them; returns that of the oldest SGLang (`bin/python` is the interpreter)."""
    for version in VERSIONS:
        _make(environment_of(version), version)
    paths = (f"{_TO_LAB}/engines/site", f"{_TO_LAB}/..", sysconfig.get_path("purelib"))
    packages = _begin(ENVIRONMENT)
    _write(packages / "relaunch-lab.pth", "".join(f"{path}\n" for path in paths))
    return ENVIRONMENT


def _make(home: Path, version: str) -> None:
    """Links and not a path file: paths of one are taken from where the interpreter believes to be, which is /opt."""
    packages = _begin(home)
    source = f"{_TO_LAB}/engines/" + ("site" if version == VERSIONS[0] else f"versions/{version}")
    for name in ("sglang", f"sglang-{version}.dist-info"):
        _link(packages / name, f"{source}/{name}")
    _link(packages / "lab", f"{_TO_LAB}")
    _write(packages / "relaunch-lab.pth", sysconfig.get_path("purelib") + "\n")
    command = home / "bin/sglang"
    _write(command, f"#!{HOME.format(version=version)}/bin/python\n{_COMMAND}")
    command.chmod(0o755)


def _begin(home: Path) -> Path:
    """The interpreter and the directory of packages."""
    interpreter = Path(os.path.realpath(sys.executable))
    packages = home / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    packages.mkdir(parents=True, exist_ok=True)
    (home / "bin").mkdir(exist_ok=True)
    _write(home / "pyvenv.cfg", f"home = {interpreter.parent}\ninclude-system-site-packages = false\n")
    _link(home / "bin/python", str(interpreter))
    return packages


def _link(path: Path, target: str) -> None:
    if path.is_symlink() and str(path.readlink()) == target:
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.symlink_to(target)
    draft.replace(path)


def _write(path: Path, text: str) -> None:
    """Nothing is touched when nothing changed: engines may be running from here."""
    if path.exists() and path.read_text() == text:
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text)
    draft.replace(path)
