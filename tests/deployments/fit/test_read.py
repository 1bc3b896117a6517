"""What decides about memory, read from real folders and files, by the script that hosts get."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployments.engines.registry import ENGINES
from deployments.fit import read
from deployments.fit.answers import list_sizes
from deployments.fit.asked import Asked, CardMemory
from deployments.fit.estimate import Verdict, estimate
from deployments.fit.files import IndexFacts, ModelFiles
from deployments.fit.gguf_model import read_gguf_model
from deployments.fit.model import Model, read_model
from deployments.fit.read import read_model_files, script
from hosts.probe.frames import Section, Unknown
from hosts.transport.base import LinkLost, Stream, Transport
from hosts.transport.fake import FakeTransport, Reply
from hosts.transport.local import LocalTransport
from hosts.transport.pct import PctTransport
from lab.engines.tiny_gguf import CONTEXT, LAYERS, write_tiny_gguf
from tests.deployments.fit import models
from tests.deployments.fit.gguf_bytes import GIB, head
from tests.hosts.conftest import fake_pct, running_sshd  # noqa: F401 - a fixture

real = pytest.mark.process
SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]


class Counting(LocalTransport):
    """Adds up what comes back."""

    def __init__(self) -> None:
        super().__init__()
        self.received = 0

    def stream(self, argv: object, **options: object) -> Stream:  # type: ignore[override]
        inner = super().stream(argv, **options)  # type: ignore[arg-type]
        count = inner.read

        def counted(*, timeout: float) -> bytes | None:
            data = count(timeout=timeout)
            self.received += len(data or b"")
            return data

        inner.read = counted  # type: ignore[method-assign]
        return inner


def put_safetensors(folder: Path, name: str, tensors: dict[str, int]) -> int:
    """A real file of that format with tensors of bf16; returns the bytes of its tensors."""
    at, header = 0, {}
    for tensor, elements in tensors.items():
        header[tensor] = {"dtype": "BF16", "shape": [elements], "data_offsets": [at, at + 2 * elements]}
        at += 2 * elements
    text = json.dumps(header).encode()
    (folder / name).write_bytes(struct.pack("<Q", len(text)) + text + bytes(at))
    return at


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small model in two files, with its index and a quantisation of the cache."""
    made = tmp_path / "a model's folder"
    made.mkdir()
    parts = {
        f"model-0000{n}-of-00002.safetensors": {f"model.layers.{n}.self_attn.{kv}_proj.{kv}_scale": 1 for kv in "kv"}
        | {f"model.layers.{n}.mlp.weight": 50_000}
        for n in (1, 2)
    }
    total = sum(put_safetensors(made, name, tensors) for name, tensors in parts.items())
    index = {
        "metadata": {"total_size": total},
        "weight_map": {tensor: name for name, tensors in parts.items() for tensor in tensors},
    }
    (made / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))
    (made / "config.json").write_text(json.dumps(models.QWEN35_9B))
    (made / "hf_quant_config.json").write_text(json.dumps({"quantization": {"kv_cache_quant_algo": "FP8"}}))
    (made / "tokenizer.json").write_text("x" * 100_000)
    return made


@pytest.fixture(params=["local", "pct", "ssh"])
def transport(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Transport]:
    if request.param == "local":
        yield LocalTransport()
    elif request.param == "pct":
        request.getfixturevalue("fake_pct")
        yield PctTransport(LocalTransport(), vmid=129)
    else:
        keys = tmp_path / "sshd"
        keys.mkdir()
        with running_sshd(keys) as sshd:
            link = sshd.connect()
            yield link
            link.close()


def files_of(transport: Transport, path: Path | str, **options: str) -> ModelFiles:
    found = read_model_files(transport, str(path), timeout=30, **options)  # type: ignore[arg-type]
    assert isinstance(found, ModelFiles), found
    return found


@real
def test_a_folder_of_safetensors_in_one_exec(transport: Transport, folder: Path) -> None:
    before = transport.counters.execs
    found = files_of(transport, folder)
    assert transport.counters.execs == before + 1
    assert found.config == models.QWEN35_9B and found.quantization is not None
    assert found.index == IndexFacts(200_008, frozenset(found.sizes), 4)
    assert [size > 100_000 for size in found.sizes.values()] == [True, True]
    known = read_model(found)
    assert isinstance(known, Model) and known.fp8_kv and known.weights.low == 200_008


@real
def test_a_real_gguf_file_in_one_exec(transport: Transport, tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf")
    before = transport.counters.execs
    found = files_of(transport, path)
    assert transport.counters.execs == before + 1
    assert isinstance(found.gguf, tuple)
    known = read_gguf_model(found.gguf)
    assert (known.architecture, len(known.layers), known.context) == ("llama", LAYERS, CONTEXT)
    import gguf

    reader = gguf.GGUFReader(path)
    assert {tensor.name: tensor.size for tensor in found.gguf[0].tensors} == {
        tensor.name: int(tensor.n_bytes) for tensor in reader.tensors
    }
    asked = Asked(ENGINES["llama_server"], ("llama-server", "-c", "512"), found, (CardMemory(GIB * 8, GIB * 8),))
    assert estimate(asked).verdict is Verdict.FITS


@real
def test_sglang_on_what_was_read(folder: Path) -> None:
    found = files_of(LocalTransport(), folder)
    argv = ("python", "-m", "sglang.launch_server", "--context-length", "4096")
    answer = estimate(Asked(ENGINES["sglang"], argv, found, (CardMemory(24 * GIB, 23 * GIB),)))
    assert answer.verdict is Verdict.FITS and answer.outcome is not None
    assert answer.outcome.pools.precision == "fp8"


@real
@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_reads_the_same(shell: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = (shell, "sh", "-s") if shell == "busybox" else (shell, "-s")
    monkeypatch.setattr(read, "ARGV", words)
    found = files_of(LocalTransport(), folder)
    assert isinstance(found.index, IndexFacts) and found.index.total == 200_008
    data, size = head({"general.architecture": "x"}, [("a", (1,), 4096)])
    (tmp_path / "m.gguf").write_bytes(data.ljust(size, b"\0"))
    assert isinstance(files_of(LocalTransport(), tmp_path / "m.gguf").gguf, tuple)


@real
def test_no_weights_are_sent(tmp_path: Path) -> None:
    """Of a file of 40 GiB (a hole), with a vocabulary of 3 MiB before its tensors."""
    words = ["w" * 20] * 110_000
    data, size = head({"general.architecture": "x", "tokens": words, "after": 3}, [("a", (1,), 40 * GIB)])
    path = tmp_path / "m.gguf"
    with path.open("wb") as file:
        file.write(data)
        file.truncate(size)
    counting = Counting()
    found = files_of(counting, path)
    assert isinstance(found.gguf, tuple) and found.gguf[0].metadata["after"] == 3
    assert found.gguf[0].tensors[0].size == 40 * GIB
    assert len(data) < counting.received < 2.5 * len(data)


@real
def test_an_index_of_megabytes_is_told_in_a_few_bytes(folder: Path) -> None:
    names = [f"model.layers.{n % 60}.mlp.experts.{n}.down_proj.weight_scale_inv" for n in range(40_000)]
    weight_map = {name: f"model-{n % 99:05}-of-00099.safetensors" for n, name in enumerate(names)}
    index = folder / "model.safetensors.index.json"
    for indent in (None, 2):
        index.write_text(json.dumps({"weight_map": weight_map, "metadata": {"total_size": 7e9}}, indent=indent))
        counting = Counting()
        found = files_of(counting, folder)
        assert found.index == IndexFacts(7_000_000_000, frozenset(weight_map.values()), 0)
        assert len(found.missing) == 99
        assert counting.received < 20_000 < index.stat().st_size


@real
def test_a_gguf_model_in_parts(tmp_path: Path) -> None:
    said = {"general.architecture": "llama"}
    for number, values in enumerate((said, {"split.no": 1}, {"split.no": 2}), 1):
        data, size = head(values, [(f"t{number}", (1,), 1000 * number)])
        (tmp_path / f"m-0000{number}-of-00003.gguf").write_bytes(data.ljust(size, b"\0"))
    first = tmp_path / "m-00001-of-00003.gguf"
    found = files_of(LocalTransport(), first).gguf
    assert isinstance(found, tuple) and [part.tensors[0].name for part in found] == ["t1", "t2", "t3"]
    assert found[0].metadata == said
    (tmp_path / "m-00002-of-00003.gguf").unlink()
    found = files_of(LocalTransport(), first).gguf
    assert isinstance(found, Unknown) and "Only 2 of the model's 3" in found.reason


@real
def test_links_are_followed_and_dead_ones_are_missing(folder: Path, tmp_path: Path) -> None:
    """As a hub's cache has it."""
    cache = tmp_path / "snapshot"
    cache.mkdir()
    for file in folder.iterdir():
        (cache / file.name).symlink_to(file)
    (folder / "model-00002-of-00002.safetensors").unlink()
    found = files_of(LocalTransport(), cache)
    assert list(found.sizes) == ["model-00001-of-00002.safetensors"]
    assert found.missing == ("model-00002-of-00002.safetensors",)


@real
def test_paths_from_home_and_from_the_working_directory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder.parent))
    assert files_of(LocalTransport(), f"~/{folder.name}").sizes
    assert files_of(LocalTransport(), f"./{folder.name}", workdir=str(folder.parent)).sizes
    assert files_of(LocalTransport(), folder.name, workdir=str(folder.parent)).sizes


@real
@pytest.mark.parametrize(
    ("break_it", "says"),
    [
        ("rm config.json", "There is no config.json"),
        ("echo '{' > config.json", "not valid JSON"),
        ("echo '[]' > config.json", "does not hold an object"),
        ("head -c 3000000 /dev/zero | tr '\\0' '[' > config.json", "not valid JSON"),
        ("echo nothing > model.safetensors.index.json", "names no tensors"),
        ("rm *.safetensors *.index.json", "no weight files"),
        ("rm *.safetensors; sed -i /total_size/d *.index.json", "2 weight files are missing"),
        ("echo x > hf_quant_config.json", "hf_quant_config.json"),
    ],
)
def test_what_is_damaged_is_named(folder: Path, break_it: str, says: str) -> None:
    subprocess.run(["sh", "-c", break_it], cwd=folder, check=True)
    found = read_model(files_of(LocalTransport(), folder))
    assert isinstance(found, Unknown) and says in found.reason, found


@real
def test_a_file_that_is_no_gguf(tmp_path: Path) -> None:
    for content, says in ((b"PK\3\4" + bytes(100), "does not begin"), (b"", "longer than"), (b"GGUF", "longer than")):
        (tmp_path / "m.gguf").write_bytes(content)
        found = files_of(LocalTransport(), tmp_path / "m.gguf").gguf
        assert isinstance(found, Unknown) and says in found.reason


@real
def test_nothing_there(tmp_path: Path) -> None:
    found = read_model_files(LocalTransport(), str(tmp_path / "gone"), timeout=30)
    assert isinstance(found, Unknown) and "There is no model at" in found.reason


def test_a_path_with_a_quote_stays_a_path(tmp_path: Path) -> None:
    assert b"MODEL='/m/$(reboot)'" in script("t", "/m/$(reboot)", "")
    with pytest.raises(ValueError, match="NUL"):
        script("t", "/m/\0", "")


def test_an_answer_that_is_cut_is_no_answer() -> None:
    link = FakeTransport().on("sh", reply=Reply(chunks=(b"\n@relaunch x section kind\nfolder\n",)))
    with pytest.raises(LinkLost, match="cut"):
        read_model_files(link, "/m", timeout=5)
    assert "/m" not in " ".join(link.commands()[0])


def test_listings() -> None:
    text = """total 12
-rw-r--r-- 1 0 0  7 Nov 30 13:59 config.json
-rw-r--r--+ 1 0 0 4937266712 Nov 30  2025 model 1.safetensors
l????????? ? ? ? ? ? gone.safetensors
drwxr-xr-x 2 0 0 4096 Nov 30 13:59 sub
"""
    assert list_sizes(Section("sizes", text.encode(), 0)) == {"config.json": 7, "model 1.safetensors": 4937266712}


@real
@pytest.mark.skipif(os.geteuid() != 0, reason="root reads everything, and becomes somebody who does not")
def test_what_may_not_be_read_is_not_missing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (folder, *folder.parents):
        if place.stat().st_uid == 0 and str(place).startswith("/tmp/"):
            place.chmod(0o755)
    (folder / "config.json").chmod(0o600)
    monkeypatch.setattr(read, "ARGV", ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-s"))
    found = read_model(files_of(LocalTransport(), folder))
    assert isinstance(found, Unknown) and "may not read config.json" in found.reason
