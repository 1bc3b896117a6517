"""One argument of a parser as plain data, to be sent. PURE.

Runs on the host (see ``values.py``).
"""

from __future__ import annotations

import ast
from typing import Any

from deployments.catalogue.onhost.values import UNCLEAR, ClassRef, FuncRef, Imported, Native, TypeOf

TAKES_NOTHING = ("store_true", "store_false", "store_const", "append_const", "count", "help", "version")
LONGEST_HELP = 600
LONGEST_WORD = 200
MOST_CHOICES = 400


def argument(names: list[str], told: dict[str, Any]) -> dict[str, Any]:
    """What a page and a check need of an argument.

    ``takes``: how many values, "0", "1", "?", "*", "+" or a number. ``choices`` None: any, or not clear.
    """
    action, type_ = told.get("action"), told.get("type")
    made: dict[str, Any] = {
        "names": [name[:LONGEST_WORD] for name in names],
        "takes": _takes(action, told),
        "type": type_name(type_),
        "help": _help(told.get("help")),
        "required": told.get("required") is True,
    }
    if isinstance(action, Native) and action.name.endswith("BooleanOptionalAction"):
        made["names"] += ["--no-" + name[2:] for name in names if name.startswith("--")]
    if isinstance(type_, TypeOf) and type_.optional:
        made["optional"] = True
    choices = _choices(told.get("choices"))
    if choices is not None:
        made["choices"] = choices
    default = told.get("default", UNCLEAR)
    if isinstance(default, (bool, int, float, str, type(None))):
        made["default"] = default[:LONGEST_WORD] if isinstance(default, str) else default
    return made | _retired(action, told, made["help"])


def _takes(action: Any, told: dict[str, Any]) -> str:
    nargs = told.get("nargs", UNCLEAR)
    if isinstance(action, str) and action in TAKES_NOTHING:
        return "0"
    if isinstance(action, Native) and action.name.endswith("BooleanOptionalAction"):
        return "0"
    if nargs is UNCLEAR and isinstance(action, ClassRef):
        nargs = _usual_nargs(action)
    return "1" if nargs is UNCLEAR or nargs is None else str(nargs)


def _usual_nargs(action: ClassRef) -> Any:
    """The ``nargs`` that an action of the package has when it is told none."""
    for node in action.node.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            names = [one.arg for one in node.args.args]
            for name, default in zip(reversed(names), reversed(node.args.defaults), strict=False):
                if name == "nargs" and isinstance(default, ast.Constant):
                    return default.value
    return UNCLEAR


def type_name(value: Any) -> str:
    """What a value is read as: str, int, float, json, the name of the engine's own function, or ? when not clear."""
    if isinstance(value, TypeOf):
        return type_name(value.inner)
    if isinstance(value, Native):
        last = value.name.rpartition(".")[2]
        return {"loads": "json", "NoneType": "str"}.get(last, last)
    if isinstance(value, (FuncRef, Imported)):
        return value.name[:LONGEST_WORD]
    return "str" if value is None else "?"


def _choices(value: Any) -> list[Any] | None:
    if not isinstance(value, (list, tuple, set)) or len(value) > MOST_CHOICES or not value:
        return None
    items = sorted(value, key=str) if isinstance(value, set) else list(value)
    if not all(isinstance(item, (str, int, float)) for item in items):
        return None
    return [item[:LONGEST_WORD] if isinstance(item, str) else item for item in items]


def _help(text: Any) -> str:
    words = " ".join(text.split()) if isinstance(text, str) else ""
    return words.replace("%%", "%")[:LONGEST_HELP]


def _retired(action: Any, told: dict[str, Any], help_text: str) -> dict[str, Any]:
    """Whether the engine calls it deprecated, what it names instead, and whether it only says so and ends."""
    made: dict[str, Any] = {}
    by_class = isinstance(action, ClassRef) and action.name.startswith("Deprecated")
    if by_class or told.get("deprecated") is True or "deprecated" in help_text[:40].lower():
        made["deprecated"] = True
    if isinstance(told.get("new_flag"), str):
        made["instead"] = told["new_flag"][:LONGEST_WORD]
    if isinstance(told.get("error_message"), str):
        made["refused"] = told["error_message"][:LONGEST_HELP]
    return made
