"""Read what decides about memory of the model that a job launches, once, while nothing is touched yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deployments.decisions.verify import CardSeen
from deployments.fit import store
from deployments.fit.estimate import KV_FLAGS
from deployments.fit.files import ModelFiles
from deployments.fit.where import draft_place, model_place
from deployments.lifecycle import JobKind
from deployments.models import ModelOnHost, Revision
from deployments.plan.fitting import Fit, Room, ToFit, refusal
from deployments.plan.flagcheck import FlagCheck
from deployments.starts import last_served
from hosts.probe.frames import Unknown

if TYPE_CHECKING:
    from deployments.steps.base import StepContext

READ_SECONDS = 15.0
"""A plan does not wait longer for a disk that has to wake up: then it is not known whether it fits."""
KNOWN_ENGINES = frozenset(KV_FLAGS)


def to_fit(
    ctx: StepContext, revision: Revision | None, *, version: str | Unknown | None, flags: FlagCheck
) -> ToFit | None:
    """What the estimate needs beside the cards; None where nothing is launched, or by an engine that has no formula.

    ``version``, ``flags``: what was asked of the engine on the host already. Raises TransportError.
    """
    if revision is None or ctx.job.kind == JobKind.STOP or ctx.engine.key not in KNOWN_ENGINES:
        return None
    path = model_place(ctx.engine, revision.argv, revision.container)
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


def _draft(ctx: StepContext, revision: Revision) -> ModelFiles | None:
    path = draft_place(ctx.engine, revision.argv, revision.container)
    found = _files(ctx, path, revision.workdir) if path is not None else None
    return found if isinstance(found, ModelFiles) else None


def _files(ctx: StepContext, path: str, workdir: str) -> ModelFiles | Unknown:
    """As this job has read them already, else as they are now; once something was touched, as they are known."""
    before = ModelOnHost.at(ctx.host, path, workdir)
    if before is not None and before.found is not None and before.read_at is not None:
        is_of_now = ctx.job.touched or before.read_at >= ctx.job.created_at
        if is_of_now:
            return before.found
    if ctx.job.touched:
        return Unknown("The model's files were not read.")
    with ctx.link() as transport:
        return store.read_and_keep(transport, ctx.host, path, workdir, timeout=READ_SECONDS, tick=ctx.tick)


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
    path = model_place(ctx.engine, ctx.revision.argv, ctx.revision.container)
    row = None if isinstance(path, Unknown) else ModelOnHost.at(ctx.host, path, ctx.revision.workdir)
    if row is None or row.found is None or len(rooms) != len(cards):
        return ""
    known = ToFit(row.found, served=last_served(ctx.revision, ctx.placement.gpu_uuids))
    return refusal(Fit(ctx.engine, tuple(ctx.revision.argv), known, tuple(rooms)), name=str(ctx.revision))
