"""Views that are turned in place (`unsqueeze_`, `t_`, ...) in recordings that serve every extent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

N = 7
#: Rows of the calls: the third signature is recorded for all others.
ROWS = (4, 5, 5, 6, 3, 3, 1, 9, 2, 1)


def a_dimension_more(x: Any) -> Any:
    y = x * x + 0.1
    z = y.detach()
    z.unsqueeze_(0)
    return z[0] + y, tuple(z.shape)


def turned(x: Any) -> Any:
    y = x * x + 0.1
    z = y.view(-1, N)
    z.t_()
    return z.sum(0) + y.sum(1), tuple(z.shape)


def a_dimension_less(x: Any) -> Any:
    y = (x * x + 0.1)[:, None]
    z = y.detach()
    z.squeeze_(1)
    z.mul_(2)
    return z + y.sum(1), tuple(z.shape)


def of_a_part(x: Any) -> Any:
    y = x * x + 0.1
    z = y[:, :3]
    z.unsqueeze_(1)
    w = z[:, 0]
    w.t_()
    z.add_(1)
    return w * 2, z, y, tuple(w.shape)


def of_the_argument(x: Any) -> Any:
    z = x.detach()
    z.unsqueeze_(0)
    return z[0] + x, tuple(z.shape)


def several_times(x: Any) -> Any:
    z = x.detach()
    z.transpose_(0, 1)
    z.unsqueeze_(-1)
    y = z.sum(1)
    z.squeeze_(-1)
    return z.t() + x + y.sum(), tuple(z.shape), y


def seen(function: Callable[..., Any], rows: int) -> list[Any]:
    """Results, sizes and gradients."""
    x = tj.tensor(np.random.default_rng(rows).standard_normal((rows, N)), requires_grad=True)
    found = list(function(x))
    total = sum((y * y).sum() for y in found if isinstance(y, tj.Tensor))
    total.backward()
    return [y.detach().tolist() if isinstance(y, tj.Tensor) else y for y in (*found, x.grad)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "program",
    [a_dimension_more, turned, a_dimension_less, of_a_part, of_the_argument, several_times],
    ids=lambda f: f.__name__,
)
def test_views_turned_in_place_have_the_sizes_of_the_call(program: Callable[..., Any]) -> None:
    compiled = tj.compile(program)
    for rows in ROWS:
        for one, other in zip(seen(compiled, rows), seen(program, rows), strict=True):
            if isinstance(one, tuple):
                assert one == other
            else:
                np.testing.assert_allclose(one, other, 1e-12)
    assert compiled.stats.recordings <= 4
    assert compiled.stats.compiled_calls >= len(ROWS) - 5
