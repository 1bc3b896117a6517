"""The engines the panel knows. PURE. To support another: a module beside this one, and a line here."""

from __future__ import annotations

from deployments.commandline import Command
from deployments.engines.base import Engine
from deployments.engines.custom import CUSTOM
from deployments.engines.llama_server import LLAMA_SERVER
from deployments.engines.sglang import SGLANG
from deployments.engines.vllm import VLLM

ENGINES: dict[str, Engine] = {engine.key: engine for engine in (SGLANG, VLLM, LLAMA_SERVER, CUSTOM)}


def recognise(command: str) -> Engine | None:
    """The engine whose server this command line is, if one of ours."""
    return next((engine for engine in ENGINES.values() if engine.recognises(command)), None)


def engine_of(command: Command) -> Engine | None:
    """The engine that a command starts; in a container it may be the image that says so."""
    found = recognise(" ".join(command.argv))
    if found is None and command.container:
        image = str(command.container["image"])
        found = next((engine for engine in ENGINES.values() if engine.image.search(image)), None)
    return found


def is_nothing_known(command: Command, engine: Engine) -> bool:
    """Is this no server of ``engine``, nor of any other that the panel knows, for all that the command shows?

    A container without a program of its own starts what its image names, which the command does not show.
    """
    if engine is CUSTOM or engine_of(command) is not None:
        return False
    return not command.container or bool(command.argv and not command.argv[0].startswith("-"))


def refuse_nothing_known(command: Command, engine: Engine) -> None:
    """Refuse a command that does not start ``engine``. Raises ValueError with sentences that say what to do."""
    if is_nothing_known(command, engine):
        raise ValueError(
            f"This command does not start {engine.label}: the panel recognises no server in it. Write the command that "
            f"starts {engine.label} itself. For a script of your own, or another server, make a profile with the "
            f"engine “{CUSTOM.label}”, which asks for the text that its log shows when it is ready."
        )
