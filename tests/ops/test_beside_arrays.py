"""Arithmetic of tensors and arrays is in NumPy's dtype; what is no array counts as a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from each_way import assert_each, assert_each_raises, results

FLOATS, INTS, BYTES = tj.tensor([1.0]), tj.tensor([1]), tj.tensor([1], dtype=tj.int8)

CASES: dict[str, tuple[Callable[[Any], Any], Any, list[Any], Any]] = {
    "float + int": (lambda x: x + np.array(2), FLOATS, [3.0], tj.float64),
    "float + int, reflected": (lambda x: np.array(2) + x, FLOATS, [3.0], tj.float64),
    "float + float": (lambda x: x + np.array(2.5), FLOATS, [3.5], tj.float64),
    "float + small int": (lambda x: x + np.array(2, np.int16), FLOATS, [3.0], tj.float32),
    "half + float": (lambda x: x.half() + np.array(2.5), FLOATS, [3.5], tj.float64),
    "int + int": (lambda x: x + np.array(2), INTS, [3], tj.int64),
    "int8 + int": (lambda x: x + np.array(2), BYTES, [3], tj.int64),
    "int8 + int32": (lambda x: x + np.array(2, np.int32), BYTES, [3], tj.int32),
    "int8 + a number": (lambda x: x + np.int32(2), BYTES, [3], tj.int8),
    "int / int": (lambda x: x / np.array(2), INTS, [0.5], tj.float64),
    "int / ints": (lambda x: x / np.array([2]), INTS, [0.5], tj.float64),
    "float + ints": (lambda x: x + np.array([2]), FLOATS, [3.0], tj.float64),
    "int ** float": (lambda x: x ** np.array(2.5), INTS, [1.0], tj.float64),
    "in place": (lambda x: _added(x, np.array(2)), FLOATS, [3.0], tj.float64),
    "bfloat16": (lambda x: x.bfloat16() + np.array(2), FLOATS, [3.0], tj.bfloat16),
    "bool - float": (lambda x: np.bool_(True) - x, FLOATS, [0.0], tj.float32),
    "float - bool": (lambda x: x - np.bool_(True), FLOATS, [0.0], tj.float32),
}


def _added(x: Any, y: Any) -> Any:
    x += y
    return x


@pytest.mark.parametrize("name", CASES)
def test_dtypes(name: str) -> None:
    function, x, expected, dtype = CASES[name]
    for found in results(function, x):
        assert found.tolist() == expected
        assert found.dtype is dtype


def test_bools_are_not_subtracted() -> None:
    for function in (lambda x: np.bool_(True) - x, lambda x: True - x):
        with pytest.raises(RuntimeError, match="bool tensor"):
            function(tj.tensor([True]))
    with pytest.raises(RuntimeError, match="bool tensor"):
        _ = True - FLOATS


def test_complex_numbers_beside_others() -> None:
    number = tj.tensor(1j)
    assert_each([True], lambda n: tj.full_like(tj.tensor([False]), n), number)
    assert_each([1j], lambda n: tj.full_like(tj.tensor([0j]), n), number)
    for x in (FLOATS, INTS):
        assert_each_raises(
            RuntimeError, "without overflow", lambda n, x=x: tj.full_like(x, n), number
        )
    with pytest.raises(TypeError, match="must be Number, not Tensor"):
        tj.full_like(FLOATS, tj.tensor([2.0]))
    assert 1j not in INTS
    assert 1j not in FLOATS
    assert (1 + 0j) in INTS
    assert 1j in tj.tensor([1j])


def test_a_sum_of_one_number_is_another_tensor() -> None:
    x = tj.tensor(3.0)
    found = x.sum_to_size(())
    found.add_(1)
    assert x.item() == 3.0
    y = tj.tensor([3.0])
    assert y.sum_to_size(1) is y
