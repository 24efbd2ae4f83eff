"""Tensors of nested lists: rows of plain numbers are taken as they are, other rows number by number."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from tracejit import tensor_make


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        ([[1, 2], [3, 4]], tj.int64),
        ([[1, 2], (3, 4.5)], tj.float32),
        ([[True, False], [True, 2]], tj.int64),
        ([[True, False]], tj.bool),
        ([range(2), [3, 4]], tj.int64),
        ([float("inf"), True], tj.float32),
    ],
)
def test_rows_of_plain_numbers_are_taken_whole(monkeypatch, data, dtype):
    def one_by_one(value):
        raise AssertionError(f"{value} was looked at alone")

    monkeypatch.setattr(tensor_make, "_number", one_by_one)
    made = tj.tensor(data)
    assert made.dtype is dtype
    assert made.tolist() == np.array(data, made.numpy().dtype).tolist()


def test_other_rows_are_taken_number_by_number():
    class Index:
        def __index__(self):
            return 7

    assert tj.tensor([[1, Index()], [np.int32(3), True]]).tolist() == [[1, 7], [3, 1]]
    assert tj.tensor([np.float64(0.5), 2]).dtype is tj.float64
    assert tj.tensor([tj.tensor(3), 2.5]).tolist() == [3, 2.5]
    with pytest.raises(ValueError, match="at dim 1"):
        tj.tensor([[1, 2], [3]])
    with pytest.raises(TypeError):
        tj.tensor([1, "2"])


def test_numbers_that_vary_in_a_row_are_read_by_every_call():
    f = tj.compile(lambda x, a: x * tj.tensor([1.0, a]), strict=True)
    assert [f(tj.ones(2), a).tolist() for a in (1.0, 2.0, 3.0, 4.0)] == [
        [1, a] for a in (1, 2, 3, 4)
    ]
