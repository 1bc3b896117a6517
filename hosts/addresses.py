"""What may be typed as a host's address, port, user or container number. PURE.

Each check returns the value in its one canonical form, or raises InvalidAddress with a sentence that says
what to type instead. Nothing here looks a name up: what a name leads to is checked again when connecting.
"""

import ipaddress
import re

LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)", re.ASCII)
USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}", re.ASCII)
DIGITS = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)
NUMERIC_LABEL = re.compile(r"(?:0[xX][0-9A-Fa-f]*|[0-9]+)", re.ASCII)
LOCAL_NAMES = ("localhost", "ip6-localhost", "ip6-loopback", "localhost.localdomain")
MIN_VMID, MAX_VMID = 100, 999_999_999


class InvalidAddress(ValueError):
    """Not acceptable; the message says what to type instead."""


def check_address(text: object, *, allow_local: bool = False) -> str:
    """A host name in lower case or an IP address in its shortest form."""
    if not isinstance(text, str) or not text:
        raise InvalidAddress("Type the host's name or IP address, such as gpu1.example.org or 10.0.0.5.")
    if len(text) > 253:
        raise InvalidAddress("A host name has at most 253 characters. Type a shorter name or the IP address.")
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        return _check_name(text, allow_local=allow_local)
    if "%" in bare:
        raise InvalidAddress("Type the IP address without an interface (the part after %).")
    check_resolved(str(address), allow_local=allow_local)
    return str(address)


def _check_name(text: str, *, allow_local: bool) -> str:
    name = text[:-1] if text.endswith(".") else text
    labels = name.split(".")
    if not all(LABEL.fullmatch(label) for label in labels):
        raise InvalidAddress(
            "A host name has only letters, digits, hyphens and dots, and no part begins with a hyphen. "
            "Type the name or IP address alone, without user, port or options."
        )
    if NUMERIC_LABEL.fullmatch(labels[-1]):
        raise InvalidAddress("This looks like an IP address in an unusual form. Type it as 10.0.0.5.")
    lowered = name.lower()
    if not allow_local and (lowered in LOCAL_NAMES or lowered.endswith(".localhost")):
        raise InvalidAddress(_LOCAL)
    return lowered


_LOCAL = "This is the panel's own machine. Add it as a local host instead of by an address."


def check_resolved(address: str, *, allow_local: bool) -> None:
    """Refuse an IP address that leads back to this machine or to nowhere in particular."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    if ip.is_link_local:
        raise InvalidAddress("Link-local addresses (169.254.x.x, fe80::) are not hosts. Type the host's own address.")
    if ip.is_multicast or (ip.is_unspecified and not allow_local) or str(ip) == "255.255.255.255":
        raise InvalidAddress("This address stands for no single machine. Type the host's own address.")
    if ip.is_loopback and not allow_local:
        raise InvalidAddress(_LOCAL)


def check_port(value: object) -> int:
    """A TCP port; a whole number or its plain decimal digits."""
    number = _whole_number(value)
    if number is None or not 1 <= number <= 65535:
        raise InvalidAddress("A port is a whole number from 1 to 65535, such as 22.")
    return number


def check_vmid(value: object) -> int:
    """A Proxmox container number."""
    number = _whole_number(value)
    if number is None or not MIN_VMID <= number <= MAX_VMID:
        raise InvalidAddress("A container number is a whole number from 100 to 999999999, as `pct list` shows it.")
    return number


def check_user(text: object) -> str:
    """A Unix login name."""
    if not isinstance(text, str) or not USER.fullmatch(text):
        raise InvalidAddress(
            "A user name begins with a small letter or _ and has at most 32 small letters, digits, - and _, "
            "such as root or llm-admin."
        )
    return text


def _whole_number(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and DIGITS.fullmatch(value):
        return int(value)
    return None
