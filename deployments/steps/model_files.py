"""Which model it is that serves, as far as its files on the host tell: kept with the launch."""

from __future__ import annotations

from typing import Any

from deployments.fit.fingerprint import fingerprint
from deployments.fit.read import read_model_files
from deployments.fit.stored import as_data, files_from
from deployments.models import ModelOnHost
from deployments.steps.base import StepContext
from hosts.probe.frames import Unknown
from hosts.transport.base import Transport, TransportError

READ_SECONDS = 20.0


def model_of(ctx: StepContext, transport: Transport) -> dict[str, Any]:
    """``{path, print}``, or ``{path, unknown}`` with the reason; empty for a model that is no path on the host."""
    path = ctx.engine.model_path(ctx.revision.argv)
    if path is None:
        return {}
    found = _print(ctx, transport, path)
    return {"path": path, "unknown": found.reason} if isinstance(found, Unknown) else {"path": path, "print": found}


def _print(ctx: StepContext, transport: Transport, path: str) -> str | Unknown:
    if ctx.revision.container:
        return Unknown("The path is one inside the container, which is not looked into.")
    workdir = ctx.revision.workdir
    row = ModelOnHost.at(ctx.host, path, workdir)
    if row is not None and row.found is not None and row.read_at is not None and row.read_at >= ctx.job.created_at:
        return fingerprint(row.found)  # the plan of this job has read them
    try:
        files = read_model_files(transport, path, workdir=workdir, timeout=READ_SECONDS, tick=ctx.tick)
    except TransportError as error:
        return Unknown(str(error))
    # As it would be stored, which leaves out what is long: the mark must be the same, whoever has read the files.
    return files if isinstance(files, Unknown) else fingerprint(files_from(as_data(files)))
