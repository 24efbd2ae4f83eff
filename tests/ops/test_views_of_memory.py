"""``view(dtype)``: the memory of a tensor read as elements of another dtype."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj

VALUES = np.array([[1.5, -0.0, np.inf, 3.0], [np.nan, -2.25, 1e-40, 0.0]], np.float32)
DTYPES = [tj.int32, tj.int8, tj.int64, tj.uint8, tj.float16, tj.bfloat16, tj.float64, tj.complex64]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_elements_are_those_of_the_memory(dtype: tj.dtype) -> None:
    shown = tj.tensor(VALUES).view(dtype)
    assert shown.dtype is dtype
    assert shown.numpy().tobytes() == VALUES.tobytes()
    assert shown.view(tj.float32).numpy().tobytes() == VALUES.tobytes()
    assert tuple(shown.shape) == VALUES.view(dtype.np).shape


def test_memory_is_shared_and_changes_are_counted() -> None:
    x = tj.ones(2, 3)
    bits = x.view(dtype=tj.int32)
    before = x._version
    bits.zero_()
    assert x.sum() == 0
    assert x._version == before + 1
    x.fill_(1.0)
    assert (bits == 0x3F800000).all()


def test_a_turned_tensor_keeps_its_strides() -> None:
    x = tj.arange(6.0).reshape(2, 3).T
    assert x.view(tj.int32).stride() == (1, 3)


def test_there_is_no_gradient_through_bits() -> None:
    x = tj.ones(2, requires_grad=True)
    assert not x.view(tj.int32).requires_grad
    assert not x.view(tj.float16).requires_grad
    assert not x.view(tj.float32).requires_grad  # PyTorch's has none either


def test_a_change_of_bits_is_noticed_by_backward() -> None:
    x = tj.ones(2, requires_grad=True)
    y = x * 2
    z = y * y
    y.detach().view(tj.int32).zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_compiled_functions_run_eagerly_and_say_why() -> None:
    def absolute(x: tj.Tensor) -> tj.Tensor:
        bits = x.view(tj.int32)
        return (bits & 0x7FFFFFFF).view(tj.float32) + 1.0

    compiled = tj.compile(absolute)
    for sign in (1.0, -1.0, -2.0):
        x = tj.full((3,), sign)
        assert (compiled(x) == absolute(x)).all()
    assert compiled.stats.compiled_calls == 0
    assert "view() as another dtype" in str(compiled.explain())


def test_results_of_compiled_functions_have_bits() -> None:
    doubled = tj.compile(lambda x: x * 2)
    for _ in range(3):
        out = doubled(tj.ones(4))
        bits = out.view(tj.int32)
        out.neg_()
        assert (bits < 0).all()


def test_resized_tensors_show_what_lies_in_memory() -> None:
    x = tj.arange(6.0)
    part = x[1:3].resize_(4)
    part[3] = 9.0
    assert x.tolist() == [0, 1, 2, 3, 9, 5]
    assert tj.arange(6).view(2, 3).t().resize_(6).tolist() == [0, 1, 2, 3, 4, 5]
    assert tj.arange(2.0).resize_(2, 2).tolist() == [[0, 1], [0, 0]]


def test_set_shows_places_of_other_memory() -> None:
    source = tj.arange(6.0)
    for given in (source, source.untyped_storage()):
        x = tj.zeros(2).set_(given, 1, (2, 2), (2, 1))
        x[0] = 7.0
        assert x.tolist() == [[7, 7], [3, 4]]
        assert source.tolist() == [0, 7, 7, 3, 4, 5]
