"""Writing and checking the record of what was done.

An entry is written in the transaction of the deed itself: no entry, no deed. Each entry's hash covers the
hash before it, so that a changed or missing entry is found; whoever can rewrite the whole table can rewrite
the chain too, so keep copies of the head hash elsewhere (`manage.py verifyaudit` prints it).
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.db import connection, models, transaction
from django.db.models import F
from django.http import HttpRequest
from django.utils import timezone

from controlpanel.masking import mask_values
from controlpanel.models import AuditEntry, AuditHead

FIRST_HASH = "0" * 64
PANEL = "panel"  # the actor's name where no person acts


class NotInTransaction(RuntimeError):
    """`record` was called outside `transaction.atomic()`."""


@dataclass(frozen=True)
class ChainReport:
    """What `verify_chain` found: `broken_at` is the number of the first entry that does not fit, None when
    all do.
    """

    entries: int
    head: str
    broken_at: int | None
    reason: str = ""


def record(
    action: str,
    *,
    actor: User | AnonymousUser | None,
    target: models.Model | None,
    detail: Mapping[str, Any],
    address: str | None = None,
) -> AuditEntry:
    """Write one entry in the transaction of the deed; `detail` is masked. `actor` None means the panel
    itself.

    Raises `NotInTransaction` outside `transaction.atomic()`.
    """
    if not connection.in_atomic_block:
        raise NotInTransaction("an audit entry belongs into the transaction of what it records")
    AuditHead.objects.get_or_create(pk=1, defaults={"hash": FIRST_HASH})
    AuditHead.objects.filter(pk=1).update(length=F("length") + 1)  # holds the row until the commit
    head = AuditHead.objects.get(pk=1)
    user = actor if isinstance(actor, User) else None
    entry = AuditEntry(
        number=head.length,
        at=timezone.now(),
        actor=user,
        actor_name=user.get_username() if user else PANEL,
        address=(address or "")[:64],
        action=action,
        target_type=target._meta.label_lower if target else "",
        target_id=str(target.pk) if target else "",
        target_name=str(target)[:200].replace("\0", "") if target else "",
        detail_json=canonical(mask_values(detail)),
        previous_hash=head.hash,
    )
    entry.hash = hash_of(entry)
    entry.save(force_insert=True)
    AuditHead.objects.filter(pk=1).update(hash=entry.hash)
    return entry


def canonical(value: object) -> str:
    """Return the one JSON text of `value`; what JSON does not know becomes its text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)


def hash_of(entry: AuditEntry) -> str:
    """Return the hash of an entry, the hash before it included."""
    fields = {
        "number": entry.number,
        "at": entry.at.astimezone(UTC).isoformat(timespec="microseconds"),
        "actor": entry.actor_name,
        "address": entry.address,
        "action": entry.action,
        "target": [entry.target_type, entry.target_id, entry.target_name],
        "detail": entry.detail_json,
        "previous": entry.previous_hash,
    }
    return hashlib.sha256(canonical(fields).encode()).hexdigest()


def verify_chain() -> ChainReport:
    """Walk all entries and say whether each is what was written, none is missing, and none stands after
    the head.
    """
    with transaction.atomic():
        head = AuditHead.objects.filter(pk=1).first()
        length, head_hash = (head.length, head.hash) if head else (0, FIRST_HASH)
        previous, number = FIRST_HASH, 0
        for entry in AuditEntry.objects.order_by("number").iterator(chunk_size=2000):
            number += 1
            if entry.number != number:
                return ChainReport(number - 1, previous, number, "an entry is missing")
            if entry.previous_hash != previous or entry.hash != hash_of(entry):
                return ChainReport(number - 1, previous, number, "the entry was changed")
            previous = entry.hash
        if (number, previous) != (length, head_hash):
            return ChainReport(number, previous, number + 1, "the end of the chain is missing")
    return ChainReport(number, previous, None)


def address_of(request: HttpRequest) -> str:
    """Return where a request came from; a proxy's word counts only if the proxy is in
    RELAUNCH_TRUSTED_PROXIES.
    """
    return str(request.META.get("REMOTE_ADDR") or "")
