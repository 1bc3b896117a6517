"""Ask a host which flags an installed engine has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from deployments.catalogue import script
from deployments.catalogue.help_text import flags_of_help
from deployments.catalogue.model import BadAnswer, Catalogue, catalogue_from, clean
from deployments.catalogue.program import Program
from deployments.engines.registry import ENGINES
from hosts.probe.frames import Unknown
from hosts.transport.base import Transport, no_tick

READ_SECONDS = 20.0
"""For reading source: it takes less than one, but the host's disk may be a slow network one."""
HELP_SECONDS = script.SECONDS_FOR_HELP + 15.0
"""For a help text: engines import all of themselves first, which takes 10 to 25 s."""
FEWEST_FLAGS = 5
"""A help text with fewer is none."""


@dataclass(frozen=True)
class Same:
    """The installation is still the one whose flags are known."""


def read(
    transport: Transport,
    program: Program,
    *,
    known: str = "",
    with_help: bool = True,
    tick: Callable[[], None] = no_tick,
) -> Catalogue | Same | Unknown:
    """The flags of a program's engine; Same when its stamp is ``known``. Raises TransportError.

    ``with_help``: may the engine be started to print its help, where its source is not understood?
    """
    if program.kind == "binary":
        made = Catalogue(program.engine, "", "", "help", ())
        return _by_help(transport, program, made, tick) if with_help else Unknown("Only its help tells its flags.")
    told = _ask(transport, program, known=known, mode="read", timeout=READ_SECONDS, tick=tick)
    label = ENGINES[program.engine].label
    if told.data is None:
        return Unknown(told.reason)
    if not told.data.get("package"):
        python = clean(told.data.get("interpreter"), 300)
        return Unknown(f"{label} is not installed for {python or program.word}.")
    if told.data.get("same") is True:
        return Same()
    try:
        made = catalogue_from(program.engine, told.data)
    except BadAnswer:
        made = catalogue_from(
            program.engine, {**told.data, "arguments": [{"names": ["--help"]}], "gaps": ["all of it"]}
        )
    if made.is_sure or not with_help:
        return made if len(made.flags) >= FEWEST_FLAGS else Unknown(f"The source of {label} is not understood.")
    helped = _by_help(transport, program, made, tick)
    return made if isinstance(helped, Unknown) and len(made.flags) >= FEWEST_FLAGS else helped


def _by_help(transport: Transport, program: Program, made: Catalogue, tick: Callable[[], None]) -> Catalogue | Unknown:
    told = _ask(transport, program, mode="help", timeout=HELP_SECONDS, tick=tick)
    flags = flags_of_help(told.help, engine=program.engine)
    if len(flags) >= FEWEST_FLAGS:
        return replace(made, source="help", flags=flags, gaps=())
    return Unknown(told.reason or f"{program.word} explains no flags when it is asked for help.")


def _ask(
    transport: Transport,
    program: Program,
    *,
    mode: str,
    timeout: float,
    tick: Callable[[], None],
    known: str = "",
) -> script.Told:
    made = script.build(program, known=known, mode=mode)
    result = transport.run(("sh", "-s"), stdin=made.stdin, timeout=timeout, tick=tick)
    return script.read_answer(made, result.stdout)
