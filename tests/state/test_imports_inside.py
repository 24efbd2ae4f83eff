"""Compiled functions that import modules when they are called."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import tracejit as tj


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: Any) -> Any:
    """Two modules that nobody has imported."""
    for name, value in (("late_factor", 3.0), ("late_offset", 1.0)):
        (tmp_path / f"{name}.py").write_text(f"VALUE = {value}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in ("late_factor", "late_offset"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("modules")
def test_modules_that_are_loaded_by_the_first_calls() -> None:
    def f(x: Any) -> Any:
        import late_factor  # type: ignore[import-not-found]
        from late_offset import VALUE  # type: ignore[import-not-found]

        return x * late_factor.VALUE + VALUE

    compiled = tj.compile(f)
    for _ in range(6):
        assert compiled(tj.ones(2)).tolist() == [4, 4]
    assert compiled.stats.compiled_calls >= 3


def test_a_module_that_is_not_there() -> None:
    def f(x: Any) -> Any:
        try:
            import not_to_be_found  # type: ignore[import-not-found]
        except ImportError:
            return x * 2
        return not_to_be_found.run(x)

    compiled = tj.compile(f)
    for _ in range(6):
        assert compiled(tj.ones(2)).tolist() == [2, 2]
    assert "it loads the module not_to_be_found" in str(compiled.explain())
    assert compiled.stats.recordings <= 3


@pytest.fixture
def package(tmp_path: Path, monkeypatch: Any) -> Any:
    """A package whose functions import their neighbours when they are called."""
    folder = tmp_path / "late_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "neighbour.py").write_text("FACTOR = 2.0\ndef twice(x): return x * FACTOR\n")
    (folder / "caller.py").write_text(
        "def of_a_name(x):\n    from .neighbour import twice\n    return twice(x)\n"
        "def of_a_module(x):\n    from . import neighbour\n    return neighbour.twice(x)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in ("", ".neighbour", ".caller"):
        sys.modules.pop(f"late_package{name}", None)


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("name", ["of_a_name", "of_a_module"])
def test_relative_imports(name) -> None:
    import late_package.caller  # type: ignore[import-not-found]
    import late_package.neighbour  # type: ignore[import-not-found]

    compiled = tj.compile(getattr(late_package.caller, name))
    for _ in range(4):
        assert compiled(tj.ones(2)).tolist() == [2, 2]
    assert compiled.stats.compiled_calls >= 2, compiled.explain()
    late_package.neighbour.FACTOR = 3.0
    assert compiled(tj.ones(2)).tolist() == [3, 3]
    late_package.neighbour.twice = lambda x: x - 1
    assert compiled(tj.ones(2)).tolist() == [0, 0]
