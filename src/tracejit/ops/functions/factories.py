"""Tensors from sizes and numbers: zeros, ones, full, arange, linspace, eye, their ``_like`` and ``new_`` forms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ... import dtypes
from ...device import check_device
from ...dtypes import DType
from .. import comparison as c
from .. import elementwise as e
from .. import movement as m
from .. import shapes
from .. import source as s
from ..table import METHODS, function
from .common import Number, Tensor, as_type, check_tensor, dim_of, is_tensor, shape_of


def made(result: Tensor, requires_grad: bool) -> Tensor:
    """A fresh factory result."""
    return result.requires_grad_(True) if requires_grad else result


def _filled(
    sizes: tuple[Any, ...], value: Number, dtype: Any, device: Any, requires_grad: bool
) -> Tensor:
    if device is not None:
        check_device(device)
    shape = shapes.size_arguments(sizes) if sizes else ()
    for extent in shape:
        if extent < 0:
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {extent}: {list(shape)}"
            )
    kind = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    return made(s.full(shape=shape, value=value, dtype=kind), requires_grad)


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
    if is_tensor(fill_value):
        check_device(device)
        kind = fill_value.type.dtype if dtype is None else dtypes.as_dtype(dtype)
        shape = shapes.size_arguments((size,))
        result = e.clone(m.expand(as_type(fill_value, kind), shape=shape))
        return made(result, requires_grad)
    kind = dtypes.of_scalar(fill_value) if dtype is None else dtype
    return _filled((size,), fill_value, kind, device, requires_grad)


def _like(
    name: str, x: Tensor, value: Number, dtype: Any, device: Any, requires_grad: bool
) -> Tensor:
    check_tensor(name, x)
    kind = x.type.dtype if dtype is None else dtype
    return _filled((shape_of(x),), value, kind, device, requires_grad)


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
    return _like("full_like", input, fill_value, dtype, device, requires_grad)


def _new(name: str, value: Number) -> Callable[..., Tensor]:
    def new(
        self: Tensor,
        *size: Any,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
    ) -> Tensor:
        kind = self.type.dtype if dtype is None else dtype
        return _filled(size, value, kind, device, requires_grad)

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
    kind = self.type.dtype if dtype is None else dtype
    return _filled((size,), fill_value, kind, device, requires_grad)


@function(method=False)
def scalar_tensor(value: Number, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A number as a 0-d tensor of the default dtype.

    >>> import tracejit as tj
    >>> tj.scalar_tensor(2)
    tensor(2.)
    """
    return _filled((), value, dtype, device, False)


# --- ranges -------------------------------------------------------------------------------------


def _plain(value: Any) -> Number:
    number: Number = value.item() if hasattr(value, "item") else value
    return number


@function(method=False)
def arange(
    start: Number,
    end: Number | None = None,
    step: Number = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``start``, ``start + step``, ... below ``end``; int64 when all are integers.

    Raises ``RuntimeError`` when the step is zero or leads away from ``end``.

    >>> import tracejit as tj
    >>> tj.arange(3), tj.arange(1.0, 2.0, 0.5)
    (tensor([0, 1, 2]), tensor([1.0000, 1.5000]))
    """
    check_device(device)
    first, last = (0, start) if end is None else (start, end)
    first, last, step = _plain(first), _plain(last), _plain(step)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not math.isfinite(first) or not math.isfinite(last):
        raise RuntimeError(f"unsupported range: {first} -> {last}")
    if (last - first) * (1 if step > 0 else -1) < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    whole = all(isinstance(v, int) for v in (first, last, step))
    kind = dtypes.as_dtype(dtype) if dtype is not None else None
    if kind is None:
        kind = dtypes.int64 if whole else dtypes.get_default_dtype()
    count = -((first - last) // step) if whole else math.ceil((last - first) / step)
    return made(s.arange(start=first, step=step, count=int(count), dtype=kind), requires_grad)


@function(method=False)
def linspace(
    start: Number,
    end: Number,
    steps: int,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``steps`` evenly spaced numbers from ``start`` to ``end``, both included.

    Raises ``RuntimeError`` for a negative number of steps.

    >>> import tracejit as tj
    >>> tj.linspace(0, 1, 5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    check_device(device)
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    kind = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    result = s.linspace_of(start=_plain(start), end=_plain(end), count=int(steps), dtype=kind)
    return made(result, requires_grad)


@function(method=False)
def logspace(
    start: Number,
    end: Number,
    steps: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``base`` to the powers ``linspace(start, end, steps)``.

    >>> import tracejit as tj
    >>> tj.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    check_device(device)
    kind = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    powers = linspace(start, end, steps, dtype=dtypes.float64)
    return made(as_type(e.pow(float(base), powers), kind), requires_grad)


@function(method=False)
def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Ones on the diagonal of an ``n`` by ``m`` matrix of zeros.

    >>> import tracejit as tj
    >>> tj.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    check_device(device)
    columns = n if m is None else m
    if n < 0 or columns < 0:
        raise RuntimeError(f"n must be greater or equal to 0, got {min(n, columns)}")
    kind = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    return made(as_type(c.eq(positions(n, -1), positions(columns, 0)), kind), requires_grad)


def positions(count: int, axis: int) -> Tensor:
    """0, 1, ... as a row (axis 0) or a column (axis -1)."""
    row = s.arange(start=0, step=1, count=count, dtype=dtypes.int64)
    return m.unsqueeze(row, dims=(1,)) if axis == -1 else row


def _triangle(x: Tensor, keep: Callable[..., Tensor], diagonal: int) -> Tensor:
    if x.ndim < 2:
        raise RuntimeError("triangle: input tensor must have at least 2 dimensions")
    rows, columns = shape_of(x)[-2:]
    offset = e.sub(positions(columns, 0), positions(rows, -1))
    return e.where(keep(offset, diagonal), x, False if x.dtype is dtypes.bool_ else 0)


@function()
def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangle of matrices, zeros below ``diagonal``.

    >>> import tracejit as tj
    >>> tj.triu(tj.ones(2, 2))
    tensor([[1., 1.],
            [0., 1.]])
    """
    return _triangle(input, c.ge, diagonal)


@function()
def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangle of matrices, zeros above ``diagonal``.

    >>> import tracejit as tj
    >>> tj.tril(tj.ones(2, 2))
    tensor([[1., 0.],
            [1., 1.]])
    """
    return _triangle(input, c.le, diagonal)


def _indices(keep: Callable[[int, int], bool], row: int, col: int) -> Tensor:
    found = [(i, j) for i in range(row) for j in range(col) if keep(i, j)]
    values = tuple(i for i, _ in found) + tuple(j for _, j in found)
    return s.literal(values=values, shape=(2, len(found)), dtype=dtypes.int64)


@function(method=False)
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = dtypes.int64) -> Tensor:
    """Row and column positions of the lower triangle of a ``row`` by ``col`` matrix.

    >>> import tracejit as tj
    >>> tj.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    return as_type(_indices(lambda i, j: j - i <= offset, row, col), dtypes.as_dtype(dtype))


@function(method=False)
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = dtypes.int64) -> Tensor:
    """Row and column positions of the upper triangle of a ``row`` by ``col`` matrix.

    >>> import tracejit as tj
    >>> tj.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    return as_type(_indices(lambda i, j: j - i >= offset, row, col), dtypes.as_dtype(dtype))


@function()
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices with ``input``'s last dimension on a diagonal.

    >>> import tracejit as tj
    >>> tj.diag_embed(tj.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    a, b = dim_of(dim1, input, extra=1), dim_of(dim2, input, extra=1)
    size = shape_of(input)[-1] + abs(offset)
    low, high = sorted((a, b))
    shape = list(shape_of(input)[:-1])
    shape.insert(low, size)
    shape.insert(high, size)
    base = s.full(shape=tuple(shape), value=0, dtype=input.dtype)
    return m.diagonal_scatter(base, input, offset=offset, dim1=a, dim2=b)


@function()
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """A vector as a diagonal matrix; the diagonal of a matrix (a copy).

    Raises ``RuntimeError`` for other ranks.

    >>> import tracejit as tj
    >>> tj.diag(tj.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    return e.clone(m.diagonal(input, offset=diagonal, dim1=0, dim2=1))
