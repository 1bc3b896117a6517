"""What a reader of Python source may come to hold, without running any of it. PURE.

Runs on the host, inside the engine's own interpreter (3.9 or newer), put together by ``catalogue/script.py``.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

BUILTINS = frozenset(
    ["str", "int", "float", "bool", "list", "dict", "set", "frozenset", "tuple", "sorted", "len", "type", "object",
     "super", "range", "Exception"]
)  # fmt: skip


class Unclear:
    """What the source alone does not say."""

    def __repr__(self) -> str:
        return "UNCLEAR"


UNCLEAR = Unclear()


class Parser:
    """The ``argparse`` parser, or a group of it."""


PARSER = Parser()


@dataclass(frozen=True)
class Native:
    """Something of the standard library or of another package, by its dotted name."""

    name: str


@dataclass(frozen=True)
class TypeOf:
    """A ``type=`` that wraps another: ``optional`` lets an empty value through."""

    inner: Any
    optional: bool = False


@dataclass(frozen=True)
class Member:
    """One member of an enumeration."""

    name: str
    value: Any


@dataclass(frozen=True)
class Imported:
    """A name that another module gives; looked up when it is needed, for that means reading a file."""

    module: str
    name: str


class Module:
    """One file of the package: its names, each with the syntax that makes it."""

    def __init__(self, name: str, tree: ast.Module, *, is_package: bool) -> None:
        self.name = name
        self.package = name if is_package else name.rpartition(".")[0]
        self.names: dict[str, Any] = {}
        self._index(tree.body)

    def _index(self, body: list[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                self.names[node.name] = node
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        self._take(target.id, node.value)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
                self._take(node.target.id, node.value)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                self.names.update(imported(node, self.package))
            elif isinstance(node, ast.If):
                only_for_checkers = "TYPE_CHECKING" in ast.dump(node.test)
                self._index(node.orelse if only_for_checkers else node.body + node.orelse)
            elif isinstance(node, ast.Try):
                for handler in node.handlers:
                    self._index(handler.body)
                self._index(node.body)

    def _take(self, name: str, value: ast.expr) -> None:
        """A class that is put together anew under its own name stays the class."""
        if not isinstance(self.names.get(name), ast.ClassDef):
            self.names[name] = value


def imported(node: ast.Import | ast.ImportFrom, package: str) -> dict[str, Imported]:
    """What an import statement binds in a module of ``package``."""
    if isinstance(node, ast.Import):
        return {
            (alias.asname or alias.name.partition(".")[0]): Imported(
                alias.name if alias.asname else alias.name.partition(".")[0], ""
            )
            for alias in node.names
        }
    module = node.module or ""
    if node.level:
        parts = package.split(".")
        base = parts[: len(parts) - node.level + 1]
        module = ".".join([*base, module] if module else base)
    return {alias.asname or alias.name: Imported(module, alias.name) for alias in node.names}


@dataclass(frozen=True)
class ClassRef:
    """A class of the package, as its syntax."""

    module: Module
    node: ast.ClassDef

    @property
    def name(self) -> str:
        return self.node.name


@dataclass(frozen=True)
class FuncRef:
    """A function of the package, perhaps bound to a class."""

    module: Module
    node: ast.FunctionDef
    owner: ClassRef | None = None
    bound: Any = None

    @property
    def name(self) -> str:
        return self.node.name


@dataclass(frozen=True)
class ModuleRef:
    """A module of the package."""

    name: str


@dataclass(frozen=True)
class Super:
    """``super()`` inside a method of ``owner``."""

    owner: ClassRef
    bound: Any
