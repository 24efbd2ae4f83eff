"""Import hooks asked because this package imports something during a recording are no calls of the function."""

from __future__ import annotations

import importlib.abc
import sys
from pathlib import Path

import tracejit as tj
from tracejit.trace.state.calls import _by_import


class Asked(importlib.abc.MetaPathFinder):
    """Notes what is imported, and whether that counts as an import of the package's own."""

    def __init__(self):
        self.own = {}

    def find_spec(self, name, path, target=None):
        self.own[name] = _by_import(sys._getframe())


def importing(filename, name):
    """A function that imports a module, as if its code were in a file."""
    space = {}
    exec(compile(f"def late():\n    import {name}\n", filename, "exec"), space)
    return space["late"]


def test_imports_of_the_package_and_of_the_user(tmp_path, monkeypatch):
    asked = Asked()
    for name in ("late_of_package", "late_of_user"):
        (tmp_path / f"{name}.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [asked, *sys.meta_path])
    package = Path(tj.__file__).parent / "runtime" / "native" / "native.py"
    importing(str(package), "late_of_package")()
    importing(str(tmp_path / "program.py"), "late_of_user")()
    assert asked.own == {"late_of_package": True, "late_of_user": False}
