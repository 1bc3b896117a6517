"""The head of a GGUF file: what its metadata says and how large each tensor is. PURE.

The format: magic, version, two counts, key-value pairs, tensor infos, then data (ggml's docs/gguf.md, versions 2 and 3,
little-endian). The bytes come from a file that anybody may have made: every length is checked against what is there,
and counts against limits, before anything is read.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from hosts.probe.frames import Unknown

MAGIC = b"GGUF"
MAX_TENSORS, MAX_PAIRS, MAX_KEY, MAX_TEXT, MAX_ITEMS = 100_000, 5_000, 65_535, 1 << 24, 1 << 24
MAX_KEPT = 4_096
"""Lists of numbers up to this length are kept (a value a layer); vocabularies are only skipped."""
MAX_DIMENSIONS = 8
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, LIST = 8, 9
Value = int | float | bool | str | tuple[int | float | bool, ...]


class NotGguf(Exception):
    """These bytes are no GGUF head, whatever follows them."""


class MoreNeeded(Exception):
    """So far it is one, and it goes on."""


@dataclass(frozen=True)
class Tensor:
    """``size``: its bytes in the file, up to the next tensor's begin."""

    name: str
    shape: tuple[int, ...]
    size: int


@dataclass(frozen=True)
class GgufHeader:
    """``length``: bytes of the head itself."""

    metadata: Mapping[str, Value]
    tensors: tuple[Tensor, ...]
    length: int


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self._data, self.position = data, 0

    def skip(self, count: int) -> int:
        """Go ``count`` bytes on; returns where they begin."""
        begin, end = self.position, self.position + count
        if end > len(self._data):
            raise MoreNeeded
        self.position = end
        return begin

    def number(self, code: str) -> int | float | bool:
        layout = "<" + code
        value: int | float | bool = struct.unpack_from(layout, self._data, self.skip(struct.calcsize(layout)))[0]
        return value

    def count(self, code: str, limit: int, what: str) -> int:
        value = int(self.number(code))
        if value > limit:
            raise NotGguf(f"It claims {value} {what}, more than any real file has.")
        return value

    def text(self, limit: int) -> str:
        length = self.count("Q", limit, "bytes of one text")
        begin = self.skip(length)
        return self._data[begin : begin + length].decode(errors="replace")


def read_header(data: bytes, *, file_size: int) -> GgufHeader:
    """``file_size``: bytes of the whole file. Raises NotGguf, or MoreNeeded when ``data`` ends within the head."""
    cursor = _Cursor(data)
    if data[:4] != MAGIC[: len(data)]:
        raise NotGguf("It does not begin as a GGUF file does.")
    cursor.skip(4)
    version = cursor.number("I")
    if version not in (2, 3):
        raise NotGguf(f"Its version is {version}; 2 and 3 are known.")
    tensors = cursor.count("Q", MAX_TENSORS, "tensors")
    pairs = cursor.count("Q", MAX_PAIRS, "values")
    metadata: dict[str, Value] = {}
    for _ in range(pairs):
        key = cursor.text(MAX_KEY)
        value = _value(cursor, int(cursor.number("I")))
        if value is not None:
            metadata[key] = value
    infos = [_info(cursor) for _ in range(tensors)]
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 1 <= alignment <= 1 << 20:
        raise NotGguf("Its alignment is odd.")
    begin = -(-cursor.position // alignment) * alignment
    return GgufHeader(metadata, _sized(infos, file_size - begin), cursor.position)


def parse_header(data: bytes, *, file_size: int) -> GgufHeader | Unknown:
    """The head, when ``data`` holds all of it."""
    try:
        return read_header(data, file_size=file_size)
    except MoreNeeded:
        return Unknown("The GGUF file's head was not read to its end.")
    except NotGguf as reason:
        return Unknown(f"The model file cannot be read as GGUF. {reason}")


def _value(cursor: _Cursor, kind: int) -> Value | None:
    if kind == TEXT:
        return cursor.text(MAX_TEXT)
    if kind in SCALARS:
        return cursor.number(SCALARS[kind])
    if kind != LIST:
        raise NotGguf(f"It has a value of the unknown kind {kind}.")
    inner = int(cursor.number("I"))
    count = cursor.count("Q", MAX_ITEMS, "values in one list")
    if inner == TEXT:
        for _ in range(count):  # each takes 8 bytes at least, so this ends with the data
            cursor.skip(cursor.count("Q", MAX_TEXT, "bytes of one text"))
        return None
    if inner not in SCALARS:
        raise NotGguf(f"It has a list of the unknown kind {inner}.")
    if count > MAX_KEPT:
        cursor.skip(count * struct.calcsize("<" + SCALARS[inner]))
        return None
    return tuple(cursor.number(SCALARS[inner]) for _ in range(count))


def _info(cursor: _Cursor) -> tuple[str, tuple[int, ...], int]:
    """Name, shape, and where its data begins, counted from the end of the head."""
    name = cursor.text(MAX_KEY)
    dimensions = cursor.count("I", MAX_DIMENSIONS, "dimensions of one tensor")
    shape = tuple(int(cursor.number("Q")) for _ in range(dimensions))
    cursor.number("I")  # its type: the space between two tensors tells the size, also for types yet to come
    return name, shape, int(cursor.number("Q"))


def _sized(infos: list[tuple[str, tuple[int, ...], int]], data_size: int) -> tuple[Tensor, ...]:
    """Raises NotGguf when the file ends before its tensors do, or two of them begin at one place."""
    if not infos:
        return ()
    ordered = sorted(infos, key=lambda info: info[2])
    ends = [info[2] for info in ordered[1:]] + [data_size]
    if any(end <= info[2] for info, end in zip(ordered, ends, strict=True)):
        raise NotGguf("Its tensors reach beyond the end of the file: it is cut short or still being written.")
    return tuple(Tensor(name, shape, end - at) for (name, shape, at), end in zip(ordered, ends, strict=True))
