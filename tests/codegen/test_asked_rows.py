"""Rows of the next batch that kernels ask for: which kernels do, how much of a row, and that results are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.codegen.cpu import asked_rows
from tracejit.codegen.cpu.cpu import Writer
from tracejit.extents import hint

F = tj.nn.functional


def compiled(function: Callable[..., Any], *given: Any) -> tuple[Any, str]:
    f = tj.compile(function)
    for _ in range(3):
        found = f(*given)
    return found, f.source()


@pytest.mark.parametrize("shape", [(37, 100), (5, 7, 33), (3, 3000), (301, 24)], ids=str)
def test_results_are_the_same_at_every_end(shape, monkeypatch):
    x = tj.from_numpy(np.random.default_rng(0).standard_normal(shape).astype(np.float32))
    monkeypatch.setattr(asked_rows, "LEAST", 1)
    found, source = compiled(lambda x: F.softmax(x * 2, -1), x)
    assert "ask_for(" in source
    np.testing.assert_allclose(found.numpy(), F.softmax(x * 2, -1).numpy(), 1e-6, 1e-7)


def test_only_rows_whose_elements_lie_side_by_side_are_asked_for():
    x, y, z = tj.randn(40, 50), tj.randn(50), tj.randn(50, 40)
    _, source = compiled(lambda x, y, z: F.softmax(x + y + z.t(), 1), x, y, z)
    asked = [
        line.split("ask_for(")[1].split(",")[0]
        for line in source.splitlines()
        if "ask_for(" in line
    ]
    assert asked == ["in0"]


def test_a_first_pass_that_computes_much_waits_for_nothing():
    _, source = compiled(lambda x: F.softmax(x.sin(), 1), tj.randn(40, 50))
    assert "for batch in" in source
    assert "ask_for(" not in source


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((40, 50), 0), ((4096, 768), 48), ((40, 50_000), asked_rows.MOST_LINES)],
    ids=str,
)
def test_small_operands_are_not_asked_for_and_of_long_rows_the_beginning_is(
    shape, expected, monkeypatch
):
    lines, number = [], Writer.number

    def noted(self: Writer, name: str, value: Any) -> str:
        if name.endswith("_lines"):
            lines.append(hint(value))
        return number(self, name, value)

    monkeypatch.setattr(Writer, "number", noted)
    compiled(lambda x: F.softmax(x, 1), tj.zeros(shape))
    assert set(lines) == {expected}
