"""Parts of tensors: what is read and written as mere memory is what the published functions make of it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tracejit as tj
from tracejit.ops.table import METHODS

ITEMS = (
    0,
    -1,
    2,
    slice(None),
    slice(1, None),
    slice(None, -1),
    slice(0, 4, 2),
    slice(3, 3),
    slice(-9, 9),
    None,
    ...,
)
INDICES = [
    *ITEMS,
    *itertools.product(ITEMS, repeat=2),
    *itertools.product(ITEMS[:9:2], ITEMS[1:9:2], (None, 1, ...)),
]


def outcome(function, *args):
    try:
        return function(*args)
    except Exception as error:  # noqa: BLE001  (it is compared)
        return type(error), str(error).splitlines()[0]  # the user's line follows


@pytest.mark.sampled(2)
@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_parts_are_the_views_that_the_function_makes(index):
    x = tj.arange(24.0).reshape(4, 6).clone()
    quick, slow = outcome(lambda: x[index]), outcome(METHODS["__getitem__"], x, index)
    if not isinstance(slow, tj.Tensor):
        assert quick == slow
        return
    assert isinstance(quick, tj.Tensor)
    assert quick.tolist() == slow.tolist()
    assert quick.stride() == slow.stride()
    assert quick._base is slow._base is x
    assert (quick._chain, quick._version) == (slow._chain, slow._version)
    assert not quick.numel() or quick.data_ptr() == slow.data_ptr()


@pytest.mark.sampled(8)
@pytest.mark.parametrize("index", INDICES, ids=repr)
@pytest.mark.parametrize(
    "value", [3, 2.5, True, float("nan"), 1e300, "like", "scalar", "rows", "double"], ids=repr
)
def test_parts_are_written_like_the_function_writes_them(index, value):
    x, y = tj.arange(24.0).reshape(4, 6).clone(), tj.arange(24.0).reshape(4, 6).clone()
    part = outcome(lambda: x[index])
    if isinstance(value, str) and isinstance(part, tj.Tensor):
        kinds = {"scalar": (), "rows": part.shape[-1:], "like": part.shape, "double": part.shape}
        value = tj.randn(kinds[value], dtype=tj.float64 if value == "double" else tj.float32)
    quick = outcome(lambda: x.__setitem__(index, value))
    assert quick == outcome(METHODS["__setitem__"], y, index, value)
    np.testing.assert_array_equal(x.numpy(), y.numpy())
    assert x._version == y._version


@pytest.mark.parametrize(
    "index", [-7, 7, (0, 9), (0, 0, 0), slice(None, None, -1), (..., ..., 0), "a", 1.0]
)
def test_what_is_no_part_is_refused(index):
    x = tj.zeros(3, 3)
    for function in (lambda: x[index], lambda: x.__setitem__(index, 1.0)):
        kind, text = outcome(function)
        assert issubclass(kind, (IndexError, ValueError, TypeError))
        assert "NumPy" not in text
        assert text
    assert x.tolist() == tj.zeros(3, 3).tolist()


def test_steps_of_parts_of_parts_are_found_when_asked_for():
    x = tj.arange(120.0).reshape(4, 5, 6).clone()
    y = x[1:][:, 2][..., None, 1:4]
    assert [op.name for op, _ in y._chain] == ["slice", "slice", "squeeze", "slice", "unsqueeze"]
    z = x
    for op, attributes in y._chain:
        z = op(z, **attributes)
    assert z.tolist() == y.tolist()


def test_parts_of_what_came_to_need_gradients_have_a_history():
    x = tj.zeros(3)
    part, w = x[1:], tj.ones(3, requires_grad=True)
    x.mul_(0.0).add_(w * 3)
    assert part.requires_grad
    (part * tj.tensor([1.0, 10.0])).sum().backward()
    assert w.grad.tolist() == [0.0, 3.0, 30.0]


def test_writes_are_on_the_tape_where_gradients_flow():
    x, w = tj.zeros(3), tj.ones(2, requires_grad=True)
    x[1:] = w * 2
    x[0] = 5.0
    (x * x).sum().backward()
    assert w.grad.tolist() == [8.0, 8.0]


def test_memory_that_may_not_be_written_to_is_not():
    with pytest.warns(UserWarning, match="not writable"):
        x = tj.from_numpy(np.broadcast_to(np.zeros(3, "f4"), (2, 3)))
    with pytest.raises(RuntimeError):
        x[0] = 1.0
    with tj.inference_mode():
        y = tj.zeros(3)
    with pytest.raises(RuntimeError, match="inference"):
        y[0] = 1.0
    z = tj.arange(4.0)
    with pytest.raises(RuntimeError, match="single memory location"):
        z[1:] = z[:-1]
    assert z.tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    "dtype", [tj.float16, tj.bfloat16, tj.uint8, tj.int32, tj.int64, tj.bool, tj.complex64]
)
@pytest.mark.parametrize("value", [1, -1, 300, 2**40, 1.5, 1e9, float("inf"), True, 1j], ids=repr)
def test_numbers_are_converted_like_the_function_does(dtype, value):
    x, y = tj.zeros(3, dtype=dtype), tj.zeros(3, dtype=dtype)
    quick = outcome(lambda: x.__setitem__(1, value))
    assert quick == outcome(METHODS["__setitem__"], y, 1, value)
    assert str(x) == str(y)


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@pytest.mark.parametrize(
    "shown",
    [
        lambda x: x,
        lambda x: x.data,
        lambda x: x.detach(),
        lambda x: x[:1],
        lambda x: x.expand(4, 2, 3),
        lambda x: x.data.expand(4, 2, 3).detach(),
    ],
)
@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.fill_(1),
        lambda x: x.zero_().add_(1),
        lambda x: x.masked_fill_(x == 0, 1),
        lambda x: x.__setitem__(0, 1.0),
        lambda x: x.__setitem__(tj.tensor([0]), 1.0),
    ],
)
def test_arrays_that_are_expanded_and_may_not_be_written_to_are_not(shown, write):
    array = np.broadcast_to(np.zeros(3, "f4"), (2, 3))
    with pytest.raises(RuntimeError, match=r"read-only|more than one element"):
        write(shown(tj.from_numpy(array)))
    assert not array.any()


def test_augmented_parts_are_changed_in_place():
    x = tj.arange(6.0).reshape(2, 3)
    before = x._version
    x[0, 1] -= x[1, 2]
    x[1] *= 2
    assert x.tolist() == [[0.0, -4.0, 2.0], [6.0, 8.0, 10.0]]
    assert x._version > before


def test_what_a_view_of_a_tensor_on_the_tape_holds_is_written_with_its_history():
    y, w = tj.ones(3), tj.full((3,), 2.0, requires_grad=True)
    part = y[1:]
    y.mul_(w)  # and part is on the tape from here on, whether or not anybody asked
    x = tj.zeros(3)
    x[1:] = part
    assert x.requires_grad
    x.sum().backward()
    assert w.grad.tolist() == [0.0, 1.0, 1.0]


def test_parts_between_places_in_tensors_stay_where_they_were():
    x, w, place = tj.zeros(4), tj.ones(4, requires_grad=True), tj.tensor(1)
    part = x[place:]
    place.add_(2)
    x.add_(w)
    assert part.tolist() == [1.0, 1.0, 1.0]
    part.sum().backward()
    assert w.grad.tolist() == [0.0, 1.0, 1.0, 1.0]
