"""How people get in: one-time links, and a brake on guessing passwords."""

import hashlib
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth.models import Group, User
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from controlpanel import audit
from controlpanel.access import Role
from controlpanel.models import FailedSignIn, OneTimeLink

LINK_ROUTE = "sign-in/<str:token>/"  # here, because making a link should not load all pages
LINK_LIFE = timedelta(hours=24)
FAILURES_COUNT_FOR = timedelta(minutes=15)
FAILURES_PER_PERSON = 5  # for one user name from one address
FAILURES_PER_ADDRESS = 50


@dataclass(frozen=True)
class NewLink:
    """The only moment at which a token is known: afterwards only its hash is."""

    token: str
    path: str


class LinkSpent(Exception):
    """The link was used, has expired, or never existed; the three are not told apart."""


def somebody_can_sign_in() -> bool:
    """Whether an active administrator with a password exists."""
    administrators = User.objects.filter(is_active=True, groups__name=Role.ADMINISTRATOR)
    return any(user.has_usable_password() for user in administrators)


def nobody_is_known() -> bool:
    """Whether no person was ever added: then the sign-in page may say so, there is nothing to give away."""
    return not User.objects.exists()


def make_link(*, user: User | None = None, actor: User | None = None, address: str = "") -> NewLink:
    """Make a link that works once within 24 hours: for `user` to choose a password, or for the first
    administrator. `actor` None: somebody at the panel's machine.
    """
    token = secrets.token_urlsafe(32)
    now = timezone.now()
    purpose = OneTimeLink.Purpose.PASSWORD if user else OneTimeLink.Purpose.SIGN_IN
    with transaction.atomic():
        if user is not None:  # whoever has an earlier one must not come in by it later
            OneTimeLink.objects.filter(user=user, used_at=None).update(used_at=now)
        link = OneTimeLink.objects.create(
            token_hash=_hash(token), purpose=purpose, user=user, created_at=now, expires_at=now + LINK_LIFE
        )
        detail = {"link": link.pk, "purpose": purpose}
        audit.record("made one-time link", actor=actor, target=user, detail=detail, address=address)
    return NewLink(token=token, path=f"/{LINK_ROUTE}".replace("<str:token>", token))


def find_link(token: str) -> OneTimeLink:
    """Return the link of `token` if it still works, without using it up. Raises `LinkSpent`."""
    working = OneTimeLink.objects.filter(used_at=None, expires_at__gt=timezone.now()).exclude(user__is_active=False)
    link = working.filter(token_hash=_hash(token)).first()
    if link is None:
        raise LinkSpent
    return link


def use_link(token: str, *, user_name: str, password: str, address: str) -> User:
    """Use the link up and return the person who may now sign in: created, or with a new password.

    Raises `LinkSpent` when somebody was faster, and `IntegrityError` when the name is taken.
    """
    link = find_link(token)
    with transaction.atomic():
        won = OneTimeLink.objects.filter(pk=link.pk, used_at=None).update(used_at=timezone.now())
        if not won:
            raise LinkSpent
        user = link.user or _new_administrator(user_name)
        user.set_password(password)
        user.save(update_fields=["password"])
        audit.record("used one-time link", actor=user, target=user, detail={"link": link.pk}, address=address)
    return user


def _new_administrator(user_name: str) -> User:
    """Return a new person with every role: the first administrator works alone until others are added."""
    if User.objects.filter(username__iexact=user_name).exists():
        raise IntegrityError("the user name is taken")
    user = User.objects.create_user(user_name)
    give_roles(user, roles=Role)
    return user


def invite(user_name: str, *, roles: Sequence[Role]) -> User | None:
    """Return the person of this name with `roles` (none given: as they are), added where roles say what they may do.

    Returns None when they do not exist and no role is given.
    """
    with transaction.atomic():
        user = User.objects.filter(username=user_name).first()
        if user is None and not roles:
            return None
        if user is None:
            user = User.objects.create_user(user_name)
        if roles:
            give_roles(user, roles=roles)
            audit.record("gave roles", actor=None, target=user, detail={"roles": [str(role) for role in roles]})
    return user


def give_roles(user: User, *, roles: Iterable[Role]) -> None:
    """Put `user` into exactly the groups of `roles`."""
    user.groups.set(Group.objects.filter(name__in=list(roles)))


def is_braked(*, user_name: str, address: str) -> bool:
    """Whether there were too many wrong passwords lately, for this name from this address or from this
    address at all.
    """
    recent = FailedSignIn.objects.filter(at__gt=timezone.now() - FAILURES_COUNT_FOR, address=address)
    return (
        recent.filter(user_name=user_name.lower()[:150]).count() >= FAILURES_PER_PERSON
        or recent.count() >= FAILURES_PER_ADDRESS
    )


def note_failure(*, user_name: str, address: str) -> None:
    """Remember a wrong password, and forget those that no longer count."""
    now = timezone.now()
    with transaction.atomic():
        FailedSignIn.objects.filter(at__lt=now - FAILURES_COUNT_FOR).delete()
        FailedSignIn.objects.create(user_name=user_name.lower()[:150], address=address, at=now)
        audit.record(
            "failed to sign in",
            actor=None,
            target=None,
            detail={"user_name": user_name[:150]},
            address=address,
        )


def forget_failures(*, user_name: str, address: str) -> None:
    """Start counting anew after a right password."""
    FailedSignIn.objects.filter(Q(user_name=user_name.lower()[:150]) & Q(address=address)).delete()


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
