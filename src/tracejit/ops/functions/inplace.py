"""In-place twins: ``x.add_(y)`` is ``x.add(y)`` written back to ``x``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import dtypes
from ...cuda.pinned import without_waiting
from ...errors import DtypeError
from ...modes import MODES
from .. import movement as m
from ..overlaps import is_own, refuse_overlap, refuse_own, refuse_repeated
from ..table import METHODS, function
from .common import Number, Tensor, as_type, constant, is_tensor, refuse_filling, shape_of
from .repeated_places import WRITES, once, repeated
from .slicing import slice_along

NAMES = [
    "add",
    "sub",
    "mul",
    "div",
    "true_divide",
    "multiply",
    "divide",
    "subtract",
    "floor_divide",
    "remainder",
    "fmod",
    "pow",
    "float_power",
    "neg",
    "negative",
    "abs",
    "absolute",
    "sign",
    "sgn",
    "floor",
    "ceil",
    "round",
    "trunc",
    "fix",
    "frac",
    "reciprocal",
    "square",
    "sqrt",
    "rsqrt",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sigmoid",
    "tanh",
    "relu",
    "erf",
    "erfc",
    "erfinv",
    "logit",
    "lgamma",
    "digamma",
    "sinc",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "asinh",
    "acosh",
    "atanh",
    "atan2",
    "hypot",
    "copysign",
    "deg2rad",
    "rad2deg",
    "clamp",
    "clip",
    "clamp_min",
    "clamp_max",
    "lerp",
    "addcmul",
    "addcdiv",
    "addbmm",
    "addmm",
    "addmv",
    "addr",
    "baddbmm",
    "nan_to_num",
    "xlogy",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "logical_and",
    "logical_or",
    "logical_xor",
    "logical_not",
    "heaviside",
    "ldexp",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_not",
    "bitwise_left_shift",
    "bitwise_right_shift",
    "masked_fill",
    "masked_scatter",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "index_reduce",
    "triu",
    "tril",
    "cumsum",
    "cumprod",
    "renorm",
    "leaky_relu",
    "elu",
    "selu",
    "celu",
    "hardtanh",
    "silu",
    "softplus",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "conj_physical",
    "gcd",
    "greater",
    "greater_equal",
    "i0",
    "igamma",
    "igammac",
    "lcm",
    "less",
    "less_equal",
    "mvlgamma",
    "nextafter",
    "not_equal",
    "polygamma",
]


def _refuse(name: str, x: Tensor) -> None:
    """``RuntimeError`` for functions whose result has another dtype than what they would be written to."""
    if name == "abs" and x.dtype.is_complex:
        raise DtypeError("In-place abs is not supported for complex tensors.")
    if name == "float_power" and x.dtype.itemsize < 8 * (1 + x.dtype.is_complex):
        wide = dtypes.complex128 if x.dtype.is_complex else dtypes.float64
        raise DtypeError(
            f"the base given to float_power_ has dtype {x.dtype.title} but the operation's result "
            f"requires dtype {wide.title}"
        )


def _refuse_overlap(self: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    refuse_overlap(self, (*args, *kwargs.values()))


def _refuse_mask(self: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    refuse_overlap(self, (*args[:1], kwargs.get("mask")))  # the value is read before all else


def _refuse_index(self: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    refuse_overlap(self, (*args[1:2], kwargs.get("index")))  # the same


def _refuse_own(self: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    given = (*args, *kwargs.values())
    refuse_own(self, (*given, *(i for v in given if isinstance(v, (tuple, list)) for i in v)))


_REFUSE = {
    "masked_fill": _refuse_mask,
    "index_fill": _refuse_index,
    "index_put": _refuse_own,
}


#: What NumPy computes just as the function of this name does, in the memory of the tensor; and for integers, too?
_UFUNCS = {
    "add": (np.add, True),
    **dict.fromkeys(("sub", "subtract"), (np.subtract, True)),
    **dict.fromkeys(("mul", "multiply"), (np.multiply, True)),
    **dict.fromkeys(("div", "divide", "true_divide"), (np.true_divide, False)),
}


def _twin(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    checked = name in ("abs", "float_power")
    refuse = _REFUSE.get(name, _refuse_overlap)
    to_repeated = WRITES.get(name)
    run = _UFUNCS.get(name)

    def write(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if run is not None and len(args) == 1 and not kwargs and self._compute_into(*run, args[0]):
            return self
        if checked:
            _refuse(name, self)
        refuse(self, args, kwargs)
        if to_repeated is not None and repeated(self):
            return to_repeated(self, *args, **kwargs)
        since = self._next_node()
        if MODES.grad and is_own(self, (*args, *kwargs.values())):
            mine = _again(self)
            return self._assign(function(mine, *args, **kwargs), since, mine)
        return self._assign(function(self, *args, **kwargs), since)

    write.__name__ = f"{name}_"
    write.__qualname__ = f"Tensor.{name}_"
    write.__doc__ = f"``self.{name}(...)`` written to ``self``."
    return write


def _again(x: Tensor) -> Tensor:
    """The same tensor as an object of its own: what is kept of it is told from what is kept of other operands."""
    other, edge = x._alias(), x._edge()
    if MODES.recorder is not None:
        MODES.recorder.alias(x, other)
    if edge is not None:
        other._continue_from(edge)
    return other


def install() -> None:
    """Add the twin of every function listed in ``NAMES`` that is published as a method."""
    for name in NAMES:
        if name in METHODS:
            METHODS[f"{name}_"] = _twin(name, METHODS[name])


@function(namespace=False)
def copy_(self: Tensor, src: Tensor | Number, non_blocking: bool = False) -> Tensor:
    """Overwrite ``self`` with ``src``, broadcast and cast; with ``non_blocking`` not waiting for pinned memory.

    Raises ``RuntimeError`` when ``src`` does not broadcast to ``self``.

    >>> import tracejit as tj
    >>> tj.zeros(2).copy_(tj.tensor([1, 2]))
    tensor([1., 2.])
    """
    refuse_overlap(self, (src,))
    itself = src is self
    if itself and repeated(self):
        self._check_inplace()
        return self
    if is_tensor(src):
        refuse_repeated(self)
    since = self._next_node()
    value = as_type(src, self.dtype) if is_tensor(src) else constant(src, self.dtype)
    if non_blocking:
        with without_waiting():
            return self._assign(value, since)
    return self._assign(value, since)


@function(namespace=False)
def fill_(self: Tensor, value: Tensor | Number) -> Tensor:
    """Overwrite every element with ``value`` (a number or a 0-d tensor).

    Raises ``RuntimeError`` for a value with dimensions.

    >>> import tracejit as tj
    >>> tj.zeros(2).fill_(3)
    tensor([3., 3.])
    """
    if is_tensor(value):
        if value.ndim:
            raise RuntimeError(
                "fill_ only supports 0-dimension value tensor but got tensor with "
                f"{value.ndim} dimensions."
            )
        since = self._next_node()
        target = self if MODES.grad and value.requires_grad else once(self)
        target._assign(as_type(value, self.dtype), since)
        return self
    if self._is_mere_memory() and self._write_part(self._array, value):
        return self
    refuse_filling(self.dtype, value, shape_of(self))
    target = once(self)
    target._assign(constant(value, self.dtype, shape_of(target)))
    return self


@function(namespace=False)
def zero_(self: Tensor) -> Tensor:
    """Overwrite every element with zero.

    >>> import tracejit as tj
    >>> tj.ones(2).zero_()
    tensor([0., 0.])
    """
    return fill_(self, 0)


@function(namespace=False)
def fill_diagonal_(self: Tensor, fill_value: Number, wrap: bool = False) -> Tensor:
    """Overwrite the main diagonal of a matrix, or that of a tensor of equal extents.

    With ``wrap`` another diagonal begins below each in a tall matrix. Raises ``RuntimeError`` for vectors, and where
    more than two extents are not equal.

    >>> import tracejit as tj
    >>> tj.zeros(2, 2).fill_diagonal_(1)
    tensor([[1., 0.],
            [0., 1.]])
    """
    if self.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    shape = shape_of(self)
    if len(shape) > 2 and len(set(shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    height, width = shape[:2]
    parts = [self]
    if wrap and len(shape) == 2:
        parts = [
            slice_along(self, 0, i, min(width, height - i)) for i in range(0, height, width + 1)
        ]
    for part in parts:
        while part.ndim > 1:
            part = m.diagonal(part, offset=0, dim1=0, dim2=1)
        fill_(part, fill_value)
    return self
