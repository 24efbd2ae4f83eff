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
