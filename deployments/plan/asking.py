"""Ask a host what a launch depends on: what a unit or container would start, and what another user may read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deployments.plan.starter import Starter, read_container_told, read_unit_told
from deployments.plan.ways import By, Way
from deployments.remote import run as remote
from hosts.probe.frames import Unknown

if TYPE_CHECKING:
    from deployments.steps.base import StepContext

ASK_SECONDS = 45.0


def closed_to(ctx: StepContext, uid: int, gid: int, paths: Sequence[str]) -> tuple[str, ...] | Unknown:
    """Which of them a user of the host may not read. Raises TransportError."""
    names = {"runs_as": uid, "runs_in": gid, "paths": "\n".join(paths)}
    script = remote.script_for(ctx.deployment, "as_user", fence=ctx.claim.fence, boot_id="", **names)
    with ctx.link() as transport:
        said = remote.run(transport, script, timeout=ASK_SECONDS, tick=ctx.tick)
    if not any(line.word == "looked" for line in said):
        reason = " ".join(f"{line.word} {line.text}" for line in said if line.word != "end")
        return Unknown(f"Whether uid {uid} may read the model could not be seen: {reason or 'no answer'}.")
    return tuple(paths[int(line.rest[0])] for line in said if line.word == "closed")


def ask_starter(ctx: StepContext, way: Way, tool: Sequence[str], *, image: str = "") -> Starter | Unknown:
    """What a unit or container would start. Raises TransportError."""
    script = remote.script_for(
        ctx.deployment,
        "starter",
        fence=ctx.claim.fence,
        boot_id="",
        kind=way.by,
        name=way.name,
        tool=[*as_root(ctx, tool), *tool],
        image=image,
        as_root=as_root(ctx, tool),
    )
    with ctx.link() as transport:
        said = remote.run(transport, script, timeout=ASK_SECONDS, tick=ctx.tick)
    lines = [(line.word, line.rest, line.payload) for line in said]
    if way.by != By.UNIT:
        return read_container_told(lines)
    return read_unit_told(lines, name=way.name, of_login="--user" in tool)


def as_root(ctx: StepContext, tool: Sequence[str]) -> list[str]:
    """How this login becomes root for a tool; a login's own systemd is asked by the login itself."""
    return ["sudo", "-n"] if ctx.host.sudo and tool[:1] != ["env"] and tool[:1] != ("env",) else []
