"""Read what decides about a model's memory on its host: one exec, a few KB; of a GGUF file its head. Never weights."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Callable
from functools import cache
from pathlib import Path

from deployments.fit.answers import list_sizes, read_folder, read_parts, why_not
from deployments.fit.files import ModelFiles
from deployments.fit.gguf import GgufHeader, MoreNeeded, NotGguf, read_header
from hosts.probe.frames import Frame, FrameReader, Section, Unknown
from hosts.transport.base import CommandTimeout, LinkLost, Stream, Transport, no_tick
from hosts.transport.deadline import Deadline

ARGV = ("sh", "-s")
READ_SECONDS = 60.0
"""For everything: a head of some MB over a slow link, from a disk that has to wake up."""


@cache
def _script() -> str:
    return Path(__file__).with_name("read.sh").read_text()


def script(token: str, path: str, workdir: str) -> bytes:
    """The script with its values, which stand in nobody's process list. Raises ValueError for a NUL in one."""
    values = {"TOKEN": token, "MODEL": path, "WORKDIR": workdir}
    if any("\0" in value for value in values.values()):
        raise ValueError("The path of the model holds a NUL character.")
    lines = [f"{name}={shlex.quote(value)}" for name, value in values.items()]
    return "\n".join([*lines, _script()]).encode()


def read_model_files(
    transport: Transport,
    path: str,
    *,
    workdir: str = "",
    timeout: float = READ_SECONDS,
    tick: Callable[[], None] = no_tick,
) -> ModelFiles | Unknown:
    """What stands at ``path``, a folder or a GGUF file; one that is relative counts from ``workdir``.

    Unknown when there is nothing or it may not be read. Raises TransportError when the host cannot be asked.
    """
    token = secrets.token_hex(8)
    conversation = _Conversation(FrameReader(token))
    deadline = Deadline(timeout)
    with transport.stream(ARGV, stdin=script(token, path, workdir), keep_stdin_open=True) as stream:
        while not conversation.frame.complete:
            data = stream.read(timeout=min(0.5, deadline.remaining()))
            tick()
            if deadline.passed:
                raise CommandTimeout(f"The host did not tell of the model within {timeout:.0f} s.")
            if data == b"":
                raise LinkLost("The host's answer about the model was cut.")
            if data is not None:
                conversation.take(data, stream)
    frame = conversation.frame
    nothing = why_not(frame, path)
    if nothing is not None:
        return nothing
    return read_parts(conversation.heads, frame, path) if "parts" in frame.sections else read_folder(frame, path)


class _Conversation:
    """Takes what the script says, and tells it after each piece of a GGUF head whether more is needed."""

    def __init__(self, reader: FrameReader) -> None:
        self.frame = Frame()
        self.heads: dict[int, GgufHeader | Unknown] = {}
        self._reader = reader
        self._answered: set[str] = set()
        self._pieces: dict[int, bytes] = {}

    def take(self, data: bytes, stream: Stream) -> None:
        """Raises LinkLost when the script is no longer there to be answered."""
        frames = self._reader.feed(data)
        self.frame = frames[-1] if frames else self._reader.rest()
        for name, section in self.frame.sections.items():
            if name.startswith("head.") and name not in self._answered:
                self._answered.add(name)
                stream.write(b"more\n" if self._wants_more(section) else b"next\n")

    def _wants_more(self, section: Section) -> bool:
        """Adds a piece to its part's head, which is kept once it is complete."""
        part = int(section.name.split(".")[1])
        data = self._pieces[part] = self._pieces.get(part, b"") + section.content
        try:
            self.heads[part] = read_header(data, file_size=self._file_size(part))
        except MoreNeeded:
            self.heads[part] = Unknown("The head of the GGUF file is longer than the panel reads, or the file is cut.")
            return bool(section.content)
        except NotGguf as reason:
            self.heads[part] = Unknown(f"The model file cannot be read as GGUF. {reason}")
        self._pieces[part] = b""
        return False

    def _file_size(self, part: int) -> int:
        listed = self.frame.get("parts")
        sizes = list(list_sizes(listed).values()) if isinstance(listed, Section) else []
        return sizes[part] if part < len(sizes) else 0
