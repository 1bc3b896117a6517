"""A traffic hook: a request that the panel sends, or a command that its host runs, to tell a router. PURE.

Both are kept as plain data with the deployment, ``{moment: data}``, and read by ``hook_of``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from controlpanel.masking import is_secret_name, mask_text

SECONDS = 30.0
"""How long a hook may take."""
METHODS = ("POST", "DELETE", "PUT", "PATCH", "GET")
KEY = "{router key}"
"""Stands in a header or a body for the deployment's secret of that name."""
LONGEST = 8000
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
ADDRESS = re.compile(r"[!-~]+", re.ASCII)
CREDENTIALS = frozenset({"authorization", "proxy-authorization", "cookie"})


class Moment(StrEnum):
    """When a hook is run."""

    TAKE_OUT = "take out"
    PUT_BACK = "put back"


class How(StrEnum):
    """Who runs it: the panel sends a request, or the host runs a command."""

    REQUEST = "request"
    COMMAND = "command"


@dataclass(frozen=True)
class Hook:
    """What is run. Of a request ``headers`` are lines ``Name: value``; of a command only ``command`` is set."""

    how: How
    method: str = ""
    url: str = ""
    headers: str = ""
    body: str = ""
    command: str = ""

    def __str__(self) -> str:
        return self.command if self.how == How.COMMAND else f"{self.method} {self.url}"

    @property
    def needs_key(self) -> bool:
        """It holds the place of the router's key."""
        return KEY in self.headers or KEY in self.body

    @property
    def as_data(self) -> dict[str, str]:
        """As it is kept."""
        return {name: str(value) for name, value in asdict(self).items() if value}

    def pairs(self, key: str) -> list[tuple[str, str]]:
        """The headers of a request, with ``key`` in its place."""
        split = (line.partition(":") for line in self.headers.splitlines() if line.strip())
        return [(name.strip(), value.strip().replace(KEY, key)) for name, _, value in split]

    def content(self, key: str) -> bytes:
        """The body of a request, with ``key`` in its place."""
        return self.body.replace(KEY, key).encode()


def hook_of(hooks: Mapping[str, Any], moment: Moment) -> Hook | None:
    """The hook that is kept for this moment."""
    data = hooks.get(moment)
    return Hook(**{**data, "how": How(data["how"])}) if data else None


def said_as(how: str, **texts: str) -> Hook:
    """A hook as a person wrote it. Raises ValueError with a sentence for what cannot be run, or would show a secret."""
    texts = {name: text.replace("\r\n", "\n").strip() for name, text in texts.items()}
    if how == How.COMMAND:
        return _command(texts.get("command", ""))
    return _request(**{name: text for name, text in texts.items() if name != "command"})


def _command(command: str) -> Hook:
    if not command:
        raise ValueError("Write the command, as it is typed on the host.")
    if KEY in command:
        raise ValueError(f"{KEY} goes into a request only: in a command every user of the host could read it.")
    _check_text(command, "The command")
    return Hook(How.COMMAND, command=command)


def _request(method: str = "", url: str = "", headers: str = "", body: str = "") -> Hook:
    if method not in METHODS:
        raise ValueError(f"Choose the method of the request: {', '.join(METHODS)}.")
    _check_url(url)
    for line in filter(None, map(str.strip, headers.splitlines())):
        _check_header(line)
    _check_text(body, "The body")
    return Hook(How.REQUEST, method=method, url=url, headers=headers, body=body)


def _check_url(url: str) -> None:
    if KEY in url:
        raise ValueError(f"{KEY} goes into a header or the body: addresses are written into logs.")
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        sound = False
    if not sound or not ADDRESS.fullmatch(url) or parts.fragment:
        raise ValueError("Write the whole address, as in http://router.example:4000/remove_worker?url=...")
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"Leave the login out of the address: everybody could read it. Write {KEY} in a header.")
    _check_text(url, "The address")


def _check_header(line: str) -> None:
    name, colon, value = line.partition(":")
    if not colon or not HEADER_NAME.fullmatch(name.strip()) or not value.isprintable() or not value.isascii():
        raise ValueError(f"“{mask_text(line)}” is not a header. Write one a line, as in Content-Type: application/json")
    if KEY in value:
        return
    if name.strip().lower() in CREDENTIALS or is_secret_name(name.strip().replace("-", "_")):
        raise ValueError(f"{name.strip()} would show the key to everybody. Write {KEY} for it, and set that secret.")
    _check_text(line, "A header")


def _check_text(text: str, what: str) -> None:
    if len(text) > LONGEST or "\0" in text:
        raise ValueError(f"{what} is too long, or holds a NUL. {LONGEST:,} characters at most.")
    plain = text.replace(KEY, "")
    if mask_text(plain) != plain:
        raise ValueError(
            f"{what} would show a secret to everybody. In a request write {KEY} in its place, in a header or the body; "
            "on the host let the command read a file."
        )
