"""Make profiles and their revisions."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict, Unpack

from django.contrib.auth.models import User
from django.db import transaction

from controlpanel import audit
from controlpanel.access import Action, require
from controlpanel.refusal import Refused
from deployments.commandline import Command, check_command
from deployments.commandline.ports import port_of, said_port
from deployments.engines.base import Engine
from deployments.engines.registry import ENGINES
from deployments.models import Profile, Revision


class LaunchFields(TypedDict):
    """How a server is started: what a revision holds."""

    argv: list[str]
    env: dict[str, str]
    workdir: str
    port: int
    ready_pattern: str
    notes: str
    container: NotRequired[dict[str, Any]]


def create_profile(
    *,
    name: str,
    engine: str,
    description: str,
    actor: User,
    address: str,
    **launch: Unpack[LaunchFields],
) -> Profile:
    """Make a profile with its first revision."""
    require(actor, Action.EDIT_PROFILE)
    if engine not in ENGINES:
        raise Refused(f"There is no engine named {engine!r}.", hint=f"Choose one of: {', '.join(ENGINES)}.")
    if Profile.objects.filter(name=name).exists():
        raise Refused(f"There is already a profile named {name}.", hint="Choose another name, or add a revision to it.")
    with transaction.atomic():
        profile = Profile.objects.create(name=name, engine=engine, description=description, created_by=actor)
        audit.record("add profile", actor=actor, target=profile, detail={"engine": engine}, address=address)
        add_revision(profile, actor=actor, address=address, **launch)
    return profile


def add_revision(
    profile: Profile,
    *,
    actor: User,
    address: str,
    **launch: Unpack[LaunchFields],
) -> Revision:
    """Make the next revision of a profile. Raises Refused for a command that cannot be right."""
    require(actor, Action.EDIT_PROFILE)
    _check_launch(ENGINES[profile.engine], launch)
    with transaction.atomic():
        Profile.objects.filter(pk=profile.pk).update(engine=profile.engine)  # holds the row: numbers have no gap
        newest = profile.revisions.order_by("-number").first()
        revision = Revision.objects.create(
            profile=profile,
            number=newest.number + 1 if newest else 1,
            created_by=actor,
            **launch,
        )
        audit.record(
            "add revision",
            actor=actor,
            target=revision,
            detail={"command": revision.command_line},
            address=address,
        )
    return revision


def _check_launch(engine: Engine, launch: LaunchFields) -> None:
    """Refuse what cannot be a launch of ``engine``."""
    workdir = launch["workdir"]
    command = Command(launch["argv"], launch["env"], workdir, launch.get("container", {}))
    if workdir and (not workdir.startswith("/") or not workdir.isprintable()):
        raise Refused(f"{workdir!r} is not a full path.", hint="Write the working directory from / on.")
    try:
        check_command(command)
        _check_port(engine, command, launch["port"])
    except ValueError as error:
        raise Refused(str(error)) from error
    if not engine.ready and not launch["ready_pattern"]:
        raise Refused(
            "How to tell that this server is ready is not known.",
            hint="Give a text that its log shows when it is ready to answer.",
        )


def _check_port(engine: Engine, command: Command, port: int) -> None:
    """Refuse a port that is none, or not the one that the command says. Raises ValueError as ``port_of`` does."""
    said = said_port(command, engine)
    if said is not None and not said.isdecimal():
        raise Refused(f"The command says port {said!r}.", hint="Write the port as a number, for example 30000.")
    if not 1 <= port <= 65535:
        raise Refused(f"There is no port {port}.", hint="Choose one from 1 to 65535.")
    if said is not None and (expected := port_of(command, engine)) != port:
        where = f"leads to port {expected} of the host" if command.container else f"says port {expected}"
        raise Refused(f"The command {where}, the profile says {port}.", hint="Make both the same.")
