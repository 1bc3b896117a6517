"""Ask the host of a job what its engine makes of the flags that are to be launched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deployments.catalogue import store
from deployments.catalogue.program import NoProgram, program_of
from deployments.catalogue.reading import read as read_flags
from deployments.catalogue.validate import check
from deployments.engines.custom import CUSTOM
from deployments.lifecycle import JobKind
from deployments.models import Revision
from deployments.plan.flagcheck import NOT_CHECKED, FlagCheck
from hosts.probe.frames import Unknown
from hosts.transport.base import CommandTimeout, OutputTooLarge

if TYPE_CHECKING:
    from deployments.steps.base import StepContext


def check_flags(ctx: StepContext, revision: Revision | None) -> FlagCheck:
    """What the engine on the host makes of the flags to be launched, while nothing is touched yet.

    Its files are looked at anew, so that what is known of them is true now. The engine itself is not started for it.
    Raises TransportError.
    """
    if revision is None or ctx.job.kind == JobKind.STOP or ctx.job.touched:
        return NOT_CHECKED
    program = program_of(
        ctx.engine.key, revision.argv, env=revision.env, workdir=revision.workdir, container=revision.container
    )
    if isinstance(program, NoProgram):
        return NOT_CHECKED if ctx.engine.key == CUSTOM.key else FlagCheck(reason=program.reason)
    before = store.known(ctx.host, program)
    stamp = before.stamp if before is not None and before.catalogue is not None else ""
    try:
        with ctx.link() as transport:
            found = read_flags(transport, program, known=stamp, with_help=False, tick=ctx.tick)
    except (CommandTimeout, OutputTooLarge) as error:
        found = Unknown(str(error))
    row = before if before is not None and isinstance(found, Unknown) else store.keep(ctx.host, program, found)
    if row.catalogue is None or (isinstance(found, Unknown) and row.source == "source"):
        return FlagCheck(reason=found.reason if isinstance(found, Unknown) else "Nothing is known of its flags.")
    return FlagCheck(tuple(check(program.args, row.catalogue)), row.catalogue, ctx.engine.label)
