"""The fields of a class that describes arguments, and what ``argparse`` is told of each. PURE.

Runs on the host (see ``values.py``). Two ways of describing: SGLang's ``A[type, help or Arg(...)]``, and vLLM's plain
types with a docstring below each field.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from deployments.catalogue.onhost.evaluate import Evaluator, Scope, called
from deployments.catalogue.onhost.package import Expression
from deployments.catalogue.onhost.values import UNCLEAR, ClassRef, Native, TypeOf

UNIONS = ("Optional", "Union")
TRANSPARENT = ("Annotated", "SkipValidation", "Final", "A")
COLLECTIONS = {"list": "list", "List": "list", "set": "set", "Set": "set", "tuple": "tuple", "Tuple": "tuple",
               "Sequence": "list", "dict": "dict", "Dict": "dict"}  # fmt: skip
READABLE = {"max_model_len": "human_readable_int_or_auto", "max_num_batched_tokens": "human_readable_int",
            "kv_cache_memory_bytes": "human_readable_int"}  # fmt: skip
NAMED_ONLY = ("type", "type_parser")
"""What is told of a flag and kept by its name: to look it up would mean reading large files."""
BOOLEAN = Native("argparse.BooleanOptionalAction")


@dataclass
class Hints:
    """What a type says: the plain names in it, the values of a ``Literal``, and what a collection holds."""

    names: set[str] = field(default_factory=set)
    values: list[Any] | None = None
    inner: Hints | None = None
    fixed: int = 0
    """How many items a tuple of fixed length holds; 0: any number."""
    record: ClassRef | None = None


@dataclass(frozen=True)
class Declared:
    """One field of a class."""

    name: str
    annotation: ast.expr
    default: ast.expr | None
    help: str
    cls: ClassRef


def declared(evaluator: Evaluator, cls: ClassRef) -> list[Declared]:
    """The fields of a class and of what it inherits from, base first; a field redefined keeps its place."""
    found: dict[str, Declared] = {}
    for place in reversed(list(evaluator.package.bases(cls))):
        found.update({one.name: one for one in _own(place)})
    return list(found.values())


def _own(cls: ClassRef) -> Iterator[Declared]:
    body = cls.node.body
    for position, node in enumerate(body):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        if "ClassVar" in ast.unparse(node.annotation):
            continue
        below = body[position + 1] if position + 1 < len(body) else None
        text = below.value if isinstance(below, ast.Expr) else None
        words = text.value if isinstance(text, ast.Constant) and isinstance(text.value, str) else ""
        yield Declared(node.target.id, node.annotation, node.value, words, cls)


class Types:
    """Reads annotations."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator

    def hints(self, node: ast.expr, scope: Scope, depth: int = 0) -> Hints:
        """What an annotation says."""
        found = Hints()
        if depth < 20:
            self._into(found, node, scope, depth)
        return found

    def _into(self, found: Hints, node: ast.expr, scope: Scope, depth: int) -> None:
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                self._into(found, ast.parse(node.value, mode="eval").body, scope, depth + 1)
            else:
                found.names.add("None")
        elif isinstance(node, ast.BinOp):
            for side in (node.left, node.right):
                self._into(found, side, scope, depth)
        elif isinstance(node, ast.Subscript):
            self._subscript(found, node, scope, depth)
        elif isinstance(node, (ast.Name, ast.Attribute)):
            self._named(found, node, scope, depth)

    def _subscript(self, found: Hints, node: ast.Subscript, scope: Scope, depth: int) -> None:
        outer = ast.unparse(node.value).rpartition(".")[2]
        parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        if outer in UNIONS:
            for part in parts:
                self._into(found, part, scope, depth)
            if outer == "Optional":
                found.names.add("None")
        elif outer in TRANSPARENT:
            self._into(found, parts[0], scope, depth)
        elif outer == "Literal":
            found.values = [*(found.values or []), *self._literal(parts, scope, depth)]
        elif outer in COLLECTIONS:
            found.names.add(COLLECTIONS[outer])
            found.inner = self.hints(parts[0], scope, depth + 1)
            open_ended = any(isinstance(part, ast.Constant) and part.value is Ellipsis for part in parts)
            found.fixed = 0 if open_ended or COLLECTIONS[outer] != "tuple" else len(parts)
        else:
            found.names.add("other")

    def _literal(self, parts: list[ast.expr], scope: Scope, depth: int) -> list[Any]:
        values: list[Any] = []
        for part in parts:
            if isinstance(part, (ast.Constant, ast.UnaryOp)):
                values.append(self._evaluator.value(part, scope))
            else:
                values += self.hints(part, scope, depth + 1).values or [UNCLEAR]
        return values

    def _named(self, found: Hints, node: ast.Name | ast.Attribute, scope: Scope, depth: int) -> None:
        text = ast.unparse(node)
        last = text.rpartition(".")[2]
        if text in ("str", "int", "float", "bool", "dict", "list", "set", "tuple"):
            found.names.add(text)
            return
        if last in COLLECTIONS:
            found.names.add(COLLECTIONS[last])
            return
        package = self._evaluator.package
        target = package.lookup(node.id, scope.module) if isinstance(node, ast.Name) else UNCLEAR
        target = package.resolve(target)
        if isinstance(target, Expression):
            self._into(found, target.node, Scope(target.module), depth + 1)
        elif isinstance(target, ClassRef) and _is_record(target):
            found.record = target
        else:
            found.names.add("other")


def _is_record(cls: ClassRef) -> bool:
    decorators = " ".join(ast.unparse(one) for one in cls.node.decorator_list)
    return "dataclass" in decorators or "config" in decorators


def vllm_arguments(evaluator: Evaluator, cls: ClassRef) -> dict[str, dict[str, Any]]:
    """Field -> what vLLM tells ``argparse`` of it (``vllm/engine/arg_utils.py``: ``_compute_kwargs``)."""
    types = Types(evaluator)
    made = {}
    for one in declared(evaluator, cls):
        scope = Scope(one.cls.module)
        kwargs: dict[str, Any] = {"help": one.help.strip(), "default": UNCLEAR}
        if one.default is not None:
            kwargs["default"] = evaluator.default(one.default, scope)
        hints = types.hints(one.annotation, scope)
        kwargs.update(_by_vllm(one.name, hints))
        if "None" in hints.names and "action" not in kwargs:
            kwargs["type"] = TypeOf(kwargs.get("type"), optional=True)
            if kwargs.get("choices"):
                kwargs["choices"] = [*kwargs["choices"], "None"]
        made[one.name] = kwargs
    return made


def _by_vllm(name: str, hints: Hints) -> dict[str, Any]:
    names = hints.names
    if hints.record is not None:
        return {"type": Native("json")}
    if "bool" in names:
        return {"action": BOOLEAN}
    if hints.values is not None:
        return _one_of(hints.values, names)
    for collection in ("tuple", "list", "set"):
        if collection in names:
            return _many(hints)
    if "int" in names:
        return {"type": Native(READABLE.get(name, "int"))}
    if "float" in names:
        return {"type": Native("float")}
    if "dict" in names and not names & {"str", "other"}:
        return {"type": Native("json")}
    return {"type": Native("str") if "dict" not in names else Native("union_dict_and_str")}


def _one_of(values: list[Any], names: set[str]) -> dict[str, Any]:
    kind = Native(type(values[0]).__name__)
    if "str" in names or any(value is UNCLEAR for value in values):
        return {"type": kind}
    return {"type": kind, "choices": sorted(values, key=str)}


def _many(hints: Hints) -> dict[str, Any]:
    inner = hints.inner or Hints({"str"})
    made: dict[str, Any] = {"nargs": hints.fixed or "+"}
    if inner.values is not None:
        return made | _one_of(inner.values, set())
    plain = [name for name in ("str", "int", "float") if name in inner.names]
    return made | {"type": Native(plain[0] if plain else "str")}


def sglang_arguments(evaluator: Evaluator, cls: ClassRef) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """(names, what ``argparse`` is told) of each field ``A[type, ...]`` (``srt/arg_groups/arg_utils.py``)."""
    types = Types(evaluator)
    for one in declared(evaluator, cls):
        annotation = one.annotation
        if not isinstance(annotation, ast.Subscript) or not isinstance(annotation.slice, ast.Tuple):
            continue
        if ast.unparse(annotation.value).rpartition(".")[2] not in ("A", "Annotated"):
            continue
        kind, *marks = annotation.slice.elts
        scope = Scope(one.cls.module)
        told = _told(evaluator, marks, scope)
        if told is None or told.get("no_cli") is True:
            continue
        aliases = evaluator.items(told.get("aliases") or []) or []
        names = [told.get("cli_name") or "--" + one.name.replace("_", "-"), *aliases]
        default = evaluator.default(one.default, scope) if one.default is not None else UNCLEAR
        yield names, _by_sglang(types.hints(kind, scope), told, default, required=one.default is None)


def _told(evaluator: Evaluator, marks: list[ast.expr], scope: Scope) -> dict[str, Any] | None:
    """What a mark behind the type says: ``Arg(...)``, or a bare text, which is the help."""
    for mark in marks:
        if isinstance(mark, ast.Call) and called(mark) == "Arg":
            told = {str(keyword.arg): evaluator.value(keyword.value, scope) for keyword in mark.keywords}
            if mark.args:
                told["help"] = evaluator.value(mark.args[0], scope)
            return {name: value if name in NAMED_ONLY else evaluator.forced(value) for name, value in told.items()}
        text = None if isinstance(mark, ast.Call) else evaluator.forced(evaluator.value(mark, scope))
        if isinstance(text, str):
            return {"help": text}
    return None


def _by_sglang(hints: Hints, told: dict[str, Any], default: Any, *, required: bool) -> dict[str, Any]:
    made: dict[str, Any] = {"help": told.get("help", ""), "default": default}
    if told.get("action") is not None:
        return made | {"action": told["action"]} | (told.get("action_kwargs") or {})
    kind = told.get("type_parser")
    if hints.values is not None:
        of = Native(type(hints.values[0]).__name__)
        return made | {"type": kind or of, "choices": told.get("choices") or hints.values}
    if told.get("choices"):
        made["choices"] = told["choices"]
    if "list" in hints.names and kind is None:
        plain = [name for name in ("int", "float") if hints.inner is not None and name in hints.inner.names]
        return made | {"type": Native(plain[0] if plain else "str"), "nargs": told.get("nargs") or "+"}
    if hints.names - {"None"} == {"bool"}:
        return made | {"action": "store_true"}
    plain = [name for name in ("int", "float") if hints.names - {"None"} == {name}]
    made["type"] = kind or Native(plain[0] if plain else "str")
    if told.get("nargs"):
        made["nargs"] = told["nargs"]
    return made | {"required": told.get("required") is True or (told.get("required") is None and required)}
