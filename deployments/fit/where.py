"""Where the files of the model that a command launches stand on its host. PURE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deployments.engines.base import Engine
from hosts.probe.frames import Unknown

DRAFT_FLAGS = ("--speculative-draft-model-path", "--speculative-draft-model")
IN_A_CONTAINER = Unknown("It runs in a container of its own image, and the model's files in there are not read.")


def model_place(engine: Engine, argv: Sequence[str], container: Mapping[str, object]) -> str | Unknown:
    """The path of its model, or why there are no files to read."""
    if container:
        return IN_A_CONTAINER
    path = engine.model_path(argv)
    if path is not None:
        return path
    named = engine.flag(argv, engine.model_flags)
    if named is None:
        return Unknown("The command does not name the path of a model.")
    return Unknown(f"The command names the model {named}, which is no path on the host: its files are not read.")


def draft_place(engine: Engine, argv: Sequence[str], container: Mapping[str, object]) -> str | None:
    """The path of a draft model with files of its own; None where there is none on the host."""
    path = engine.flag(argv, DRAFT_FLAGS)
    return path if path and path.startswith(("/", "~", "./")) and not container else None
