"""docs/source-map.md names every module of the packages it lists, and nothing that is gone."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "tracejit"
SECTION = re.compile(r"^## (\w+):.*?\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| (`[^|]*`) \|", re.MULTILINE)


def sections() -> dict[str, list[str]]:
    """The names and patterns of every section that is about one package."""
    text = (ROOT / "docs" / "source-map.md").read_text()
    return {
        package: [name for row in ROW.findall(body) for name in re.findall(r"`([^`]+)`", row)]
        for package, body in SECTION.findall(text)
    }


def modules(package: str) -> list[str]:
    """Modules and packages directly below a package."""
    below = (PACKAGE / package).iterdir()
    return [x.stem for x in below if x.suffix == ".py" or (x / "__init__.py").is_file()]


def test_the_large_packages_have_sections() -> None:
    assert {"trace", "ir", "passes", "codegen", "runtime"} <= set(sections())


@pytest.mark.parametrize("package", sections())
def test_every_module_is_on_the_map(package: str) -> None:
    patterns = sections()[package]
    lost = [
        name
        for name in modules(package)
        if name != "__init__" and not any(fnmatch(name, pattern) for pattern in patterns)
    ]
    assert lost == []


@pytest.mark.parametrize("package", sections())
def test_everything_on_the_map_exists(package: str) -> None:
    found = modules(package)
    assert [p for p in sections()[package] if not any(fnmatch(x, p) for x in found)] == []
