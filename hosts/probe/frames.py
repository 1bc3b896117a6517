"""The probe's output, cut into sections. PURE.

A section counts only with its own status line, and a frame only with its end: what was cut off means nothing.
Every parser of this package returns its value or an Unknown with the reason, never a zero in its place.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

MAX_PENDING = 32 * 1024 * 1024


@dataclass(frozen=True)
class Unknown:
    """Could not be measured, and why, in words for a person."""

    reason: str


CUT_OFF = Unknown("The host's answer was cut off before this part was complete.")
NOT_ASKED = Unknown("This was not looked at.")


@dataclass(frozen=True)
class Section:
    """The whole output of one question, and the exit status of the command that answered it."""

    name: str
    content: bytes
    status: int

    @property
    def text(self) -> str:
        return self.content.decode(errors="replace")


@dataclass(frozen=True)
class Frame:
    """One look at a machine. `complete` when it ended as it should."""

    sections: Mapping[str, Section] = field(default_factory=lambda: MappingProxyType({}))
    complete: bool = False

    def get(self, name: str) -> Section | Unknown:
        """The section, or why there is none."""
        section = self.sections.get(name)
        if section is not None:
            return section
        return NOT_ASKED if self.complete else CUT_OFF

    def merged_with(self, other: "Frame") -> "Frame":
        """Both frames' sections; the other's where both have one."""
        sections = MappingProxyType({**self.sections, **other.sections})
        return Frame(sections, self.complete and other.complete)


class FrameReader:
    """Takes output as it comes and gives back frames as they end."""

    def __init__(self, token: str) -> None:
        self._line = re.compile(
            rb"\n@relaunch " + re.escape(token.encode()) + rb" (begin|end|beat|section|status)(?: (\S+))?\n"
        )
        self._pending = b"\n"
        self._sections: dict[str, Section] = {}
        self._name: str | None = None

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that this piece of output completed, oldest first."""
        self._pending += data
        frames: list[Frame] = []
        position = 0
        while found := self._line.search(self._pending, position):
            content = self._pending[position : found.start()]
            frame = self._take(found.group(1), (found.group(2) or b"").decode(errors="replace"), content)
            if frame is not None:
                frames.append(frame)
            position = found.end()
        self._pending = self._pending[position:]
        if len(self._pending) > MAX_PENDING:
            self._pending, self._name = b"", None
        return frames

    def rest(self) -> Frame:
        """What there is of a frame that has not ended."""
        return Frame(MappingProxyType(dict(self._sections)), complete=False)

    def _take(self, word: bytes, argument: str, content: bytes) -> Frame | None:
        if word == b"section":
            self._name = argument
        elif word == b"status" and self._name is not None:
            if re.fullmatch(r"[0-9]{1,3}", argument):
                self._sections[self._name] = Section(self._name, content, int(argument))
            self._name = None
        elif word in (b"begin", b"end"):
            sections, self._sections, self._name = self._sections, {}, None
            if word == b"end":
                return Frame(MappingProxyType(sections), complete=True)
        return None


def parse_frame(output: bytes, *, token: str) -> Frame:
    """The one frame of a probe that ran once; what is left of it when it was cut off."""
    reader = FrameReader(token)
    frames = reader.feed(output)
    return frames[-1] if frames else reader.rest()
