"""Whether two hosts of the panel are one machine, added twice: two jobs could then go for the same card."""

from __future__ import annotations

from django.db.models import Q

from controlpanel.refusal import Refused
from hosts.models import Gpu, Host, HostKey


def same_machine(host: Host) -> list[Host]:
    """The other hosts that are the machine of ``host``, by name: they have a card of it, or its boot and its key.

    Containers share the cards of their node, and are told apart by it. An equal key alone is that of a cloned image.
    """
    machine = host.machine
    others = Host.objects.exclude(pk=machine.pk).exclude(transport=Host.TransportKind.PCT).exclude(look_only=True)
    if machine.boot_id:  # a card may have been moved here from a machine that does not answer any more
        others = others.exclude(Q(reach=Host.Reach.UNREACHABLE) & ~Q(boot_id__in=("", machine.boot_id)))
    cards = Gpu.objects.filter(host=machine, present=True).values("uuid")
    found = set(Gpu.objects.filter(host__in=others, uuid__in=cards, present=True).values_list("host_id", flat=True))
    if machine.boot_id and machine.hostname:
        keys = HostKey.objects.filter(host=machine).exclude(pinned_at=None).values("fingerprint")
        same = others.filter(boot_id=machine.boot_id, hostname=machine.hostname)
        with_key = HostKey.objects.filter(host__in=same, fingerprint__in=keys).exclude(pinned_at=None)
        found |= set(with_key.values_list("host_id", flat=True))
    return list(others.filter(pk__in=found).order_by("name"))


def in_words(host: Host, doubles: list[Host]) -> str:
    """That they are one machine, in a sentence."""
    return f"{'This' if host.machine == host else f'The node of {host}'} is the same machine as {named(doubles)}."


def hint(host: Host, doubles: list[Host]) -> str:
    """What to do about it."""
    either = f"Remove one of {host.machine} and {named(doubles)} under Hosts."
    return f"{either} If one of them is a container of the other, add it as a container of its node."


def named(doubles: list[Host]) -> str:
    """The names of these hosts, in a row."""
    return " and ".join(str(one) for one in doubles)


def refuse_doubled(host: Host) -> None:
    """Raises Refused while another host of the panel is the same machine: each would go for its cards by itself."""
    if doubles := same_machine(host):
        raise Refused(f"{host.machine} is the same machine as {named(doubles)}.", hint=hint(host, doubles))
