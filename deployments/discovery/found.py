"""A server that was found running, as it is stored until somebody adopts it. PURE.

Nothing of it is a secret in the open: the command that is shown is masked, and the values of secrets are sealed.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class HeldCard:
    """A card that it holds. ``mib``: by how much, None where the driver does not tell it of this process."""

    uuid: str
    label: str
    mib: int | None = None


@dataclass(frozen=True)
class Found:
    """One server. Identity as everywhere: boot, pid and start time (clock ticks since boot)."""

    boot_id: str
    pid: int
    start_time: int
    pid_namespace: str
    engine: str
    words: tuple[str, ...]
    """Its command line as a person sees it, secrets masked."""
    port: int
    since: str
    """ISO time of its start, by the host's clock ticks."""
    user: str = ""
    keeper: str = ""
    """What looks after it, in words; empty: nobody does."""
    started_by: str = ""
    """The way by which its unit or container starts it again (plan/ways.py); empty: the panel will."""
    cards: tuple[HeldCard, ...] = ()
    processes: int = 1
    inner_pid: int = 0
    """In its own container, where it is in one of this machine's."""
    launch: str = ""
    """Of whose mark it carries: an id of this panel or of another."""
    refused: str = ""
    """Why it cannot be adopted, as sentences; empty: it can."""
    hint: str = ""
    notes: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Name -> sealed value, which opens for ``owner`` alone."""
    effective: Mapping[str, Any] = field(default_factory=dict)
    """What the engine says of its configuration; empty where it says nothing."""

    @property
    def command(self) -> str:
        """Its command line for a page."""
        return shlex.join(self.words)

    @property
    def key(self) -> str:
        """Names it among those that were found on its host."""
        return f"{self.boot_id}.{self.pid}.{self.start_time}"

    def is_process(self, boot_id: str, pid: int | None, start_time: int | None) -> bool:
        """Is it the very process that was recorded so on its host?"""
        return (self.boot_id, self.pid, self.start_time) == (boot_id, pid, start_time)

    def is_inside(self, pid: int | None, start_time: int | None) -> bool:
        """Is it the one that was recorded so in a container of its host, which has pids of its own?"""
        return self.inner_pid > 0 and (self.inner_pid, self.start_time) == (pid, start_time)

    @property
    def owner(self) -> str:
        """For whom its secrets are sealed."""
        return f"found {self.key}"

    @property
    def as_data(self) -> dict[str, Any]:
        """For a JSON field."""
        return asdict(self)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Found:
        """Of what ``as_data`` gave."""
        cards = tuple(HeldCard(**card) for card in data.get("cards", ()))
        lists = {name: tuple(data.get(name, ())) for name in ("words", "notes", "argv")}
        return cls(**{**data, **lists, "cards": cards})
