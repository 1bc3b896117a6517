"""Which pages may open the websocket: only those of this very panel."""

from collections.abc import Awaitable, Callable
from typing import Any

from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.http.request import split_domain_port, validate_host

Asgi = Callable[[dict[str, Any], Callable[..., Awaitable[Any]], Callable[..., Awaitable[Any]]], Awaitable[Any]]


def same_origin_only(application: Asgi) -> Asgi:
    """Refuse a handshake from a foreign page before anything else is done with it."""

    async def guarded(scope: dict[str, Any], receive: Any, send: Any) -> Any:
        if is_own_origin(scope):
            return await application(scope, receive, send)
        return await WebsocketDenier()(scope, receive, send)

    return guarded


def is_own_origin(scope: dict[str, Any]) -> bool:
    """Whether scheme, host name and port of the page are those it reached us by, or listed in
    CSRF_TRUSTED_ORIGINS.

    Comparing host names alone would let in any other program's page on the same machine, with the panel's
    cookies.
    """
    headers = dict(scope.get("headers", []))
    try:
        origin, host = headers[b"origin"].decode("ascii"), headers[b"host"].decode("ascii")
    except (KeyError, UnicodeDecodeError):
        return False
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    name, _ = split_domain_port(host.lower())
    scheme = "https" if scope.get("scheme") == "wss" else "http"
    return validate_host(name, settings.ALLOWED_HOSTS) and origin.lower() == f"{scheme}://{host.lower()}"
