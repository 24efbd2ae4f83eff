"""Ops of the table as operators of PyTorch: what functions are made of that run as they are written, and gradients.

An op that PyTorch has no operator for is shown as one of the namespace ``tracejit``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from ..aten import ATEN as A
from ..aten import Overload, Packet
from ..ops.op import Op
from ..tensor import Tensor
from .forms import FORMS, reshape
from .forms_arithmetic import matmul
from .history import differentiated
from .quiet import quietly
from .signatures import forms_of

__all__ = ["OPS", "of_op"]

OPS: dict[str, Callable[..., Any]] = {}


def _op(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        OPS[name] = function
        return function

    return keep


def of_op(op: Any, own: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """A call of an op of the table.

    >>> import tracejit as tj
    >>> of_op(tj.ops.elementwise.neg, lambda op, x: op(x), (tj.ones(1),), {})
    tensor([-1.])
    """
    kwargs = dict(kwargs)
    if kwargs.get("out", 0) is None:
        del kwargs["out"]
    operands, attributes = args, kwargs
    if isinstance(op, Op) and len(args) < len(op.operands) and not op.variadic:
        operands, attributes = op._bind(args, kwargs)
    if "out" in attributes:
        return own(op, *args, **kwargs)
    if not op.variadic and not any(isinstance(x, Tensor) for x in operands) and operands:
        return own(op, *args, **kwargs)
    found = OPS.get(op.name)
    if found is None:
        found = FORMS.get(op.name) if op.name in ("sub", "div", "rsub", "square") else None
    if found is not None:
        result = found(*operands, **attributes)
        if isinstance(result, Tensor):
            return result
    if operands and not isinstance(operands[0], Tensor) and op.name in ("add", "mul"):
        operands = (operands[1], operands[0])
    if not attributes:
        for form in forms_of(op.name):
            bound = form.bound(operands, {})
            if bound is not None:
                return differentiated(getattr(getattr(A, op.name), form.form), *bound)
    return differentiated(_ours(op.name), operands, attributes)


@cache
def _ours(name: str) -> Overload:
    """An op as an operator of a namespace of its own."""
    from ..ops.op import lookup

    return Packet(name, lookup(name), "tracejit").default


@_op("full")
def _full(*, shape: Any, value: Any, dtype: Any) -> Any:
    shape = list(shape)
    if value == 0 and type(value) is not bool:
        return A.zeros(shape, dtype=dtype)
    if value == 1 and type(value) is not bool:
        return A.ones(shape, dtype=dtype)
    return A.full(shape, value, dtype=dtype)


@_op("cast")
def _cast(x: Any, *, dtype: Any) -> Any:
    return A._to_copy(x, dtype=dtype)


@_op("clone")
def _clone(x: Any) -> Any:
    return A.clone(x)


@_op("leaning")
def _leaning(x: Any) -> Any:
    return A.clone(x)


@_op("reshape")
def _reshape(x: Any, *, shape: Any) -> Any:
    return reshape(x, list(shape))


@_op("permute")
def _permute(x: Any, *, dims: Any) -> Any:
    dims = list(dims)
    moved = [d for d, n in enumerate(dims) if d != n]
    if len(moved) != 2:
        return A.permute(x, dims)
    return A.t(x) if len(dims) == 2 else A.transpose(x, *moved)


@_op("expand")
def _expand(x: Any, *, shape: Any) -> Any:
    return A.expand(x, list(shape))


@_op("unsqueeze")
def _unsqueeze(x: Any, *, dims: Any) -> Any:
    for d in sorted(dims):
        x = A.unsqueeze(x, d)
    return x


@_op("squeeze")
def _squeeze(x: Any, *, dims: Any) -> Any:
    dims = list(dims)
    return A.squeeze(x, dims[0]) if len(dims) == 1 else A.squeeze.dims(x, dims)


@_op("slice")
def _slice(x: Any, *, starts: Any, counts: Any, steps: Any) -> Any:
    shown = None
    for d, (start, count, step) in enumerate(zip(starts, counts, steps, strict=True)):
        if count == x.shape[d] and step == 1:
            continue
        if step < 1:
            return None
        end = start + (count - 1) * step + 1 if count else start
        shown = A.slice(x if shown is None else shown, d, start, end, step)
    return A.alias(x) if shown is None else shown


@_op("sum")
def _sum(x: Any, *, dims: Any, keepdim: bool) -> Any:
    if len(dims) == len(x.shape) and not keepdim:
        return A.sum(x)
    return A.sum(x, list(dims), keepdim)


def _folded(name: str) -> None:
    def fold(x: Any, *, dims: Any, keepdim: bool, missing: bool = False) -> Any:
        return None if missing else getattr(A, name)(x, list(dims), keepdim)

    OPS[name] = fold


_folded("amax")
_folded("amin")


@_op("any_true")
def _any(x: Any, *, dims: Any, keepdim: bool) -> Any:
    if len(dims) == len(x.shape) and not keepdim:
        return A.any(x)
    return A.any(x, dims[0], keepdim) if len(dims) == 1 else A.any.dims(x, list(dims), keepdim)


@_op("all_true")
def _all(x: Any, *, dims: Any, keepdim: bool) -> Any:
    if len(dims) == len(x.shape) and not keepdim:
        return A.all(x)
    return A.all(x, dims[0], keepdim) if len(dims) == 1 else A.all.dims(x, list(dims), keepdim)


@_op("matmul")
def _matmul(x: Any, y: Any, *, dtype: Any = None) -> Any:
    if dtype is not None:
        return None
    result = matmul(x, y)
    return result if isinstance(result, Tensor) else None


@_op("cat")
def _cat(*xs: Any, dim: int) -> Any:
    return A.cat(list(xs), dim)


@_op("where")
def _where(condition: Any, x: Any, y: Any) -> Any:
    like = next(z for z in (x, y, condition) if isinstance(z, Tensor))
    kind = like.dtype if like is not condition else None
    made = [z if isinstance(z, Tensor) else A.scalar_tensor(z, dtype=kind) for z in (x, y)]
    return A.where(condition, *made)


@_op("chosen")
def _chosen(condition: Any, x: Any, y: Any) -> Any:
    return _where(condition, x, y)


@_op("cube")
def _cube(x: Any) -> Any:
    return A.pow(x, 3)


@_op("fourth")
def _fourth(x: Any) -> Any:
    return A.pow(x, 4)


@_op("square")
def _square(x: Any) -> Any:
    return A.pow(x, 2)


@_op("conjugate")
def _conjugate(x: Any) -> Any:
    return None if x.dtype.is_complex else A.alias(x)


@_op("clamp_between")
def _clamp(x: Any, low: Any, high: Any) -> Any:
    return A.clamp(x, low, high) if not isinstance(low, Tensor) else A.clamp.Tensor(x, low, high)


@_op("round_half_even")
def _round(x: Any) -> Any:
    return A.round(x)


@_op("cumsum")
def _cumsum(x: Any, *, dim: int) -> Any:
    return A.cumsum(x, dim)


@_op("cumprod")
def _cumprod(x: Any, *, dim: int) -> Any:
    return A.cumprod(x, dim)


@_op("diagonal")
def _diagonal(x: Any, *, offset: int, dim1: int, dim2: int) -> Any:
    return A.diagonal(x, offset, dim1, dim2)


@_op("gather")
def _gather(x: Any, index: Any, *, dim: int) -> Any:
    return A.gather(x, dim, index)


@_op("scatter")
def _scatter(x: Any, index: Any, value: Any, *, dim: int) -> Any:
    return A.scatter(x, dim, index, value)


@_op("scatter_add")
def _scatter_add(x: Any, index: Any, value: Any, *, dim: int) -> Any:
    return A.scatter_add(x, dim, index, value)


@_op("argmax")
def _argmax(x: Any, *, dims: Any, keepdim: bool) -> Any:
    return _position("argmax", x, dims, keepdim)


@_op("argmin")
def _argmin(x: Any, *, dims: Any, keepdim: bool) -> Any:
    return _position("argmin", x, dims, keepdim)


def _position(name: str, x: Any, dims: Any, keepdim: bool) -> Any:
    if len(dims) == len(x.shape):
        return (
            None
            if keepdim and len(dims) > 1
            else getattr(A, name)(x, None if len(dims) > 1 else 0, keepdim)
        )
    return getattr(A, name)(x, dims[0], keepdim) if len(dims) == 1 else None


@_op("take")
def _take(x: Any, index: Any, *, dim: int, negative: bool = True, shared: bool = False) -> Any:
    return A.index(x, [None] * dim + [index])


@_op("detach_copy")
def _detached(x: Any) -> Any:
    return quietly(lambda: x.detach().clone())
