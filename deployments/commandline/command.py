"""A command as the panel stores it. PURE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Command:
    """What is started: words, environment, directory, and the container around it.

    ``container`` is empty, or {"tool": "docker" or "podman", "image": its name, "options": the words between ``run``
    and the image, as given}; ``argv`` is then the command inside, and ``env`` what the tool itself is started with.
    """

    argv: list[str]
    env: dict[str, str] = field(default_factory=dict)
    workdir: str = ""
    container: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = field(default=(), compare=False)
    """What was left out or taken another way than it was written, in sentences for the person who pasted it."""
