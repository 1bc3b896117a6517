"""Does the engine that is installed on the host know the flags of what is to be launched? PURE."""

from __future__ import annotations

from dataclasses import dataclass

from deployments.catalogue.finding import NOTE, Finding
from deployments.catalogue.model import Catalogue
from deployments.commandline import Command
from deployments.engines.base import Engine
from deployments.engines.registry import is_nothing_known


@dataclass(frozen=True)
class FlagCheck:
    """The findings of a revision's command line, and what they rest on.

    ``catalogue`` None: not checked, for ``reason``. It is as the host was seen for this plan: what stops a start may
    stop a job.
    """

    findings: tuple[Finding, ...] = ()
    catalogue: Catalogue | None = None
    label: str = ""
    reason: str = ""

    @property
    def grave(self) -> tuple[Finding, ...]:
        """Without what only a writer of the command wants to know."""
        return tuple(finding for finding in self.findings if finding.level != NOTE)

    @property
    def against(self) -> str:
        """What they were checked against."""
        found = self.catalogue
        if found is None:
            return ""
        read = "read from its source" if found.source == "source" else "read from its help text, which may lack some"
        place = f" of {found.interpreter}" if found.interpreter else ""
        return f"{self.label} {found.version}".strip() + f"{place}, {found.count} flags, {read}"


NOT_CHECKED = FlagCheck()
"""There is nothing to check: nothing is launched, or it is launched already."""


def warnings_of_program(command: Command, engine: Engine, *, launch: str) -> list[dict[str, object]]:
    """Of a revision from before such commands were refused: what is stopped for it may be stopped for nothing."""
    if not is_nothing_known(command, engine):
        return []
    return [
        {
            "text": f"The command of {launch} does not start {engine.label}, for all that can be read from it.",
            "why": f"The panel waits for the ready line of {engine.label}, which another program never writes: what "
            "serves now would be stopped for nothing.",
            "todo": f"Write the command that starts {engine.label} in a new revision, or make a profile with the "
            "engine “Any other command” for it.",
            "blocks": False,
            "asks": True,
            "cure": "flags",
        }
    ]


def warnings_of_flags(checked: FlagCheck, *, launch: str) -> list[dict[str, object]]:
    """The findings in the words of a plan; ``launch``: the revision. Only what is sure to fail stands in the way."""
    why = f"The engine ends at once with it: {launch} cannot start, and what serves now would be stopped for nothing."
    perhaps = f"It was found in the command line of {launch}, checked against {checked.against}."
    return [
        {
            "text": finding.text,
            "why": why if finding.stops else perhaps,
            "todo": f"Edit the flags, which makes a new revision. {finding.todo}".strip(),
            "blocks": finding.stops,
            "cure": "flags",
        }
        for finding in checked.grave
    ]
