"""Who is known to the panel and what they may do, changed by an administrator: never by oneself, never the last one."""

from __future__ import annotations

from collections.abc import Sequence

from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from controlpanel import audit, signin
from controlpanel.access import Action, Role, require
from controlpanel.models import OneTimeLink
from controlpanel.refusal import Refused


def everybody() -> QuerySet[User]:
    """All people, those who may sign in first, by name."""
    return User.objects.prefetch_related("groups").order_by("-is_active", "username")


def add(name: str, *, roles: Sequence[Role], actor: User, address: str) -> tuple[User, signin.NewLink]:
    """Add a person with roles, and make the link by which they choose a password. Raises Refused for a taken name."""
    require(actor, Action.MANAGE_PEOPLE)
    with transaction.atomic():
        _hold()
        _refuse_without(roles)
        if User.objects.filter(username__iexact=name).exists():
            raise Refused(f"There is already somebody named {name}.", hint="Choose another name.")
        user = User.objects.create_user(name)
        signin.give_roles(user, roles=roles)
        detail = {"roles": [str(role) for role in roles]}
        audit.record("add person", actor=actor, target=user, detail=detail, address=address)
        return user, signin.make_link(user=user, actor=actor, address=address)


def new_link(user: User, *, actor: User, address: str) -> signin.NewLink:
    """A link by which somebody chooses a new password; the old one counts until it is used."""
    require(actor, Action.MANAGE_PEOPLE)
    if not user.is_active:
        raise Refused(f"{user} is switched off.", hint="Switch them on first.")
    return signin.make_link(user=user, actor=actor, address=address)


def set_roles(user: User, *, roles: Sequence[Role], actor: User, address: str) -> None:
    """Give somebody exactly these roles. Raises Refused for oneself and the last administrator."""
    require(actor, Action.MANAGE_PEOPLE)
    with transaction.atomic():
        _hold()
        _refuse_without(roles)
        _refuse_oneself(user, actor)
        if Role.ADMINISTRATOR not in roles:
            _refuse_last_administrator(user)
        before = sorted(user.groups.values_list("name", flat=True))
        signin.give_roles(user, roles=roles)
        detail = {"roles": [str(role) for role in roles], "before": before}
        audit.record("change roles", actor=actor, target=user, detail=detail, address=address)


def switch(user: User, *, on: bool, actor: User, address: str) -> None:
    """Let somebody sign in, or not any more: their sessions end too. What they did stays under their name.

    Raises Refused for oneself and the last administrator.
    """
    require(actor, Action.MANAGE_PEOPLE)
    with transaction.atomic():
        _hold()
        _refuse_oneself(user, actor)
        if not on:
            _refuse_last_administrator(user)
        User.objects.filter(pk=user.pk).update(is_active=on)
        if not on:
            _end_sessions(user)
        audit.record(f"switch person {'on' if on else 'off'}", actor=actor, target=user, detail={}, address=address)


def _end_sessions(user: User) -> None:
    """Also those that would be good again once the person is switched on; and the links that were sent."""
    OneTimeLink.objects.filter(user=user, used_at=None).update(used_at=timezone.now())
    for session in Session.objects.filter(expire_date__gt=timezone.now()):
        if session.get_decoded().get("_auth_user_id") == str(user.pk):
            session.delete()


def _hold() -> None:
    """Until the transaction ends: of two administrators who switch each other off at once, one remains."""
    Group.objects.filter(name=Role.ADMINISTRATOR).update(name=F("name"))


def _refuse_without(roles: Sequence[Role]) -> None:
    if not roles:
        raise Refused("Somebody without a role sees nothing.", hint="Tick at least viewer, or switch them off.")


def _refuse_oneself(user: User, actor: User) -> None:
    if user.pk == actor.pk:
        raise Refused("Nobody changes what they may do themselves.", hint="Ask another administrator.")


def _refuse_last_administrator(user: User) -> None:
    """Raises Refused where nobody else could manage the panel then; who has not chosen a password cannot yet."""
    others = User.objects.filter(is_active=True, groups__name=Role.ADMINISTRATOR).exclude(pk=user.pk)
    if not any(other.has_usable_password() for other in others):
        raise Refused(f"{user} is the last administrator.", hint="Make somebody else an administrator first.")
