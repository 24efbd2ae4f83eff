"""Short lists of numbers that a compiled function reads from tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from trap_tools import Stage, check


@pytest.mark.parametrize("dtype", [tj.float32, tj.float64, tj.bfloat16])
@pytest.mark.parametrize("shape", [(3,), (2, 2), (1,), (0,), (2, 0), ()])
def test_lists_of_numbers(shape: tuple[int, ...], dtype: Any) -> None:
    """Read one by one: returned, computed with and compared."""

    def scenario(stage: Stage) -> None:
        def f(x: Any, y: Any) -> Any:
            values = (x * 2).tolist()
            flat = (x + 1).reshape(-1).tolist()
            total = sum(flat)
            return values, y * total, total / 3, max(flat, default=0.0) > 2

        compiled = stage.compile(f)
        rng = np.random.default_rng(3)
        for k in range(8):
            values = (
                rng.standard_normal(shape) if k < 6 else np.full(shape, (np.nan, -np.inf)[k - 6])
            )
            x = tj.tensor(values.tolist(), dtype=dtype).reshape(shape)
            stage.call(compiled, x, tj.ones(2, dtype=tj.float64))

    compiled = check(scenario)
    assert compiled.stats.compiled_calls >= (2 if np.prod(shape) else 6)


def test_lists_that_are_too_long() -> None:
    f = tj.compile(lambda x: x.tolist())
    for k in range(3):
        assert f(tj.full((40,), float(k))) == [float(k)] * 40
    assert f.stats.compiled_calls == 0
    assert "tolist()" in f.reasons[0]
