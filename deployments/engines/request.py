"""A request to a server on its own port. PURE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class HttpRequest:
    """A request to the server on its own port."""

    method: str
    path: str
    body: Mapping[str, object] | None = None
    timeout: float = 10.0
