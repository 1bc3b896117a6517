"""What ``read.sh`` says of a model, as values. PURE."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from deployments.fit.files import IndexFacts, Json, ModelFiles
from deployments.fit.gguf import GgufHeader
from hosts.probe.frames import CUT_OFF, Frame, Section, Unknown

LISTED = re.compile(r"-[^ ]* +\d+ +\d+ +\d+ +(\d{1,18}) +\S+ +\d+ +[\d:]+ (.+)")
"""A line of ``ls -lnL``: the size stands fifth (POSIX), the name after the date."""
PART = re.compile(r"-\d{5}-of-(\d{5})\.gguf$")
NOT_THERE, DENIED = 3, 4
WEIGHTS = (".safetensors", ".bin")


def why_not(frame: Frame, path: str) -> Unknown | None:
    """Why there is nothing to read at ``path``; None when there is."""
    kind = frame.get("kind")
    if isinstance(kind, Unknown):
        return kind
    if kind.status == DENIED:
        return Unknown(f"The panel's login may not read {path}.")
    if kind.text.strip() not in ("folder", "file"):
        return Unknown(f"There is no model at {path} on this host.")
    return None


def read_folder(frame: Frame, path: str) -> ModelFiles:
    """A folder of safetensors."""
    config = _json(frame.get("config.json"), "config.json")
    listed = frame.get("sizes")
    sizes = _weights(list_sizes(listed)) if isinstance(listed, Section) else {}
    return ModelFiles(
        config=Unknown(f"There is no config.json in {path}.") if config is None else config,
        quantization=_json(frame.get("hf_quant_config.json"), "hf_quant_config.json"),
        index=_index(frame.get("index")),
        sizes=sizes,
    )


def read_parts(heads: Mapping[int, GgufHeader | Unknown], frame: Frame, path: str) -> ModelFiles:
    """A GGUF model, of the heads that were read by the number of their part."""
    listed = frame.get("parts")
    if isinstance(listed, Unknown):
        return ModelFiles(gguf=listed)
    sizes, named = list_sizes(listed), PART.search(path)
    expected = int(named[1]) if named is not None else 1
    if len(sizes) < expected:
        return ModelFiles(gguf=Unknown(f"Only {len(sizes)} of the model's {expected} GGUF files are there."))
    found: list[GgufHeader] = []
    for number in range(expected):
        head = heads.get(number, CUT_OFF)
        if isinstance(head, Unknown):
            return ModelFiles(gguf=head, sizes=sizes)
        found.append(head)
    return ModelFiles(gguf=tuple(found), sizes=sizes)


def list_sizes(section: Section) -> dict[str, int]:
    """Name -> bytes of the files in a listing. What is not a file, or a link to nothing, is left out."""
    lines = (LISTED.fullmatch(line.rstrip("\r")) for line in section.text.split("\n"))
    return {line[2]: int(line[1]) for line in lines if line is not None}


def _weights(sizes: Mapping[str, int]) -> dict[str, int]:
    """The weight files: the safetensors where there are any, without a second copy in one file."""
    for ending in WEIGHTS:
        found = {name: size for name, size in sizes.items() if name.endswith(ending)}
        if len(found) > 1:
            found = {name: size for name, size in found.items() if not name.startswith("consolidated")} or found
        if found:
            return found
    return {}


def _json(section: Section | Unknown, name: str) -> Json | Unknown | None:
    if isinstance(section, Unknown):
        return section
    if section.status == NOT_THERE:
        return None
    if section.status != 0:
        return Unknown(f"The panel's login may not read {name}.")
    try:
        value = json.loads(section.content)
    except (ValueError, RecursionError):
        return Unknown(f"{name} is not valid JSON; perhaps its download is not complete.")
    return value if isinstance(value, dict) else Unknown(f"{name} does not hold an object.")


def _index(section: Section | Unknown) -> IndexFacts | Unknown | None:
    if isinstance(section, Unknown):
        return section
    if section.status == NOT_THERE:
        return None
    said: dict[str, list[str]] = {}
    for line in section.text.split("\n"):
        word, _, rest = line.partition(" ")
        said.setdefault(word, []).append(rest)
    tensors = _count(said.get("tensors"))
    if section.status != 0 or not tensors:
        return Unknown("It could not be read, or names no tensors.")
    return IndexFacts(_count(said.get("total")), frozenset(said.get("file", ())), _count(said.get("scales")))


def _count(words: list[str] | None) -> int | None:
    """A number of bytes; some indexes write it with a point."""
    try:
        value = float(words[0]) if words else -1.0
    except ValueError:
        return None
    return int(value) if 0 <= value < 1 << 60 else None
