"""Make profiles and their revisions."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict, Unpack, cast

from django.contrib.auth.models import User
from django.db import transaction

from controlpanel import audit
from controlpanel.access import Action, require
from controlpanel.refusal import Refused
from deployments.commandline import Command, check_command
from deployments.commandline.ports import port_of, said_port
from deployments.engines.base import Engine
from deployments.engines.registry import ENGINES, refuse_nothing_known
from deployments.engines.versions import stated
from deployments.models import Profile, Revision
from deployments.profilefile import ProfileFile


class LaunchFields(TypedDict):
    """How a server is started: what a revision holds."""

    argv: list[str]
    env: dict[str, str]
    workdir: str
    port: int
    ready_pattern: str
    engine_versions: NotRequired[str]
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
    try:
        stated(launch.get("engine_versions", ""))
    except ValueError as error:
        raise Refused(str(error)) from error
    workdir = launch["workdir"]
    command = Command(launch["argv"], launch["env"], workdir, launch.get("container", {}))
    if workdir and (not workdir.startswith("/") or not workdir.isprintable()):
        raise Refused(f"{workdir!r} is not a full path.", hint="Write the working directory from / on.")
    try:
        check_command(command)
        refuse_nothing_known(command, engine)
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


def clone_profile(source: Revision, *, name: str, description: str, notes: str, actor: User, address: str) -> Profile:
    """Make a profile of another name whose first revision is that of ``source``."""
    launch = {field: getattr(source, field) for field in LaunchFields.__annotations__} | {"notes": notes}
    with transaction.atomic():
        profile = create_profile(
            name=name, engine=source.profile.engine, description=description, actor=actor, address=address, **launch
        )
        audit.record("clone profile", actor=actor, target=profile, detail={"from": str(source)}, address=address)
    return profile


def import_profile(file: ProfileFile, *, name: str, into: Profile | None, actor: User, address: str) -> Profile:
    """Make the profile of a file under ``name``, or its revisions the next ones of ``into``: all of them or none."""
    require(actor, Action.EDIT_PROFILE)
    check_import(file, into=into)
    first, rest = file.revisions[0], file.revisions[1:]
    with transaction.atomic():
        if into is None:
            head: dict[str, Any] = {"name": name, "engine": file.engine, "description": file.description}
            profile = create_profile(**head, actor=actor, address=address, **first.launch)
        else:
            profile, rest = into, file.revisions
        for revision in rest:
            add_revision(profile, actor=actor, address=address, **revision.launch)
        detail = {"profile of the file": file.name, "revisions": len(file.revisions)}
        audit.record("import profile", actor=actor, target=profile, detail=detail, address=address)
    return profile


def check_import(file: ProfileFile, *, into: Profile | None) -> None:
    """Refuse a file of which not every revision could be kept, and say which."""
    if into is not None and into.engine != file.engine:
        raise Refused(
            f"{into} is for {ENGINES[into.engine].label}, the file for {ENGINES[file.engine].label}.",
            hint="Import it under another name.",
        )
    for place, revision in enumerate(file.revisions, start=1):
        try:
            _check_launch(ENGINES[file.engine], cast(LaunchFields, revision.launch))
        except Refused as refused:
            raise Refused(f"Revision {place} of the file: {refused.message}", hint=refused.hint) from refused
