"""The rules of CONTRIBUTING, applied to every file; each rule also shows that it can fail."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import sys
import textwrap
import tomllib
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import house_rules as rules
from process_tools import python
from tracejit.generated import parse
from tracejit.runtime.kept import plans

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
IMPORT_NAMES = {"scikit-learn": "sklearn", "ml-dtypes": "ml_dtypes"}


def files(*patterns: str) -> list[Path]:
    """Files of the project by glob pattern, sorted."""
    return sorted(path for pattern in patterns for path in ROOT.glob(pattern))


@cache
def parsed(path: Path) -> ast.Module:
    """The tree of a file; by the package's own parser, which takes its turn with the threads that compile."""
    return parse(path.read_text())


@cache
def modules() -> dict[str, Path]:
    """Dotted name -> file, for every module of the package."""
    named = {}
    for path in SOURCE.glob("tracejit/**/*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


@cache
def imports() -> list[tuple[str, rules.Import]]:
    known = set(modules()) | {name.rpartition(".")[0] for name in modules()}
    return [
        (name, found)
        for name, path in modules().items()
        for found in rules.imports_of(parsed(path), name, path.name == "__init__.py", known)
    ]


def inside(target: str) -> bool:
    return target.split(".")[0] == "tracejit"


def where(module: str, line: int) -> str:
    return f"{modules()[module].relative_to(ROOT)}:{line}"


def report(path: Path, found: list[str]) -> list[str]:
    return [f"{path.relative_to(ROOT)}:{item}" for item in found]


PYTHON = ("src/**/*.py", "tests/**/*.py", "examples/**/*.py", "benchmarks/**/*.py", "conftest.py")
TEXT = (*PYTHON, "*.md", "docs/**/*.md", "pyproject.toml", ".ci/*")


# -- structure ---------------------------------------------------------------------------------


def test_there_is_a_package_to_check():
    assert "tracejit.dtypes" in modules()
    assert len(imports()) > 10


def test_every_folder_is_a_package():
    folders = {path.parent for path in modules().values()}
    assert [str(f.relative_to(ROOT)) for f in folders if not (f / "__init__.py").is_file()] == []


def test_imports_point_down():
    broken = [
        f"{where(name, found.line)}: {why}"
        for name, found in imports()
        if inside(found.target) and (why := rules.layer_violation(name, found.target))
    ]
    assert not broken, "\n".join(broken)


def test_plans_are_made_by_modules_of_the_folders_that_are_looked_at():
    folders = {*plans.PLANNING}
    assert all((SOURCE / "tracejit" / name).is_dir() for name in folders)
    others = [
        f"{where(name, found.line)}: {found.target}"
        for name, found in imports()
        if rules.layer_name(name) in folders and inside(found.target)
        if not looked_at(found.target, folders)
    ]
    assert not others, "\n".join(others)


def looked_at(target: str, folders: set[str]) -> bool:
    """Is a module of the package in one of the folders, or at the top?"""
    top = rules.layer_name(target)
    return top in folders or f"tracejit.{top}" not in modules() or is_at_top(f"tracejit.{top}")


def is_at_top(module: str) -> bool:
    return modules()[module].parent == SOURCE / "tracejit"


def test_no_import_cycles():
    edges: dict[str, set[str]] = {name: set() for name in modules()}
    for name, found in imports():
        if found.at_load and found.target in edges and found.target != name:
            edges[name].add(found.target)
    assert rules.import_cycle(edges) == []


def test_modules_load_nothing_heavy():
    heavy = [
        f"{where(name, found.line)}: import {found.target} inside the function that needs it"
        for name, found in imports()
        if found.at_load and not inside(found.target) and is_heavy(found.target.split(".")[0])
    ]
    assert not heavy, "\n".join(heavy)


def is_heavy(package: str) -> bool:
    return package not in sys.stdlib_module_names and package not in rules.LIGHT_IMPORTS


def test_import_loads_only_light_packages():
    code = "import sys, tracejit; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    done = python("-W", "error", "-c", code)
    assert done.returncode == 0, done.stderr
    declared = {import_name(line) for line in all_requirements()}
    assert not (set(done.stdout.split()) & declared) - rules.LIGHT_IMPORTS


def import_name(requirement: str) -> str:
    match = re.match(r"[\w.-]+", requirement)
    assert match is not None
    return IMPORT_NAMES.get(match[0].replace("_", "-").lower(), match[0].replace("-", "_"))


def all_requirements() -> list[str]:
    optional = PROJECT["optional-dependencies"].values()
    lines = [*PROJECT["dependencies"], *(line for extra in optional for line in extra)]
    return [line for line in lines if not line.startswith("tracejit")]


def test_dependencies_are_those_imported():
    used = {found.target.split(".")[0] for _, found in imports()}
    required = {import_name(line) for line in PROJECT["dependencies"]}
    optional = {import_name(line) for line in all_requirements()} - required
    third_party = {name for name in used if name not in sys.stdlib_module_names} - {"tracejit"}
    assert third_party - optional - {"cupy", "cupyx"} == required


# -- documentation -----------------------------------------------------------------------------


@cache
def public() -> dict[str, object]:
    """Qualified name -> object, for every name in an ``__all__`` and every documented module."""
    package = importlib.import_module("tracejit")
    found: dict[str, object] = {"tracejit": package}
    for info in pkgutil.walk_packages(package.__path__, "tracejit."):
        if not info.name.endswith("__main__"):
            found[info.name] = importlib.import_module(info.name)
    for name, module in list(found.items()):
        for export in getattr(module, "__all__", ()):
            found[f"{name}.{export}"] = getattr(module, export)
    return found


def test_package_lists_its_names():
    package = importlib.import_module("tracejit")
    assert len(package.__all__) == len(set(package.__all__)) > 0
    assert all(hasattr(package, name) for name in package.__all__)


def test_every_public_name_is_documented():
    missing = [
        name
        for name, thing in public().items()
        if isinstance(thing, ModuleType) or inspect.isroutine(thing) or inspect.isclass(thing)
        if len((own_doc(thing) or "").split()) < 3
    ]
    assert not missing, "\n".join(missing)


def own_doc(thing: object) -> str | None:
    """The docstring of ``thing`` itself: one inherited from a base class does not count."""
    if not inspect.isclass(thing):
        return getattr(thing, "__doc__", None)
    doc = thing.__dict__.get("__doc__")
    # A class whose instances carry a text each keeps its own in the source only.
    return source_doc(thing) if isinstance(doc, property) else doc


def source_doc(thing: type) -> str | None:
    definition = parse(textwrap.dedent(inspect.getsource(thing))).body[0]
    return ast.get_docstring(definition) if isinstance(definition, ast.ClassDef) else None


def test_every_public_function_has_an_example():
    missing = {
        f"{thing.__module__}.{thing.__qualname__}"
        for thing in public().values()
        if inspect.isfunction(thing) and ">>>" not in (thing.__doc__ or "")
    }
    assert not missing, "\n".join(sorted(missing))


# -- text --------------------------------------------------------------------------------------


def test_no_leftovers():
    found = [
        line for path in files(*TEXT) for line in report(path, rules.leftovers(path.read_text()))
    ]
    assert not found, "\n".join(found)


def test_no_commented_code():
    found = [
        line
        for path in files(*PYTHON)
        for line in report(path, rules.commented_code(path.read_text()))
    ]
    assert not found, "\n".join(found)


COMMAND_LINES = (
    "tracejit.cli",
    "tracejit.testing.fuzz",
    "tracejit.testing.soundness",
    "tracejit.testing.threads",
)


def test_only_command_lines_print():
    found = [
        line
        for name, path in modules().items()
        if not name.startswith(COMMAND_LINES)
        for line in report(path, rules.prints(parsed(path)))
    ]
    assert not found, "\n".join(found)


def test_files_and_functions_fit_a_screen():
    found = [
        line
        for path in files(*PYTHON)
        for line in report(path, rules.too_long(path.read_text(), parsed(path)))
    ]
    assert not found, "\n".join(found)


def test_every_test_asserts():
    trees = {str(p.relative_to(ROOT)): parsed(p) for p in files("tests/**/*.py")}
    found = rules.tests_without_assertion(trees)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", ["README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md"])
def test_project_files_exist(name: str):
    assert len((ROOT / name).read_text().split()) > 50


def test_marked_as_typed():
    assert (SOURCE / "tracejit" / "py.typed").is_file()


def test_changelog_knows_the_version():
    heads = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert heads[0] == "Unreleased"
    assert len(heads) == 1 or heads[1] == PROJECT["version"]


def test_names_of_test_files_differ() -> None:
    """Files of one name in two folders cannot be collected in one run."""
    names = [path.name for path in files("tests/**/test_*.py", "benchmarks/test_*.py")]
    assert len(names) > 100
    assert [name for name in set(names) if names.count(name) > 1] == []
