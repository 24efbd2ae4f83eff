"""docs/source-map.md names every module of the packages it lists, and nothing that is gone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "tracejit"
SECTION = re.compile(r"^## (\w+):.*?\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| (?:`(\w+)`)? ?\| (`[^|]*`) \|", re.MULTILINE)


def sections() -> dict[str, list[str]]:
    """The modules of every section that is about one package, by their paths in it."""
    text = (ROOT / "docs" / "source-map.md").read_text()
    return {
        package: [
            f"{folder}/{name}" if folder else name
            for folder, row in ROW.findall(body)
            for name in re.findall(r"`([^`]+)`", row)
        ]
        for package, body in SECTION.findall(text)
    }


def modules(package: str) -> list[str]:
    """The modules of a package and of the folders in it, by their paths."""
    top = PACKAGE / package
    found = [x.relative_to(top).with_suffix("").as_posix() for x in top.rglob("*.py")]
    return [x for x in found if not x.endswith("__init__")]


def test_the_large_packages_have_sections() -> None:
    assert {"trace", "ir", "passes", "codegen", "runtime"} <= set(sections())


@pytest.mark.parametrize("package", sections())
def test_the_map_names_every_module_once(package: str) -> None:
    assert sorted(sections()[package]) == sorted(modules(package))
