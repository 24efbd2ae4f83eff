"""Strided layouts as chains of views: what ``as_strided`` shows, where no element is shown twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import movement as m


def strided_view(row: Any, size: Sequence[int], stride: Sequence[int], start: int) -> Any:
    """The elements ``start + index * stride`` of a vector as a view; None where some of them overlap.

    Dimensions of stride zero are expanded ones. The steps of the others must each be at least what the dimensions of
    smaller steps reach across, and all that lies between must be within the vector.

    >>> import tracejit as tj
    >>> strided_view(tj.arange(8), (2, 2), (4, 2), 1)
    tensor([[1, 3],
            [5, 7]])
    >>> strided_view(tj.arange(8), (3, 2), (1, 1), 0) is None
    True
    """
    dims = [d for d in range(len(size)) if size[d] > 1 and stride[d] > 0]
    dims.sort(key=lambda d: -stride[d])
    view = row
    for position, d in enumerate(dims):
        inner = dims[position + 1 :]
        if not inner:
            view = _last(view, start, size[d], stride[d])
            break
        reach = 1 + sum((size[i] - 1) * stride[i] for i in inner)
        whole = size[d] * stride[d]
        first = min(start, view.shape[-1] - whole)
        start -= first
        if first < 0 or start + reach > stride[d]:
            return None
        view = _last(view, first, whole, 1)
        view = m.reshape(view, shape=(*view.shape[:-1], size[d], stride[d]))
    else:
        view = _last(view, start, 1, 1)
    shown = sorted(dims)
    if dims != shown:
        view = m.permute(view, dims=tuple(dims.index(d) for d in shown))
    ones = tuple(size[d] if d in dims else 1 for d in range(len(size)))
    return m.expand(m.reshape(view, shape=ones), shape=tuple(size))


def _last(view: Any, start: int, count: int, step: int) -> Any:
    """Elements along the last dimension."""
    shape = tuple(view.shape)
    before = len(shape) - 1
    return m.slice(
        view,
        starts=(*[0] * before, start),
        counts=(*shape[:-1], count),
        steps=(*[1] * before, step),
    )
