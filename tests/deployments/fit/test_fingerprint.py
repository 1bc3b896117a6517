"""The mark of a model's files: it changes with them, and with nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deployments.fit.files import IndexFacts, ModelFiles
from deployments.fit.fingerprint import LENGTH, fingerprint
from deployments.fit.gguf import GgufHeader, Tensor
from hosts.probe.frames import Unknown

FOLDER = ModelFiles(
    config={"architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 64},
    quantization={"quantization": {"quant_algo": "NVFP4"}},
    index=IndexFacts(1000, frozenset({"a.safetensors", "b.safetensors"}), 4),
    sizes={"a.safetensors": 600, "b.safetensors": 410},
)
HEAD = GgufHeader({"general.name": "tiny", "llama.block_count": 2, "list": (1, 2)}, (Tensor("t", (4, 4), 64),), 500)
GGUF = ModelFiles(gguf=(HEAD,), sizes={"tiny.gguf": 700})


@pytest.mark.parametrize("files", [FOLDER, GGUF])
def test_it_is_the_same_for_the_same_files(files: ModelFiles) -> None:
    found = fingerprint(files)
    assert isinstance(found, str) and len(found) == LENGTH
    assert fingerprint(replace(files, sizes=dict(reversed(files.sizes.items())))) == found


@pytest.mark.parametrize(
    "other",
    [
        replace(FOLDER, config={"architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 65}),
        replace(FOLDER, quantization=None),
        replace(FOLDER, quantization=Unknown("it is cut")),
        replace(FOLDER, index=IndexFacts(1001, frozenset({"a.safetensors", "b.safetensors"}), 4)),
        replace(FOLDER, index=None),
        replace(FOLDER, sizes={"a.safetensors": 601, "b.safetensors": 410}),
        GGUF,
        replace(GGUF, sizes={"tiny.gguf": 701}),
        replace(GGUF, gguf=(replace(HEAD, tensors=(Tensor("t", (4, 4), 32),)),)),
        replace(GGUF, gguf=(replace(HEAD, metadata={"general.name": "other"}),)),
    ],
)
def test_other_files_have_another(other: ModelFiles) -> None:
    prints = [fingerprint(files) for files in (FOLDER, GGUF, other)]
    assert len(set(map(str, prints))) == (2 if other == GGUF else 3)


@pytest.mark.parametrize("files", [ModelFiles(config=Unknown("no config")), ModelFiles(gguf=Unknown("no config"))])
def test_without_its_configuration_it_is_not_known(files: ModelFiles) -> None:
    assert fingerprint(files) == Unknown("no config")
