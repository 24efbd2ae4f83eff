"""The powers zero and one of infinity and NaN are told by their exponents."""

from __future__ import annotations

import tracejit as tj
from each_way import assert_each

INF, NAN = float("inf"), float("nan")
X = tj.tensor([INF, -INF, NAN, 2.0])


def test_powers_of_infinity_and_nan() -> None:
    rows = [
        [INF, INF, INF, 1.0],
        [-INF, INF, -INF, 1.0],
        [NAN, NAN, NAN, 1.0],
        [8.0, 4.0, 2.0, 1.0],
    ]
    assert_each(rows, tj.vander, X)
    assert_each([row[::-1] for row in rows], lambda x: tj.vander(x, increasing=True), X)
    assert_each([[1.0]] * 4, lambda x: tj.vander(x, 1), X)
    assert_each([[1.0, INF], [1.0, NAN]], lambda x: tj.linalg.vander(x[::2], N=2), X)


def test_slopes_of_powers() -> None:
    x = tj.tensor([3.0, 2.0, 0.0], requires_grad=True)
    tj.vander(x, 4).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [34.0, 17.0, 1.0]
