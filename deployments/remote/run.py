"""Send a script to a host and read what it says."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from controlpanel.identity import panel_id
from deployments.models import Deployment
from deployments.remote.script import Said, Script, build
from hosts.transport.base import LinkLost, Transport, no_tick

SILENCE_SECONDS = 15.0
"""A script that streams says something at least once a second; after this long the link counts as lost."""


def script_for(deployment: Deployment, *parts: str, fence: int, boot_id: str, **values: Any) -> Script:
    """A script that works on ``deployment``'s own directory on its host; names of ``values`` become capitals."""
    named = {name.upper(): value for name, value in values.items()}
    common = {"PANEL": panel_id(), "DEPLOYMENT": deployment.pk, "FENCE": fence, "BOOT": boot_id}
    return build(*parts, values={**common, **named})


def run(transport: Transport, script: Script, *, timeout: float, tick: Callable[[], None] = no_tick) -> list[Said]:
    """Run a short script to its end. Raises LinkLost when its answer was cut: what it did is then unknown."""
    result = transport.run(script.argv, stdin=script.stdin, timeout=timeout, tick=tick)
    reader = script.reader()
    said = list(reader.feed(result.stdout))
    _refuse_busy(said)
    if not reader.ended:
        detail = result.stderr.decode(errors="replace").strip().splitlines()
        raise LinkLost(f"The host's answer was cut{': ' + detail[-1] if detail else ''}.")
    return said


def follow(transport: Transport, script: Script, *, tick: Callable[[], None]) -> Generator[Said, None, None]:
    """Yield what a long script says, as it says it, calling ``tick`` in between.

    Raises LinkLost when it falls silent or is cut before its end.
    """
    reader = script.reader()
    silent = 0.0
    with transport.stream(script.argv, stdin=script.stdin, keep_stdin_open=True) as stream:
        while not reader.ended:
            tick()
            data = stream.read(timeout=0.5)
            if data is None:
                silent += 0.5
                if silent >= SILENCE_SECONDS:
                    raise LinkLost(f"The host has said nothing for {SILENCE_SECONDS:.0f} s.")
                continue
            if data == b"":
                raise LinkLost("The host's answer was cut.")
            silent = 0.0
            for said in reader.feed(data):
                _refuse_busy([said])
                yield said


def _refuse_busy(said: list[Said]) -> None:
    """Raises LinkLost while another script of ours, perhaps one whose answer was lost, is at work on the host."""
    if any(line.word == "busy" for line in said):
        raise LinkLost("Another script of ours is still at work on this deployment's host.")
