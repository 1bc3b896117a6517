"""What an expression of the package's source would be, as far as the source alone says. PURE.

Runs on the host (see ``values.py``). Nothing of the package is run: what is not plain data, or a short function that
puts data together, is ``UNCLEAR``.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from deployments.catalogue.onhost.package import Expression, Package
from deployments.catalogue.onhost.values import (
    PARSER,
    UNCLEAR,
    ClassRef,
    FuncRef,
    Member,
    Module,
    ModuleRef,
    Native,
    Super,
)

MOST_STEPS = 400_000
DEEPEST = 40
METHODS: dict[type, set[str]] = {
    str: {"lower", "upper", "replace", "strip", "lstrip", "rstrip", "split", "join", "title", "capitalize", "format"},
    list: {"copy", "append", "extend", "index", "insert"},
    tuple: set(),
    set: {"copy", "add", "update", "union"},
    dict: {"keys", "values", "items", "get", "copy", "update", "pop"},
}
MAKERS: dict[str, Callable[..., Any]] = {
    "list": list, "tuple": tuple, "set": set, "frozenset": set, "dict": dict, "sorted": sorted, "len": len,
    "int": int, "float": float, "str": str, "bool": bool,
}  # fmt: skip


class TooMuch(Exception):
    """The source asks for more work than an argument parser can need."""


@dataclass
class Scope:
    """Where an expression stands: its module, the local names, and the class and object of a method."""

    module: Module
    names: dict[str, Any] = field(default_factory=dict)
    owner: ClassRef | None = None
    bound: Any = None


@dataclass(frozen=True)
class Method:
    """A method of plain data."""

    of: Any
    name: str


class Evaluator:
    """Evaluates expressions of one package. ``call`` is what a call of a function of the package does."""

    def __init__(self, package: Package) -> None:
        self.package = package
        self.depth = 0
        self._steps = 0
        self._known: dict[int, Any] = {}

    def value(self, node: ast.expr | None, scope: Scope) -> Any:
        """The value of an expression, UNCLEAR when the source does not tell. Raises TooMuch."""
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise TooMuch
        kind = getattr(self, f"_{type(node).__name__.lower()}", None)
        if kind is None:
            return UNCLEAR
        self.depth += 1
        try:
            return UNCLEAR if self.depth > 6 * DEEPEST else kind(node, scope)
        finally:
            self.depth -= 1

    def forced(self, value: Any) -> Any:
        """As it is, once what was imported is looked up and what was not evaluated is."""
        value = self.package.resolve(value)
        if not isinstance(value, Expression):
            return value
        key = id(value.node)
        if key not in self._known:
            self._known[key] = UNCLEAR  # what needs itself is never clear
            self._known[key] = self.forced(self.value(value.node, Scope(value.module)))
        return copy.deepcopy(self._known[key]) if isinstance(self._known[key], (list, dict, set)) else self._known[key]

    # --- Plain expressions

    def _constant(self, node: ast.Constant, scope: Scope) -> Any:
        return node.value

    def _name(self, node: ast.Name, scope: Scope) -> Any:
        if node.id in scope.names:
            return scope.names[node.id]
        found = self.package.lookup(node.id, scope.module)
        return self.forced(found) if isinstance(found, Expression) else found

    def _list(self, node: ast.List | ast.Tuple | ast.Set, scope: Scope) -> Any:
        items: list[Any] = []
        for element in node.elts:
            if isinstance(element, ast.Starred):
                more = self.items(self.value(element.value, scope))
                if more is None:
                    return UNCLEAR
                items += more
            else:
                items.append(self.value(element, scope))
        return items

    def _tuple(self, node: ast.Tuple, scope: Scope) -> Any:
        items = self._list(node, scope)
        return tuple(items) if isinstance(items, list) else UNCLEAR

    def _set(self, node: ast.Set, scope: Scope) -> Any:
        return self._as_set(self._list(node, scope))

    @staticmethod
    def _as_set(items: Any) -> Any:
        try:
            return set(items) if isinstance(items, list) else UNCLEAR
        except TypeError:
            return UNCLEAR

    def _dict(self, node: ast.Dict, scope: Scope) -> Any:
        made: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                more = self.forced(self.value(value, scope))
                if not isinstance(more, dict):
                    return UNCLEAR
                made.update(more)
                continue
            name = self.forced(self.value(key, scope))
            if not isinstance(name, (str, int, float, bool)):
                return UNCLEAR
            made[name] = self.value(value, scope)
        return made

    def _joinedstr(self, node: ast.JoinedStr, scope: Scope) -> Any:
        return "".join(self._part(part, scope) for part in node.values)

    def _part(self, part: ast.expr, scope: Scope) -> str:
        if isinstance(part, ast.FormattedValue):
            found = self.forced(self.value(part.value, scope))
            return str(found) if isinstance(found, (str, int, float, list)) else "…"
        return str(self.value(part, scope))

    def _binop(self, node: ast.BinOp, scope: Scope) -> Any:
        left, right = (self.forced(self.value(side, scope)) for side in (node.left, node.right))
        if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)) and isinstance(node.op, ast.Add):
            return [*left, *right]
        if isinstance(left, str) and isinstance(right, str) and isinstance(node.op, ast.Add):
            return left + right
        numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
        if not numbers or abs(left) > 1e12 or abs(right) > 1e12:
            return UNCLEAR
        if isinstance(node.op, (ast.Mult, ast.Add, ast.Sub)):
            return (
                left * right
                if isinstance(node.op, ast.Mult)
                else left + right * (1 if isinstance(node.op, ast.Add) else -1)
            )
        return left**right if isinstance(node.op, ast.Pow) and 0 <= right <= 40 else UNCLEAR

    def _unaryop(self, node: ast.UnaryOp, scope: Scope) -> Any:
        found = self.forced(self.value(node.operand, scope))
        if isinstance(node.op, ast.USub) and isinstance(found, (int, float)):
            return -found
        truth = self.truth(found)
        return UNCLEAR if truth is None or not isinstance(node.op, ast.Not) else not truth

    def _compare(self, node: ast.Compare, scope: Scope) -> Any:
        if len(node.ops) != 1:
            return UNCLEAR
        left, right = (self.forced(self.value(side, scope)) for side in (node.left, node.comparators[0]))
        if isinstance(node.ops[0], (ast.In, ast.NotIn)) and isinstance(right, (list, tuple, set, dict)):
            return (left in right) == isinstance(node.ops[0], ast.In) if isinstance(left, (str, int)) else UNCLEAR
        plain = all(isinstance(side, (str, int, float, type(None))) for side in (left, right))
        if plain and isinstance(node.ops[0], (ast.Is, ast.Eq)):
            return left == right
        return left != right if plain and isinstance(node.ops[0], (ast.IsNot, ast.NotEq)) else UNCLEAR

    def _boolop(self, node: ast.BoolOp, scope: Scope) -> Any:
        found: Any = UNCLEAR
        for side in node.values:
            found = self.forced(self.value(side, scope))
            truth = self.truth(found)
            if truth is None or truth == isinstance(node.op, ast.Or):
                return found if truth is not None else UNCLEAR
        return found

    def _ifexp(self, node: ast.IfExp, scope: Scope) -> Any:
        truth = self.truth(self.forced(self.value(node.test, scope)))
        return UNCLEAR if truth is None else self.value(node.body if truth else node.orelse, scope)

    def _lambda(self, node: ast.Lambda, scope: Scope) -> Any:
        return node

    def _subscript(self, node: ast.Subscript, scope: Scope) -> Any:
        base, key = self.forced(self.value(node.value, scope)), self.forced(self.value(node.slice, scope))
        if isinstance(base, dict) and isinstance(key, (str, int)):
            return base.get(key, UNCLEAR)
        in_range = isinstance(base, (list, tuple)) and isinstance(key, int) and -len(base) <= key < len(base)
        return base[key] if in_range else UNCLEAR

    def _listcomp(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp, scope: Scope) -> Any:
        first = node.generators[0]
        items = self.items(self.value(first.iter, scope)) if len(node.generators) == 1 else None
        if items is None or not isinstance(first.target, ast.Name):
            return UNCLEAR
        made = []
        for item in items:
            inner = Scope(scope.module, {**scope.names, first.target.id: item}, scope.owner, scope.bound)
            if all(self.truth(self.forced(self.value(test, inner))) is not False for test in first.ifs):
                made.append(self.forced(self.value(node.elt, inner)))
        return UNCLEAR if any(item is UNCLEAR for item in made) else made

    _generatorexp = _setcomp = _listcomp

    # --- Names of names

    def _attribute(self, node: ast.Attribute, scope: Scope) -> Any:
        return self.attribute(self.forced(self.value(node.value, scope)), node.attr)

    def attribute(self, base: Any, name: str) -> Any:
        """``base.name``."""
        if isinstance(base, Native):
            return Native(f"{base.name}.{name}")
        if isinstance(base, ModuleRef):
            module = self.package.module(base.name)
            found = self.package.lookup(name, module) if module is not None else UNCLEAR
            inner = ModuleRef(f"{base.name}.{name}")
            return inner if found is UNCLEAR and self.package.module(inner.name) is not None else self.forced(found)
        if isinstance(base, ClassRef):
            return self._of_class(base, name, list(self.package.bases(base)), bound=base)
        if isinstance(base, Super):
            return self._of_class(base.owner, name, list(self.package.bases(base.owner))[1:], bound=base.bound)
        if isinstance(base, Member):
            return getattr(base, name) if name in ("name", "value") else UNCLEAR
        if name in METHODS.get(type(base), set()):
            return Method(base, name)
        return PARSER if base is PARSER else UNCLEAR

    def _of_class(self, cls: ClassRef, name: str, where: Iterable[ClassRef], *, bound: Any) -> Any:
        if name in ("__name__", "__doc__"):
            return cls.name if name == "__name__" else (ast.get_docstring(cls.node) or "")
        for place in where:
            for node in place.node.body:
                if isinstance(node, ast.FunctionDef) and node.name == name:
                    return FuncRef(place.module, node, place, bound)
                value = assigned(node, name)
                if value is not None and self.is_enum(place):
                    return Member(name, self.value(value, Scope(place.module)))
                if value is not None:
                    return self.default(value, Scope(place.module))
        return UNCLEAR

    def default(self, node: ast.expr, scope: Scope) -> Any:
        """The value that a class gives a field; ``field(default=...)`` and its like are looked into."""
        if isinstance(node, ast.Call) and called(node) in ("field", "Field"):
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            factory = given.get("default_factory")
            if isinstance(factory, ast.Lambda):
                return self.forced(self.value(factory.body, scope))
            if isinstance(factory, ast.Name) and factory.id in ("list", "dict", "set"):
                return {} if factory.id == "dict" else []
            plain = given.get("default", node.args[0] if node.args else None)
            return self.forced(self.value(plain, scope)) if plain is not None else UNCLEAR
        return self.forced(self.value(node, scope))

    def is_enum(self, cls: ClassRef) -> bool:
        """Whether a class is an enumeration."""
        names = {ast.unparse(base).rpartition(".")[2] for base in cls.node.bases}
        return bool(names & {"Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"})

    def items(self, value: Any) -> list[Any] | None:
        """What iterating over it gives; None when that is not clear."""
        value = self.forced(value)
        if isinstance(value, (list, tuple, set, dict)):
            return list(value)
        if isinstance(value, ClassRef) and self.is_enum(value):
            return [self.attribute(value, name) for node in value.node.body for name in names_assigned(node)]
        return None

    @staticmethod
    def truth(value: Any) -> bool | None:
        """True or false; None when not clear."""
        plain = isinstance(value, (str, int, float, list, tuple, set, dict, type(None)))
        return bool(value) if plain else True if isinstance(value, (ClassRef, FuncRef)) else None

    # --- Calls

    def _call(self, node: ast.Call, scope: Scope) -> Any:
        return self.call(node, scope)

    def call(self, node: ast.Call, scope: Scope) -> Any:
        """What a call gives; the reader of arguments knows more of them."""
        args = [self.value(arg, scope) for arg in node.args if not isinstance(arg, ast.Starred)]
        return self.made(self.forced(self.value(node.func, scope)), args)

    def made(self, function: Any, args: list[Any]) -> Any:
        """What a maker of plain data or one of its methods gives."""
        args = [self.forced(arg) for arg in args]
        if isinstance(function, Native) and function.name in MAKERS:
            return self._made_by(function.name, args)
        if not isinstance(function, Method) or any(arg is UNCLEAR for arg in args):
            return UNCLEAR
        try:
            found = getattr(function.of, function.name)(*args)
        except (TypeError, ValueError, LookupError):
            return UNCLEAR
        return list(found) if function.name in ("keys", "values", "items") else found

    def _made_by(self, name: str, args: list[Any]) -> Any:
        if name in ("list", "tuple", "set", "frozenset", "sorted"):
            items = self.items(args[0]) if args else []
            if items is None or name in ("set", "frozenset"):
                return self._as_set(items)
            return sorted(items, key=str) if name == "sorted" else items
        if len(args) != 1 or not isinstance(args[0], (str, int, float, list, dict)):
            return UNCLEAR
        try:
            return MAKERS[name](args[0])
        except (TypeError, ValueError):
            return UNCLEAR


def called(node: ast.Call) -> str:
    """The last name of what is called."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def names_assigned(node: ast.stmt) -> list[str]:
    """The names that a statement gives a value."""
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        return [node.target.id]
    return []


def assigned(node: ast.stmt, name: str) -> ast.expr | None:
    """The expression that a statement gives ``name``."""
    if name in names_assigned(node) and isinstance(node, (ast.Assign, ast.AnnAssign)):
        return node.value
    return None
