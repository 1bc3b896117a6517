"""Which variables of a server that runs must be given to it again, so that its restart finds what it found. PURE.

Left out is what the login has anyway, what belongs to the session or manager that started the server, and what the
panel sets itself. Everything else counts: which variables an engine reads, nobody can list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from controlpanel.masking import is_secret_name, mask_text
from deployments.commandline.checks import ENV_NAME

OF_THE_SESSION = re.compile(
    r"_|SHLVL|PWD|OLDPWD|HOME|USER|LOGNAME|SHELL|MAIL|TERM|TERM_.*|COLORTERM|LS_COLORS|LESS.*|PAGER|EDITOR|VISUAL"
    r"|PS[0-4]|PROMPT.*|HIST.*|HOSTNAME|HOSTTYPE|DISPLAY|XAUTHORITY|WINDOW|WINDOWID|STY|TMUX.*|BASH_.*|ENV|IFS"
    r"|PYTHONSTARTUP|SSH_.*|SUDO_.*|DBUS_.*|XDG_(?:SESSION|RUNTIME|SEAT|VTNR|DATA|CONFIG_DIRS).*"
    r"|CONDA_PROMPT_MODIFIER|VIRTUAL_ENV_PROMPT|INVOCATION_ID|JOURNAL_STREAM|SYSTEMD_EXEC_PID|MANAGERPID|MAINPID"
    r"|NOTIFY_SOCKET|WATCHDOG_.*|LISTEN_.*|MEMORY_PRESSURE_.*|SUPERVISOR_.*|CREDENTIALS_DIRECTORY|MOTD_SHOWN"
    r"|container|container_.*",
    re.ASCII,
)
"""Of whoever typed the command, or of what started it: a restart has its own."""
OF_THE_PANEL = "RELAUNCH_"
FOR_EVERY_PROGRAM = ("LD_PRELOAD", "LD_AUDIT")
"""Change how programs are loaded: no revision may hold them, and without them the server is another one."""


class NotReadable(Exception):
    """The environment is not what the server was given; the message says why, as a sentence."""


@dataclass(frozen=True)
class Given:
    """What a restart gives the server: in the open, and as secrets. ``left``: names that cannot be kept."""

    plain: Mapping[str, str] = field(default_factory=dict)
    secret: Mapping[str, str] = field(default_factory=dict, repr=False)
    left: tuple[str, ...] = ()


def read_environ(content: bytes) -> dict[str, str]:
    """Of /proc/PID/environ. Raises NotReadable where the process has written over it (setproctitle does)."""
    found: dict[str, str] = {}
    for piece in content.split(b"\0"):
        name, equals, value = piece.decode(errors="surrogateescape").partition("=")
        if equals and name:
            found.setdefault(name, value)
    if content.strip(b"\0 \n") and "PATH" not in found:
        raise NotReadable("The process has written over its own environment.")
    if content and not found:
        raise NotReadable("The process has written over its own environment.")
    return found


LONGEST_NAME = 100
"""Of a variable, as it is named on a page."""


def given_again(environ: Mapping[str, str], login: Mapping[str, str]) -> Given:
    """``login``: what every command of the panel finds on that host. Raises NotReadable for what no restart keeps."""
    plain: dict[str, str] = {}
    secret: dict[str, str] = {}
    left: list[str] = []
    for name, value in environ.items():
        if login.get(name) == value or OF_THE_SESSION.fullmatch(name) or name.startswith((OF_THE_PANEL, "BASH_FUNC_")):
            continue
        if name in FOR_EVERY_PROGRAM:
            raise NotReadable(f"It was started with {name}, which the panel sets for no server.")
        if not ENV_NAME.fullmatch(name) or not _is_plain(value):
            left.append(name.encode(errors="backslashreplace").decode()[:LONGEST_NAME])
        elif is_secret_name(name) or mask_text(value) != value:
            secret[name] = value
        else:
            plain[name] = value
    return Given(plain, secret, tuple(sorted(left)))


def _is_plain(value: str) -> bool:
    """Can a revision hold it?"""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return len(value) <= 10_000 and not any(letter in value for letter in "\n\r")
