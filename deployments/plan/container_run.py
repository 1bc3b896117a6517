"""A container that is made for each start, by a ``docker run`` with everything as the revision has it. PURE.

Image, mounts, devices, ipc, limits and all other options are kept word for word. Added are only what the panel knows
it by: a name, two labels and the launch's marker, and the deployment's cards where no option has chosen any.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deployments.plan.cards import CARDS_VARIABLE
from deployments.plan.container_change import ContainerTold
from deployments.plan.passing import SETTINGS_FLAG, SETTINGS_INSIDE
from deployments.plan.ways import By, Way

DEPLOYMENT, LAUNCH = "relaunch.deployment", "relaunch.launch"
"""Labels of what we have made."""
CHOSEN = re.compile(r"(?:CUDA|NVIDIA)_VISIBLE_DEVICES=|device=|nvidia\.com/gpu=", re.ASCII)
"""Options that choose cards: a variable, `--gpus "device=0"`, a CDI name."""
SECRETS, SETTINGS = "@SECRETS@", "@SETTINGS@"
"""Stand for the files with the launch's secrets until the host knows where they are."""
BOUND = f"type=bind,source=$DIR/inside.yaml,target={SETTINGS_INSIDE},readonly"


@dataclass(frozen=True)
class Run:
    """What a revision says of its container, and whose launch it is."""

    container: Mapping[str, Any]
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    """For the tool itself, as in ``A=b docker run -e A``."""
    workdir: str = ""
    """In which the tool is called: a mount may be relative to it."""
    deployment: str = ""
    launch: str = ""
    cards: str = ""
    secrets: bool = False
    """Are any given to its environment, in a file of the launch?"""
    settings: bool = False
    """Is it given the engine's own file, with its key?"""

    @property
    def tool(self) -> str:
        """docker or podman."""
        return str(self.container["tool"])

    @property
    def name(self) -> str:
        """As its options say, else after the deployment."""
        return _named(self.container["options"]) or "relaunch-" + re.sub(r"[^A-Za-z0-9_.-]", "-", self.deployment)

    @property
    def way(self) -> Way:
        """Of its launches."""
        return Way(By.RUN, self.name)


def _named(options: Sequence[str]) -> str:
    for at, word in enumerate(options):
        if word == "--name" and at + 1 < len(options):
            return options[at + 1]
        if word.startswith("--name="):
            return word.removeprefix("--name=")
    return ""


def run_argv(run: Run, tool: Sequence[str]) -> list[str]:
    """``tool``: how docker is called on the host."""
    options: list[str] = [*run.container["options"]]
    added = ["-d"]
    if not _named(options):
        added += ["--name", run.name]
    added += ["--label", f"{DEPLOYMENT}={run.deployment}", "--label", f"{LAUNCH}={run.launch}"]
    added += ["-e", f"RELAUNCH_LAUNCH_ID={run.launch}", "-e", f"RELAUNCH_DEPLOYMENT={run.deployment}"]
    if run.cards and not any(CHOSEN.search(word) for word in options):
        added += ["-e", f"{CARDS_VARIABLE}={run.cards}"]
    if run.secrets:
        added += ["--env-file", SECRETS]
    if run.settings:
        added += ["--mount", SETTINGS]
    named = [SETTINGS_FLAG, SETTINGS_INSIDE] if run.settings else []
    return [*tool, "run", *added, *options, str(run.container["image"]), *run.argv, *named]


def run_command(run: Run, tool: Sequence[str], old: ContainerTold | None) -> str:
    """For a shell: an old container of that name makes way first.

    One of ours is removed. Another is renamed and left stopped, so that nothing of it is lost.
    """
    words = [f"{name}={shlex.quote(value)}" for name, value in run.env.items()]
    command = " ".join([*words, shlex.join(run_argv(run, tool))])
    command = command.replace(f"--env-file {SECRETS}", '--env-file "$DIR/secrets"', 1) if run.secrets else command
    command = command.replace(f"--mount {SETTINGS}", f'--mount "{BOUND}"', 1) if run.settings else command
    if run.workdir:
        command = f"cd {shlex.quote(run.workdir)} && {command}"
    if old is None:
        return command
    if old.labels.get(DEPLOYMENT) == run.deployment:
        return f"{shlex.join([*tool, 'rm', run.name])} > /dev/null && {command}"
    kept = kept_name(run)
    away = [[*tool, "rename", run.name, kept], [*tool, "update", "--restart=no", kept]]
    return " && ".join([*(f"{shlex.join(each)} > /dev/null" for each in away), command])


def kept_name(run: Run) -> str:
    """Of a container that was there before the launch, and that we have not made."""
    return f"{run.name}-before-{run.launch[:8] or 'the-launch'}"
