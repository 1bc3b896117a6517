"""What a page may follow live: a job, its log, its memory curve, the cards, the overview."""

from __future__ import annotations


def register_streams() -> None:
    """Name the readers of this app (called once, when Django is ready)."""
