"""Views of memory that graphs compute: pairs as complex numbers and back, windows in common, elements at any strides.

On tensors each shows memory of its operand, and writes go through it. Graphs address memory in elements of one dtype,
each of which stands for itself: there :attr:`MemoryView.in_graphs` computes the same elements.
"""

# mypy: disable-error-code="has-type"
# (gradient rules name ops that are declared by the very decorator they stand in)

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..cuda.arrays import address_of, owner_of
from ..errors import ShapeError
from ..types import Scalar, Shape, TensorType
from . import complex_numbers as cx
from . import convolution as cv
from . import movement as m
from .elementwise import neg
from .indexing import put, take
from .kinds import Contraction
from .namespace import xp
from .op import GradRule
from .source import full, literal
from .strided import strided_view
from .table import Array, Sample, contraction

__all__ = [
    "MemoryView",
    "as_strided",
    "conj_view",
    "neg_view",
    "unfold",
    "view_as_complex",
    "view_as_real",
]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class MemoryView(Contraction):
    """A view as it runs on tensors; ``in_graphs`` is the function of ops that stands for it in graphs.

    ``repeats`` tells of attributes whether elements may lie in one place: what is written there hangs on the order.
    """

    is_view: ClassVar[bool] = True

    write: Callable[..., Any]
    in_graphs: Callable[..., Any]  # type: ignore[misc]
    repeats: Callable[..., bool] = lambda **_: False

    def evaluate(self, operands: Sequence[Array | Scalar], attributes: Mapping[str, Any]) -> Array:
        """The eager meaning on arrays."""
        (x,) = operands
        self.infer_type(TensorType(x.shape, _dtype(x)), **attributes)  # type: ignore[union-attr]
        return self.body(x, **attributes)


def _dtype(x: Array) -> Any:
    from ..dtypes import from_numpy

    return from_numpy(x.dtype)


def _view(name: str, attributes: Sequence[str], grad: Callable[..., Any], **fields: Any) -> Any:
    return MemoryView(
        name=name,
        operands=("x",),
        variadic=False,
        attributes=dict.fromkeys(attributes),
        grads={"x": GradRule.of(grad)},
        **fields,
    )


def laid(x: Array, shape: Shape, strides: Shape, start: int = 0) -> Array:
    """The memory of an array from its first element on, ``start`` and ``strides`` in elements.

    >>> laid(np.arange(6), (2, 2), (1, 2), 1)
    array([[1, 3],
           [2, 4]])
    """
    size = x.dtype.itemsize
    return _placed(x, shape, tuple(s * size for s in strides), start * size)


def memory_after(x: Array) -> Array:
    """All that lies in the memory of an array from its first element on, as a row; its elements where that has gaps.

    >>> memory_after(np.arange(6)[1:3])
    array([1, 2, 3, 4, 5])
    """
    owner = owner_of(x)
    if xp(x) is not np or type(x) is not np.ndarray or not owner.flags.c_contiguous:
        return x.reshape(-1)
    after = (address_of(owner) + owner.nbytes - address_of(x)) // x.dtype.itemsize
    return _placed(x, (after,), (x.dtype.itemsize,))


def _placed(x: Array, shape: Shape, strides: Shape, start: int = 0) -> Array:
    """The memory of an array at these strides, in bytes, a view whose owner is known."""
    n, owner = xp(x), owner_of(x)
    if n is np and type(x) is np.ndarray and owner.flags.c_contiguous and owner.nbytes:
        offset = address_of(x) - address_of(owner) + start
        found = np.ndarray(shape, x.dtype, owner, offset, strides)
        if not x.flags.writeable:
            found.flags.writeable = False
        return found
    first = x.reshape(-1)[start // x.dtype.itemsize :] if start else x
    return n.lib.stride_tricks.as_strided(first, shape, strides)


# --- complex numbers ----------------------------------------------------------------------------------------------


def _as_parts(x: Array) -> Array:
    return x[..., None].view(np.float64 if x.dtype.itemsize == 16 else np.float32)


def _as_numbers(x: Array) -> Array:
    return x.view(np.complex128 if x.dtype.itemsize == 8 else np.complex64)[..., 0]


view_as_real = _view(
    "view_as_real",
    (),
    lambda g: cx.complex_of_parts(g),
    body=_as_parts,
    infer_type=cx.parts_of_complex.infer_type,
    write=lambda base, value: cx.complex_of_parts(value),
    in_graphs=cx.parts_of_complex,
    doc="The real and the imaginary part of every number, along a new last dimension, where they lie.",
)
view_as_complex = _view(
    "view_as_complex",
    (),
    lambda g: cx.parts_of_complex(cx.conjugate(g)),
    body=_as_numbers,
    infer_type=cx.complex_of_parts.infer_type,
    write=lambda base, value: cx.parts_of_complex(value),
    in_graphs=cx.complex_of_parts,
    doc="Complex numbers of pairs that lie side by side, where they lie.",
)


# What mirrors memory has no array to show it: the dispatcher makes these views.
conj_view = _view(
    "conj",
    (),
    lambda g: cx.conjugate(g),
    body=cx.conjugate.body,
    infer_type=lambda x: x,
    write=lambda base, value: cx.conjugate(value),
    in_graphs=cx.conjugate,
    doc="The conjugates of complex numbers, where these lie.",
)
neg_view = _view(
    "neg_view",
    (),
    lambda g: neg(g),
    body=neg.body,
    infer_type=lambda x: x,
    write=lambda base, value: neg(value),
    in_graphs=neg,
    doc="The negatives of real numbers, where these lie.",
)


# --- windows ------------------------------------------------------------------------------------------------------


def _windows_type(x: TensorType, *, dim: int, size: int, step: int) -> TensorType:
    count = (x.shape[dim] - size) // step + 1
    return TensorType((*x.shape[:dim], count, *x.shape[dim + 1 :], size), x.dtype)


def _windows(x: Array, *, dim: int, size: int, step: int) -> Array:
    shape = _windows_type(TensorType(x.shape, _dtype(x)), dim=dim, size=size, step=step).shape
    strides = [*x.strides, x.strides[dim]]
    strides[dim] *= step
    return _placed(x, shape, tuple(strides))


def _turned(rank: int, dim: int) -> tuple[Shape, Shape]:
    """The order in which ``dim`` is the last dimension, and that from (others, size, count) to what is asked for."""
    others = tuple(d for d in range(rank) if d != dim)
    return (*others, dim), (*range(dim), rank, *range(dim, rank - 1), rank - 1)


def _computed_windows(x: Any, *, dim: int, size: int, step: int) -> Any:
    shape = tuple(x.shape)
    count = (shape[dim] - size) // step + 1
    if step >= size and count * step <= shape[dim]:  # they have no elements in common
        return _apart(x, dim, count, size, step)
    before, after = _turned(len(shape), dim)
    moved = m.permute(x, dims=before)
    given = {"kernel": (size,), "stride": (step,), "padding": ((0, 0),), "dilation": (1,)}
    return m.permute(cv.unfold_windows(moved, **given), dims=after)


def _apart(x: Any, dim: int, count: int, size: int, step: int) -> Any:
    shape, rank = tuple(x.shape), len(x.shape)
    whole = _first(x, dim, count * step)
    split = m.reshape(whole, shape=(*shape[:dim], count, step, *shape[dim + 1 :]))
    order = (*range(dim + 1), *range(dim + 2, rank + 1), dim + 1)
    return _first(m.permute(split, dims=order), rank, size)


def _first(x: Any, dim: int, count: int) -> Any:
    shape = tuple(x.shape)
    counts = (*shape[:dim], count, *shape[dim + 1 :])
    return m.slice(x, starts=(0,) * len(shape), counts=counts, steps=(1,) * len(shape))


def _windows_grad(g: Any, x_type: TensorType, dim: int, size: int, step: int) -> Any:
    before, after = _turned(x_type.ndim, dim)
    laid_out = m.permute(g, dims=_inverse(after))
    given = {"kernel": (size,), "stride": (step,), "padding": ((0, 0),), "dilation": (1,)}
    summed = cv.fold_windows(laid_out, size=(x_type.shape[dim],), **given)
    return m.permute(summed, dims=_inverse(before))


def _inverse(dims: Shape) -> Shape:
    return tuple(sorted(range(len(dims)), key=dims.__getitem__))


@contraction(
    lambda x, value, *, dim, size, step: x,
    total=True,
    grad={
        "x": lambda g, value_type, dim, size, step: windows_put(
            g, _zeros(g, value_type.shape), dim=dim, size=size, step=step
        ),
        "value": lambda g, dim, size, step: unfold(g, dim=dim, size=size, step=step),
    },
    samples=(Sample(((2, 6), (2, 2, 2)), {"dim": 1, "size": 2, "step": 3}),),
)
def windows_put(x: Array, value: Array, *, dim: int, size: int, step: int) -> Array:
    """A copy of x with ``value`` where `unfold` would read."""
    result = xp(x).array(x, copy=True, order="C")
    _windows(result, dim=dim, size=size, step=step)[...] = value
    return result


def _zeros(g: Any, shape: Shape) -> Any:
    return full(shape=tuple(shape), value=0, dtype=g.dtype)


unfold = _view(
    "unfold",
    ("dim", "size", "step"),
    _windows_grad,
    body=_windows,
    infer_type=_windows_type,
    write=lambda base, value, dim, size, step: windows_put(
        base, value, dim=dim, size=size, step=step
    ),
    in_graphs=_computed_windows,
    repeats=lambda dim, size, step: step < size,
    doc="Windows of ``size`` elements along ``dim``, ``step`` apart, as a new last dimension.",
)


# --- any strides --------------------------------------------------------------------------------------------------


def _strided_type(x: TensorType, *, size: Shape, stride: Shape, start: int) -> TensorType:
    reach = start + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if 0 not in size and (start < 0 or reach >= x.numel):
        raise ShapeError(f"as_strided: {size} at {stride} from {start} lie outside {x}")
    return TensorType(size, x.dtype)


def _strided(x: Array, *, size: Shape, stride: Shape, start: int) -> Array:
    found = laid(x, size, stride, start if 0 not in size else 0)
    if xp(x) is np and builtins.any(s == 0 and n > 1 for s, n in zip(stride, size, strict=True)):
        found.flags.writeable = False  # elements stand for several
    return found


def _places(size: Shape, stride: Shape, start: int) -> Any:
    """The places of the elements, in order."""
    found = np.full(1, start, np.int64)
    for extent, step in zip(size, stride, strict=True):
        found = (found[:, None] + np.arange(extent) * step).reshape(-1)
    return found


def _computed_strided(x: Any, *, size: Shape, stride: Shape, start: int) -> Any:
    from ..dtypes import int64

    row = m.reshape(x, shape=(x.spec.numel,))
    if 0 in size:
        return m.reshape(_first(row, 0, 0), shape=size)
    view = strided_view(row, size, stride, start)
    if view is not None:
        return view
    places = _places(size, stride, start)
    index = literal(values=tuple(places.tolist()), shape=places.shape, dtype=int64)
    return m.reshape(take(row, index, dim=0), shape=size)


def repeats(size: Shape, stride: Shape) -> bool:
    """May elements at these strides lie in one place?

    >>> repeats((3, 2), (1, 1)), repeats((3, 2), (1, 3))
    (True, False)
    """
    end = 0
    for step, count in sorted(zip(stride, size, strict=True)):
        if count > 1:
            if step <= end:
                return True
            end += step * (count - 1)
    return False


@contraction(
    lambda x, value, *, size, stride, start: x,
    total=True,
    grad={
        "x": lambda g, value_type, size, stride, start: strided_put(
            g, _zeros(g, value_type.shape), size=size, stride=stride, start=start
        ),
        "value": lambda g, size, stride, start: _computed_strided(
            g, size=size, stride=stride, start=start
        ),
    },
    samples=(Sample(((2, 6), (2, 2)), {"size": (2, 2), "stride": (1, 4), "start": 3}),),
)
def strided_put(x: Array, value: Array, *, size: Shape, stride: Shape, start: int) -> Array:
    """A copy of x with ``value`` where `as_strided` would read."""
    result = xp(x).array(x, copy=True, order="C")
    laid(result, size, stride, start)[...] = value
    return result


@contraction(
    lambda x, *, shape, size, stride, start: TensorType(shape, x.dtype),
    total=True,
    grad=lambda g, size, stride, start: _computed_strided(g, size=size, stride=stride, start=start),
    samples=(Sample(((3, 2),), {"shape": (2, 6), "size": (3, 2), "stride": (1, 2), "start": 3}),),
)
def strided_sum(x: Array, *, shape: Shape, size: Shape, stride: Shape, start: int) -> Array:
    """Zeros of ``shape`` with the elements of x added where `as_strided` would read them."""
    n = xp(x)
    flat, places = n.zeros(math.prod(shape), x.dtype), n.asarray(_places(size, stride, start))
    return put.body(flat, places, x.reshape(-1), dim=0, accumulate=True).reshape(shape)


as_strided = _view(
    "as_strided",
    ("size", "stride", "start"),
    lambda g, x_type, size, stride, start: strided_sum(
        g, shape=x_type.shape, size=size, stride=stride, start=start
    ),
    body=_strided,
    infer_type=_strided_type,
    write=lambda base, value, size, stride, start: strided_put(
        base, value, size=size, stride=stride, start=start
    ),
    in_graphs=_computed_strided,
    repeats=lambda size, stride, start: repeats(size, stride),
    doc="The elements at ``start`` and ``stride`` of memory without gaps.",
)
