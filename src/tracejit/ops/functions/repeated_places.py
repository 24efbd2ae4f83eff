"""Writes to expanded tensors, where one place stands for several elements, by functions that say where they write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ... import dtypes
from ...cuda.arrays import repeated_dims
from ...modes import MODES
from ...types import Shape
from .. import comparison as c
from .. import indexing as ix
from .. import movement as m
from .. import reduction as r
from .. import source as s
from ..table import METHODS
from .common import Number, Tensor, as_type, constant, is_tensor, shape_of
from .slicing import slice_along


def repeated(x: Tensor) -> tuple[int, ...]:
    """The dimensions along which all elements of ``x`` lie in one place; none where autograd follows writes to it."""
    if MODES.grad and x.requires_grad:
        return ()
    return repeated_dims(x.array.strides, shape_of(x))


def once(x: Tensor) -> Tensor:
    """The elements of an expanded tensor, each once: one value may be written to several in one place."""
    for d in repeated(x):
        x = slice_along(x, d, 0, 1)
    return x


def fitted(value: Any, dtype: Any, shape: Shape, leading: bool = True) -> Tensor:
    """A value to be stored: cast, and broadcast; where it may be ``leading``, without its leading extents of one."""
    x = as_type(value, dtype) if is_tensor(value) else constant(value, dtype)
    own = shape_of(x)
    while leading and len(own) > len(shape) and own[0] == 1:
        own = own[1:]
    if own != shape_of(x):
        x = m.reshape(x, shape=own)
    if own == shape:
        return x
    try:
        return m.expand(x, shape=shape)
    except RuntimeError:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(own)} cannot be broadcast to indexing "
            f"result of shape {list(shape)}"
        ) from None


def fill_where(x: Tensor, mask: Tensor, value: Tensor | Number) -> Tensor:
    """Write ``value`` to every place of ``x`` that is an element chosen by ``mask``."""
    since, dims = x._next_node(), repeated(x)
    chosen = m.expand(mask, shape=shape_of(x))
    target = once(x)
    filled = METHODS["masked_fill"](target, r.any_true(chosen, dims=dims, keepdim=True), value)
    target._assign(filled, since)
    return x


def _index_fill_(self: Tensor, dim: int, index: Tensor, value: Tensor | Number) -> Tensor:
    nowhere = constant(False, dtypes.bool_, shape_of(self))
    return fill_where(self, METHODS["index_fill"](nowhere, dim, index, True), value)


def _triangle(name: str) -> Any:
    def write(self: Tensor, diagonal: int = 0) -> Tensor:
        everywhere = constant(True, dtypes.bool_, shape_of(self))
        return fill_where(self, c.logical_not(METHODS[name](everywhere, diagonal)), 0)

    return write


def _index_put_(
    self: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False
) -> Tensor:
    index = tuple(slice(None) if i is None else i for i in indices)
    stored = partial(fitted, values, self.dtype, leading=False)
    return put_at(self, index, stored, accumulate)


def put_at(
    x: Tensor, index: tuple[Any, ...], values: Callable[[Shape], Tensor], accumulate: bool
) -> Tensor:
    """Write what ``values`` makes for a shape at ``index``, or add it, one after the other."""
    since, target = x._next_node(), once(x)
    shape = shape_of(target)
    count = target.spec.numel
    numbers = s.arange(start=0, step=1, count=count, dtype=dtypes.int64)
    places = METHODS["__getitem__"](
        m.expand(m.reshape(numbers, shape=shape), shape=shape_of(x)), index
    )
    stored = values(shape_of(places))
    size = (places.spec.numel,)
    flat = m.reshape(target, shape=(count,))
    places, stored = (m.reshape(one, shape=size) for one in (places, stored))
    written = ix.put(flat, places, stored, dim=0, accumulate=accumulate)
    target._assign(m.reshape(written, shape=shape), since)
    return x


#: In-place functions that take expanded tensors, as those on which their elements lie several in one place.
WRITES: dict[str, Callable[..., Tensor]] = {
    "masked_fill": fill_where,
    "index_fill": _index_fill_,
    "index_put": _index_put_,
    "tril": _triangle("tril"),
    "triu": _triangle("triu"),
}
