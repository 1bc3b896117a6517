"""Build the scripts that act on a host, and read what they say. PURE.

A script goes to ``sh`` on stdin, values quoted into assignments at its top: nothing of it is ever in argv, where
every user of the host could read it. Answers are lines ``@TOKEN word ...``; a log line carries its bytes after it.
"""

from __future__ import annotations

import secrets as randomness
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hosts.probe.cardlock import script as lock_script
from hosts.probe.port import script as try_port

HERE = Path(__file__).parent
SH = ("sh", "-s")
CALL = "main 3<&0 </dev/null; exit\n"


@dataclass(frozen=True)
class Said:
    """One line of a script: its first word, the others, and the bytes of a log line."""

    word: str
    rest: tuple[str, ...] = ()
    payload: bytes = b""

    @property
    def text(self) -> str:
        """The words after the first, as one text."""
        return " ".join(self.rest)


@dataclass(frozen=True)
class Script:
    """A script ready to be sent: ``argv`` to run, ``stdin`` to send, and the token its answers carry."""

    stdin: bytes
    token: str
    argv: tuple[str, ...] = SH

    def reader(self) -> ScriptReader:
        """A reader for this script's answers."""
        return ScriptReader(self.token)


@cache
def _part(name: str) -> str:
    shared = {"port": try_port, "cardlock": lock_script}
    return shared[name]() if name in shared else (HERE / f"{name}.sh").read_text()


def build(*parts: str, values: Mapping[str, object]) -> Script:
    """Put a script together from the ``.sh`` files ``parts``, with ``values`` assigned at its top.

    ``port`` is the probe's file, which tries a port; its ``cardlock`` comes with every script.

    Raises ValueError for a value with a NUL, which no shell can hold.
    """
    token = randomness.token_hex(8)
    lines = _assigned({**values, "TOKEN": token})
    # One function, called in the last line: when it runs, all of the script has been read, and what is left
    # of stdin is its own (common.sh: end_with_stdin).
    body = "\n".join(
        [
            *lines,
            "main() {",
            _part("process"),
            _part("cardlock"),
            _part("common"),
            *(_part(part) for part in parts),
            "}",
            CALL,
        ]
    )
    return Script(body.encode(), token)


def _assigned(values: Mapping[str, object]) -> list[str]:
    lines = []
    for name, value in values.items():
        text = " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        if "\0" in text:
            raise ValueError(f"{name} holds a NUL character")
        lines.append(f"{name}={shlex.quote(text)}")
    return lines


User = tuple[int | None, int | None]
"""uid and gid; None: as the login."""
LOGIN: User = (None, None)


def wrapper(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    workdir: str,
    user: User = LOGIN,
    secrets: bool = False,
    settings: bool = False,
) -> str:
    """The text of a launch's wrapper: it becomes ``argv`` in ``workdir`` with ``env`` added, as ``user``.

    ``secrets``: with those of the launch's own file in its environment too, and the file gone. ``settings``: told by
    ``--config`` where the engine's own file with its key is.
    """
    lines = [*_become(user), *_exports(env)]
    if workdir:
        lines.insert(0, f"cd {shlex.quote(workdir)} || exit 1")
    if secrets:
        # A file that is not there ends the shell: without its secrets the server does not start.
        lines += ['. "$DIR/secrets"', 'rm -f "$DIR/secrets"']
    as_user = "" if user[0] is None else f"setpriv --reuid={user[0]} --regid={user[1]} $MEMBERS "
    where = "$DIR"
    if settings and user[0] is not None:
        where = "$WITHIN_REACH"
        lines += _within_reach(user)
    lines.append(f"exec {as_user}{shlex.join(argv)}" + (f' --config "{where}/settings.yaml"' if settings else ""))
    return _part("run").replace("@COMMAND@", "\n".join(f"    {line}" for line in lines))


def _become(user: User) -> list[str]:
    """Whose home and groups it has. Only after the record and the log are open, which are root's."""
    if user[0] is None:
        return []
    return [
        "MEMBERS=--clear-groups",
        f"if USER=$(id -nu {user[0]} 2> /dev/null); then",
        f"    HOME=$(getent passwd {user[0]} | cut -d : -f 6)",
        "    HOME=${HOME:-/}",
        "    LOGNAME=$USER MEMBERS=--init-groups",
        "    export HOME USER LOGNAME",
        "fi",
    ]


def _within_reach(user: User) -> list[str]:
    """The engine's own file where the server may read it, and nobody else: another user may not enter root's home."""
    copy = 'umask 077 && mkdir "$WITHIN_REACH" && cp "$DIR/settings.yaml" "$WITHIN_REACH/"'
    own = f'chown -R {user[0]}:{user[1]} "$WITHIN_REACH"'
    return ["WITHIN_REACH=/run/relaunch-${DIR##*/}", f"({copy} && {own}) || exit 1"]


def _exports(env: Mapping[str, str]) -> list[str]:
    return [f"export {name}={shlex.quote(value)}" for name, value in env.items()]


def follower(kind: str, values: Mapping[str, object]) -> str:
    """The text of the wrapper of a launch that a ``unit`` or a ``container`` starts (follower.sh, run_KIND.sh)."""
    return "\n".join([*_assigned(values), _part("process"), _part("follower"), _part(f"run_{kind}")])


class ScriptReader:
    """Turns the bytes of a script's output into ``Said``, in whatever pieces they arrive."""

    def __init__(self, token: str) -> None:
        self._mark = f"@{token} ".encode()
        self._buffer = b""
        self.ended = False
        """The script said that it came to its end; without it the output was cut."""

    def feed(self, data: bytes) -> Iterator[Said]:
        """Everything that is complete now. Lines that are not the script's own are skipped."""
        self._buffer += data
        while True:
            line, newline, rest = self._buffer.partition(b"\n")
            if not newline:
                return
            if not line.startswith(self._mark):
                self._buffer = rest
                continue
            word, *words = line[len(self._mark) :].decode(errors="replace").split() or [""]
            payload = b""
            if word == "log":
                length = int(words[1])
                if len(rest) < length + 1:
                    return
                payload, rest = rest[:length], rest[length + 1 :]
            self._buffer = rest
            self.ended = self.ended or word == "end"
            yield Said(word, tuple(words), payload)
