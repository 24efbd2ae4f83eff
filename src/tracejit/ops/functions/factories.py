"""Tensors from sizes and numbers: zeros, ones, full, their ``_like`` and ``new_`` forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import dtypes
from ...device import index_of
from ...errors import ArgumentError
from .. import elementwise as e
from .. import movement as m
from .. import shapes
from ..keys import making_on
from ..table import METHODS, function
from .common import (
    Number,
    Tensor,
    as_type,
    check_tensor,
    constant,
    default_index,
    is_tensor,
    place_of,
    refuse_filling,
    settle,
    shape_of,
)


def made(result: Tensor, requires_grad: bool, device: Any = None) -> Tensor:
    """A fresh factory result, where it belongs."""
    result = settle(result, device)
    return result.requires_grad_(True) if requires_grad else result


def _filled(
    sizes: tuple[Any, ...], value: Number, dtype: Any, device: Any, requires_grad: bool
) -> Tensor:
    shape = shapes.size_arguments(sizes) if sizes else ()
    shapes.refuse_negative(shape)
    kind = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    index = default_index() if device is None else index_of(device)
    if index == -1:
        return made(constant(value, kind, shape), requires_grad, device)
    with making_on(index):
        result = constant(value, kind, shape)
    return made(result, requires_grad, device)


@function(method=False)
def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros of the given size.

    Raises ``RuntimeError`` for a negative size.

    >>> import tracejit as tj
    >>> tj.zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """
    return _filled(size, 0, dtype, device, requires_grad)


@function(method=False)
def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones of the given size.

    >>> import tracejit as tj
    >>> tj.ones(2, dtype=tj.int64)
    tensor([1, 1])
    """
    return _filled(size, 1, dtype, device, requires_grad)


@function(method=False)
def empty(
    *size: Any,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor whose values do not matter (here: zeros, so that runs repeat).

    >>> import tracejit as tj
    >>> tj.empty(2, 3).shape
    tracejit.Size([2, 3])
    """
    return _filled(size, 0, dtype, device, requires_grad)


@function(method=False)
def full(
    size: Sequence[int],
    fill_value: Number | Tensor,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``fill_value`` everywhere; the dtype is that of the value (bool, int64 or the default float).

    >>> import tracejit as tj
    >>> tj.full((2,), 7), tj.full((2,), 0.5)
    (tensor([7, 7]), tensor([0.5000, 0.5000]))
    """
    if isinstance(size, int):
        raise ArgumentError("full(): argument 'size' (position 1) must be tuple of ints, not int")
    _refuse_array("full", fill_value)
    if is_tensor(fill_value):
        kind = fill_value.spec.dtype if dtype is None else dtypes.as_dtype(dtype)
        shape = shapes.size_arguments((size,))
        result = e.clone(m.expand(as_type(fill_value, kind), shape=shape))
        return made(result, requires_grad, device)
    kind = dtypes.of_scalar(fill_value) if dtype is None else dtype
    refuse_filling(dtypes.as_dtype(kind), fill_value, size)
    return _filled((size,), fill_value, kind, device, requires_grad)


def _refuse_array(name: str, fill_value: Any) -> None:
    if isinstance(fill_value, np.ndarray):
        raise ArgumentError(
            f"{name}(): argument 'fill_value' (position 2) must be Number, not numpy.ndarray",
            "Write .item() after it.",
        )


def _like(
    name: str, x: Tensor, value: Number, dtype: Any, device: Any, requires_grad: bool
) -> Tensor:
    check_tensor(name, x)
    kind = x.spec.dtype if dtype is None else dtypes.as_dtype(dtype)
    refuse_filling(kind, value, shape_of(x))
    return _filled((shape_of(x),), value, kind, place_of(x, device), requires_grad)


@function(method=False)
def zeros_like(
    input: Tensor,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Zeros of the shape and dtype of ``input``.

    >>> import tracejit as tj
    >>> tj.zeros_like(tj.tensor([1, 2]))
    tensor([0, 0])
    """
    return _like("zeros_like", input, 0, dtype, device, requires_grad)


@function(method=False)
def ones_like(
    input: Tensor,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Ones of the shape and dtype of ``input``.

    >>> import tracejit as tj
    >>> tj.ones_like(tj.tensor([1.0, 2.0]))
    tensor([1., 1.])
    """
    return _like("ones_like", input, 1, dtype, device, requires_grad)


@function(method=False)
def empty_like(
    input: Tensor,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor like ``input`` whose values do not matter (here: zeros).

    >>> import tracejit as tj
    >>> tj.empty_like(tj.ones(2)).shape
    tracejit.Size([2])
    """
    return _like("empty_like", input, 0, dtype, device, requires_grad)


@function(method=False)
def full_like(
    input: Tensor,
    fill_value: Number,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """``fill_value`` in the shape and dtype of ``input``.

    >>> import tracejit as tj
    >>> tj.full_like(tj.ones(2), 5)
    tensor([5., 5.])
    """
    _refuse_array("full_like", fill_value)
    if is_tensor(fill_value):
        if fill_value.ndim:
            raise ArgumentError("full_like(): argument 'fill_value' must be Number, not Tensor")
        if fill_value.dtype.is_complex:
            fill_value = fill_value.item()
    return _like("full_like", input, fill_value, dtype, device, requires_grad)


def _new(name: str, value: Number) -> Callable[..., Tensor]:
    def new(
        self: Tensor,
        *size: Any,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
    ) -> Tensor:
        kind = self.spec.dtype if dtype is None else dtype
        return _filled(size, value, kind, place_of(self, device), requires_grad)

    new.__name__ = name
    new.__doc__ = f"{name[4:].title()} of the given size in the dtype of ``self``."
    return new


for _name, _value in {"new_zeros": 0, "new_ones": 1, "new_empty": 0}.items():
    METHODS[_name] = _new(_name, _value)


@function(namespace=False)
def new_full(
    self: Tensor,
    size: Sequence[int],
    fill_value: Number,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``fill_value`` of the given size in the dtype of ``self``.

    >>> import tracejit as tj
    >>> tj.ones(1).new_full((2,), 3)
    tensor([3., 3.])
    """
    kind = self.spec.dtype if dtype is None else dtypes.as_dtype(dtype)
    refuse_filling(kind, fill_value, size)
    return _filled((size,), fill_value, kind, place_of(self, device), requires_grad)


@function(method=False)
def scalar_tensor(
    value: Number, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A number as a 0-d tensor of the default dtype.

    >>> import tracejit as tj
    >>> tj.scalar_tensor(2)
    tensor(2.)
    """
    return _filled((), value, dtype, device, requires_grad)
