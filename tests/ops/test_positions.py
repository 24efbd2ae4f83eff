"""Positions of what is not zero, and distinct elements: NumPy's own answers, found faster."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tracejit as tj

DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "int64", "bool", "complex64")
SHAPES = ((0,), (9,), (3, 0), (0, 4), (5, 7), (2, 3, 4), (1, 1, 6), (2, 3, 1, 5))


def _tensor(shape, dtype):
    rng = np.random.default_rng(len(shape))
    values = rng.choice([0.0, -0.0, 0.0, 1.0, np.nan, -3.0, np.inf], shape)
    if "int" in dtype or dtype == "bool":
        values = np.nan_to_num(values, posinf=2)
    return tj.from_numpy(np.asarray(values)).to(getattr(tj, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_positions_are_those_of_argwhere(dtype):
    for shape, turned in itertools.product(SHAPES, (False, True)):
        x = _tensor(shape, dtype)
        x = x.permute(*range(x.ndim)[::-1])[::2] if turned else x
        array = x.numpy() if dtype != "bfloat16" else x.float().numpy()
        for found in (x.nonzero(), tj.compile(lambda x: x.nonzero())(x)):
            assert found.dtype is tj.int64
            assert found.is_contiguous()
            np.testing.assert_array_equal(found.numpy(), np.argwhere(array))
        assert np.array_equal(
            x[x != 0].to(tj.complex128).numpy(),
            x.to(tj.complex128).numpy()[array != 0],
            equal_nan=True,
        )


def test_of_one_number():
    assert tj.tensor(3.0).nonzero().shape == (1, 0)
    assert tj.tensor(0.0).nonzero().shape == (0, 0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int8", "bool", "float16"])
@pytest.mark.parametrize("shape", [(0,), (1,), (40,), (7, 9), (2, 300)])
def test_parts_of_distinct_elements_belong_together(shape, dtype):
    x = _tensor(shape, dtype)
    array = x.numpy()
    values, counts = np.unique(array, return_counts=True, equal_nan=False)
    np.testing.assert_array_equal(x.unique().numpy(), values)
    found = [part.numpy() for part in x.unique(return_inverse=True, return_counts=True)]
    np.testing.assert_array_equal(found[0], values)
    np.testing.assert_array_equal(found[0][found[1]], array)
    np.testing.assert_array_equal(found[2], counts)
    assert np.bincount(found[1].ravel(), minlength=len(counts)).tolist() == counts.tolist()
    np.testing.assert_array_equal(x.unique(return_counts=True)[1].numpy(), counts)
