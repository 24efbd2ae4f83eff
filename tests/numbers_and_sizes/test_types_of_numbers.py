"""Numbers of NumPy that vary from call to call are numbers of their type wherever a tensor is made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

NUMBERS = [0.5, 1.5, 2.5, np.float64(0.25), np.float64(0.75), np.float64(1.25), 3.5, 2, 3, 4]


@pytest.mark.parametrize(
    "make", [tj.tensor, tj.as_tensor, tj.asarray, lambda p: tj.tensor([p, 1.0])]
)
def test_tensors_made_of_numbers_have_their_type(make: Callable[[Any], tj.Tensor]) -> None:
    def used(x: tj.Tensor, number: Any) -> tuple[tj.Tensor, ...]:
        return make(number), x * number, make(number) + x

    compiled, x = tj.compile(used), tj.ones(2)
    for number in (*NUMBERS, *NUMBERS):
        for found, expected in zip(compiled(x, number), used(x, number), strict=True):
            assert found.dtype is expected.dtype
            assert found.tolist() == expected.tolist()
    assert compiled.stats.compiled_calls >= 3


def test_numbers_that_bytes_do_not_hold_are_refused() -> None:
    x = tj.tensor([0, 1, 2], dtype=tj.uint8)

    def chosen(x: Any, p: Any) -> Any:
        return tj.where(x > 1, p, x) * 2

    compiled = tj.compile(chosen)
    for p in (2, 3, 4, 5, 300, 6, -1, 2**40, 7):
        if -256 < p < 256:
            assert compiled(x, p).tolist() == chosen(x, p).tolist()
            continue
        for function in (chosen, compiled):
            with pytest.raises(RuntimeError, match="without overflow"):
                function(x, p)
    assert compiled.stats.compiled_calls >= 2
