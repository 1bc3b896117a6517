"""Run an engine's own argument parser with everything stubbed that it imports, and print what it holds as JSON.

    python stubbed.py DIRECTORY [help]

The independent count: the engine's own code and Python's ``argparse`` make the list here, no reader of ours. Needs
neither torch nor a card: what is not in REAL is an object that agrees to everything.
"""

from __future__ import annotations

import argparse
import importlib.abc
import importlib.machinery
import importlib.util
import itertools
import json
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

REAL = (
    "sglang.srt.server_args",
    "sglang.srt.arg_groups.arg_utils",
    "sglang.srt.arg_groups.argparse_actions",
    "sglang.srt.arg_groups.choices",
)
FIELDS = "sglang.srt.arg_groups.field"
"""Of 0.5.23: one module for each group of arguments, made with msgspec."""
PARSERS = ("reasoning_parser", "function_call_parser", "reasoning_parser_names", "parser_names")
"""Of these only the table of names is wanted."""


TABLES = ("DetectorMap: ", "ToolCallParserEnum: ", "REASONING_PARSER_NAMES", "TOOL_CALL_PARSER_NAMES")


class Anything:
    """Agrees to everything: called, subscripted, inherited from, compared."""

    def __init__(self, name: str = "") -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Anything(name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return Anything(self.__name__)

    def __getitem__(self, key: Any) -> Any:
        return Anything()

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return ()

    def __bool__(self) -> bool:
        return True

    def __or__(self, other: Any) -> Any:
        return Anything()

    __ror__ = __add__ = __radd__ = __or__


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the real modules in ``root``, and makes up every other that is not Python's own."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> Any:
        if name in REAL or name.startswith(FIELDS):
            file = self._root.joinpath(*name.split(".")).with_suffix(".py")
            file = file if file.exists() else file.with_suffix("") / "__init__.py"
            return importlib.util.spec_from_file_location(name, file) if file.exists() else None
        if name.partition(".")[0] in (*sys.stdlib_module_names, "msgspec"):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        module = types.ModuleType(spec.name)
        module.__path__ = []
        last = spec.name.rpartition(".")[2]
        if last in PARSERS:
            text = self._root.joinpath(*spec.name.split(".")).with_suffix(".py").read_text()
            names = dict.fromkeys(_keys_in(text))
            module.ReasoningParser = types.SimpleNamespace(DetectorMap=names)  # type: ignore[attr-defined]
            module.REASONING_PARSER_NAMES = module.TOOL_CALL_PARSER_NAMES = names  # type: ignore[attr-defined]
            module.FunctionCallParser = types.SimpleNamespace(ToolCallParserEnum=names)  # type: ignore[attr-defined]
        module.__getattr__ = Anything  # type: ignore[method-assign,assignment]
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def _keys_in(text: str) -> list[str]:
    """The words in quotes at the start of a line, in the table of the detectors."""
    table = next((text.partition(name)[2] for name in TABLES if name in text), "")
    lines = table.partition("\n")[2].splitlines()
    names = itertools.takewhile(lambda line: line.strip() not in ("}", "]", ")"), lines)
    return [line.split('"')[1] for line in names if line.strip().startswith('"')]


def main() -> None:
    """Print ``[{names, takes, type, choices, required}]``; with ``help`` what ``--help`` prints."""
    sys.meta_path.insert(0, Stubs(Path(sys.argv[1])))
    from sglang.srt.server_args import ServerArgs  # type: ignore[import-not-found]

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    if sys.argv[2:] == ["help"]:
        parser.print_help()
        return
    print(json.dumps([_plain(action) for action in parser._actions if "--help" not in action.option_strings]))


def _plain(action: argparse.Action) -> dict[str, Any]:
    choices = action.choices
    return {
        "names": sorted(action.option_strings),
        "takes": "1" if action.nargs is None else str(action.nargs),
        "type": getattr(action.type, "__name__", "str") if action.type is not None else "str",
        "choices": "stubbed" if isinstance(choices, Anything) else choices and sorted(map(str, choices)),
        "required": action.required,
    }


if __name__ == "__main__":
    main()
