"""How what serves compares with another recipe, in rows and in words."""

import pytest

from deployments.compared import comparable, differing, drift, found_settings, in_words
from deployments.engines.registry import ENGINES
from deployments.flags import FlagRow, flags_of

ALIASES = ENGINES["sglang"].aliases


def rows(left: str, right: str) -> list[tuple[str, str | None, str | None]]:
    found = differing(flags_of(left.split()), flags_of(right.split()), aliases=ALIASES)
    return [(row.name, row.left, row.right) for row in found]


@pytest.mark.parametrize(
    ("path", "ours"),
    [
        ("/etc/systemd/system/chat.service.d/relaunch.settings.yaml", True),
        ("/run/relaunch/settings.yaml", True),
        ("/root/.relaunch/1/2/launches/3/settings.yaml", True),
        ("/srv/settings.yaml", False),
    ],
)
def test_where_its_key_is_is_no_setting_of_anybody(path: str, ours: bool) -> None:
    assert ("--config" in found_settings(["sglang", "serve", "--config", path])) is not ours


@pytest.mark.parametrize(
    ("left", "right", "differ"),
    [
        ("x --tp 2", "x --tp-size 2", []),
        ("x --tensor-parallel-size 4", "x --tp 2", [("--tensor-parallel-size", "4", "2")]),
        ("x --mem-fraction-static 0.90", "x --mem-fraction-static 0.9", []),
        ("x --context-length 128k", "x --context-length 131072", [("--context-length", "128k", "131072")]),
        ("x --context-length 128Ki", "x --context-length 131072", []),
        ("x --a 1", "x --b 2", [("--a", "1", None), ("--b", None, "2")]),
        ("x", "y", [("command", "x", "y")]),
    ],
)
def test_differing(left: str, right: str, differ: list[tuple[str, str | None, str | None]]) -> None:
    assert rows(left, right) == differ


@pytest.mark.parametrize(
    ("found", "revision"),
    [
        ("/lab/env/bin/python -m sglang.launch_server --tp 2", "/lab/bin/python -m sglang.launch_server --tp-size 2"),
        ("/venv/bin/python3.12 /venv/bin/vllm serve /m --port 1", "vllm serve /m --port 1"),
        ("/usr/bin/llama-server -c 10", "env A=1 llama-server -c 10"),
        ("/v/bin/python /v/bin/sglang serve /m --tp 2", "python -m sglang.launch_server --model-path /m --tp-size 2"),
        ("python -m vllm.entrypoints.openai.api_server --model /m", "vllm serve /m"),
    ],
)
def test_a_server_of_somebody_else_is_compared_without_the_way_to_its_program(found: str, revision: str) -> None:
    recipe = {**flags_of(revision.split()), "B=": "1", "directory": "/srv"}
    assert not differing(found_settings(found.split()), comparable(recipe), aliases=ALIASES)


def test_another_model_of_such_a_server_is_seen() -> None:
    left = found_settings(["/venv/bin/python", "/venv/bin/vllm", "serve", "/other"])
    (row,) = differing(left, comparable(flags_of(["vllm", "serve", "/m"])), aliases=ALIASES)
    assert (row.name, row.left, row.right) == ("--model", "/other", "/m")


def test_in_words() -> None:
    found = [FlagRow("--speculative-num-steps", "1", "3"), FlagRow("--ctx", None, "9")]
    assert in_words(found, other="proven") == "speculative-num-steps 1, proven 3; ctx not set, proven 9"
    assert in_words(found * 3, other="proven").endswith("; and 3 more")
    assert in_words([], other="proven") == ""


def stored(**effective: str | None) -> dict[str, object]:
    return {"rows": [{"name": name, "effective": value} for name, value in effective.items()]}


def test_drift_is_what_the_engine_does_otherwise_though_the_flags_are_the_same() -> None:
    now, then = stored(kv="fp8_e4m3", tp="2", steps="1", new="1"), stored(kv="bf16", tp="2", steps="3", old="1")
    assert drift(now, then, asked=[FlagRow("steps", "1", "3")]) == (FlagRow("kv", "fp8_e4m3", "bf16"),)
    assert drift(stored(kv="bfloat16"), stored(kv="bf16"), asked=()) == ()
    assert drift(stored(kv=None), stored(kv="bf16"), asked=()) == drift({}, stored(kv="bf16"), asked=()) == ()
