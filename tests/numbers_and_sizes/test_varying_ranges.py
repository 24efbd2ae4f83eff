"""Ranges between numbers that vary, and what is filled with them: one recording, and the elements of eager code."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tracejit as tj

USES = {
    "linspace": lambda x, a: tj.linspace(x.min().item(), x.max().item(), 7),
    "linspace between tensors": lambda x, a: tj.linspace(x.min(), x.max(), 6),
    "linspace to an argument": lambda x, a: tj.linspace(0, a, 5) * x[0],
    "linspace of one": lambda x, a: tj.linspace(a, 3, 1),
    "linspace of none": lambda x, a: tj.linspace(a, 3, 0),
    "linspace of halves": lambda x, a: tj.linspace(-a, a, 9, dtype=tj.bfloat16),
    "logspace": lambda x, a: tj.logspace(a - 3, x.max().item(), 4),
    "arange from": lambda x, a: tj.arange(a, a + 2, 0.5),
    "arange by": lambda x, a: tj.arange(0.0, 3 * a, a)[:2] + x[0],
    "arange to": lambda x, a: tj.arange(0, math.floor(a) + 1.5, 0.5),
    "histc": lambda x, a: tj.histc(x, 6, -a, a),
    "histc of items": lambda x, a: tj.histc(x, 6, x.min().item(), x.max().item()),
    "histc of the data": lambda x, a: tj.histc(x * a, 5),
    "padding": lambda x, a: tj.nn.functional.pad(x.reshape(3, 3), (1, -1, 0, 2), value=a) * x[0],
    "padding by an item": lambda x, a: tj.nn.functional.pad(x, (2, 0), value=x.min().item()),
    "nan_to_num": lambda x, a: (x.log() / 0.0).nan_to_num(x[0].item(), a, -a),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", USES)
def test_between_numbers_that_vary(name: str) -> None:
    def use(x: Any, a: float) -> Any:
        return USES[name](x, a)

    compiled = tj.compile(use)
    rng = np.random.default_rng(3)
    for i in range(24):
        x = tj.tensor(rng.standard_normal(9).astype(np.float32))
        a = 2.25 + i % 5 / 10
        expected, found = use(x, a), compiled(x, a)
        assert found.dtype is expected.dtype
        assert found.tolist() == expected.tolist()
    assert compiled.stats.compiled_calls >= 18, str(compiled.explain())


def test_bounds_that_make_no_range() -> None:
    compiled = tj.compile(lambda x, a: tj.arange(a, 0.0, 1.0) + x)
    for a in (-1.0, -1.0, -0.75, -0.5):
        assert compiled(tj.ones(1), a).tolist() == [a + 1]
    for a, message in (
        (2.0, "inconsistent"),
        (-math.inf, "unsupported"),
        (math.nan, "unsupported"),
    ):
        with pytest.raises(RuntimeError, match=message):
            compiled(tj.ones(1), a)
    assert tj.histc(tj.ones(3), 4).tolist() == [0.0, 0.0, 3.0, 0.0]
