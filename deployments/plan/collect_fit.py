"""Read what decides about memory of the model that a job launches, once, while nothing is touched yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deployments.decisions.verify import CardSeen
from deployments.engines.base import Engine
from deployments.fit import store
from deployments.fit.estimate import KV_FLAGS
from deployments.fit.files import ModelFiles
from deployments.fit.read import read_model_files
from deployments.fit.served import Served, served_of
from deployments.lifecycle import JobKind
from deployments.models import Launch, Revision
from deployments.plan.fitting import Fit, Room, ToFit, refusal
from deployments.plan.flagcheck import FlagCheck
from hosts.probe.frames import Unknown
from hosts.transport.base import CommandTimeout, OutputTooLarge

if TYPE_CHECKING:
    from deployments.steps.base import StepContext

READ_SECONDS = 15.0
"""A plan does not wait longer for a disk that has to wake up: then it is not known whether it fits."""
DRAFT_FLAGS = ("--speculative-draft-model-path", "--speculative-draft-model")
KNOWN_ENGINES = frozenset(KV_FLAGS)
SERVED_LAUNCHES = 20
"""So far back is looked for one that served on the same cards."""
IN_A_CONTAINER = Unknown("It runs in a container of its own image, and the model's files in there are not read.")


def to_fit(
    ctx: StepContext, revision: Revision | None, *, version: str | Unknown | None, flags: FlagCheck
) -> ToFit | None:
    """What the estimate needs beside the cards; None where nothing is launched, or by an engine that has no formula.

    ``version``, ``flags``: what was asked of the engine on the host already. Raises TransportError.
    """
    if revision is None or ctx.job.kind == JobKind.STOP or ctx.engine.key not in KNOWN_ENGINES:
        return None
    path = model_of(ctx.engine, revision)
    return ToFit(
        path if isinstance(path, Unknown) else _files(ctx, path, revision.workdir),
        draft=_draft(ctx, revision),
        served=last_served(revision, ctx.placement.gpu_uuids),
        version=_installed(version, flags),
    )


def _installed(version: str | Unknown | None, flags: FlagCheck) -> str:
    """By whoever could tell it; empty where nobody could."""
    if isinstance(version, str):
        return version
    return flags.catalogue.version if flags.catalogue is not None else ""


def model_of(engine: Engine, revision: Revision) -> str | Unknown:
    """The path of its model on the host, or why there are no files to read."""
    if revision.container:
        return IN_A_CONTAINER
    path = engine.model_path(revision.argv)
    if path is not None:
        return path
    named = engine.flag(revision.argv, engine.model_flags)
    if named is None:
        return Unknown("The command does not name the path of a model.")
    return Unknown(f"The command names the model {named}, which is no path on the host: its files are not read.")


def draft_of(engine: Engine, revision: Revision) -> str | None:
    """The path of a draft model with files of its own."""
    path = engine.flag(revision.argv, DRAFT_FLAGS)
    return path if path and path.startswith(("/", "~", "./")) and not revision.container else None


def _draft(ctx: StepContext, revision: Revision) -> ModelFiles | None:
    path = draft_of(ctx.engine, revision)
    found = _files(ctx, path, revision.workdir) if path is not None else None
    return found if isinstance(found, ModelFiles) else None


def _files(ctx: StepContext, path: str, workdir: str) -> ModelFiles | Unknown:
    """As this job has read them already, else as they are now; once something was touched, as they are known."""
    before = store.known(ctx.host, path, workdir)
    if before is not None and before.found is not None and before.read_at is not None:
        is_of_now = ctx.job.touched or before.read_at >= ctx.job.created_at
        if is_of_now:
            return before.found
    if ctx.job.touched:
        return Unknown("The model's files were not read.")
    try:
        with ctx.link() as transport:
            found = read_model_files(transport, path, workdir=workdir, timeout=READ_SECONDS, tick=ctx.tick)
    except (CommandTimeout, OutputTooLarge) as error:
        found = Unknown(str(error))
    store.keep(ctx.host, path, workdir, found)
    return found


def why_it_cannot_fit(ctx: StepContext, cards: Sequence[CardSeen]) -> str:
    """Why what this round launches cannot start in the memory that is free now, in a sentence; empty where that is not
    known. By the model's files as they were read for the plan: no host is asked.
    """
    totals = {gpu.uuid: gpu.total_mib for gpu in ctx.gpus}
    rooms = [
        Room(card.uuid, card.label, totals.get(card.uuid) or 0, card.free_mib, "as it is free now")
        for card in cards
        if card.free_mib is not None
    ]
    path = model_of(ctx.engine, ctx.revision)
    row = None if isinstance(path, Unknown) else store.known(ctx.host, path, ctx.revision.workdir)
    if row is None or row.found is None or len(rooms) != len(cards):
        return ""
    known = ToFit(row.found, served=last_served(ctx.revision, ctx.placement.gpu_uuids))
    return refusal(Fit(ctx.engine, tuple(ctx.revision.argv), known, tuple(rooms)), name=str(ctx.revision))


def last_served(revision: Revision, uuids: list[str]) -> Served | None:
    """When a revision became ready last on exactly these cards, with what was measured then."""
    ready = Launch.objects.filter(revision=revision).exclude(ready_at=None).order_by("-intended_at")
    rows = ready.values_list("ready_at", "memory_used", "effective")[:SERVED_LAUNCHES]
    for at, used, effective in rows:
        if uuids and set(used) == set(uuids) and at is not None:
            return served_of(at.isoformat(timespec="seconds"), used, effective)
    return None
