"""Addresses of chats and mail, and sending there. Apprise knows the services; it is loaded only where it is needed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

LOCAL = frozenset({"dbus", "glib", "gnome", "macosx", "syslog", "windows"})
"""Kinds of address that mean the panel's own machine, where nobody looks."""

LOCAL_OR_ENDLESS = frozenset({"template", "keyfile", "subfile", "pgpkey", "attach", "rto", "cto", "retry", "wait"})
"""Options that read a file of the panel's own machine, or make it wait."""

EXAMPLES = "Examples: mailtos://user:password@example.com, slack://token_a/token_b/token_c, ntfys://ntfy.sh/topic."
HTTP_STATUS = re.compile(r"error[=:]\s*(\d{3})\b")


class BadAddress(ValueError):
    """Nothing can be sent there; says what to write. Never holds the address."""


@dataclass(frozen=True)
class Unsent:
    """Why it was not sent, without the address."""

    reason: str


def service_of(url: str) -> str:
    """What kind of address it is, in words. Raises BadAddress."""
    kind, slashes, _ = url.partition("://")
    if not slashes or not kind.isascii():
        raise BadAddress(f"This is no address of a chat or mail service. {EXAMPLES}")
    options = {name.lower() for name, _ in parse_qsl(urlsplit(url).query, keep_blank_values=True)}
    if LOCAL_OR_ENDLESS & options:
        raise BadAddress(f"An address may not hold any of these options: {', '.join(sorted(LOCAL_OR_ENDLESS))}.")
    import apprise

    plugin = apprise.Apprise.instantiate(url, suppress_exceptions=True)
    if plugin is None:
        raise BadAddress(
            f"No service can be reached by this address: its kind or one of its parts is wrong. {EXAMPLES}"
        )
    if type(plugin).__module__.rpartition(".")[2] in LOCAL:
        raise BadAddress("Nobody would see it: that is the panel's own machine.")
    return str(plugin.service_name)


def send(url: str, *, title: str, text: str) -> Unsent | None:
    """Send one message; None when the service has taken it. Takes up to some ten seconds."""
    import apprise

    plugin = apprise.Apprise.instantiate(url, suppress_exceptions=True)
    if plugin is None:
        return Unsent("The address is not understood any more. Enter it again.")
    with apprise.LogCapture(level=apprise.logging.INFO) as said:
        try:
            sent = plugin.notify(body=text or title, title=title, notify_type=apprise.NotifyType.WARNING)
        except Exception as error:  # of whichever of a hundred plugins; its text may hold parts of the address
            return Unsent(f"The message could not be made for that service ({type(error).__name__}).")
        status = HTTP_STATUS.search(said.getvalue())
    if sent:
        return None
    # What it says itself may hold parts of the address.
    answer = f"it answered with HTTP status {status[1]}" if status else "it did not answer, or refused"
    return Unsent(f"The service has not taken it: {answer}.")
