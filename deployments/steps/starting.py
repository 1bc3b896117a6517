"""What the launch script is told of the way in which this round's server is started."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from deployments.models import Launch
from deployments.plan.asking import as_root, ask_starter
from deployments.plan.cards import CARDS_VARIABLE
from deployments.plan.container_change import ContainerTold, find_argv, start_argv
from deployments.plan.container_run import Run, run_command
from deployments.plan.passing import variables_of
from deployments.plan.start import hash_of, wanted, what_to_write
from deployments.plan.unit_change import CannotChange, Change, UnitTold, secrets_file_of, settings_file_of
from deployments.plan.ways import NAMED, By, Way, unit_of
from deployments.remote.script import Said, follower, wrapper
from deployments.steps.base import StepContext, StepFailed
from hosts.probe.frames import Unknown


def way_of(ctx: StepContext) -> str:
    """As the approved plan says (plan/ways.py); on the way back, as what served before was started."""
    planned = Way.of(_start(ctx).get("way", By.WRAPPER))
    if not ctx.step.way_back:
        return str(planned)
    launches = ctx.deployment.launches.filter(revision=ctx.revision).exclude(job=ctx.job).exclude(ready_at=None)
    served = launches.order_by("-intended_at").first()
    before = Way.of(served.started_by) if served is not None else planned
    if before.by in NAMED:
        return str(before)
    return str(planned if planned.by not in NAMED else Way(By.WRAPPER))


def _tool(ctx: StepContext, way: Way) -> list[str]:
    """As the plan has found it for this way; for another, as the system's own."""
    if str(way) == _start(ctx).get("way"):
        return list(_start(ctx).get("tool", []))
    return ["systemctl"] if way.by == By.UNIT else ["docker"]


def _start(ctx: StepContext) -> dict[str, Any]:
    """Of a replacement: as the new server is started, or as the old one was that is started again."""
    plan = ctx.job.plan or {}
    return plan.get("back" if ctx.deployment == ctx.job.replaces else "start") or {}


def written_first(ctx: StepContext) -> str:
    """The file on the host that the approved plan says is written; empty for none."""
    return str((_start(ctx).get("writes") or {}).get("path", ""))


def secrets_file(ctx: StepContext, row: Launch) -> str:
    """Where on the host a unit's or service's secrets stay; empty where none do."""
    way = Way.of(row.started_by or By.WRAPPER)
    if way.by == By.COMPOSE:
        return str(_start(ctx).get("gives", ""))
    if way.by != By.UNIT:
        return ""
    engine, names = ctx.engine, row.requested.get("secrets", {})
    return secrets_file_of(way.name) if variables_of(engine, names) else settings_file_of(way.name)


def start_values(
    ctx: StepContext, row: Launch, *, starts: bool, secrets: bool = False, settings: bool = False
) -> dict[str, Any]:
    """Values of start.sh and the text of the wrapper, which reads ``secrets`` and ``settings`` from their files.

    ``starts``: or is it only looked at, or given up?
    """
    assert row.revision is not None
    way = Way.of(row.started_by or By.WRAPPER)
    if way.by in NAMED:
        return {
            **_NO_PROCESS,
            "way": way.by,
            "program": "setsid",
            "run": _follower(ctx, row, way, secrets=secrets, settings=settings) if starts else "",
        }
    kept = _start(ctx).get("kept", {})
    limits = kept.get("limits", {})
    return {
        "way": way.by,
        "runner": _start(ctx).get("runner", []),
        "unit": unit_of(str(row.pk)),
        "stop_seconds": ctx.deployment.term_seconds,
        "open_files": limits.get("open files", ""),
        "locked_memory": limits.get("locked memory", ""),
        "program": row.revision.argv[0],
        "workdir": row.revision.workdir,
        "run": wrapper(
            row.revision.argv,
            env=_environment(ctx, row),
            workdir=row.revision.workdir,
            user=(kept.get("uid"), kept.get("gid")),
            secrets=secrets,
            settings=settings,
        ),
    }


def stop_argv(ctx: StepContext, way: Way, *, seconds: int) -> list[str]:
    """The command by which the approved way's unit or container is stopped."""
    start = _start(ctx)
    tool = _tool(ctx, way)
    root = as_root(ctx, tool)
    if way.by == By.UNIT:
        return [*root, *tool, "stop", way.name]
    return [*root, *tool, "stop", "-t", str(seconds), start.get("container") or way.name]


_NO_PROCESS = {
    "runner": "", "unit": "", "stop_seconds": 0, "open_files": "", "locked_memory": "", "workdir": "",
}  # fmt: skip
"""Of what a process of our own would get."""


def _follower(ctx: StepContext, row: Launch, way: Way, *, secrets: bool, settings: bool) -> str:
    """The wrapper of a launch by a unit or container that is there.

    Raises StepFailed when it would do other than was approved.
    """
    assert row.revision is not None
    tool = _tool(ctx, way)
    container = row.revision.container
    told = ask_starter(ctx, way, tool, image=str(container.get("image", "")))
    if isinstance(told, Unknown):
        raise StepFailed(told.reason, hint="Look at it on the host, then start again.")
    if isinstance(told, ContainerTold) and container:
        return _run(ctx, row, told, container, secrets=secrets, settings=settings)
    change = _approved(ctx, told, row)
    root = as_root(ctx, tool)
    values = {
        "TOOL": [*root, *tool],
        "AS_ROOT": root,
        "CHANGE": change.path if change else "",
        "LINES": "\n".join(change.lines.values()) if change else "",
        "TEXT": change.text if change else "",
    }
    if isinstance(told, ContainerTold):
        start = start_argv(told, [*root, *tool], change=change)
        find = find_argv(told, [*root, *tool])
        own = told.secrets_directory if way.by == By.COMPOSE else ""
        more = {"OLD": told.name, "START": shlex.join(start), "FIND": shlex.join(find), "SECRETS_DIR": own}
        return follower("container", {**values, **more})
    kept = "" if told.of_login else told.secrets_file
    journal = [*root, *(word.replace("systemctl", "journalctl") for word in tool)]
    key = "" if told.of_login else settings_file_of(told.name)
    owner = told.shown.get("User", "")
    files = {"SECRETS_FILE": kept, "SETTINGS_FILE": key, "OWNER": owner}
    return follower("unit", {**values, **files, "NAME": way.name, "JOURNAL": journal})


def _run(
    ctx: StepContext, row: Launch, old: ContainerTold, container: Mapping[str, Any], *, secrets: bool, settings: bool
) -> str:
    """The wrapper of a launch whose container is made for it."""
    assert row.revision is not None
    cards = ",".join(gpu.uuid for gpu in ctx.gpus)
    revision = row.revision
    run = Run(
        container,
        revision.argv,
        revision.env,
        revision.workdir,
        deployment=ctx.deployment.name,
        launch=str(row.pk),
        cards=cards,
        secrets=secrets,
        settings=settings,
    )
    root = as_root(ctx, (run.tool,))
    tool = [*root, run.tool]
    return follower(
        "container",
        {
            "TOOL": tool,
            "AS_ROOT": root,
            "CHANGE": "",
            "TEXT": "",
            "SECRETS_DIR": "",
            "OLD": old.name,
            "START": run_command(run, tool, old if old.name else None),
            "FIND": shlex.join([*tool, "inspect", "-f", "{{.Id}}", run.name]),
        },
    )


def _approved(ctx: StepContext, told: UnitTold | ContainerTold, row: Launch) -> Change | None:
    """What is to be written, looked at again: for the new revision exactly what the plan has shown."""
    assert row.revision is not None
    try:
        asks = wanted(row.revision, engine=ctx.engine, secrets=row.requested.get("secrets", {}))
        change = what_to_write(told, asks)
    except CannotChange as problem:
        if _start(ctx).get("as_served"):  # the plan has seen that it starts just that
            return None
        raise StepFailed(str(problem), hint="Mend that on the host, then start again.") from problem
    shown = (_start(ctx).get("writes") or {}).get("hash")
    # On the way back it is the revision that the plan names for that, and what was written comes out again.
    if change is not None and not ctx.step.way_back and hash_of(change) != shown:
        raise StepFailed(
            f"{told.name} or its files have been changed since the plan was made.",
            hint="Nothing was written. Start again, and look at the new plan.",
        )
    return change


def _environment(ctx: StepContext, row: Launch) -> dict[str, str]:
    """The engine sees exactly the deployment's cards, unless the revision says otherwise."""
    assert row.revision is not None
    env: dict[str, str] = row.revision.env
    cards = {}
    if CARDS_VARIABLE not in env and ctx.placement.gpu_uuids:
        cards[CARDS_VARIABLE] = ",".join(gpu.uuid for gpu in ctx.gpus)
    return {**env, **cards, "RELAUNCH_LAUNCH_ID": str(row.pk), "RELAUNCH_DEPLOYMENT": ctx.deployment.name}


def limit_not_kept(line: Said) -> str:
    """In words, of what the host could not give the new server."""
    kind, value = line.rest[:2]
    name = {"n": "open files", "l": "bytes of locked memory"}.get(kind, kind)
    return f"Warning: the login may not allow the new server {value} {name}, which the old one had."
