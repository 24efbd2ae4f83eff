"""Gradients of operators as operators: sums, shapes, and parts of tensors; see :mod:`tracejit.listening.rules`."""

from __future__ import annotations

import math
from typing import Any

from ..aten import ATEN as A
from .forms import positive
from .rules import rules

__all__: list[str] = []


def _spread(g: Any, shape: Any, dim: Any, keepdim: bool) -> Any:
    """The gradient of a sum: what came, for each element."""
    rank = len(shape)
    dims = sorted(positive(d, rank) for d in (dim or range(rank)))
    if not keepdim and rank and dim is not None:
        for d in dims:
            g = A.unsqueeze(g, d)
    return A.expand(g, list(shape))


def _count(shape: Any, dim: Any) -> int:
    return math.prod(shape[d] for d in (dim or range(len(shape)))) if shape else 1


def _cast(g: Any, kind: Any) -> Any:
    return g if g.dtype is kind else A._to_copy(g, dtype=kind)


rules("sum", self=lambda g, self_shape, self_dtype: A.expand(_cast(g, self_dtype), self_shape))
rules(
    "sum.dim_IntList",
    self=lambda g, self_shape, self_dtype, dim, keepdim: _spread(
        _cast(g, self_dtype), self_shape, dim, keepdim
    ),
)
rules(
    "mean",
    self=lambda g, self_shape, self_dtype: A.div.Scalar(
        A.expand(_cast(g, self_dtype), self_shape), math.prod(self_shape)
    ),
)
rules(
    "mean.dim",
    self=lambda g, self_shape, self_dtype, dim, keepdim: A.div.Scalar(
        _spread(_cast(g, self_dtype), self_shape, dim, keepdim), _count(self_shape, dim)
    ),
)


def _var(g: Any, self: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
    correction = 1 if correction is None else correction
    count = _count(self.shape, dim)
    if not dim:
        factor = 2.0 / (count - correction) if count > correction else math.inf
        centred = A.sub(self, A.mean(self))
        return A.mul(A.mul.Scalar(g, factor), centred)
    if not keepdim:
        for d in sorted(positive(d, len(self.shape)) for d in dim):
            g = A.unsqueeze(g, d)
    centred = A.sub(self, A.mean(self, list(dim), True))
    return A.mul(A.mul.Scalar(g, 2.0 / (count - correction)), centred)


rules("var.correction", self=_var)


def _of_exponents(g: Any, self: Any, dim: Any, keepdim: bool, result: Any) -> Any:
    if not keepdim:
        for d in sorted(positive(d, len(self.shape)) for d in dim):
            g, result = A.unsqueeze(g, d), A.unsqueeze(result, d)
    return A.mul(g, A.exp(A.sub(self, result)))


rules("logsumexp", self=_of_exponents)


def _picked(g: Any, dim: int, result1: Any, self_shape: Any, keepdim: bool) -> Any:
    if not keepdim and self_shape:
        g, result1 = A.unsqueeze(g, dim), A.unsqueeze(result1, dim)
    return A.scatter(A.new_zeros(g, self_shape), dim, result1, g)


rules("max.dim min.dim median.dim mode kthvalue", self=_picked)
rules(
    "sort sort.stable topk",
    self=lambda g, dim, result1, self_shape: A.scatter(A.new_zeros(g, self_shape), dim, result1, g),
)


def _all_alike(g: Any, self: Any, result: Any) -> Any:
    """What came is for all elements that are the extreme, in equal parts."""
    nan = A.logical_and(A.isnan(self), A.isnan(result))
    alike = A.logical_or_(A.eq(self, result), nan)
    return A.mul(alike, A.div(g, A.sum(alike)))


rules("max min median", self=_all_alike)


def _of_extreme(g: Any, self: Any, dim: Any, keepdim: bool, result: Any) -> Any:
    dims = sorted(positive(d, len(self.shape)) for d in (dim or range(len(self.shape))))
    if not keepdim:
        shape = [1 if d in dims else n for d, n in enumerate(self.shape)]
        result = A.view(result, shape)
    alike = A.eq(result, self)
    if not keepdim:
        g = A.view(g, shape)
    return A.mul(A.div(g, A.sum(alike, dims, True)), alike)


rules("amax amin", self=_of_extreme)
rules("cumsum", self=lambda g, dim: A.flip(A.cumsum(A.flip(g, [dim]), dim), [dim]))


def _norm(g: Any, self: Any, ord: Any, dim: Any, keepdim: bool, result: Any) -> Any:
    if not keepdim and dim:
        for d in sorted(positive(d, len(self.shape)) for d in dim):
            g, result = A.unsqueeze(g, d), A.unsqueeze(result, d)
    if ord == 2:
        unit = A.masked_fill_(A.div(self, result), A.eq.Scalar(result, 0), 0)
        return A.mul(g, unit)
    if ord == 1:
        return A.mul(A.sgn(self), g)
    part = A.mul(self, A.pow(A.abs(self), ord - 2))
    scale = A.masked_fill_(A.div(g, A.pow(result, ord - 1)), A.eq.Scalar(result, 0), 0)
    return A.mul(part, scale)


# --- shapes ---------------------------------------------------------------------------------------


def _reshaped(g: Any, self_shape: Any) -> Any:
    from .forms import reshape

    return reshape(g, self_shape)


rules("view _unsafe_view _reshape_alias", self=_reshaped)
rules("t", self=lambda g: A.t(g))
rules("transpose.int", self=lambda g, dim0, dim1: A.transpose(g, dim0, dim1))


def _unpermuted(g: Any, dims: Any) -> Any:
    back = [0] * len(dims)
    for i, d in enumerate(dims):
        back[positive(d, len(dims))] = i
    return A.permute(g, back)


rules("permute", self=_unpermuted)
rules("expand", self=lambda g: g)
rules("unsqueeze", self=lambda g, dim: A.squeeze(g, dim))


def _unsqueezed(g: Any, self_shape: Any) -> Any:
    for d, n in enumerate(self_shape):
        if n == 1:
            g = A.unsqueeze(g, d)
    return g


def _unsqueezed_at(g: Any, dim: Any, self_shape: Any) -> Any:
    rank = len(self_shape)
    for d in sorted(positive(d, rank) for d in (dim if isinstance(dim, list) else [dim])):
        if rank and self_shape[d] == 1:
            g = A.unsqueeze(g, d)
    return g


rules("squeeze", self=_unsqueezed)
rules("squeeze.dim squeeze.dims", self=_unsqueezed_at)
rules("alias clone contiguous lift_fresh", self=lambda g: g)
rules("copy_", src=lambda g: g)
rules(
    "select.int",
    self=lambda g, self_shape, dim, index: A.select_backward(g, self_shape, dim, index),
)
rules(
    "slice.Tensor",
    self=lambda g, self_shape, dim, start, end, step: A.slice_backward(
        g, self_shape, dim, start or 0, (1 << 63) - 1 if end is None else end, step
    ),
)
rules(
    "diagonal",
    self=lambda g, self_shape, offset, dim1, dim2: A.diagonal_backward(
        g, self_shape, offset, dim1, dim2
    ),
)
rules("diag_embed", self=lambda g, offset, dim1, dim2: A.diagonal(g, offset, dim1, dim2))


def _pieces(grads: Any, self_shape: Any, dim: int, sizes: list[int]) -> Any:
    like = next(g for g in grads if g is not None)
    shape = list(self_shape)
    parts = []
    for g, n in zip(grads, sizes, strict=True):
        parts.append(
            A.zeros([*shape[:dim], n, *shape[dim + 1 :]], dtype=like.dtype) if g is None else g
        )
    return A.cat(parts, dim)


def _split(grads: Any, self_shape: Any, split_size: int, dim: int) -> Any:
    dim = positive(dim, len(self_shape))
    extent = self_shape[dim]
    sizes = [min(split_size, extent - i) for i in range(0, extent, split_size or 1)] or [extent]
    return _pieces(grads, self_shape, dim, sizes)


def _split_sizes(grads: Any, self_shape: Any, split_sizes: Any, dim: int) -> Any:
    return _pieces(grads, self_shape, positive(dim, len(self_shape)), list(split_sizes))


def _unbind(grads: Any, self_shape: Any, dim: int) -> Any:
    like = next(g for g in grads if g is not None)
    dim = positive(dim, len(self_shape))
    shape = [n for d, n in enumerate(self_shape) if d != dim]
    parts = [A.expand(A.zeros([], dtype=like.dtype), shape) if g is None else g for g in grads]
    return A.stack(parts, dim)


rules("split.Tensor", self=_split)
rules("split_with_sizes", self=_split_sizes)
rules("unbind.int", self=_unbind)


def _cat(g: Any, tensors: Any, dim: int) -> Any:
    found, start = [], 0
    for x in tensors:
        if len(x.shape) == 1 < len(g.shape):  # nothing, of which the shape did not count
            found.append(A.zeros([0], dtype=g.dtype))
            continue
        n = x.shape[positive(dim, len(x.shape))] if len(x.shape) else 0
        part = (
            A.slice(g, positive(dim, len(g.shape)), start, start + n) if x.requires_grad else None
        )
        found.append(part)
        start += n
    return found


rules("cat", tensors=_cat)
rules(
    "stack",
    tensors=lambda g, tensors, dim: [
        A.select(g, dim, i) if x.requires_grad else None for i, x in enumerate(tensors)
    ],
)


def _repeated(g: Any, self_shape: Any, repeats: Any) -> Any:
    ahead = len(repeats) - len(self_shape)
    shape: list[int] = []
    dims = []
    for d, n in enumerate(repeats):
        if d < ahead:
            dims.append(len(shape))
            shape.append(n)
            continue
        if n != 1:
            dims.append(len(shape))
            shape.append(n)
        shape.append(self_shape[d - ahead])
    return A.sum(A.view(g, shape), dims) if dims else g


rules("repeat", self=_repeated)
rules(
    "roll",
    self=lambda g, shifts, dims: A.roll(g, [-n for n in reversed(shifts)], list(reversed(dims))),
)
rules("flip", self=lambda g, dims: A.flip(g, dims))
rules("tril", self=lambda g, diagonal: A.tril(g, diagonal))
rules("triu", self=lambda g, diagonal: A.triu(g, diagonal))
rules("_to_copy", self=lambda g, self_dtype: A._to_copy(g, dtype=self_dtype))
rules("constant_pad_nd", self=lambda g, pad: A.constant_pad_nd(g, [-n for n in pad]))
rules("pixel_shuffle", self=lambda g, upscale_factor: A.pixel_unshuffle(g, upscale_factor))
rules("pixel_unshuffle", self=lambda g, downscale_factor: A.pixel_shuffle(g, downscale_factor))
rules(
    "index.Tensor",
    self=lambda g, self_shape, indices: A.index_put(
        A.new_zeros(g, self_shape, dtype=g.dtype), indices, g, True
    ),
)
rules(
    "index_select",
    self=lambda g, self_shape, dim, index: A.index_add(
        A.new_zeros(g, self_shape, dtype=g.dtype), dim, index, g
    ),
)
rules(
    "gather",
    self=lambda g, self_shape, dim, index: A.scatter_add(A.new_zeros(g, self_shape), dim, index, g),
)
rules(
    "linalg_vector_norm",
    self=_norm,
)
