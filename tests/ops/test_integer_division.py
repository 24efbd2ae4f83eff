"""Whole numbers divided by constants are part of kernels; by zero and by tensors they are divided as eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

KINDS = [tj.int8, tj.int16, tj.int32, tj.int64, tj.uint8]
WAYS: dict[str, Callable[[Any, int], Any]] = {
    "//": lambda x, n: x // n,
    "%": lambda x, n: x % n,
    "fmod": tj.fmod,
    "trunc": lambda x, n: tj.div(x, n, rounding_mode="trunc"),
    "floor": lambda x, n: tj.div(x, n, rounding_mode="floor"),
    "chain": lambda x, n: (x * 3) // n % 5,
}


def values(dtype: tj.dtype) -> tj.Tensor:
    info = tj.iinfo(dtype)
    found = np.random.default_rng(0).integers(info.min, info.max, 1001, endpoint=True)
    found[:5] = info.min, info.max, 0, 1, info.max - 1
    return tj.tensor(found).to(dtype)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", KINDS)
def test_as_eager(way: str, dtype: tj.dtype) -> None:
    x = values(dtype)
    for n in (1, 7, 100, -1, -3):
        if dtype is tj.uint8 and n < 0:
            continue
        compiled = tj.compile(lambda x, n=n: WAYS[way](x, n), strict=True)
        for _ in range(2):
            found, expected = compiled(x), WAYS[way](x, n)
            assert found.dtype is expected.dtype
            assert bool((found == expected).all())


def test_quotients_of_any_size() -> None:
    rng = np.random.default_rng(1)
    for bits in (20, 50, 52, 54, 63):
        x = tj.tensor(rng.integers(-(2**bits), 2**bits - 1, 999))
        for n in (3, 2**31 + 1, 2**51 - 1, 2**51 + 1, 2**62):
            compiled = tj.compile(lambda x, n=n: (x // n, x % n), strict=True)
            for _ in range(2):
                for found, expected in zip(compiled(x), (x // n, x % n), strict=True):
                    assert bool((found == expected).all())


def test_a_chain_is_one_kernel() -> None:
    compiled = tj.compile(lambda x: ((x >> 3) ^ x) % 100 // 7 + x)
    x = tj.arange(500)
    for _ in range(2):
        compiled(x)
    assert len(compiled.kernels) == 1


def test_zero_raises() -> None:
    def divide(x: tj.Tensor, n: int) -> tj.Tensor:
        return x % n

    compiled = tj.compile(divide)
    x = tj.arange(20)
    for n in (7, 7, 0, 5, 0, -3):
        if n:
            assert bool((compiled(x, n) == x % n).all())
        else:
            with pytest.raises(RuntimeError, match="ZeroDivisionError"):
                compiled(x, n)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        tj.compile(lambda x: x // 0)(x)


def test_tensors_that_hold_a_zero_raise() -> None:
    compiled = tj.compile(lambda x, y: x // y + 1)
    x, y = tj.arange(20), tj.arange(1, 21)
    for _ in range(2):
        assert bool((compiled(x, y) == x // y + 1).all())
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compiled(x, y - 1)
