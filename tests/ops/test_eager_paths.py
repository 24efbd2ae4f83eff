"""The short ways of eager ops give what the long ones do: odd sizes, strides, dtypes, numbers, settings of NumPy."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracejit as tj
from tracejit import dtypes
from tracejit.ops import float_errors, movement
from tracejit.ops.conversions import convert_scalar
from tracejit.ops.shapes import resolve_size
from tracejit.optim import update

DTYPES = [np.float32, np.float64, np.int64, np.bool_, np.complex64, ml_dtypes.bfloat16, np.float16]


# --- settings of NumPy ----------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", ["raise", "warn", "ignore"])
def test_ops_ignore_float_errors_and_leave_the_setting_as_it_was(wanted: str):
    x = tj.tensor([0.0, 1.0, 1e38])
    with np.errstate(all=wanted):
        before = np.geterr()
        assert (x / 0).tolist()[1:] == [math.inf, math.inf]
        assert (x * 1e10).sum().item() == math.inf
        assert math.isnan((x.reshape(3, 1) @ tj.full((1, 1), math.nan))[0, 0].item())
        with pytest.raises(RuntimeError, match="must match"):
            x + tj.ones(2)
        assert np.geterr() == before


def test_settings_may_be_nested_and_left_after_errors():
    before = np.geterr()
    first = float_errors.ignore()
    second = float_errors.ignore()
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        np.float32(1) / np.float32(0)
    float_errors.restore(second)
    assert np.geterr()["divide"] == "ignore"
    float_errors.restore(first)
    assert np.geterr() == before


def test_the_public_way_does_the_same():
    before = np.geterr()
    setting = float_errors._enter()
    assert set(np.geterr().values()) == {"ignore"}
    float_errors._leave(setting)
    assert np.geterr() == before


# --- views ----------------------------------------------------------------------------------------


@st.composite
def laid_out(draw: st.DrawFn) -> Any:
    """An array of up to three dimensions, possibly transposed, stepped through, read-only or of one element."""
    shape = draw(st.lists(st.sampled_from([0, 1, 1, 2, 3, 5]), max_size=3))
    dtype = draw(st.sampled_from(DTYPES))
    array = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    if draw(st.booleans()):
        array = array.T
    if array.ndim and draw(st.booleans()):
        array = array[:: draw(st.sampled_from([1, 2, -1]))]
    if draw(st.booleans()):
        array = array.view()
        array.flags.writeable = False
    return array


@given(laid_out(), st.lists(st.sampled_from([0, 1, 2, 4]), max_size=2), st.data())
def test_expansion_is_broadcasting(array: Any, ahead: list[int], data: st.DataObject):
    shape = tuple(data.draw(st.sampled_from([1, 3, 0])) if n == 1 else n for n in array.shape)
    wanted = np.broadcast_to(array, (*ahead, *shape))
    found = movement.expand.evaluate([array], {"shape": (*ahead, *shape)})
    assert (found.dtype, found.shape, found.tobytes()) == (
        wanted.dtype,
        wanted.shape,
        wanted.tobytes(),
    )
    assert found.flags.writeable == (array.flags.writeable and found.size == array.size)
    if found.size:
        assert np.shares_memory(found, array)


@given(laid_out(), st.lists(st.sampled_from([-1, 0, 1, 2, 3, 4]), max_size=4))
def test_expansion_refuses_what_broadcasting_refuses(array: Any, shape: list[int]):
    try:
        np.broadcast_to(array, tuple(shape))
    except ValueError:
        with pytest.raises((RuntimeError, ValueError)):
            movement.expand.evaluate([array], {"shape": tuple(shape)})
    else:
        movement.expand.evaluate([array], {"shape": tuple(shape)})


@given(laid_out(), st.data())
def test_dimensions_of_one_come_and_go(array: Any, data: st.DataObject):
    count = data.draw(st.integers(0, 2))
    places = st.integers(0, array.ndim + count - 1) if array.ndim + count else st.nothing()
    dims = tuple(sorted(data.draw(st.sets(places, min_size=count, max_size=count))))
    wide = movement.unsqueeze.evaluate([array], {"dims": dims})
    assert wide.shape == np.expand_dims(array, dims).shape
    assert np.shares_memory(wide, array) or not array.size
    narrow = movement.squeeze.evaluate([wide], {"dims": dims})
    assert (narrow.shape, narrow.tobytes()) == (array.shape, array.tobytes())


@given(st.lists(st.integers(-2, 6), max_size=4), st.integers(0, 24))
def test_sizes_with_one_left_open(shape: list[int], count: int):
    def resolved(sizes: Any) -> Any:
        try:
            return resolve_size(sizes, count)
        except RuntimeError as error:
            return str(error)

    class Index:  # takes the long way
        def __init__(self, value: int):
            self.value = value

        def __index__(self) -> int:
            return self.value

    found, wanted = resolved(shape), resolved([Index(n) for n in shape])
    if isinstance(wanted, tuple):
        assert found == wanted
    else:
        assert isinstance(found, str)


# --- numbers --------------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.booleans(),
    st.integers(-(2**40), 2**40),
    st.floats(width=64),
    st.sampled_from([0.0, -0.0, 1e300, -1e-310, math.inf, math.nan, 16777217, 0.1]),
)


@given(NUMBERS, st.sampled_from(dtypes.FLOATS))
def test_numbers_are_rounded_as_casts_round(value: Any, dtype: dtypes.DType):
    with np.errstate(all="ignore"):
        wanted = np.asarray(float(value)).astype(dtype.np)
    if dtype is dtypes.float32 and tj.finfo(dtype).max < abs(value) < math.inf:  # as PyTorch does
        with pytest.raises(RuntimeError, match="without overflow"):
            tj.zeros(1, dtype=dtype).fill_(value)
    else:
        found = tj.zeros(1, dtype=dtype).fill_(value).numpy()[0]
        assert np.asarray(found).tobytes() == wanted.tobytes() or math.isnan(float(value))
    with np.errstate(all="ignore"):
        assert convert_scalar(value, dtype).tobytes() == wanted.tobytes() or math.isnan(value)


@given(NUMBERS, st.sampled_from(["add", "sub", "mul", "div", "maximum"]), st.booleans())
def test_a_number_counts_as_a_tensor_of_it(value: Any, name: str, first: bool):
    x = tj.tensor([0.5, -3.0, math.inf, -0.0])
    if isinstance(value, bool) and name == "sub":
        value = int(value)
    op = tj.ops.table.lookup(name)
    cell = tj.tensor(float(value), dtype=tj.float64)  # of no dimension: does not widen x
    found, wanted = (op(value, x), op(cell, x)) if first else (op(x, value), op(x, cell))
    assert found.dtype is wanted.dtype is tj.float32
    assert np.array_equal(found.numpy(), wanted.numpy(), equal_nan=True)


def test_errors_name_the_operands_that_were_given():
    with pytest.raises(RuntimeError, match=r"add: i64\[2, 3\] and f32\[2, 4\]"):
        tj.ones(2, 3, dtype=tj.int64) + tj.ones(2, 4)
    with pytest.raises(RuntimeError, match=r"where: bool\[2\] and i32\[3\] and 0.5"):
        tj.where(tj.ones(2, dtype=tj.bool), tj.ones(3, dtype=tj.int32), 0.5)


def test_the_default_dtype_decides_anew():
    x = tj.tensor([1, 2])
    before = tj.get_default_dtype()
    try:
        assert (x + 0.5).dtype is tj.float32
        tj.set_default_dtype(tj.float64)
        assert (x + 0.5).dtype is tj.float64
        assert (x / 2).dtype is tj.float64
    finally:
        tj.set_default_dtype(before)
    assert (x + 0.5).dtype is tj.float32


# --- optimizers -----------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [tj.float32, tj.float64, tj.bfloat16, tj.complex64])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (3, 5)])
@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop"])
def test_small_parameters_are_updated_whole(
    name: str, shape: tuple[int, ...], dtype: Any, monkeypatch: pytest.MonkeyPatch
):
    def trained() -> Any:
        tj.manual_seed(3)
        p = tj.randn(*shape, 2).to(dtype)[..., 0].requires_grad_()  # with gaps between the elements
        optimizer = getattr(tj.optim, name)(
            [p], lr=0.1, **({"momentum": 0.5} if name == "SGD" else {})
        )
        for step in range(3):
            p.grad = tj.full(shape, 0.25 * (step + 1)).to(dtype)
            optimizer.step()
        return p.detach().numpy().copy()

    whole = trained()
    monkeypatch.setattr(update, "_PIECE_BYTES", 8)
    assert trained().tobytes() == whole.tobytes()
