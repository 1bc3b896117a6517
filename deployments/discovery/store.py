"""Do the looks for servers that people ask for, and keep what the newest has found."""

from __future__ import annotations

import contextlib
from typing import Any

from django.db import close_old_connections
from django.utils import timezone

from controlpanel.live import hints
from controlpanel.sealing import CannotUnseal
from deployments.discovery.found import Found
from deployments.discovery.look import look_for_servers
from deployments.models import ServerLook
from hosts import links
from hosts.models import Host
from hosts.transport.base import TransportError


def run_look(look_id: int) -> None:
    """Do one look. Rung twice, it runs once."""
    close_old_connections()
    if not ServerLook.objects.filter(pk=look_id, started_at=None).update(started_at=timezone.now()):
        return
    look = ServerLook.objects.select_related("host", "host__via").get(pk=look_id)
    hints.hint(f"servers:{look_id}")
    told: dict[str, Any] = {"problem": "The panel failed while it looked.", "hint": "Look again."}
    try:
        with links.borrow(look.host) as transport:
            told = {"servers": [found.as_data for found in look_for_servers(transport, look.host)], "problem": ""}
    except TransportError as error:
        told = {"problem": str(error), "hint": error.hint}
    except CannotUnseal as error:
        told = {"problem": error.message, "hint": error.hint}
    finally:
        ServerLook.objects.filter(pk=look_id).update(finished_at=timezone.now(), **told)
        ServerLook.objects.filter(host=look.host, pk__lt=look_id).delete()
        hints.hint(f"servers:{look_id}")


def newest(host: Host) -> ServerLook | None:
    """The last look that was asked for."""
    return ServerLook.objects.filter(host=host).first()


def servers_of(look: ServerLook | None) -> list[Found]:
    """What it has found, so far as it has; what another version of the panel has stored is looked for again."""
    found = []
    for data in look.servers if look is not None else ():
        with contextlib.suppress(TypeError, KeyError):
            found.append(Found.of(data))
    return found
