"""Follow the source that fills an ``argparse`` parser, and note each argument that it adds. PURE.

Runs on the host (see ``values.py``). Both branches of a condition that the source does not settle are followed, so a
flag that exists only sometimes is there, and a list of choices is at its longest.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from deployments.catalogue.onhost.evaluate import Evaluator, Scope, called
from deployments.catalogue.onhost.fields import NAMED_ONLY, Types, sglang_arguments, vllm_arguments
from deployments.catalogue.onhost.package import Package
from deployments.catalogue.onhost.record import argument
from deployments.catalogue.onhost.values import PARSER, UNCLEAR, ClassRef, FuncRef, Super, TypeOf, imported

GROUPS = ("add_argument_group", "add_mutually_exclusive_group", "add_parser")
CHANGES = ("append", "add", "extend", "update", "pop", "insert")
HARMLESS = ("pre_register_and_update",)
"""What is given the parser and adds nothing to it on a machine with NVIDIA cards (vLLM's hook for other platforms)."""
FIELDS = "srt.arg_groups.fields"
"""Where SGLang 0.5.23 keeps the fields of its arguments, one class for each group of them."""
MOST_ROUNDS = 2000
MOST_CALLS = 12
NOTHING = object()


class ArgumentReader(Evaluator):
    """``found`` are the arguments, ``gaps`` what could not be followed."""

    def __init__(self, package: Package) -> None:
        super().__init__(package)
        self.found: list[dict[str, Any]] = []
        self.gaps: list[str] = []
        self._calls = 0

    def run(self, function: FuncRef, args: Sequence[Any], kwargs: dict[str, Any] | None = None) -> Any:
        """Follow a function of the package with these arguments; what it returns."""
        if self._calls >= MOST_CALLS:
            return UNCLEAR
        self._calls += 1
        try:
            scope = Scope(function.module, self._bind(function, list(args), kwargs or {}), function.owner)
            scope.bound = function.bound
            returned = self._body(function.node.body, scope)
            return None if returned is NOTHING else returned
        finally:
            self._calls -= 1

    def _bind(self, function: FuncRef, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        spec = function.node.args
        names = [one.arg for one in (*spec.posonlyargs, *spec.args)]
        decorators = [ast.unparse(one) for one in function.node.decorator_list]
        # A plain function that is taken from its class is given what it is called with, and nothing more.
        if "classmethod" in decorators or names[:1] == ["self"]:
            args.insert(0, function.bound)
        scope = Scope(function.module)
        bound = {
            name: self.value(default, scope)
            for name, default in zip(names[len(names) - len(spec.defaults) :], spec.defaults, strict=True)
        }
        for one, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
            bound[one.arg] = self.value(default, scope) if default is not None else UNCLEAR
        return dict.fromkeys(names, UNCLEAR) | bound | dict(zip(names, args, strict=False)) | kwargs

    # --- Statements

    def _body(self, body: Sequence[ast.stmt], scope: Scope) -> Any:
        for node in body:
            kind = getattr(self, f"_do_{type(node).__name__.lower()}", None)
            returned = kind(node, scope) if kind is not None else NOTHING
            if returned is not NOTHING:
                return returned
        return NOTHING

    def _do_return(self, node: ast.Return, scope: Scope) -> Any:
        return None if node.value is None else self.forced(self.value(node.value, scope))

    def _do_assign(self, node: ast.Assign, scope: Scope) -> Any:
        value = self.value(node.value, scope)
        for target in node.targets:
            self._store(target, value, scope)
        return NOTHING

    def _do_annassign(self, node: ast.AnnAssign, scope: Scope) -> Any:
        if node.value is not None:
            self._store(node.target, self.value(node.value, scope), scope)
        return NOTHING

    def _do_augassign(self, node: ast.AugAssign, scope: Scope) -> Any:
        both = ast.BinOp(_as_read(node.target), node.op, node.value)
        self._store(node.target, self.value(both, scope), scope)
        return NOTHING

    def _store(self, target: ast.expr, value: Any, scope: Scope) -> None:
        if isinstance(target, ast.Name):
            scope.names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            items = self.items(value) or [UNCLEAR] * len(target.elts)
            for one, item in zip(target.elts, items, strict=False):
                self._store(one, item, scope)
        elif isinstance(target, ast.Subscript):
            base, key = self.value(target.value, scope), self.forced(self.value(target.slice, scope))
            if isinstance(base, dict) and isinstance(key, str):
                base[key] = value

    def _do_delete(self, node: ast.Delete, scope: Scope) -> Any:
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                base, key = self.value(target.value, scope), self.forced(self.value(target.slice, scope))
                if isinstance(base, dict) and isinstance(key, str):
                    base.pop(key, None)
        return NOTHING

    def _do_expr(self, node: ast.Expr, scope: Scope) -> Any:
        if isinstance(node.value, ast.Call) and self._matters(node.value, scope):
            self.value(node.value, scope)
        return NOTHING

    def _matters(self, call: ast.Call, scope: Scope) -> bool:
        """A call for its effect: it adds an argument, changes plain data, or is given the parser."""
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        holds = any(isinstance(one, ast.Name) and scope.names.get(one.id) is PARSER for one in given)
        return holds or called(call) in ("add_argument", *CHANGES)

    def _do_if(self, node: ast.If, scope: Scope) -> Any:
        truth = self.truth(self.forced(self.value(node.test, scope)))
        if truth is not None:
            return self._body(node.body if truth else node.orelse, scope)
        returned = [self._body(branch, scope) for branch in (node.body, node.orelse)]
        # What only perhaps returns, and nobody knows what, does not end the function.
        return next((one for one in returned if one is not NOTHING and one is not UNCLEAR), NOTHING)

    def _do_for(self, node: ast.For, scope: Scope) -> Any:
        items = self.items(self.value(node.iter, scope))
        if items is None or len(items) > MOST_ROUNDS:
            if any(isinstance(one, ast.Attribute) and one.attr == "add_argument" for one in ast.walk(node)):
                self.gaps.append(f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}"[:100])
            return NOTHING
        for item in items:
            self._store(node.target, item, scope)
            self._body(node.body, scope)
        return NOTHING

    def _do_with(self, node: ast.With, scope: Scope) -> Any:
        return self._body(node.body, scope)

    def _do_try(self, node: ast.Try, scope: Scope) -> Any:
        return self._body([*node.body, *node.orelse], scope)

    def _do_importfrom(self, node: ast.ImportFrom | ast.Import, scope: Scope) -> Any:
        scope.names.update(imported(node, scope.module.package))
        return NOTHING

    _do_import = _do_importfrom

    def _do_functiondef(self, node: ast.FunctionDef, scope: Scope) -> Any:
        scope.names[node.name] = FuncRef(scope.module, node)
        return NOTHING

    # --- Calls

    def call(self, node: ast.Call, scope: Scope) -> Any:
        """As of every evaluator, and what is known of the functions that describe arguments."""
        name = called(node)
        if name == "add_argument":
            self._add(node, scope)
            return UNCLEAR
        if name in GROUPS:
            return PARSER
        known = getattr(self, f"_call_{name}", None)
        if known is not None:
            return known(node, scope)
        args = [self.value(one, scope) for one in node.args if not isinstance(one, ast.Starred)]
        kwargs = {one.arg: self.value(one.value, scope) for one in node.keywords if one.arg is not None}
        function = self.forced(self.value(node.func, scope))
        if isinstance(function, FuncRef):
            return self.run(function, args, kwargs)
        if any(one is PARSER for one in (*args, *kwargs.values())) and name not in HARMLESS:
            self.gaps.append(ast.unparse(node.func)[:100])
        return self.made(function, args)

    def _add(self, node: ast.Call, scope: Scope) -> None:
        names: list[Any] = []
        for one in node.args:
            spread = isinstance(one, ast.Starred)
            value = self.forced(self.value(one.value if isinstance(one, ast.Starred) else one, scope))
            names += (self.items(value) if spread else [value]) or ([UNCLEAR] if value != [] else [])
        told: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.value(keyword.value, scope)
            if keyword.arg is not None:
                told[keyword.arg] = value
                continue
            value = self.forced(value)
            told.update(value if isinstance(value, dict) else {"unclear": True})
        self.note(names, told, where=ast.unparse(node)[:100])

    def note(self, names: list[Any], told: dict[str, Any], *, where: str) -> None:
        """Note one argument, or a gap where its names are not clear."""
        if not names or not all(isinstance(name, str) for name in names):
            self.gaps.append(where)
            return
        plain = {name: value if name in NAMED_ONLY else self.forced(value) for name, value in told.items()}
        self.found.append(argument(names, plain))

    def _call_super(self, node: ast.Call, scope: Scope) -> Any:
        return Super(scope.owner, scope.bound) if scope.owner is not None else UNCLEAR

    def _call_get_kwargs(self, node: ast.Call, scope: Scope) -> Any:
        cls = self.forced(self.value(node.args[0], scope)) if node.args else UNCLEAR
        return vllm_arguments(self, cls) if isinstance(cls, ClassRef) else UNCLEAR

    def _call_get_args(self, node: ast.Call, scope: Scope) -> Any:
        values = Types(self).hints(node.args[0], scope).values if node.args else None
        return UNCLEAR if values is None else values

    def _call_get_field(self, node: ast.Call, scope: Scope) -> Any:
        cls, name = (self.forced(self.value(one, scope)) for one in (*node.args[:2], *[ast.Constant("")] * 2)[:2])
        return self.attribute(cls, name) if isinstance(name, str) else UNCLEAR

    def _call_optional_type(self, node: ast.Call, scope: Scope) -> Any:
        inner = self.value(node.args[0], scope) if node.args else UNCLEAR
        return TypeOf(inner, optional=called(node) == "optional_type")

    _call_parse_type = _call_optional_type

    def _call_add_cli_args_from_dataclass(self, node: ast.Call, scope: Scope) -> Any:
        cls = self.forced(self.value(node.args[1], scope)) if len(node.args) > 1 else UNCLEAR
        classes = [cls] if isinstance(cls, ClassRef) else []
        for module in self.package.modules_in(f"{self.package.name}.{FIELDS}"):
            classes += [ClassRef(module, one) for one in module.names.values() if isinstance(one, ast.ClassDef)]
        before = len(self.found)
        for one in classes:
            for names, told in sglang_arguments(self, one):
                self.note(names, told, where=one.name)
        if len(self.found) == before:
            self.gaps.append(ast.unparse(node)[:100])
        return None


def _as_read(target: ast.expr) -> ast.expr:
    """The target of ``x += 1`` as an expression."""
    return ast.parse(ast.unparse(target), mode="eval").body
