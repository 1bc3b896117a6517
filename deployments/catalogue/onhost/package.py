"""Find a package's files and the names in them, reading each file at most once and running nothing. PURE.

Runs on the host (see ``values.py``).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deployments.catalogue.onhost.values import (
    BUILTINS,
    UNCLEAR,
    ClassRef,
    FuncRef,
    Imported,
    Module,
    ModuleRef,
    Native,
)

LARGEST_FILE = 3_000_000
MOST_FILES = 120
MOST_HOPS = 20


class Package:
    """The source of one installed package, below ``root``."""

    def __init__(self, name: str, root: Path) -> None:
        self.name = name
        self._root = root
        self._modules: dict[str, Module | None] = {}
        self.files: list[Path] = []

    def module(self, name: str) -> Module | None:
        """A module by its dotted name; None when it is none of the package's or cannot be read."""
        if name not in self._modules:
            self._modules[name] = None
            self._modules[name] = self._read(name)
        return self._modules[name]

    def _read(self, name: str) -> Module | None:
        top, _, rest = name.partition(".")
        if top != self.name or len(self.files) >= MOST_FILES:
            return None
        base = self._root.joinpath(*rest.split(".")) if rest else self._root
        for path, is_package in ((base.with_suffix(".py"), False), (base / "__init__.py", True)):
            if path.is_file() and (is_package or rest):
                return self._parsed(name, path, is_package=is_package)
        return None

    def _parsed(self, name: str, path: Path, *, is_package: bool) -> Module | None:
        if path.stat().st_size > LARGEST_FILE:
            return None
        self.files.append(path)
        try:
            return Module(name, ast.parse(path.read_bytes()), is_package=is_package)
        except (SyntaxError, ValueError, RecursionError):
            return None

    def modules_in(self, name: str) -> Iterator[Module]:
        """Every module directly inside a package of it, by name."""
        folder = self._root.joinpath(*name.split(".")[1:])
        for path in sorted(folder.glob("*.py")):
            found = self.module(f"{name}.{path.stem}") if path.stem != "__init__" else None
            if found is not None:
                yield found

    def resolve(self, value: Any) -> Any:
        """What an imported name stands for; anything else is itself."""
        for _ in range(MOST_HOPS):
            if not isinstance(value, Imported):
                return value
            value = self._import(value)
        return UNCLEAR

    def _import(self, wanted: Imported) -> Any:
        if wanted.module.partition(".")[0] != self.name:
            return Native(f"{wanted.module}.{wanted.name}" if wanted.name else wanted.module)
        if not wanted.name:
            return ModuleRef(wanted.module)
        module = self.module(wanted.module)
        if module is not None and wanted.name in module.names:
            return self.lookup(wanted.name, module)
        inner = f"{wanted.module}.{wanted.name}"
        return ModuleRef(inner) if self.module(inner) is not None else UNCLEAR

    def lookup(self, name: str, module: Module) -> Any:
        """A module's own name: a class, a function, an import, or the expression (``ast.expr``) that makes it."""
        found = module.names.get(name)
        if found is None:
            return Native(name) if name in BUILTINS else UNCLEAR
        if isinstance(found, ast.ClassDef):
            return ClassRef(module, found)
        if isinstance(found, ast.FunctionDef):
            return FuncRef(module, found)
        return found if isinstance(found, Imported) else Expression(module, found)

    def bases(self, cls: ClassRef) -> Iterator[ClassRef]:
        """A class and what it inherits from, nearest first, as far as it is of this package."""
        yield cls
        for base in cls.node.bases:
            if isinstance(base, ast.Name):
                parent = self.resolve(self.lookup(base.id, cls.module))
                if isinstance(parent, ClassRef) and parent.node is not cls.node:
                    yield from self.bases(parent)


class Expression:
    """The syntax that makes a module's name, not evaluated yet."""

    def __init__(self, module: Module, node: ast.expr) -> None:
        self.module = module
        self.node = node
