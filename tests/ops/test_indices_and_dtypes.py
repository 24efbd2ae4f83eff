"""What is written through an index: in which dtype it may come, and of which shape."""

from __future__ import annotations

from typing import Any

import numpy as np

import tracejit as tj
from each_way import assert_each, assert_each_raises

STRICT = "Index put requires the source and destination dtypes match"


def written(index: Any) -> Any:
    def write(x: Any, value: Any) -> Any:
        x[index] = value
        return x

    return write


def test_a_bool_alone_casts() -> None:
    value = tj.tensor([1, 2, 3])
    assert_each([1.0, 2.0, 3.0], written(True), tj.zeros(3), value)
    assert_each([0.0, 0.0, 0.0], written(False), tj.zeros(3), value)
    assert_each([1, 2, 3], written(True), tj.zeros(3, dtype=tj.int64), tj.tensor([1.5, 2.0, 3.0]))
    assert_each_raises(RuntimeError, STRICT, written((True,)), tj.zeros(3), value)
    assert_each_raises(RuntimeError, STRICT, written((True,)), tj.zeros(3), tj.tensor(1))


def test_gradients_through_it() -> None:
    x, value = tj.zeros(2, 3), tj.tensor([1.0, 2.0, 3.0], dtype=tj.float64, requires_grad=True)
    x[True] = value
    (x * x).sum().backward()
    assert value.grad is not None
    assert value.grad.tolist() == [4.0, 8.0, 12.0]


def test_one_value_at_a_mask_is_cast() -> None:
    x = tj.zeros(2, 3, dtype=tj.float64)
    mask, row = tj.tensor([True, False, True]), tj.tensor(-2)
    expected = [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    write = lambda x, i, m, v: written((i, m))(x, v)  # noqa: E731
    assert_each(expected, write, x, row, mask, tj.tensor(1.0))
    assert_each(expected, write, x, row, mask, tj.tensor([1]))
    assert_each_raises(RuntimeError, STRICT, write, x, row, mask, tj.tensor([1, 2]))
    assert_each_raises(RuntimeError, STRICT, write, x, tj.tensor([True, False]), mask, tj.tensor(1))
    assert_each_raises(RuntimeError, STRICT, written([0, 1]), x, tj.tensor(1))
    assert_each_raises(RuntimeError, STRICT, written(tj.tensor(True)), x, tj.tensor(1))


def test_masks_of_bytes() -> None:
    mask = tj.tensor([1, 0, 1], dtype=tj.uint8)
    write = lambda x, m, v: written(m)(x, v)  # noqa: E731
    assert_each_raises(RuntimeError, "only supports boolean masks", write, tj.zeros(3), mask, 5)
    assert_each([5.0, 0.0, 6.0], write, tj.zeros(3), mask, tj.tensor([5.0, 6.0]))
    assert tj.arange(3)[np.array([1, 0, 1], dtype=np.uint8)].tolist() == [0, 2]


def test_shapes_of_what_is_put() -> None:
    rows, columns = tj.tensor([0, 1]), tj.tensor([1, 2])
    for accumulate in (False, True):
        put = lambda x, i, j, v, a=accumulate: x.index_put_((i, j), v, a)  # noqa: E731
        for shape in ((1, 2), (1, 1)):
            assert_each_raises(
                RuntimeError, "shape mismatch", put, tj.zeros(3, 3), rows, columns, tj.ones(shape)
            )
        assert_each(
            [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]],
            *(put, tj.zeros(3, 3), rows, columns, tj.ones(1)),
        )
    write = lambda x, i, j, v: written((i, j))(x, v)  # noqa: E731
    assert_each([[0.0, 1.0], [1.0, 0.0]], write, tj.zeros(2, 2), rows, 1 - rows, tj.ones(1, 2))


def test_nothing_is_found_at_any_index_of_nothing() -> None:
    five = tj.tensor([5])
    assert_each([[]], lambda x, i: x[i], tj.zeros(3, 0), five)
    assert_each([[]], lambda x, i: x[i, i + 2], tj.zeros(3, 2, 0), five)
    assert_each([[]], lambda x, i: x[i, 0:0], tj.zeros(3, 2), five)
    assert_each([], lambda x, i: x[i, i[:0]], tj.zeros(3, 2), five)
    assert_each([[], [], []], lambda x, i: written(i)(x, 1), tj.zeros(3, 0), five)
    assert_each([[], [], []], lambda x, i: x.index_put_((i,), tj.tensor(1.0)), tj.zeros(3, 0), five)
    for shape in ((0, 3), (0, 0)):
        assert_each_raises(IndexError, "out of bounds", lambda x, i: x[i], tj.zeros(shape), five)


def test_gradients_of_nothing() -> None:
    x = tj.zeros(3, 0, requires_grad=True)
    x[tj.tensor([5])].sum().backward()
    assert x.grad is not None
    assert x.grad.shape == (3, 0)


def test_empty_arrays() -> None:
    empty = np.array([])
    assert tj.zeros(3, 4)[empty].shape == (0, 4)
    assert tj.zeros(3, 4)[:, empty].shape == (3, 0)
    x = tj.zeros(3)
    x[empty] = 1
    assert x.tolist() == [0.0, 0.0, 0.0]
