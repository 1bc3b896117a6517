"""What a container that is there runs, and what must be written so that it runs something else. PURE.

The command of a container is fixed when it is made. A service of compose is made anew from its files, so one more file
changes it: JSON, which is YAML too, beside the project's own (docker compose, "Merge Compose files").
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from deployments.plan.passing import SETTINGS_FLAG, SETTINGS_INSIDE
from deployments.plan.unit_change import CannotChange, Change, Wanted
from deployments.plan.ways import By, Way
from hosts.probe.frames import Unknown

PROJECT, SERVICE = "com.docker.compose.project", "com.docker.compose.service"
DIRECTORY, FILES = "com.docker.compose.project.working_dir", "com.docker.compose.project.config_files"
"""Labels that compose puts on what it makes."""
GIVEN = "relaunch.secrets"
"""Our own, on what was given secrets: their names."""


@dataclass(frozen=True)
class ContainerTold:
    """Of ``docker inspect``; all of it empty when there is no such container.

    ``runs``: program and arguments; ``environment``: with the image's own.
    """

    name: str
    runs: tuple[str, ...]
    entrypoint: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    image: str = ""
    """Its digest: the same name may mean another image by now."""
    would_be: str = ""
    """The digest of the image that a new one would be made of; empty when it is not there, or was not asked."""
    is_up: bool = False
    workdir: str = ""

    @property
    def way(self) -> Way:
        """By which it is started: its service of compose, if it is of one."""
        if SERVICE in self.labels and self.files:
            return Way(By.COMPOSE, f"{self.labels.get(PROJECT, '')}/{self.labels[SERVICE]}")
        return Way(By.CONTAINER, self.name)

    @property
    def files(self) -> tuple[str, ...]:
        """Those of its compose project."""
        return tuple(filter(None, self.labels.get(FILES, "").split(",")))

    @property
    def override(self) -> str:
        """The file with our changes, beside the project's own."""
        return posixpath.join(self.labels.get(DIRECTORY, "/"), f"relaunch.{self.labels.get(SERVICE, '')}.yaml")

    @property
    def secrets_directory(self) -> str:
        """Beside it, for whoever makes the container alone: what the service is given."""
        return f"{self.override.removesuffix('.yaml')}.secrets"


def read_container(text: str) -> ContainerTold | Unknown:
    """Of the JSON of ``docker inspect`` of one container."""
    try:
        rows = json.loads(text)
        row: dict[str, Any] = rows[0]
        config: dict[str, Any] = row["Config"]
        pairs = (str(each).partition("=") for each in config.get("Env") or [])
        return ContainerTold(
            name=str(row["Name"]).removeprefix("/"),
            runs=(str(row["Path"]), *map(str, row["Args"])),
            entrypoint=tuple(map(str, config.get("Entrypoint") or [])),
            environment={name: value for name, _, value in pairs},
            labels={str(key): str(value) for key, value in (config.get("Labels") or {}).items()},
            image=str(row.get("Image", "")),
            is_up=bool(row["State"]["Running"]),
            workdir=str(config.get("WorkingDir") or ""),
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        return Unknown("What docker says of the container could not be read.")


def container_change(told: ContainerTold, wanted: Wanted, *, compose: bool) -> Change | None:
    """What must be written first; None when it runs exactly that already. Raises CannotChange."""
    if not told.name:
        raise CannotChange("There is no such container on the host.")
    given = tuple(filter(None, told.labels.get(GIVEN, "").split(",")))
    if twice := next((name for name in wanted.variables if name in told.environment and name not in given), ""):
        raise CannotChange(f"{told.name} sets {twice} itself, which would win. Take it out there, or remove it here.")
    if wanted.settings:
        wanted = replace(wanted, argv=(*wanted.argv, SETTINGS_FLAG, SETTINGS_INSIDE))
    runs, environment = _without_env(told.runs, told.environment)
    same = _is_same(told, runs, wanted.argv)
    differing = {name: value for name, value in wanted.env.items() if environment.get(name) != value}
    moved = bool(wanted.workdir) and wanted.workdir != told.workdir
    if same and not differing and not moved and given == _given(wanted):
        return None
    if not compose:
        raise CannotChange(
            f"What the container {told.name} runs was fixed when it was made, and the revision differs from that. Make "
            "it anew on the host with these flags, or use a service of docker compose, whose flags can be changed."
        )
    return Change(told.override, text=_override(told, wanted))


def _given(wanted: Wanted) -> tuple[str, ...]:
    """For the label."""
    return (*wanted.variables, *([SETTINGS_FLAG] if wanted.settings else []))


def _is_same(told: ContainerTold, runs: Sequence[str], argv: Sequence[str]) -> bool:
    """A revision may leave out what the image starts by itself (its entrypoint)."""
    with_entrypoint = [*told.entrypoint, *argv]
    return [*runs] == [*argv] or [*told.runs] in ([*argv], with_entrypoint)


def _without_env(runs: Sequence[str], environment: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """`env A=b python ...` is the command behind it, with that variable."""
    words, found = [*runs], dict(environment)
    if posixpath.basename(words[0]) == "env":
        words = words[1:]
        while words and "=" in words[0] and not words[0].startswith("-"):
            name, _, value = words.pop(0).partition("=")
            found[name] = value
    return words, found


def _override(told: ContainerTold, wanted: Wanted) -> str:
    """Dollar signs are compose's own, and doubled to be only that."""
    entrypoint, argv = told.entrypoint, wanted.argv
    service: dict[str, Any] = {"command": _plain(argv)}
    if entrypoint and argv[: len(entrypoint)] == entrypoint:
        service["command"] = _plain(argv[len(entrypoint) :])
    elif entrypoint and not argv[0].startswith("-"):
        service = {"entrypoint": _plain(argv[:1]), "command": _plain(argv[1:])}
    if wanted.env:
        service["environment"] = {name: value.replace("$", "$$") for name, value in wanted.env.items()}
    if wanted.workdir:
        service["working_dir"] = wanted.workdir
    if given := _given(wanted):
        service["labels"] = {GIVEN: ",".join(given)}
    if wanted.variables:
        service["env_file"] = [_plain([f"{told.secrets_directory}/environment"])[0]]
    if wanted.settings:
        source = _plain([f"{told.secrets_directory}/settings.yaml"])[0]
        service["volumes"] = [{"type": "bind", "source": source, "target": SETTINGS_INSIDE, "read_only": True}]
    return json.dumps({"services": {told.labels[SERVICE]: service}}, indent=2) + "\n"


def _plain(words: Sequence[str]) -> list[str]:
    return [word.replace("$", "$$") for word in words]


def start_argv(told: ContainerTold, tool: Sequence[str], *, change: Change | None) -> list[str]:
    """The command that starts it again."""
    if told.way.by == By.CONTAINER:
        return [*tool, "start", told.name]
    files = dict.fromkeys([*told.files, *([change.path] if change is not None else [])])
    given = [word for file in files for word in ("-f", file)]
    directory = ["--project-directory", told.labels[DIRECTORY]] if told.labels.get(DIRECTORY) else []
    return [*tool, "compose", "-p", told.way.project, *directory, *given, "up", "-d", "--no-deps", told.way.service]


def find_argv(told: ContainerTold, tool: Sequence[str]) -> list[str]:
    """The command that tells its id once it runs: compose may have made it anew."""
    if told.way.by == By.CONTAINER:
        return [*tool, "inspect", "-f", "{{.Id}}", told.name]
    project, service = (f"label={name}={told.labels[name]}" for name in (PROJECT, SERVICE))
    return [*tool, "ps", "-a", "-q", "--no-trunc", "--filter", project, "--filter", service]
