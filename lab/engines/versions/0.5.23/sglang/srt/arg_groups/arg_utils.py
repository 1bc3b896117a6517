"""How a field says what its flag is."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated as A
from typing import Any, get_args, get_origin, get_type_hints

__all__ = ["A", "Arg", "add_cli_args_from_dataclass"]


@dataclass(frozen=True)
class Arg:
    """What a flag has beside its type and default."""

    help: str = ""
    choices: list[str] | None = None
    aliases: list[str] | None = None
    type_parser: Callable[[str], Any] | None = None
    nargs: str | None = None


def add_cli_args_from_dataclass(parser: argparse.ArgumentParser, cls: type) -> None:
    """One flag for each field of its namespaces."""
    for namespace in cls._NAMESPACES:
        _add_fields(parser, namespace)


def _add_fields(parser: argparse.ArgumentParser, namespace: type) -> None:
    for name, hint in get_type_hints(namespace, include_extras=True).items():
        if get_origin(hint) is not A:
            continue  # added by a call of its own
        kind, meta = get_args(hint)[:2]
        arg = meta if isinstance(meta, Arg) else Arg(help=meta)
        kinds = [part for part in get_args(kind) if part is not type(None)] if type(None) in get_args(kind) else [kind]
        given = [f"--{name.replace('_', '-')}", *(arg.aliases or [])]
        options: dict[str, Any] = {"help": arg.help or None, "default": getattr(namespace, name, None)}
        if kinds[0] is bool:
            options["action"] = "store_true"
        else:
            plain = get_args(kinds[0])[0] if get_origin(kinds[0]) is list else kinds[0]
            options |= {"type": arg.type_parser or plain, "choices": arg.choices, "nargs": arg.nargs}
            options["required"] = not hasattr(namespace, name)
        parser.add_argument(*given, **options)
