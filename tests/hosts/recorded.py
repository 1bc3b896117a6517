"""Recorded output, as sections. A number before `.txt` is the exit status that came with it."""

from pathlib import Path

from hosts.probe.frames import Section

DIRECTORY = Path(__file__).parent.parent / "recorded"


def recorded(path: str, *, name: str = "gpus") -> Section:
    """`recorded("nvidia_smi/lost")`, whatever its status was."""
    folder, _, stem = path.partition("/")
    (file,) = [file for file in (DIRECTORY / folder).iterdir() if file.name.split(".")[0] == stem]
    parts = file.name.split(".")
    return Section(name, file.read_bytes(), int(parts[1]) if len(parts) == 3 else 0)


def all_recorded(folder: str) -> list[Section]:
    stems = sorted(file.name.split(".")[0] for file in (DIRECTORY / folder).iterdir())
    return [recorded(f"{folder}/{stem}") for stem in stems]
