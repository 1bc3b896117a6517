"""Asks a server that answers what it made of its flags, and keeps that with its launch."""

from __future__ import annotations

from typing import Any

from deployments.engines.configuration import LOG_CHARACTERS, NOTHING, Configuration, Seen
from deployments.lifecycle import CheckStatus
from deployments.models import Launch, LogChunk
from deployments.pages import pages_of
from deployments.secrets import api_key
from deployments.steps.base import StepContext
from hosts.transport.base import Transport


def told_configuration(ctx: StepContext, row: Launch, transport: Transport) -> dict[str, Any]:
    """The configuration the engine runs with, as it tells it, beside the flags that were asked for; secrets masked.

    A page that does not answer is left out: what nobody tells is shown as not told.
    """
    if ctx.engine.configuration is None:
        return {}
    pages = pages_of(
        transport,
        ctx.revision.port,
        ctx.engine,
        key=api_key(ctx.deployment, row),
        hide=ctx.log.hide_in,
        tick=ctx.tick,
    )
    argv = row.requested.get("argv", ctx.revision.argv)
    found = ctx.engine.configuration(Seen(argv, _beginning_of_log(row), pages))
    _show(ctx, found)
    told: dict[str, Any] = ctx.log.hide_in(found.as_data()) if found != NOTHING else {}
    return told


def _beginning_of_log(row: Launch) -> str:
    """What is stored of the launch's log as far as an engine speaks of its settings there."""
    chunks = LogChunk.objects.filter(launch=row, offset__lt=LOG_CHARACTERS).order_by("offset", "seq")
    return "".join(chunks.values_list("text", flat=True))


def _show(ctx: StepContext, found: Configuration) -> None:
    told = [row for row in found.rows if row.effective is not None]
    check = ctx.measured(
        "effective",
        "Effective configuration",
        CheckStatus.OK if told else CheckStatus.UNKNOWN,
        value=f"{len(found.changed)} of {len(told)} settings changed by the engine" if told else "not told",
        detail="; ".join(
            f"{row.name}: {row.asked or 'not asked for'}, runs with {row.effective}" for row in found.changed
        ),
        source=", ".join(dict.fromkeys(row.source for row in told if row.source)),
    )
    ctx.show_soon([check])
