"""Exponentials of what is less the largest of several need no bound above; those of anything else keep it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tracejit as tj

BOUNDED: dict[str, Callable[[tj.Tensor], tj.Tensor]] = {
    "softmax": lambda x: tj.softmax(x, -1),
    "of columns": lambda x: (x - x.amax(0, keepdim=True)).exp(),
    "of all": lambda x: (x - x.amax()).exp(),
}
OTHERS: dict[str, Callable[[tj.Tensor], tj.Tensor]] = {
    "another row's": lambda x: (x - x.amax(1)).exp(),
    "another number's": lambda x: (2 * x - x.amax(1, keepdim=True)).exp(),
    "the other way round": lambda x: (x.amax(1, keepdim=True) - x).exp(),
    "the least": lambda x: (x - x.amin(1, keepdim=True)).exp(),
    "the largest finite one": lambda x: tj.logsumexp(x, -1),
    "nothing": lambda x: x.exp(),
}
LARGE = float("inf")


def inputs(dtype: tj.dtype) -> tj.Tensor:
    x = tj.linspace(-400.0, 400.0, 40 * 40).reshape(40, 40).sin() * 300
    x[0, 0], x[3, 5], x[5, 7] = LARGE, -LARGE, float("nan")
    x[7] = -LARGE
    return x.to(dtype)


@pytest.mark.parametrize("dtype", [tj.float32, tj.float64, tj.bfloat16])
@pytest.mark.parametrize("name", [*BOUNDED, *OTHERS])
def test_compiled_is_as_eager(name: str, dtype: tj.dtype) -> None:
    function = (BOUNDED | OTHERS)[name]
    f, x = tj.compile(function, strict=True), inputs(dtype)
    want = function(x)
    for _ in range(3):
        tj.testing.assert_close(f(x), want, equal_nan=True)
    bounded = any("exp_bounded_f" in kernel.source for kernel in f.kernels)
    assert bounded is (name in BOUNDED)
