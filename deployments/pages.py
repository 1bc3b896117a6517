"""The pages on which a server tells its configuration, asked through the link to its host."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable

from controlpanel.masking import mask_values
from deployments import http
from deployments.engines.base import Engine
from deployments.engines.request import HttpRequest
from hosts.transport.base import Transport, TransportError

PAGE_SECONDS = 15.0


def pages_of(
    transport: Transport,
    port: int,
    engine: Engine,
    *,
    key: str = "",
    hide: Callable[[object], object] = mask_values,
    tick: Callable[[], None],
) -> dict[str, object]:
    """Path -> what its JSON holds, secrets masked by ``hide``. A page that does not answer is left out.

    ``key``: of the server's API, where it is a server of ours.
    """
    pages: dict[str, object] = {}
    for path in engine.pages:
        with contextlib.suppress(http.NoAnswer, TransportError, ValueError, RecursionError):
            answer = http.ask(transport, port, HttpRequest("GET", path, timeout=PAGE_SECONDS), tick=tick, key=key)
            if answer.status == 200:
                pages[path] = hide(json.loads(answer.body))
    return pages
