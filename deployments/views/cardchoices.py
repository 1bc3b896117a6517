"""The cards that a form offers, by host."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hosts.models import Gpu, Host


def card_choices(gpus: Iterable[Gpu], hosts: Iterable[Host]) -> dict[str, Any]:
    """Context of ``_card_choices.html``. ``hosts``: those that can be chosen; some have no card that is known."""
    by_host: dict[Host, list[Gpu]] = {}
    for gpu in gpus:
        by_host.setdefault(gpu.host, []).append(gpu)
    return {"cards": by_host.items(), "cardless": "|".join(str(host.pk) for host in hosts if host not in by_host)}
