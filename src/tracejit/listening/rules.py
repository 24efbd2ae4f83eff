"""Gradients of operators as operators, as PyTorch spells them: arithmetic, functions, shapes, parts of tensors."""

from __future__ import annotations

import math
from typing import Any

from ..aten import ATEN as A
from ..tensor import Tensor
from .history import RULES, Rule

__all__ = ["fitted", "rules"]


def rules(names: str, **by_operand: Rule) -> None:
    """These are the gradients of operators of these names.

    >>> rules("docs.default", self=lambda g: g)
    >>> list(RULES.pop("docs.default"))
    ['self']
    """
    for name in names.split():
        RULES[name if "." in name else f"{name}.default"] = dict(by_operand)


def fitted(g: Any, shape: Any) -> Any:
    """A gradient of what was broadcast, in its own shape.

    >>> import tracejit as tj
    >>> fitted(tj.ones(2, 3), [3])
    tensor([2., 2., 2.])
    """
    shape = list(shape)
    own = list(g.shape)
    if own == shape:
        return g
    ahead = len(own) - len(shape)
    dims = [d for d in range(len(own)) if d < ahead or (shape[d - ahead] == 1 and own[d] != 1)]
    if dims:
        g = A.sum(g, dims, True)
    return A.view(g, shape) if ahead else g


def _scaled(g: Any, alpha: Any) -> Any:
    return g if alpha == 1 else A.mul.Scalar(g, alpha)


def _same(g: Any) -> Any:
    return g


def _zero(g: Any) -> Any:
    return A.zeros_like(g)


def _conj(x: Any) -> Any:
    return A._conj(x) if isinstance(x, Tensor) and x.dtype.is_complex else x


rules(
    "add.Tensor add.Scalar",
    self=_same,
    other=_scaled,
)
rules(
    "sub.Tensor sub.Scalar",
    self=_same,
    other=lambda g, alpha: _scaled(A.neg(g), alpha),
)
rules(
    "rsub.Tensor rsub.Scalar",
    self=lambda g, alpha: _scaled(A.neg(g), alpha),
    other=_same,
)
rules(
    "mul.Tensor",
    self=lambda g, other: A.mul(g, _conj(other)),
    other=lambda g, self: A.mul(g, _conj(self)),
)
rules("mul.Scalar", self=lambda g, other: A.mul.Scalar(g, other))


def _div_other(g: Any, self: Any, other: Any) -> Any:
    quotient = A.div(A.div(self, other), other)
    return A.mul(A.neg(g), _conj(quotient))


rules(
    "div.Tensor",
    self=lambda g, other: A.div(g, _conj(other)),
    other=_div_other,
)
rules("div.Scalar", self=lambda g, other: A.div.Scalar(g, other))


def _power(g: Any, self: Any, exponent: Any) -> Any:
    if exponent == 0:
        return A.zeros_like(self)
    if not isinstance(exponent, complex):
        exponent = float(exponent)
    return A.mul(g, _conj(A.mul.Scalar(A.pow(self, exponent - 1), exponent)))


rules("pow.Tensor_Scalar", self=_power)
rules("neg", self=lambda g: A.neg(g))
rules("abs", self=lambda g, self: A.mul(g, A.sgn(self)))
rules("exp", self=lambda g, result: A.mul(g, _conj(result)))
rules("exp2", self=lambda g, result: A.mul.Scalar(A.mul(g, result), math.log(2)))
rules("expm1", self=lambda g, result: A.mul(g, A.add.Scalar(result, 1)))
rules("log", self=lambda g, self: A.div(g, _conj(self)))
rules("log2", self=lambda g, self: A.div(g, A.mul.Scalar(self, math.log(2))))
rules("log10", self=lambda g, self: A.div(g, A.mul.Scalar(self, math.log(10))))
rules("log1p", self=lambda g, self: A.div(g, A.add.Scalar(self, 1)))
rules("sqrt", self=lambda g, result: A.div(g, A.mul.Scalar(result, 2)))
rules("rsqrt", self=lambda g, result: A.mul(A.mul.Scalar(A.pow(result, 3), -0.5), g))


def _reciprocal(g: Any, result: Any) -> Any:
    square = _conj(A.mul(result, result))
    return A.mul(A.neg(g), square)


rules("reciprocal", self=_reciprocal)
rules("sin", self=lambda g, self: A.mul(g, _conj(A.cos(self))))
rules("cos", self=lambda g, self: A.mul(g, _conj(A.neg(A.sin(self)))))
rules("tan", self=lambda g, result: A.mul(g, _conj(A.add.Scalar(A.pow(result, 2), 1))))
rules("tanh", self=lambda g, result: A.tanh_backward(g, result))
rules("sigmoid", self=lambda g, result: A.sigmoid_backward(g, result))
rules("sinh", self=lambda g, self: A.mul(g, A.cosh(self)))
rules("cosh", self=lambda g, self: A.mul(g, A.sinh(self)))
rules(
    "erf",
    self=lambda g, self: A.mul(
        A.mul.Scalar(A.exp(A.neg(A.pow(self, 2))), 2 / math.sqrt(math.pi)), g
    ),
)
rules("sign floor ceil round trunc", self=_zero)


def _least(g: Any, self: Any, min: Any) -> Any:
    return _inside(A.ge.Scalar(self, min), g)


def _most(g: Any, self: Any, max: Any) -> Any:
    return _inside(A.le.Scalar(self, max), g)


def _inside(inside: Any, g: Any) -> Any:
    return A.where(inside, g, A.scalar_tensor(0.0, dtype=g.dtype))


rules("clamp_min", self=_least)
rules("clamp_max", self=_most)


def _clamp(g: Any, self: Any, min: Any, max: Any) -> Any:
    none = A.scalar_tensor(0.0, dtype=g.dtype)
    if min is None or max is None:
        inside = A.le.Scalar(self, max) if min is None else A.ge.Scalar(self, min)
    else:
        inside = A.logical_and_(A.ge.Scalar(self, min), A.le.Scalar(self, max))
    return A.where(inside, g, none)


rules("clamp", self=_clamp)


def _of_extreme(order: str) -> dict[str, Rule]:
    def take(g: Any, mine: Any, other: Any, less: str) -> Any:
        even = A.where(A.eq(mine, other), A.div.Scalar(g, 2), g)
        return A.masked_fill_(even, getattr(A, less)(mine, other), 0)

    more = {"lt": "gt", "gt": "lt"}[order]
    return {
        "self": lambda g, self, other: take(g, self, other, order),
        "other": lambda g, self, other: take(g, self, other, more),
    }


RULES["maximum.default"] = _of_extreme("lt")
RULES["minimum.default"] = _of_extreme("gt")
rules(
    "lerp.Scalar",
    self=lambda g, weight: A.mul.Scalar(g, 1 - weight),
    end=lambda g, weight: A.mul.Scalar(g, weight),
)
rules(
    "addcmul",
    self=_same,
    tensor1=lambda g, tensor2, value: A.mul(g, A.mul.Scalar(tensor2, value)),
    tensor2=lambda g, tensor1, value: A.mul(g, A.mul.Scalar(tensor1, value)),
)


def _where(condition: Any, a: Any, b: Any, like: Any) -> Any:
    none = A.scalar_tensor(0.0, dtype=like.dtype)
    return A.where(condition, none if a is None else a, none if b is None else b)


rules(
    "where.self",
    self=lambda g, condition: _where(condition, g, None, g),
    other=lambda g, condition: _where(condition, None, g, g),
)
rules("masked_fill.Scalar", self=lambda g, mask: A.masked_fill.Scalar(g, mask, 0))

# --- products -------------------------------------------------------------------------------------


def _turned(x: Any) -> Any:
    return _conj(A.t(x))


def _flipped(x: Any) -> Any:
    return _conj(A.transpose(x, 1, 2))


def _stands(x: Any) -> bool:
    """Do the columns of a matrix lie one after the other?"""
    rows, columns = x.shape
    return bool(x.stride() == (1, rows) and not (rows == 1 or columns == 1))


def _left(g: Any, left: Any, right: Any, alpha: Any = 1) -> Any:
    if _stands(left):
        return _scaled(A.t(A.mm(_conj(right), A.t(g))), alpha)
    return _scaled(A.mm(g, _turned(right)), alpha)


def _right(g: Any, left: Any, right: Any, alpha: Any = 1) -> Any:
    if _stands(right):
        return _scaled(A.t(A.mm(A.t(g), _conj(left))), alpha)
    return _scaled(A.mm(_turned(left), g), alpha)


rules(
    "mm",
    self=lambda g, self, mat2: _left(g, self, mat2),
    mat2=lambda g, self, mat2: _right(g, self, mat2),
)
rules(
    "bmm",
    self=lambda g, mat2: A.bmm(g, _flipped(mat2)),
    mat2=lambda g, self: A.bmm(_flipped(self), g),
)
rules(
    "mv",
    self=lambda g, vec: A.mul(A.view(g, [g.shape[0], 1]), _conj(vec)),
    vec=lambda g, self: A.mv(_turned(self), g),
)
rules(
    "dot",
    self=lambda g, tensor: A.mul(g, _conj(tensor)),
    tensor=lambda g, self: A.mul(g, _conj(self)),
)
rules(
    "addmm",
    self=lambda g, beta: _scaled(g, beta),
    mat1=lambda g, mat1, mat2, alpha: _left(g, mat1, mat2, alpha),
    mat2=lambda g, mat1, mat2, alpha: _right(g, mat1, mat2, alpha),
)
rules(
    "baddbmm",
    self=lambda g, beta: _scaled(g, beta),
    batch1=lambda g, batch2, alpha: _scaled(A.bmm(g, _flipped(batch2)), alpha),
    batch2=lambda g, batch1, alpha: _scaled(A.bmm(_flipped(batch1), g), alpha),
)

rules(
    "scatter.src",
    self=lambda g, dim, index: A.scatter.value(g, dim, index, 0),
    src=lambda g, dim, index, src_shape: _part(A.gather(g, dim, index), src_shape),
)
rules(
    "scatter_add",
    self=_same,
    src=lambda g, dim, index, src_shape: _part(A.gather(g, dim, index), src_shape),
)
rules("scatter.value", self=lambda g, dim, index: A.scatter.value(g, dim, index, 0))


def _part(g: Any, shape: Any) -> Any:
    """The gradient of what was read in part only."""
    widths = [
        n
        for own, all_of in zip(reversed(g.shape), reversed(shape), strict=True)
        for n in (0, all_of - own)
    ]
    return A.constant_pad_nd(g, widths) if any(widths) else g
