"""Who asks a service for something, and from where."""

from __future__ import annotations

from typing import TypedDict

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from controlpanel.audit import address_of


class Asking(TypedDict):
    """The two things that every service wants to know for its audit entry."""

    actor: User
    address: str


def asking(request: HttpRequest) -> Asking:
    """The signed-in person and their address. Raises PermissionDenied for anybody else."""
    if not isinstance(request.user, User):
        raise PermissionDenied("Sign in first.")
    return {"actor": request.user, "address": address_of(request)}
