"""Who may do what. Pages, sockets and services all ask `may`; there is no other place that decides.

A role is a Django group of the same name; somebody may have several. Whether a requester may approve their
own job is not decided here but by the policy of the deployment.
"""

import enum
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseBase

P = ParamSpec("P")
Person = User | AnonymousUser | AbstractBaseUser | None


class Role(enum.StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"
    ADMINISTRATOR = "administrator"


class Action(enum.StrEnum):
    LOOK = "look"
    ASK = "ask"  # request a job, cancel one
    START = "start"  # on clean cards, with a saved revision
    TEST_HOST = "test_host"  # connects anew and looks; changes nothing there
    APPROVE = "approve"
    TRUST_HOST_KEY = "trust_host_key"
    CONFIRM_KILL = "confirm_kill"
    EDIT_HOST = "edit_host"
    EDIT_PROFILE = "edit_profile"  # commands, environment, paths
    EDIT_DEPLOYMENT = "edit_deployment"  # hooks and policies too
    SET_SECRET = "set_secret"  # of a deployment; nobody ever reads one
    MANAGE_PEOPLE = "manage_people"
    BE_TOLD = "be_told"  # by chat or mail, at addresses of their own: the panel connects to these


ALLOWED: dict[Role, frozenset[Action]] = {
    Role.VIEWER: frozenset({Action.LOOK}),
    Role.OPERATOR: frozenset({Action.LOOK, Action.ASK, Action.START, Action.TEST_HOST, Action.BE_TOLD}),
    Role.APPROVER: frozenset(
        {
            Action.LOOK,
            Action.TEST_HOST,
            Action.APPROVE,
            Action.TRUST_HOST_KEY,
            Action.CONFIRM_KILL,
            Action.BE_TOLD,
        }
    ),
    Role.ADMINISTRATOR: frozenset(
        {
            Action.LOOK,
            Action.TEST_HOST,
            Action.EDIT_HOST,
            Action.EDIT_PROFILE,
            Action.EDIT_DEPLOYMENT,
            Action.SET_SECRET,
            Action.MANAGE_PEOPLE,
            Action.BE_TOLD,
        }
    ),
}


def roles_of(user: Person) -> frozenset[Role]:
    """Return the roles of an active user, asked from the database once for each user object."""
    if not isinstance(user, User) or not user.is_active:
        return frozenset()
    known: frozenset[Role] | None = getattr(user, "_relaunch_roles", None)
    if known is None:
        names = user.groups.filter(name__in=list(Role)).values_list("name", flat=True)
        known = frozenset(Role(name) for name in names)
        user._relaunch_roles = known  # type: ignore[attr-defined]
    return known


def may(user: Person, action: Action) -> bool:
    """Whether `user` may do `action`; strangers and switched-off users may do nothing."""
    return any(action in ALLOWED[role] for role in roles_of(user))


def people_who_may(*actions: Action) -> QuerySet[User]:
    """The active people who may do one of `actions`, by name."""
    roles = [role for role in ALLOWED if ALLOWED[role].intersection(actions)]
    return User.objects.filter(is_active=True, groups__name__in=roles).distinct().order_by("username")


def require(user: Person, action: Action) -> None:
    """Raise `PermissionDenied`, which becomes a 403 page, unless `user` may do `action`."""
    if not may(user, action):
        raise PermissionDenied(f"This needs a role that may {action.replace('_', ' ')}.")


def requires(
    action: Action,
) -> Callable[
    [Callable[Concatenate[HttpRequest, P], HttpResponseBase]],
    Callable[Concatenate[HttpRequest, P], HttpResponseBase],
]:
    """Decorate a view: only who may do `action` gets in."""

    def decorate(
        view: Callable[Concatenate[HttpRequest, P], HttpResponseBase],
    ) -> Callable[Concatenate[HttpRequest, P], HttpResponseBase]:
        @wraps(view)
        def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            require(request.user, action)
            return view(request, *args, **kwargs)

        return guarded

    return decorate


class Permissions:
    """For templates: `{% if may.approve %}`. An action that does not exist is an error, not a silent no."""

    def __init__(self, user: Person) -> None:
        self._user = user

    def __getitem__(self, name: str) -> bool:
        try:
            action = Action(name)
        except ValueError as wrong:
            raise LookupError(f"there is no action {name!r}") from wrong
        return may(self._user, action)
