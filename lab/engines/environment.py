"""The Python environment in which the simulated engines run: a venv of three files, made in `lab/build`.

It works at both of its addresses, in the repository and below /lab/src on a simulated machine, because its
paths to our own code are relative. `python -m sglang.launch_server` in it is an ordinary interpreter with an
ordinary command line: no wrapper and no variable shows what is simulated.
"""

import os
import sys
import sysconfig
from pathlib import Path

LAB = Path(__file__).resolve().parents[1]
ENVIRONMENT = LAB / "build/engine-env"
_TO_LAB = "../../../../.."


def ensure() -> Path:
    """Make or refresh the environment; returns its directory (`bin/python` is the interpreter)."""
    interpreter = Path(os.path.realpath(sys.executable))
    packages = ENVIRONMENT / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    packages.mkdir(parents=True, exist_ok=True)
    (ENVIRONMENT / "bin").mkdir(exist_ok=True)
    _write(ENVIRONMENT / "pyvenv.cfg", f"home = {interpreter.parent}\ninclude-system-site-packages = false\n")
    paths = (f"{_TO_LAB}/engines/site", f"{_TO_LAB}/..", sysconfig.get_path("purelib"))
    _write(packages / "relaunch-lab.pth", "".join(f"{path}\n" for path in paths))
    python = ENVIRONMENT / "bin/python"
    if not python.is_symlink() or python.readlink() != interpreter:
        draft = python.with_name(f".python.{os.getpid()}")
        draft.symlink_to(interpreter)
        draft.replace(python)
    return ENVIRONMENT


def _write(path: Path, text: str) -> None:
    """Nothing is touched when nothing changed: engines may be running from here."""
    if path.exists() and path.read_text() == text:
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text)
    draft.replace(path)
