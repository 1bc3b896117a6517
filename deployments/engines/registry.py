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
