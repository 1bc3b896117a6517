"""What was read of a model comes back from the database as it was."""

from __future__ import annotations

import json

import pytest

from deployments.fit.files import IndexFacts, ModelFiles
from deployments.fit.gguf import GgufHeader, Tensor
from deployments.fit.stored import as_data, files_from
from hosts.probe.frames import Unknown
from tests.deployments.fit import models

HEAD = GgufHeader(
    {"general.architecture": "llama", "llama.block_count": 2, "llama.attention.head_count_kv": (8, 4), "x": 0.5},
    (Tensor("output.weight", (64, 32), 4096),),
    900,
)


@pytest.mark.parametrize(
    "files",
    [
        models.files(models.QWEN35_27B, 28e9),
        models.files(models.QWEN3_8B, 1e9, quantization={"quantization": {"kv_cache_quant_algo": "FP8"}}),
        ModelFiles(config={"a": 1}, index=IndexFacts(None, frozenset({"x", "y"}), 3), sizes={"x": 1}),
        ModelFiles(config=Unknown("cut"), quantization=Unknown("odd"), index=Unknown("no")),
        ModelFiles(config=Unknown("It was not asked for."), gguf=(HEAD, HEAD)),
        ModelFiles(gguf=Unknown("Only 1 of the model's 2 GGUF files are there.")),
    ],
)
def test_it_comes_back_as_it_was(files: ModelFiles) -> None:
    assert files_from(json.loads(json.dumps(as_data(files)))) == files


def test_what_is_long_is_left_out() -> None:
    config = {**models.QWEN3_8B, "ignore": ["layer"] * 5000, "template": "x" * 5000, "small": [1, 2]}
    found = files_from(as_data(ModelFiles(config=config, gguf=(GgufHeader({"t": "x" * 5000, "n": 1}, (), 9),))))
    assert found.config == {**models.QWEN3_8B, "ignore": None, "template": None, "small": [1, 2]}
    assert isinstance(found.gguf, tuple) and found.gguf[0].metadata == {"n": 1}
    assert len(json.dumps(as_data(found))) < 2000
