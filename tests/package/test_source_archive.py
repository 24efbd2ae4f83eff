"""The archive of sources, from which distributions build, test and document the package."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_what_tests_and_documentation_need_is_in_the_archive() -> None:
    targets = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    included = targets["targets"]["sdist"]["include"]
    needed = {"mkdocs.yml", "pyproject.toml"}
    for test in (ROOT / "tests").rglob("*.py"):
        needed.update(re.findall(r'\bROOT / "([^"/*]+)', test.read_text()))
    there = {name for name in needed if (ROOT / name).exists()}
    assert {".ci", "README.md", "src"} <= there
    always = {"pyproject.toml"}
    missing = {x for x in there - always if not any(fnmatch(x, pattern) for pattern in included)}
    assert not missing
