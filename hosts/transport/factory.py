"""From a host's row to a link to it."""

from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings

from hosts.keys import load_private_key, panel_key_path
from hosts.transport.base import ConnectError, PublicHostKey, Transport
from hosts.transport.deadline import Deadline
from hosts.transport.local import LocalTransport
from hosts.transport.pct import PctTransport
from hosts.transport.ssh import SshLogin, SshTarget, SshTransport, connect_ssh

if TYPE_CHECKING:
    from hosts.models import Host

MAX_HOPS = 4


def open_transport(host: "Host", *, timeout: float) -> Transport:
    """A new link to this host within `timeout` seconds. Raises ConnectError; the caller closes it."""
    return _open(host, Deadline(timeout), hops=0)


def link_signature(host: "Host") -> tuple[object, ...]:
    """What a link depends on. When it has changed, a link that is open leads to the wrong place."""
    own = (host.transport, host.address, host.port, host.user, host.vmid, host.key_source, host.key_path)
    return (*own, host.sudo, _pinned_keys(host), *((link_signature(host.via)) if host.via is not None else ()))


def _open(host: "Host", deadline: Deadline, *, hops: int) -> Transport:
    if hops > MAX_HOPS:
        raise ConnectError(f"{host} is reached through itself.", hint="Correct 'via' on the host's page.")
    if host.transport == "local":
        return LocalTransport()
    if host.transport == "pct":
        return _open_container(host, deadline, hops=hops)
    return _open_ssh(host, deadline, hops=hops)


def _open_container(host: "Host", deadline: Deadline, *, hops: int) -> Transport:
    if host.via is None or host.vmid is None:
        raise ConnectError(f"{host} names no Proxmox node.", hint="Choose its node on the host's page.")
    node = _open(host.via, deadline, hops=hops + 1)
    return PctTransport(node, vmid=host.vmid, sudo=host.via.sudo)


def _open_ssh(host: "Host", deadline: Deadline, *, hops: int) -> SshTransport:
    target = SshTarget(
        address=host.address,
        port=host.port,
        user=host.user,
        pinned=_pinned_keys(host),
        allow_local=bool(getattr(settings, "RELAUNCH_ALLOW_LOOPBACK_HOSTS", False)),
    )
    login = _login(host)
    via = _open_jump(host.via, deadline, hops=hops + 1) if host.via is not None else None
    try:
        return connect_ssh(target, login=login, timeout=deadline.remaining(), via=via)
    except BaseException:
        if via is not None:
            via.close()
        raise


def _open_jump(host: "Host", deadline: Deadline, *, hops: int) -> SshTransport:
    jump = _open(host, deadline, hops=hops)
    if not isinstance(jump, SshTransport):
        jump.close()
        raise ConnectError(
            f"{host} cannot carry an SSH connection.", hint="Choose a host reached by SSH as the jump host."
        )
    return jump


def _pinned_keys(host: "Host") -> tuple[PublicHostKey, ...]:
    trusted = host.keys.filter(pinned_at__isnull=False).values_list("key_type", "key_base64")
    return tuple(PublicHostKey(key_type, key_base64) for key_type, key_base64 in trusted)


def _login(host: "Host") -> SshLogin:
    if host.key_source == "agent":
        return SshLogin(agent=True)
    if host.key_source == "file":
        return SshLogin(key=load_private_key(Path(host.key_path).expanduser()))
    return SshLogin(key=load_private_key(panel_key_path(Path(settings.DATA_DIR))))
