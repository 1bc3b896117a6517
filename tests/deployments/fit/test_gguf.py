"""The head of a GGUF file, also of one that means no good."""

from __future__ import annotations

import struct
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.fit.gguf import MAX_KEPT, GgufHeader, MoreNeeded, NotGguf, parse_header, read_header
from hosts.probe.frames import Unknown
from tests.deployments.fit.gguf_bytes import head, header, text

METADATA = {
    "general.architecture": "llama", "llama.block_count": 2, "flag": True, "scale": 0.5, "pattern": [True, False],
    "heads": [8, 0], "tokenizer.ggml.tokens": ["a", "bc", ""], "last": "ü",
}  # fmt: skip
TENSORS = [("a.weight", (4, 8), 100), ("b.weight", (3,), 32), ("c.weight", (2, 2, 2), 7)]
DATA, SIZE = head(METADATA, TENSORS)


def test_what_it_says() -> None:
    read = header(METADATA, TENSORS)
    assert {**read.metadata} == {
        "general.architecture": "llama", "llama.block_count": 2, "flag": True, "scale": 0.5, "pattern": (True, False),
        "heads": (8, 0), "last": "ü",
    }  # fmt: skip
    assert [(tensor.name, tensor.shape, tensor.size) for tensor in read.tensors] == [
        ("a.weight", (4, 8), 128), ("b.weight", (3,), 32), ("c.weight", (2, 2, 2), 32),
    ]  # fmt: skip
    assert read.length == len(DATA)


def test_what_follows_the_head_is_not_looked_at() -> None:
    assert read_header(DATA + b"\xff" * 1000, file_size=SIZE) == read_header(DATA, file_size=SIZE)


def test_a_head_that_is_cut_anywhere_asks_for_more() -> None:
    for length in range(len(DATA)):
        with pytest.raises(MoreNeeded):
            read_header(DATA[:length], file_size=SIZE)


def test_a_file_that_is_cut_is_named() -> None:
    read = parse_header(DATA, file_size=SIZE - 33)
    assert isinstance(read, Unknown) and "beyond the end" in read.reason


def test_long_lists_are_skipped() -> None:
    read = header({"short": [1] * MAX_KEPT, "long": [1] * (MAX_KEPT + 1), "after": 7}, TENSORS)
    assert len(read.metadata["short"]) == MAX_KEPT  # type: ignore[arg-type]
    assert "long" not in read.metadata and read.metadata["after"] == 7


def start(tensors: int = 0, pairs: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, pairs)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"GGML....", "does not begin"),
        (b"PK\x03\x04", "does not begin"),
        (start(version=1), "version is 1"),
        (start(version=0x03000000), "version is"),
        (start(tensors=1 << 60), "tensors"),
        (start(pairs=1 << 60), "values"),
        (start(pairs=1) + struct.pack("<Q", 1 << 62), "bytes of one text"),
        (start(pairs=1) + text("k") + struct.pack("<I", 99), "unknown kind 99"),
        (start(pairs=1) + text("k") + struct.pack("<IIQ", 9, 9, 1), "list of the unknown kind 9"),
        (start(pairs=1) + text("k") + struct.pack("<IIQ", 9, 8, 1 << 40), "values in one list"),
        (start(pairs=1) + text("k") + struct.pack("<IIQQ", 9, 8, 1, 1 << 50), "bytes of one text"),
        (start(pairs=1) + text("general.alignment") + struct.pack("<II", 4, 0), "alignment"),
        (start(tensors=1) + text("t") + struct.pack("<I", 1000), "dimensions"),
    ],
)
def test_what_no_real_file_says_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(NotGguf, match=says):
        read_header(data, file_size=1 << 20)
    assert isinstance(parse_header(data, file_size=1 << 20), Unknown)


def test_two_tensors_at_one_place_are_refused() -> None:
    info = text("t") + struct.pack("<IQIQ", 1, 4, 0, 64)
    with pytest.raises(NotGguf):
        read_header(start(tensors=2) + info + info, file_size=1 << 20)


def test_a_file_without_tensors_is_a_vocabulary() -> None:
    header = read_header(start(tensors=0), file_size=64)
    assert header.tensors == ()


def test_a_claim_costs_no_time() -> None:
    """Millions of texts are claimed and none is there."""
    begin = time.process_time()
    with pytest.raises(MoreNeeded):
        read_header(start(pairs=1) + text("k") + struct.pack("<IIQ", 9, 8, 1 << 24) + bytes(80), file_size=1 << 40)
    assert time.process_time() - begin < 0.1


@settings(max_examples=25, deadline=None)
@given(st.integers(0, len(DATA) - 1), st.binary(min_size=1, max_size=12))
def test_any_damage_ends_in_a_value(position: int, damage: bytes) -> None:
    broken = DATA[:position] + damage + DATA[position + len(damage) :]
    assert isinstance(parse_header(broken, file_size=SIZE), GgufHeader | Unknown)


@settings(max_examples=15, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_end_in_a_value(data: bytes) -> None:
    assert isinstance(parse_header(b"GGUF\x03\0\0\0" + data, file_size=4096), GgufHeader | Unknown)
