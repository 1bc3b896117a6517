"""The files that run the panel elsewhere name only variables and commands that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = (ROOT / "controlpanel" / "settings.py").read_text()
KNOWN = set(re.findall(r'env\.\w+\(\s*"([A-Z_]+)"', SETTINGS))
COMPOSE = (ROOT / "docker-compose.yml").read_text()
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def test_settings_read_the_variables_we_think() -> None:
    assert {"DATABASE_URL", "REDIS_URL", "SECRET_KEY", "PANEL_URL", "RELAUNCH_DATA_DIR"} <= KNOWN


def test_compose_sets_only_variables_that_settings_read() -> None:
    block = COMPOSE.split("environment: &environment\n", 1)[1].split("  secrets:", 1)[0]
    names = {name.removesuffix("_FILE") for name in re.findall(r"^\s+([A-Z_]+):", block, re.MULTILINE)}

    assert names and names <= KNOWN


def test_compose_runs_all_parts() -> None:
    services = COMPOSE.split("\nservices:\n", 1)[1].split("\nsecrets:\n", 1)[0]

    assert {"web", "worker", "monitor", "valkey", "postgres", "migrate"} == set(
        re.findall(r"^  (\w+):", services, re.M)
    )


def test_compose_gives_each_secret_that_is_used() -> None:
    used = {name for names in re.findall(r"secrets: \[([^\]]+)\]", COMPOSE) for name in names.split(", ")}
    given = set(re.findall(r"^  ([\w-]+): \{file:", COMPOSE, re.MULTILINE))
    assert used == given
    assert set(re.findall(r"/run/secrets/([\w-]+)", COMPOSE)) <= given


def test_the_worker_is_started_as_the_supervisor_starts_it() -> None:
    supervisor = (ROOT / "controlpanel" / "supervisor.py").read_text()

    for option in ("-P threads -c 64 -Q jobs,probes", "--without-gossip --without-mingle", "--without-heartbeat"):
        assert option in supervisor and option in COMPOSE


@pytest.mark.parametrize("command", re.findall(r"manage\.py (\w+)", COMPOSE + DOCKERFILE))
def test_commands_exist(command: str) -> None:
    from django.core.management import get_commands

    assert command in get_commands()


def test_the_image_copies_what_is_there_and_the_context_lets_it_through() -> None:
    ignore = (ROOT / ".dockerignore").read_text().split()
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)

    for name in " ".join(copied).split():
        assert (ROOT / name).exists() and f"!{name}" in ignore, name


def test_the_same_uv_everywhere() -> None:
    pinned = re.search(r"UV_VERSION=(\S+)", (ROOT / "scripts" / "setup").read_text())

    assert pinned and f"uv=={pinned[1]}" in DOCKERFILE
