"""How secrets reach a server: by its environment or the engine's own file; and which commands would lose them."""

import shlex
import subprocess
from pathlib import Path

import pytest

from deployments.engines.registry import ENGINES
from deployments.plan.passing import (
    API_KEY,
    in_compose_file,
    in_env_file,
    in_environment,
    in_settings,
    in_unit_file,
    is_odd_for_compose,
    why_not_in_container,
    why_not_passed,
)
from deployments.plan.unit_file import read_environment
from lab.containers.compose import env_file

SECRETS = [(API_KEY, "key-'\"\\$x-1"), ("HF_TOKEN", 'it\'s-a-$HOME-`id`-"x"')]
LAUNCH = ["/opt/venv/bin/python", "-m", "sglang.launch_server", "--model-path", "/models/my model"]


@pytest.mark.parametrize(
    ("engine", "variables"),
    [
        ("sglang", ["HF_TOKEN"]),
        ("vllm", ["VLLM_API_KEY", "HF_TOKEN"]),
        ("llama_server", ["LLAMA_API_KEY", "HF_TOKEN"]),
        ("custom", ["HF_TOKEN"]),
    ],
)
def test_each_engine_gets_its_key_as_it_reads_it(engine: str, variables: list[str]) -> None:
    lines = shlex.split(in_environment(ENGINES[engine], SECRETS))
    values = [value for name, value in SECRETS if name != API_KEY or len(variables) > 1]
    assert lines == [
        word for name, value in zip(variables, values, strict=True) for word in ("export", f"{name}={value}")
    ]
    assert bool(in_settings(ENGINES[engine], SECRETS)) == (engine == "sglang")


def test_a_shell_sets_exactly_the_values() -> None:
    script = in_environment(ENGINES["vllm"], SECRETS) + '\nprintf "%s|%s" "$VLLM_API_KEY" "$HF_TOKEN"'
    ran = subprocess.run(["sh"], input=script.encode(), capture_output=True, check=True)
    assert ran.stdout.decode() == "|".join(value for _, value in SECRETS)


def test_the_settings_are_quoted_yaml() -> None:
    assert in_settings(ENGINES["sglang"], [(API_KEY, 'a"b\\c: #d')]) == 'api-key: "a\\"b\\\\c: #d"'
    assert in_settings(ENGINES["sglang"], [(API_KEY, "12345678")]) == 'api-key: "12345678"', "a text, no number"
    assert in_settings(ENGINES["sglang"], [("HF_TOKEN", "x")]) == ""


def test_a_container_gets_them_by_a_file_of_plain_lines() -> None:
    assert in_env_file(ENGINES["vllm"], SECRETS).splitlines() == [
        f"VLLM_API_KEY={SECRETS[0][1]}",
        f"HF_TOKEN={SECRETS[1][1]}",
    ]
    assert in_env_file(ENGINES["sglang"], SECRETS) == f"HF_TOKEN={SECRETS[1][1]}"


def test_a_unit_reads_exactly_the_values() -> None:
    assert read_environment(in_unit_file(ENGINES["vllm"], SECRETS)) == {
        "VLLM_API_KEY": SECRETS[0][1],
        "HF_TOKEN": SECRETS[1][1],
    }


@pytest.mark.parametrize(
    ("engine", "options", "names", "why"),
    [
        ("vllm", ["-e", "OTHER=HF_TOKEN"], [API_KEY, "HF_TOKEN"], ""),
        ("sglang", [], ["HF_TOKEN"], ""),
        ("sglang", [], [API_KEY], "does not start SGLang itself"),
        ("vllm", ["-e", "HF_TOKEN=x"], ["HF_TOKEN"], "set HF_TOKEN themselves"),
        ("vllm", ["-e", "HF_TOKEN"], ["HF_TOKEN"], "set HF_TOKEN themselves"),
        ("vllm", ["--env=VLLM_API_KEY=x"], [API_KEY], "set VLLM_API_KEY themselves"),
        ("vllm", [], [], ""),
    ],
)
def test_containers_that_would_lose_them_are_named(engine: str, options: list[str], names: list[str], why: str) -> None:
    said = why_not_in_container(ENGINES[engine], options, names)
    assert why in said if why else said == ""


def test_a_container_s_command_is_told_where_the_key_is() -> None:
    sglang = ENGINES["sglang"]
    assert why_not_in_container(sglang, [], [API_KEY], LAUNCH) == ""
    assert "one such file only" in why_not_in_container(sglang, [], [API_KEY], [*LAUNCH, "--config", "mine.yaml"])


@pytest.mark.parametrize("value", ["it's-a-$HOME-`id`", '"$x"', "\\n\\x", "a#b=c", "''"])
def test_compose_reads_exactly_the_values(value: str, tmp_path: Path) -> None:
    assert not is_odd_for_compose(value)
    file = tmp_path / "environment"
    file.write_text(in_compose_file(ENGINES["vllm"], [(API_KEY, value), ("HF_TOKEN", "x")]))
    assert env_file(str(file)) == [("VLLM_API_KEY", value), ("HF_TOKEN", "x")]


@pytest.mark.parametrize("value", ["\\", "a\\'b"])
def test_what_compose_cannot_be_given_is_not_written(value: str) -> None:
    assert is_odd_for_compose(value)
    with pytest.raises(ValueError, match=r"The value of HF_TOKEN cannot"):
        in_compose_file(ENGINES["sglang"], [("HF_TOKEN", value)])


@pytest.mark.parametrize(
    ("engine", "argv", "names", "why"),
    [
        ("sglang", LAUNCH, [API_KEY, "HF_TOKEN"], ""),
        ("sglang", ["numactl", "-N0", *LAUNCH], [API_KEY], ""),
        ("sglang", ["sglang", "serve", "--model-path", "x"], [API_KEY], ""),
        ("sglang", ["/srv/start.sh"], [API_KEY], "does not start SGLang itself"),
        ("sglang", ["bash", "-c", shlex.join(LAUNCH)], [API_KEY], "does not start SGLang itself"),
        ("sglang", ["/srv/start.sh"], ["HF_TOKEN"], ""),
        ("sglang", [*LAUNCH, "--config", "mine.yaml"], [API_KEY], "reads one such file only"),
        ("sglang", [*LAUNCH, "--config=mine.yaml"], [API_KEY], "reads one such file only"),
        ("sglang", [*LAUNCH, "--config", "mine.yaml"], ["HF_TOKEN"], ""),
        (
            "vllm",
            ["/usr/bin/docker", "run", "x"],
            ["HF_TOKEN"],
            "docker starts the server in an environment of its own",
        ),
        ("vllm", ["sudo", "-n", "vllm", "serve"], [API_KEY], "sudo starts the server in an environment of its own"),
        ("vllm", ["sudo", "-n", "vllm", "serve"], [], ""),
        ("custom", ["x"], [API_KEY], "does not know how"),
    ],
)
def test_commands_that_would_lose_them_are_named(engine: str, argv: list[str], names: list[str], why: str) -> None:
    said = why_not_passed(ENGINES[engine], argv, names)
    assert why in said if why else said == ""
