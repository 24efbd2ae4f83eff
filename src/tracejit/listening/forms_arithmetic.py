"""Arithmetic and products as operators; see :mod:`tracejit.listening.forms`."""

from __future__ import annotations

from typing import Any

from ..aten import ATEN as A
from ..tensor import Tensor
from .forms import AS_SPELLED, AS_WRITTEN, form, inferred, reshape, viewable, whole

__all__ = ["matmul"]


@form("add", "mul")
def _add(x: Any, y: Any, **options: Any) -> Any:
    return AS_SPELLED


@form("sub")
def _sub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    if isinstance(input, Tensor):
        return AS_SPELLED
    return A.rsub(other, input, alpha=alpha)


@form("rsub", "__rsub__")
def _rsub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    return A.rsub(input, other, alpha=alpha)


@form("div")
def _div(input: Any, other: Any, *, rounding_mode: Any = None) -> Any:
    if isinstance(input, Tensor):
        return AS_SPELLED
    return A.mul(A.reciprocal(other), input)


@form("__rdiv__")
def _rdiv(self: Any, other: Any) -> Any:
    return A.mul(A.reciprocal(self), other) if not isinstance(other, Tensor) else AS_WRITTEN


@form("square")
def _square(input: Any) -> Any:
    return A.pow(input, 2)


@form("square_")
def _square_(input: Any) -> Any:
    return A.pow_(input, 2)


@form("isfinite")
def _isfinite(input: Any) -> Any:
    if not (input.dtype.is_floating_point or input.dtype.is_complex):
        return A.ones_like(input, dtype=bool)
    if input.dtype.is_complex:
        return AS_WRITTEN
    inside = A.ne(A.abs(input), float("inf"))
    return A.mul(A.eq(input, input), inside)


@form("matmul")
def matmul(input: Any, other: Any) -> Any:
    """The products that it is made of.

    >>> import tracejit as tj
    >>> matmul(tj.ones(2, 2, 3), tj.ones(3))
    tensor([[3., 3.],
            [3., 3.]])
    """
    ranks = len(input.shape), len(other.shape)
    plain = {(1, 1): "dot", (2, 1): "mv", (2, 2): "mm"}
    if 0 in ranks or input.dtype is not other.dtype:
        return AS_WRITTEN
    if ranks in plain:
        return getattr(A, plain[ranks])(input, other)
    if ranks == (1, 2):
        return A.squeeze_(A.mm(A.unsqueeze(input, 0), other), 0)
    if _folds(input, other):
        return _folded(input, other)
    return _batched(input, other)


def _folds(a: Any, b: Any) -> bool:
    """Is a product of a batch and a matrix one of two matrices?"""
    first = len(a.shape) >= len(b.shape)
    large, small = (a, b) if first else (b, a)
    if len(large.shape) < 3 or len(small.shape) > 2:
        return False
    if small.requires_grad:
        return True
    if not first and len(a.shape) == 2:
        return False
    return viewable(large, inferred([-1, large.shape[-1]], large.numel()) if large.numel() else [0])


def _folded(a: Any, b: Any) -> Any:
    turned = len(b.shape) > len(a.shape)
    if turned:
        a, b = A.transpose(b, -1, -2), A.t(a) if len(a.shape) == 2 else a
    rows = reshape(a, [-1, a.shape[-1]])
    matrix = len(b.shape) == 2
    shape = [*a.shape[:-1], *([b.shape[1]] if matrix else [])]
    out = A._unsafe_view((A.mm if matrix else A.mv)(rows, b), shape)
    return whole(A.transpose(out, -1, -2)) if turned and matrix else out


def _batched(a: Any, b: Any) -> Any:
    ends = len(a.shape) == 1, len(b.shape) == 1
    if ends[0]:
        a = A.unsqueeze(a, 0)
    if ends[1]:
        b = A.unsqueeze(b, 1)
    shape = _common([*a.shape[:-2]], [*b.shape[:-2]])
    many = 1
    for n in shape:
        many *= n
    rows = reshape(A.expand(a, [*shape, *a.shape[-2:]]), [many, *a.shape[-2:]])
    columns = reshape(A.expand(b, [*shape, *b.shape[-2:]]), [many, *b.shape[-2:]])
    own = [*([] if ends[0] else [a.shape[-2]]), *([] if ends[1] else [b.shape[-1]])]
    return A._unsafe_view(A.bmm(rows, columns), [*shape, *own])


def _common(a: list[int], b: list[int]) -> list[int]:
    rank = max(len(a), len(b))
    a, b = [1] * (rank - len(a)) + a, [1] * (rank - len(b)) + b
    return [n if m == 1 else m for m, n in zip(a, b, strict=True)]


@form("outer")
def _outer(input: Any, vec2: Any) -> Any:
    return A.mul(A.view(input, [input.shape[0], 1]), vec2)


@form("T")
def _t(input: Any) -> Any:
    return A.permute(input, list(range(len(input.shape)))[::-1])


@form("mT")
def _mt(input: Any) -> Any:
    return A.transpose(input, -2, -1)
