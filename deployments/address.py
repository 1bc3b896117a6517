"""Under which address people reach a server, as far as its command and its host tell. PURE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deployments.engines.base import Engine

LOOPBACK = ("127.0.0.1", "localhost", "::1")
ALONE_BY_DEFAULT = ("sglang", "llama_server")
"""Engines that listen on 127.0.0.1 where no --host is given."""
OPENAI = ("sglang", "vllm", "llama_server")
"""Engines that answer OpenAI's requests under /v1."""


@dataclass(frozen=True)
class Address:
    """``url``: empty where the panel does not know the machine's name for others. ``remark``: who reaches it."""

    url: str
    remark: str = ""


def address_of(engine: Engine, argv: Sequence[str], *, machine: str, host: str, port: int, in_image: bool) -> Address:
    """``machine``: its name or address in the network; empty where nobody knows. ``host``: what the panel calls it.

    ``in_image``: it runs in a container of its own image, which maps the port.
    """
    bound = engine.flag(argv, ("--host",)) or ("127.0.0.1" if engine.key in ALONE_BY_DEFAULT else "")
    path = "/v1" if engine.key in OPENAI else ""
    if bound in LOOPBACK and not in_image:
        return Address(f"http://127.0.0.1:{port}{path}", f"from {host} itself alone; --host 0.0.0.0 opens it to others")
    if not machine:
        return Address("", f"port {port} of {host}, whose address in your network the panel does not know")
    name = f"[{machine}]" if ":" in machine else machine
    return Address(f"http://{name}:{port}{path}")
