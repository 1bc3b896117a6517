"""Who is behind a websocket: asked anew each time, so that a sign-out or a lost role counts at once.
Uses the database.
"""

from types import SimpleNamespace
from typing import Any, cast

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest, parse_cookie


def session_key(scope: dict[str, Any]) -> str | None:
    """Return the session key in the cookies of a handshake."""
    cookies = dict(scope.get("headers", [])).get(b"cookie", b"").decode("latin-1")
    return parse_cookie(cookies).get(settings.SESSION_COOKIE_NAME)


def person_of(key: str | None) -> User | None:
    """Return the active user whose session this is, with the session hash checked; None when nobody's."""
    if not key:
        return None
    session = SessionStore(key)
    if session.is_empty():
        return None
    user = get_user(cast(HttpRequest, SimpleNamespace(session=session, META={})))
    return user if isinstance(user, User) and user.is_active else None
