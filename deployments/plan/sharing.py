"""Cards with co-tenants: who may hold a deployment's cards beside it, and who did when the plan was made. PURE."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployments.decisions.verify import HolderSeen

COMM_LETTERS = 15
"""The kernel cuts the names of programs there."""


@dataclass(frozen=True)
class Rules:
    """Who a deployment allows: other deployments by name, and strangers as ``user:program``."""

    deployments: frozenset[str] = frozenset()
    programs: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.deployments or self.programs)

    def allow(self, *, deployment: str, users: Collection[str], program: str) -> bool:
        """May this holder share the cards? A server of ours only by its deployment, whatever its program is called.

        ``users``: the names and numbers of its user that are known.
        """
        if deployment:
            return deployment in self.deployments
        return any(_is_meant(entry, users, program) for entry in self.programs)


def _is_meant(entry: str, users: Collection[str], program: str) -> bool:
    user, colon, name = entry.partition(":")
    return bool(colon) and user in users and name[:COMM_LETTERS] == program


@dataclass(frozen=True)
class Planned:
    """The co-tenants that a plan names. Only these very processes are left alone; another one is a stranger."""

    rows: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def of(cls, plan: Mapping[str, Any] | None, *, way_back: bool = False) -> Planned:
        """From a plan's data. Of a replacement: those of the new server, or on the way back those of the old one."""
        told = plan or {}
        part = told.get("co_tenants_old" if way_back else "co_tenants_new")
        return cls(tuple(told.get("co_tenants", ()) if part is None else part))

    def covers(self, holder: HolderSeen, *, inside: bool) -> bool:
        """Is this holder one of them? ``inside``: it was seen from its container, the plan's from the node."""
        return any(_is_same(row, holder, inside) for row in self.rows)

    def missing(self, holders: Sequence[HolderSeen]) -> tuple[str, ...]:
        """Those that are not among ``holders``, in words."""
        return tuple(
            in_words(row) for row in self.rows if not any(_is_same(row, holder, inside=False) for holder in holders)
        )

    def shared(self, labels: Mapping[str, str]) -> frozenset[str]:
        """The uuids of the cards that they hold, of ``labels`` (uuid -> words)."""
        held = {label for row in self.rows for label in row["gpus"]}
        return frozenset(uuid for uuid, label in labels.items() if label in held)


def _is_same(row: Mapping[str, Any], holder: HolderSeen, inside: bool) -> bool:
    pid = (row["inner"] or row["pid"]) if inside else row["pid"]
    return bool((pid, row["start"]) == (holder.pid, holder.start_time))


def in_words(row: Mapping[str, Any]) -> str:
    """A co-tenant's row of the plan, as words."""
    whose = f"of deployment {row['deployment']}" if row["deployment"] else row["user"]
    return f"{row['name']} (pid {row['pid']}, {whose})" if whose else f"{row['name']} (pid {row['pid']})"
