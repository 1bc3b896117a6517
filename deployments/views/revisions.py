"""Revisions by the numbers in addresses."""

from __future__ import annotations

from typing import TypeGuard

from deployments.models import Profile, Revision


def is_number(text: str | None) -> TypeGuard[str]:
    """May it be the number of a row?"""
    return text is not None and text.isdecimal() and len(text) < 19


def revision_numbered(profile: Profile, number: str | None) -> Revision | None:
    """A profile's revision by the number in an address; None for one that is not there."""
    return profile.revisions.filter(number=int(number)).first() if is_number(number) else None
