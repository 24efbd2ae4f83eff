"""Extremes of rows of which a later sum tells that there is a nan: which ones are, and that nan is where it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

F = tj.nn.functional


def normalised(x: Any, also: Callable[[Any], Any]) -> Any:
    high = x.amax(1, keepdim=True)
    parts = (x - high).exp()
    return parts / parts.sum(1, keepdim=True), also(high)


TOLD: dict[str, Callable[[Any], Any]] = {
    "softmax": lambda x: F.softmax(x, 1),
    "its logarithm": lambda x: F.log_softmax(x, 1),
    "scaled down": lambda x: F.softmax(x * 0.5 - 1, 1) * 3,
    "the sum alone": lambda x: (x - x.amax(1, keepdim=True)).exp().sum(1),
    "least elements": lambda x: (x.amin(1, keepdim=True) - x).exp().sum(1).log(),
    "then columns": lambda x: F.softmax(x, 1).sum(0),
}
ASKED: dict[str, Callable[[Any], Any]] = {
    "the extreme is stored": lambda x: normalised(x, lambda high: high),
    "what hangs on it is stored": lambda x: normalised(x, lambda high: high * 2),
    "no sum is there": lambda x: (x - x.amax(1, keepdim=True)).exp(),
    "the sum drops nan": lambda x: (
        tj.where(x > 0, x - x.amax(1, keepdim=True), 0.0).sum(1, keepdim=True)
        + x.amax(1, keepdim=True)
    ),
    "what drops nan is stored": lambda x: tj.where(
        (x - x.amax(1, keepdim=True)).exp().sum(1) > 0, x.amax(1), 0.0
    ),
    "numbers are drawn": lambda x: F.softmax(x + tj.rand_like(x) * 0.0, 1),
    "the elements are others": lambda x: (
        (x[:, :40] - x.amax(1, keepdim=True)).exp().sum(1) + (x.amax(1) * 0)
    ),
}


def rows(kind: Any) -> Any:
    """Rows with nan at both ends and in the middle, with infinities of both signs, and plain ones."""
    x = np.random.default_rng(0).standard_normal((24, 100))
    x[1, 0] = x[3, 99] = x[5, 50] = x[7, :] = np.nan
    x[9, 4] = x[11, 8] = np.inf
    x[11, 9] = np.nan
    x[13, :] = -np.inf
    x[15, ::2] = -np.inf
    x[17, 3], x[17, 90] = np.nan, np.inf
    return tj.from_numpy(x).to(kind)


def compiled(function: Callable[[Any], Any], x: Any) -> tuple[Any, str]:
    f = tj.compile(function)
    for _ in range(3):
        found = f(x)
    return found, f.source()


@pytest.mark.parametrize("kind", [tj.float32, tj.float64, tj.bfloat16], ids=str)
@pytest.mark.parametrize("name", [*TOLD, *ASKED])
def test_nan_is_where_eager_code_has_it(name, kind):
    x, function = rows(kind), (TOLD | ASKED)[name]
    found, _ = compiled(function, x)
    expected = function(x)
    pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
    for got, wanted in pairs:
        bound = 8 * tj.finfo(kind).eps
        np.testing.assert_allclose(*(t.double().numpy() for t in (got, wanted)), bound, 100 * bound)


@pytest.mark.parametrize("name", TOLD)
def test_nobody_looks_for_nan_where_a_sum_tells(name):
    _, source = compiled(TOLD[name], rows(tj.float32))
    assert "settled_f32(" in source
    assert "maximum_f32(" not in source
    assert "minimum_f32(" not in source


@pytest.mark.parametrize("name", ASKED)
def test_extremes_that_nothing_tells_of_look_for_nan(name):
    _, source = compiled(ASKED[name], rows(tj.float32))
    assert "settled_f32(" not in source
    assert "maximum_f32(" in source
