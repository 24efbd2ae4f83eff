"""Subscripts against NumPy: reading, writing, views, gradients, masks, and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.nn import functional as F

SHAPE = (4, 3, 5)
DATA = np.arange(60.0).reshape(SHAPE)
MASK = np.random.default_rng(3).random(SHAPE) > 0.5
ROWS = np.array([True, False, True, True])
I = np.array([2, 0, -1])  # noqa: E741
J = np.array([[0, 1], [2, -2]])
INDICES: tuple[Any, ...] = (
    *(0, -1, slice(None), slice(1, 3), slice(None, None, 2), slice(5, 2), Ellipsis, None),
    *((0, 1), (0, 1, 2), (..., 0), (0, ...), (slice(1, None), 2), (None, 0, None, ..., 1)),
    *(
        (slice(None), slice(0, 2), slice(4, 0)),
        (..., None, slice(1, 2)),
        (slice(-2, None), ..., -1),
    ),
    *(I, (I,), (I, 1), (slice(None), I), (slice(None), I, 2), (I, I), (I, slice(None), I)),
    *((slice(None), I, I), (J,), (J, I[:2]), (..., J), (J, slice(0, 2), J), (None, I, None, I)),
    *(
        MASK,
        ROWS,
        (ROWS, 1),
        (ROWS, slice(1, 3)),
        (slice(None), MASK[0]),
        MASK[:, :, 0],
        (ROWS, [0, 1, 2]),
    ),
    *([1, 2], ([[0, 1], [2, 3]],), ([0, 1], [1, 2]), [], np.array([], np.int64), True, False),
)


def ours(index: Any) -> Any:
    """Index arrays as index tensors."""
    if isinstance(index, tuple):
        return tuple(ours(i) for i in index)
    return tj.tensor(index) if isinstance(index, np.ndarray) else index


def is_basic(index: Any) -> bool:
    items = index if isinstance(index, tuple) else (index,)
    return all(i is None or i is Ellipsis or type(i) in (int, slice) for i in items)


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_read(index: Any) -> None:
    expected = DATA[index]
    found = tj.tensor(DATA)[ours(index)]
    assert tuple(found.shape) == expected.shape
    assert np.array_equal(found.numpy(), expected)


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_write(index: Any) -> None:
    expected = DATA.copy()
    count = expected[index].size
    values = -np.arange(1.0, count + 1).reshape(expected[index].shape)
    expected[index] = values
    for value in (tj.tensor(values), -7):
        x = tj.tensor(DATA)
        x[ours(index)] = value
        if isinstance(value, int):
            expected[index] = -7
        assert np.array_equal(x.numpy(), expected)


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_gradient_counts_what_was_read(index: Any) -> None:
    x = tj.tensor(DATA, requires_grad=True)
    y = x[ours(index)]
    weights = np.arange(1.0, y.numel() + 1).reshape(y.shape)
    (y * tj.tensor(weights)).sum().backward()
    expected = np.zeros(SHAPE)
    np.add.at(expected, index, weights)
    assert np.array_equal(x.grad.numpy(), expected)


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_gradient_of_writing(index: Any) -> None:
    base = tj.tensor(DATA, requires_grad=True)
    shape = DATA[index].shape
    value = tj.tensor(np.ones(shape), requires_grad=True)
    x = base * 1
    x[ours(index)] = value * 2
    (x * tj.tensor(DATA)).sum().backward()
    expected = DATA.copy()
    expected[index] = 0
    assert np.array_equal(base.grad.numpy(), expected)
    positions = np.arange(60).reshape(SHAPE)[index]
    last = {p: i for i, p in enumerate(positions.ravel())}
    winners = np.array([last[p] == i for i, p in enumerate(positions.ravel())], bool).reshape(shape)
    found = value.grad.numpy()
    assert np.array_equal(found[winners], 2 * DATA[index][winners])


@pytest.mark.parametrize("index", [i for i in INDICES if is_basic(i)], ids=str)
def test_basic_indices_are_views(index: Any) -> None:
    x = tj.tensor(DATA)
    view = x[index]
    assert view.numel() == 0 or np.shares_memory(view.numpy(), x.numpy())
    view.fill_(-1)
    expected = DATA.copy()
    expected[index] = -1
    assert np.array_equal(x.numpy(), expected)


def test_0d_tensors_select_like_integers() -> None:
    x = tj.tensor(DATA)
    assert tj.equal(x[tj.tensor(2)], x[2])
    assert tj.equal(x[tj.tensor(2), :, tj.tensor([1, 0])], x[2][:, tj.tensor([1, 0])])
    assert tj.equal(x[tj.tensor(-1), tj.tensor(0)], x[-1, 0])


def test_writing_casts_and_broadcasts() -> None:
    x = tj.zeros(2, 3, dtype=tj.int64)
    x[0] = 2.7
    x[1] = tj.tensor([1.2, 2.9, -1.5])
    assert x.tolist() == [[2, 2, 2], [1, 2, -1]]
    x[:, [0, 2]] = tj.tensor([[5], [6]])
    assert x.tolist() == [[5, 2, 5], [6, 2, 6]]
    x[x == 2] = tj.tensor(9)
    assert x.tolist() == [[5, 9, 5], [6, 9, 6]]


def test_repeated_positions() -> None:
    index = (tj.tensor([1, 1, 0]),)
    ones = tj.ones(3)
    assert tj.zeros(2).index_put(index, ones, accumulate=True).tolist() == [1.0, 2.0]
    x = tj.zeros(2)
    x.index_put_(index, ones * 3)
    assert x.tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    ("index", "error", "match"),
    [
        (4, IndexError, "index 4 is out of bounds for dimension 0 with size 4"),
        ((0, 0, 0, 0), IndexError, "too many indices"),
        ((..., ..., 0), IndexError, "behind a second ellipsis"),
        (tj.tensor([4]), IndexError, "index 4 is out of bounds"),
        (
            (tj.tensor([0]), tj.tensor([-4])),
            IndexError,
            "index -4 is out of bounds for dimension 1",
        ),
        ((tj.tensor([0, 1]), tj.tensor([0, 1, 2])), IndexError, "could not be broadcast"),
        (tj.tensor([1.0]), IndexError, "must be long, int, byte or bool"),
        ([0.5], IndexError, "must be long, int, byte or bool"),
        (tj.tensor([True, False]), IndexError, r"shape of the mask \[2\] at index 0"),
        (slice(None, None, -1), ValueError, "step must be greater than zero"),
        (1.5, IndexError, "only integers, slices"),
        ("a", TypeError, "invalid data type 'str'"),
    ],
    ids=str,
)
def test_bad_index(index: Any, error: type[Exception], match: str) -> None:
    x = tj.tensor(DATA)
    with pytest.raises(error, match=match):
        x[index]
    with pytest.raises(error, match=match):
        x[index] = 1.0
    assert np.array_equal(x.numpy(), DATA)


def test_value_that_does_not_fit() -> None:
    x = tj.zeros(2, 3)
    with pytest.raises(RuntimeError, match="shape mismatch"):
        x[tj.tensor([0])] = tj.ones(2)
    with pytest.raises(RuntimeError, match="shape mismatch"):
        x[0] = tj.ones(2)


@pytest.mark.parametrize(
    "index", [True, (True, slice(1, None)), (..., False), (None, True)], ids=str
)
def test_true_and_false_make_copies(index: Any) -> None:
    """They are masks without dimensions."""
    x = tj.tensor(DATA)
    y = x[index]
    assert y.shape == DATA[index].shape
    y.fill_(-1)
    assert np.array_equal(x.numpy(), DATA)


NUMBER, PLACE, NOWHERE = tj.tensor(2.0), tj.tensor(1), tj.zeros(0, 2, dtype=tj.int64)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda x: x.scatter_add_(0, PLACE, NUMBER), [1.0, 3.0, 1.0]),
        (lambda x: x.scatter_(0, PLACE, NUMBER), [1.0, 2.0, 1.0]),
        (lambda x: x.scatter(0, PLACE, 5.0, reduce="multiply"), [1.0, 5.0, 1.0]),
        (lambda x: x.scatter_add(0, PLACE[None], NUMBER), [1.0, 3.0, 1.0]),
        (lambda x: x.scatter_reduce(0, PLACE, NUMBER, "amax"), [1.0, 2.0, 1.0]),
        (lambda x: x.sum().scatter_add(0, PLACE[None] - 1, NUMBER[None]), 5.0),
        (lambda x: x.cumsum(0).gather(0, PLACE), 2.0),
        (lambda x: x.scatter_add_(0, NOWHERE, tj.ones(2, 2, 1)), [1.0, 1.0, 1.0]),
        (lambda x: x.scatter(0, NOWHERE, 3.0), [1.0, 1.0, 1.0]),
        (lambda x: x[:2, None].scatter_add(1, NOWHERE, tj.ones(0)), [[1.0], [1.0]]),
    ],
)
def test_numbers_beside_vectors_and_no_places(call: Any, expected: Any) -> None:
    compiled = tj.compile(call)
    for run in (call, compiled, compiled, compiled):
        assert run(tj.ones(3)).tolist() == expected


def test_dimensions_of_places_are_checked() -> None:
    for index, source in ((tj.zeros(1, 1).long(), tj.ones(1, 1)), (PLACE[None], tj.ones(1, 1))):
        with pytest.raises(RuntimeError, match="same number of dimensions"):
            tj.ones(3).scatter_add(0, index, source)
    x, value = tj.zeros(3, requires_grad=True), tj.ones((), requires_grad=True)
    (x.scatter_add(0, PLACE, value) * tj.arange(3.0)).sum().backward()
    assert (x.grad.tolist(), value.grad.item()) == ([0.0, 1.0, 2.0], 1.0)
    x.grad, empty = None, tj.zeros(0, 2, requires_grad=True)
    x.scatter_add(0, NOWHERE, empty).sum().backward()
    assert (x.grad.tolist(), empty.grad.shape) == ([1.0, 1.0, 1.0], (0, 2))


def test_as_many_classes_as_a_tensor_says() -> None:
    def one_hot(index: tj.Tensor) -> tj.Tensor:
        return tj.nn.functional.one_hot(index, index.max() + 1)

    compiled = tj.compile(one_hot)
    for top in (1, 2, 2, 1, 2, 1):
        index = tj.tensor([0, top])
        assert compiled(index).tolist() == np.eye(top + 1)[[0, top]].tolist()
    assert compiled.stats.compiled_calls, compiled.explain()


@pytest.mark.parametrize(
    "one_hot",
    [
        lambda x: F.one_hot(x),
        lambda x: F.one_hot(x, x.max() + 1).sum(0),
        lambda x: F.one_hot(x, max(x.max() + 1, 3))[..., :3],
        lambda x: F.one_hot(x, max(x.max().item() + 1, 3))[..., :3],
    ],
)
def test_classes_that_vary_are_not_recorded_each(one_hot: Callable[[tj.Tensor], tj.Tensor]) -> None:
    compiled = tj.compile(one_hot)
    for top in (4, 7, 5, 9, 11, 6, 13, 4):
        index = tj.tensor([0, top])
        assert compiled(index).tolist() == one_hot(index).tolist()
    assert compiled.stats.recordings <= 4, compiled.explain()


def test_classes_are_counted_by_whole_numbers() -> None:
    for wrong in (4.0, True, tj.tensor(4.0), tj.tensor([4]), tj.tensor(True)):
        with pytest.raises(TypeError, match=r"'num_classes' .* must be int, not"):
            F.one_hot(tj.tensor([0, 2]), wrong)
    assert F.one_hot(tj.tensor([0, 2]), tj.tensor(4, dtype=tj.int32)).shape == (2, 4)
