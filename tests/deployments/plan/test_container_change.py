"""What a container runs, what makes it run something else, and the `docker run` that makes one for each start."""

import json
import shlex
from dataclasses import replace
from typing import Any

import pytest

from deployments.plan.container_change import (
    ContainerTold,
    container_change,
    find_argv,
    read_container,
    start_argv,
)
from deployments.plan.container_run import Run, run_argv, run_command
from deployments.plan.passing import SETTINGS_INSIDE
from deployments.plan.unit_change import CannotChange, Change, Wanted
from deployments.plan.ways import By, Way
from hosts.probe.frames import Unknown

LABELS = {
    "com.docker.compose.project": "llm",
    "com.docker.compose.service": "chat",
    "com.docker.compose.project.working_dir": "/srv/llm",
    "com.docker.compose.project.config_files": "/srv/llm/compose.yaml",
}
SERVE = ("vllm", "serve", "m")


def row(**changed: Any) -> dict[str, Any]:
    config = {
        "Env": ["A=b=c"],
        "Entrypoint": ["vllm"],
        "Labels": LABELS,
        "WorkingDir": "/w",
        **changed.pop("Config", {}),
    }
    usual = {"Name": "/chat", "Path": "vllm", "Args": ["serve", "m"], "Image": "sha256:1", "State": {"Running": True}}
    return {**usual, **changed, "Config": config}


def told(**changed: Any) -> ContainerTold:
    found = read_container(json.dumps([row(**changed)]))
    assert isinstance(found, ContainerTold), found
    return found


def test_a_container_is_read() -> None:
    found = told()
    assert found.runs == SERVE and found.environment == {"A": "b=c"} and found.image == "sha256:1"
    assert found.way == Way(By.COMPOSE, "llm/chat")
    assert told(Config={"Labels": None}).way == Way(By.CONTAINER, "chat")


@pytest.mark.parametrize("text", ["", "[]", "{}", '[{"Name": 1}]', "[null]", "Error: No such object", "[" * 50_000])
def test_what_cannot_be_read_is_unknown(text: str) -> None:
    assert isinstance(read_container(text), Unknown)


@pytest.mark.parametrize(
    ("argv", "env"),
    [
        (SERVE, {}),
        (("serve", "m"), {}),
        (SERVE, {"A": "b=c"}),
    ],
)
def test_nothing_is_written_when_it_runs_that_already(argv: tuple[str, ...], env: dict[str, str]) -> None:
    assert container_change(told(), Wanted(argv, env), compose=False) is None


def test_a_command_behind_env_is_that_command() -> None:
    seen = told(Path="/usr/bin/env", Args=["X=1", "vllm", "serve", "m"], Config={"Entrypoint": None})
    assert container_change(seen, Wanted(SERVE, {"X": "1"}), compose=False) is None
    with pytest.raises(CannotChange):
        container_change(seen, Wanted(SERVE, {"X": "2"}), compose=False)


@pytest.mark.parametrize(
    ("wanted", "service"),
    [
        (Wanted(("vllm", "serve", "$x")), {"command": ["serve", "$$x"]}),
        (Wanted(("--tp", "2")), {"command": ["--tp", "2"]}),
        (Wanted(("python3", "-m", "x")), {"entrypoint": ["python3"], "command": ["-m", "x"]}),
        (Wanted(SERVE, {"A": "$"}, "/d"), {"command": ["serve", "m"], "environment": {"A": "$$"}, "working_dir": "/d"}),
    ],
)
def test_a_service_gets_a_file_more(wanted: Wanted, service: dict[str, Any]) -> None:
    change = container_change(told(), wanted, compose=True)
    assert change is not None and change.path == "/srv/llm/relaunch.chat.yaml"
    assert json.loads(change.text) == {"services": {"chat": service}}


SECRETS = "/srv/llm/relaunch.chat.secrets"


def test_a_service_is_given_secrets_by_files_that_only_who_makes_it_reads() -> None:
    wanted = Wanted(SERVE, variables=("HF_TOKEN",), settings=True)
    change = container_change(told(), wanted, compose=True)
    assert change is not None
    bound = {"type": "bind", "source": f"{SECRETS}/settings.yaml", "target": SETTINGS_INSIDE, "read_only": True}
    assert json.loads(change.text)["services"]["chat"] == {
        "command": ["serve", "m", "--config", SETTINGS_INSIDE],
        "labels": {"relaunch.secrets": "HF_TOKEN,--config"},
        "env_file": [f"{SECRETS}/environment"],
        "volumes": [bound],
    }
    named = {**LABELS, "relaunch.secrets": "HF_TOKEN,--config"}
    again = told(
        Args=["serve", "m", "--config", SETTINGS_INSIDE], Config={"Labels": named, "Env": ["A=b=c", "HF_TOKEN=x"]}
    )
    assert container_change(again, wanted, compose=True) is None, "it is given just these already"
    without = container_change(again, Wanted(SERVE), compose=True)
    assert without is not None and json.loads(without.text)["services"]["chat"] == {"command": ["serve", "m"]}


def test_a_variable_that_the_service_sets_itself_is_named() -> None:
    own = told(Config={"Env": ["HF_TOKEN=x"]})
    with pytest.raises(CannotChange, match="sets HF_TOKEN itself"):
        container_change(own, Wanted(SERVE, variables=("HF_TOKEN",)), compose=True)


def test_a_container_alone_cannot_be_changed() -> None:
    with pytest.raises(CannotChange, match="was fixed when it was made"):
        container_change(told(), Wanted(("x",)), compose=False)
    with pytest.raises(CannotChange, match="no such container"):
        container_change(ContainerTold("", ()), Wanted(("x",)), compose=False)


def test_the_commands_that_start_and_find_it() -> None:
    alone = told(Config={"Labels": {}})
    assert start_argv(alone, ["docker"], change=None) == ["docker", "start", "chat"]
    assert find_argv(alone, ["docker"])[-1] == "chat"
    words = ["docker", "compose", "-p", "llm", "--project-directory", "/srv/llm", "-f", "/srv/llm/compose.yaml"]
    assert start_argv(told(), ["docker"], change=None) == [*words, "up", "-d", "--no-deps", "chat"]
    change = Change("/srv/llm/relaunch.chat.yaml", text="x")
    assert start_argv(told(), ["docker"], change=change)[8:10] == ["-f", change.path]
    assert "label=com.docker.compose.service=chat" in find_argv(told(), ["sudo", "-n", "docker"])


RUN = Run(
    {"tool": "docker", "image": "img@sha256:1", "options": ["--gpus", "all", "-v", "/m:/m", "--ipc", "host"]},
    ["serve", "m"],
    {"HF_HOME": "/m m"},
    "",
    "chat it",
    "1234567890",
    "GPU-a",
)


def test_a_run_keeps_all_options_and_adds_what_it_is_known_by() -> None:
    words = run_argv(RUN, ["docker"])
    assert words[:3] == ["docker", "run", "-d"] and words[-9:] == [
        *RUN.container["options"],
        "img@sha256:1",
        "serve",
        "m",
    ]
    assert {"relaunch.launch=1234567890", "RELAUNCH_LAUNCH_ID=1234567890", "CUDA_VISIBLE_DEVICES=GPU-a"} < {*words}
    assert words[3:5] == ["--name", "relaunch-chat-it"]


def test_secrets_come_by_a_file_that_only_the_host_knows() -> None:
    given = replace(RUN, secrets=True, container={**RUN.container, "options": ["-v", "@SECRETS@:/x"]})
    command = run_command(given, ["docker"], None)
    assert command.count(' --env-file "$DIR/secrets" ') == 1 and "-v @SECRETS@:/x" in command
    assert "--env-file" not in run_command(RUN, ["docker"], None)


@pytest.mark.parametrize("option", ["--gpus=device=0,1", "NVIDIA_VISIBLE_DEVICES=0", "nvidia.com/gpu=0"])
def test_cards_that_an_option_has_chosen_stay(option: str) -> None:
    words = run_argv(Run({**RUN.container, "options": ["-e", option]}, [], cards="GPU-a"), ["docker"])
    assert "CUDA_VISIBLE_DEVICES=GPU-a" not in words


@pytest.mark.parametrize("options", [["--name", "chat"], ["--name=chat"]])
def test_an_old_container_of_that_name_makes_way(options: list[str]) -> None:
    run = Run({**RUN.container, "options": options}, ["x"], {}, "", "d", "1234567890")
    assert run.way == Way(By.RUN, "chat") and run_argv(run, ["docker"]).count("--name") == options.count("--name")
    assert run_command(run, ["docker"], None) == shlex.join(run_argv(run, ["docker"]))
    ours = ContainerTold("chat", (), labels={"relaunch.deployment": "d"})
    assert run_command(run, ["docker"], ours).startswith("docker rm chat > /dev/null && docker run -d ")
    renamed = run_command(run, ["docker"], ContainerTold("chat", (), labels={"relaunch.deployment": "other"}))
    assert renamed.startswith(
        "docker rename chat chat-before-12345678 > /dev/null && docker update --restart=no chat-b"
    )


def test_variables_and_directory_are_those_of_the_tool() -> None:
    there = run_command(Run(RUN.container, ["x"], {"A": "b"}, "/srv/a b"), ["docker"], None)
    assert there.startswith("cd '/srv/a b' && A=b docker run -d ")
    assert run_command(RUN, ["docker"], None).startswith("HF_HOME='/m m' docker run -d ")
