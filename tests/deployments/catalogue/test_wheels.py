"""The catalogue of real releases, read as on a host, against what the engine's own parser holds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deployments.catalogue import script
from deployments.catalogue.help_text import flags_of_help
from deployments.catalogue.model import Catalogue, catalogue_from
from deployments.catalogue.program import Program, program_of
from deployments.catalogue.validate import check
from tests.deployments.catalogue.wheels import unpacked

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(900)]
STUBBED = Path(__file__).parent / "stubbed.py"
PRINTED = Path(__file__).parent / "printed.py"
MOST_SECONDS, MOST_MIB = 1.0, 100
COMMANDS = {"sglang": "-m sglang.launch_server", "vllm": "-m vllm.entrypoints.openai.api_server"}
RELEASES = [("sglang", "0.5.9"), ("sglang", "0.5.11"), ("sglang", "0.5.23"), ("vllm", "0.19.1")]


def program(engine: str, place: Path, words: str = "") -> Program:
    argv = [sys.executable, *COMMANDS[engine].split(), *words.split()]
    found = program_of(engine, argv, env={"PYTHONPATH": str(place)}, workdir="")
    assert isinstance(found, Program)
    return found


def told(engine: str, version: str, *, known: str = "") -> dict[str, Any]:
    """What the script answers, run by ``sh`` with the interpreter of the tests."""
    made = script.build(program(engine, unpacked(engine, version)), known=known)
    done = subprocess.run(["sh", "-s"], input=made.stdin, capture_output=True, timeout=60, check=False)
    answer = script.read_answer(made, done.stdout)
    assert answer.data is not None, (answer.reason, done.stderr)
    return dict(answer.data)


def catalogue(engine: str, version: str) -> Catalogue:
    return catalogue_from(engine, told(engine, version))


def by_the_engine_itself(version: str) -> dict[tuple[str, ...], dict[str, Any]]:
    """Names -> what SGLang's own code tells ``argparse``, with all its imports stubbed."""
    return {tuple(one["names"]): one for one in json.loads(by_stubs(version))}


def by_stubs(version: str, *words: str, **env: str) -> str:
    """What SGLang's own code prints so."""
    paths = {"PYTHONPATH": str(unpacked("msgspec", everything=True))}
    done = subprocess.run(
        [sys.executable, "-B", str(STUBBED), str(unpacked("sglang", version)), *words],
        capture_output=True, text=True, timeout=120, check=False, env=paths | env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize(("version", "spellings"), [("0.5.9", 341), ("0.5.11", 384), ("0.5.23", 547)])
def test_sglang_s_own_parser_holds_the_same(version: str, spellings: int) -> None:
    read, real = catalogue("sglang", version), by_the_engine_itself(version)
    assert read.version == version and read.is_sure
    assert {tuple(sorted(flag.names)) for flag in read.flags} == set(real)
    # Counted by others without the --no- forms that argparse adds to some switches.
    assert sum(not name.startswith("--no-") for name in read.by_name) == spellings
    for flag in read.flags:
        theirs = real[tuple(sorted(flag.names))]
        assert flag.takes == theirs["takes"] and flag.required == theirs["required"], flag.names
        assert flag.type == {"loads": "json", "NoneType": "str"}.get(theirs["type"], theirs["type"]), flag.names
        if theirs["choices"] not in ("stubbed", []):
            assert (sorted(map(str, flag.choices)) if flag.choices else None) == theirs["choices"], flag.names


@pytest.mark.parametrize(("engine", "version"), RELEASES)
def test_reading_is_quick_and_small(engine: str, version: str) -> None:
    told(engine, version)  # reads the files into the page cache, and writes nothing beside them
    answers = [told(engine, version) for _ in range(3)]
    assert min(answer["seconds"] for answer in answers) < MOST_SECONDS
    assert max(answer["peak_kib"] for answer in answers) < MOST_MIB * 1024
    assert not list(unpacked(engine, version).rglob("__pycache__"))


@pytest.mark.parametrize(("engine", "version"), RELEASES)
def test_what_is_known_already_is_not_read_again(engine: str, version: str) -> None:
    first = told(engine, version)
    again = told(engine, version, known=first["stamp"])
    assert again["same"] and "arguments" not in again and again["seconds"] < first["seconds"]


@pytest.mark.parametrize(
    ("version", "words", "flags"),
    [
        ("0.5.9", "--disable-piecewise-cuda-graph", ["--disable-piecewise-cuda-graph"]),
        ("0.5.9", "--tp 2 --dp 1 --ep 1 --mem-fraction 0.8 --speculative-algo EAGLE", []),
        ("0.5.11", "--pp 2 --quant fp8", ["--pp", "--quant"]),
        ("0.5.11", "--enforce-piecewise-cuda-graph --reasoning-parser gemma4", []),
        ("0.5.23", "--cuda-graph-max-bs 8 --mamba-scheduler-strategy auto --nsa-decode-backend x", [
            "--mamba-scheduler-strategy", "--nsa-decode-backend", "--cuda-graph-max-bs"]),
        ("0.5.23", "--language", ["--language"]),
        ("0.5.9", "--reasoning-parser nemotron_3", ["--reasoning-parser"]),
        ("0.5.23", "--kv-cache-dtype fp4_e2m1", ["--kv-cache-dtype"]),
    ],
)  # fmt: skip
def test_what_each_version_of_sglang_refuses(version: str, words: str, flags: list[str]) -> None:
    found = check(["--model-path", "/m", *words.split()], catalogue("sglang", version))
    assert sorted(one.flag for one in found if one.stops) == sorted(flags)


def test_vllm_s_flags_are_those_in_its_source() -> None:
    """Counted another way: the words in quotes that begin with a dash, and the fields of the frontend's classes."""
    place = unpacked("vllm", "0.19.1") / "vllm"
    flags = by_eye(place / "engine/arg_utils.py", "def add_cli_args(", "def from_cli_args")
    flags |= by_eye(place / "engine/arg_utils.py", "class AsyncEngineArgs", "def _raise_unsupported")
    flags |= by_eye(place / "entrypoints/openai/cli_args.py", "def make_arg_parser", "def validate_parsed")
    flags |= fields_of(place / "entrypoints/openai/cli_args.py", "class BaseFrontendArgs", "def _customize")
    flags |= fields_of(place / "entrypoints/openai/cli_args.py", "class FrontendArgs", "def _customize")
    read = catalogue("vllm", "0.19.1")
    assert read.is_sure
    assert {name for name in read.by_name if not name.startswith("--no-")} == flags
    assert len(flags) > 200 and read.by_name["--kv-cache-dtype"].choices and read.by_name["-tp"].type == "int"


def by_eye(file: Path, begin: str, end: str) -> set[str]:
    """The words in quotes that begin with a dash, where arguments are added."""
    text = file.read_text().partition(begin)[2].partition(end)[0]
    calls = [call.partition(")\n")[0] for call in text.split(".add_argument(")[1:]]
    heads = [call.partition("help=")[0] for call in calls]
    return {word for head in heads for word in head.split('"')[1::2] if word.startswith("-")}


def fields_of(file: Path, begin: str, end: str) -> set[str]:
    """The annotated names at the margin of a class."""
    lines = file.read_text().partition(begin)[2].partition(end)[0].splitlines()
    fields = [line.partition(":")[0].strip() for line in lines if line.startswith("    ") and ": " in line]
    return {"--" + name.replace("_", "-") for name in fields if name.isidentifier() and name.islower()}


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        ("--model /m -tp 2 --max-model-len -1 --gpu-memory-utilization 0.92 --speculative_config {}", []),
        ("--model /m --compilation-config.cudagraph_mode FULL -O3 --no-enable-prefix-caching", []),
        ("--model /m --kv-cache-dtype fp9 --max-num-seq 3 --tensor-parallel 2 --gpu-mem x", [
            "--kv-cache-dtype", "--gpu-memory-utilization"]),
        ("--model /m --quantisation fp8", ["--quantisation"]),
    ],
)  # fmt: skip
def test_what_vllm_refuses(words: str, flags: list[str]) -> None:
    found = check(words.split(), catalogue("vllm", "0.19.1"))
    assert [one.flag for one in found if one.stops] == flags


@pytest.mark.parametrize("version", ["0.5.9", "0.5.11", "0.5.23"])
def test_sglang_s_help_tells_the_same_as_its_source(version: str) -> None:
    """Printed by SGLang's own parser, as wide as it is asked for on a host."""
    source = catalogue("sglang", version)
    text = by_stubs(version, "help", COLUMNS="160")
    told = {name: flag for flag in flags_of_help(text, engine="sglang") for name in flag.names}
    hidden = {name for name, flag in source.by_name.items() if name not in told}
    assert hidden == HIDDEN.get(version, set()) and set(told) - set(source.by_name) == {"-h", "--help"}
    for name, flag in source.by_name.items():
        if name in hidden:
            continue
        assert told[name].takes == flag.takes, name
        choices = set(map(str, flag.choices or ()))
        assert set(told[name].choices or ()) in (choices, set()), name
        assert bool(told[name].help) >= bool(flag.help), name
    given = sum(bool(flag.choices) for flag in source.by_name.values())
    assert sum(bool(flag.choices) for flag in told.values()) > given - 6


HIDDEN = {"0.5.23": {"--forward-pass-metrics-ipc-name", "--forward-pass-metrics-worker-id"}}
"""What argparse is told to leave out of the help."""


def test_vllm_s_help_tells_the_same_as_its_source() -> None:
    """Printed by vLLM's own parser and formatter; its arguments are those that were read from its source."""
    source = catalogue("vllm", "0.19.1")
    told = {name: flag for flag in flags_of_help(printed_by_vllm(source), engine="vllm") for name in flag.names}
    assert set(source.by_name) | {"-h", "--help"} == set(told)
    for name, flag in source.by_name.items():
        assert told[name].takes == flag.takes, name
        if flag.takes == "1":
            assert set(told[name].choices or ()) == set(map(str, flag.choices or ())), name
    assert told["--kv-cache-dtype"].default == "auto"


def printed_by_vllm(source: Catalogue) -> str:
    arguments = [flag.plain() for flag in source.flags]
    place = unpacked("vllm", "0.19.1") / "vllm/utils/argparse_utils.py"
    done = subprocess.run(
        [sys.executable, "-B", str(PRINTED), str(place)],
        input=json.dumps(arguments), capture_output=True, text=True, timeout=60, check=False, env={"COLUMNS": "160"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
