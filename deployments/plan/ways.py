"""By which way a server is started: by us, by a unit of systemd, by a container's engine. PURE.

As text, stored with a deployment (what it is told to use) and with a launch (what was used): the kind, and where one
is needed the name, as in ``unit chat.service``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class By(StrEnum):
    """Who starts a server."""

    AUTO = ""
    WRAPPER = "wrapper"
    TRANSIENT = "transient"
    UNIT = "unit"
    CONTAINER = "container"
    COMPOSE = "compose"
    RUN = "run"


LABELS = {
    By.AUTO: "By itself: as what serves now was started",
    By.WRAPPER: "Relaunch: a process on its own",
    By.TRANSIENT: "Relaunch: a unit of systemd, made for each start",
    By.UNIT: "A unit of systemd that is there",
    By.CONTAINER: "A docker container that is there",
    By.COMPOSE: "A service of docker compose",
    By.RUN: "A container, made for each start",
}
NAMED = frozenset({By.UNIT, By.CONTAINER, By.COMPOSE, By.RUN})
CHOICES = tuple(by for by in LABELS if by != By.RUN)
"""What a deployment may be told: a docker run is in the revision."""
CONTAINER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,200}", re.ASCII)
SHAPES = {
    By.UNIT: (re.compile(r"[A-Za-z0-9:_.\\@-]{1,240}\.service", re.ASCII), "the name of a unit, as in chat.service"),
    By.CONTAINER: (CONTAINER, "the name of a container, as in chat"),
    By.RUN: (CONTAINER, "the name of a container, as in chat"),
    By.COMPOSE: (
        re.compile(r"[a-z0-9][a-z0-9_-]{0,99}/[A-Za-z0-9_.][A-Za-z0-9_.-]{0,99}", re.ASCII),
        "PROJECT/SERVICE, as in llm/chat",
    ),
}


@dataclass(frozen=True)
class Way:
    """One way. ``name``: of the unit or container, PROJECT/SERVICE of compose, else empty."""

    by: By = By.AUTO
    name: str = ""

    @classmethod
    def of(cls, text: str) -> Way:
        """From what is stored. Raises ValueError with a sentence for anything else."""
        kind, _, name = text.partition(" ")
        if kind not in set(By):
            raise ValueError(f"“{text}” is no way to start a server.")
        return cls.named(By(kind), name)

    @classmethod
    def named(cls, by: By, name: str = "") -> Way:
        """As a person has chosen it; raises ValueError with a sentence for a name that cannot be one."""
        if by not in NAMED:
            return cls(by)
        if by == By.UNIT and name and "." not in name:
            name += ".service"
        shape, words = SHAPES[by]
        if not shape.fullmatch(name):
            raise ValueError(f"Write {words}." if not name else f"“{name}” is not {words}.")
        return cls(by, name)

    def __str__(self) -> str:
        return f"{self.by} {self.name}".strip()

    @property
    def project(self) -> str:
        """Of a service of compose."""
        return self.name.partition("/")[0]

    @property
    def service(self) -> str:
        """Of compose."""
        return self.name.partition("/")[2]


AUTO = Way()


def unit_of(launch: str) -> str:
    """The unit that is made for one launch, by its id."""
    return f"relaunch-{launch}.service"
