"""Functions under their older names, and the in-place methods as functions."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ... import dtypes
from .. import comparison as c
from .. import elementwise as e
from .. import movement as m
from .. import transcendental as t
from ..contraction import transposed
from ..overlaps import refuse_own, refuse_repeated
from ..precision import full_precision
from ..special_functions import poisson_quantile
from ..table import FUNCTIONS, METHODS, function
from .common import (
    Number,
    Tensor,
    as_type,
    check_tensor,
    dim_of,
    is_tensor,
    place_of,
    refuse,
    shape_of,
    with_zero_gradient,
)
from .factories import made
from .linear_algebra import svd as linalg_svd
from .matrix_norms import vander as powers
from .norms import vector_norm
from .ranges import arange
from .sampling import draw_uniform
from .value_checks import hold_everywhere


class Decomposition(NamedTuple):
    """``input = U diag(S) V^T``."""

    U: Any
    S: Any
    V: Any


@function(within=full_precision)
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> Decomposition:
    """The singular value decomposition of matrices, with V in place of its transpose.

    ``some=False`` completes U and V to square matrices. Raises ``RuntimeError`` for what is no matrix.

    >>> import tracejit as tj
    >>> tj.svd(tj.tensor([[3.0, 0.0], [0.0, 4.0]])).S
    tensor([4., 3.])
    """
    u, values, vh = linalg_svd(input, full_matrices=not some)
    if not compute_uv:
        u, vh = e.mul(u, 0.0), e.mul(vh, 0.0)
    return Decomposition(u, values, transposed(vh))


@function(method=False)
def range(
    start: Number,
    end: Number | None = None,
    step: Number = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers from ``start`` to ``end``, that included, as floats.

    Raises ``RuntimeError`` for a step of zero or in the wrong direction.

    >>> import tracejit as tj
    >>> tj.range(1, 3)
    tensor([1., 2., 3.])
    """
    if dtype is not None:
        refuse("range_cpu", dtypes.as_dtype(dtype), "bool complex")
    low, high = (0, start) if end is None else (start, end)
    if step == 0 or (high - low) / step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    count = math.floor((high - low) / step) + 1
    kind = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    steps = as_type(arange(count), kind)
    return made(e.add(e.mul(steps, step), low), requires_grad, device)


@function(method=False)
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:  # noqa: N803
    """Columns of powers of a vector, the highest first unless ``increasing``.

    Raises ``RuntimeError`` for what is no vector.

    >>> import tracejit as tj
    >>> tj.vander(tj.tensor([2, 3]), 3)
    tensor([[4, 2, 1],
            [9, 3, 1]])
    """
    check_tensor("vander", x, "x")
    if x.ndim != 1:
        raise RuntimeError(f"x must be a one-dimensional tensor, got {x.ndim} dimensions")
    found = powers(x, N=N)
    return found if increasing else FUNCTIONS["flip"](found, (1,))


@function(method=False)
def as_strided(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """The elements at ``storage_offset + index * stride`` of a tensor's memory, as :meth:`Tensor.as_strided`.

    >>> import tracejit as tj
    >>> tj.as_strided(tj.arange(4), (2, 2), (1, 2))
    tensor([[0, 2],
            [1, 3]])
    """
    return input.as_strided(size, stride, storage_offset)


@function(method=False)
def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor whose values do not matter (here: zeros), its dimensions in memory in the order of ``stride``.

    >>> import tracejit as tj
    >>> tj.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    order = sorted(builtins.range(len(size)), key=lambda d: -stride[d])
    kind = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    plain = FUNCTIONS["zeros"]([size[d] for d in order], dtype=kind, device=device)
    turned = m.permute(plain, dims=tuple(order.index(d) for d in builtins.range(len(size))))
    return made(turned, requires_grad, device)


@function(method=False)
def empty_permuted(
    size: Sequence[int],
    physical_layout: Sequence[int],
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor whose values do not matter (here: zeros), its dimensions in memory in the order ``physical_layout``.

    Raises ``RuntimeError`` unless that names every dimension once.

    >>> import tracejit as tj
    >>> tj.empty_permuted((2, 3, 4), (0, 2, 1)).stride()
    (12, 1, 3)
    """
    if sorted(physical_layout) != list(builtins.range(len(size))):
        raise RuntimeError(
            f"empty_permuted: {tuple(physical_layout)} does not name every dimension of {tuple(size)} once"
        )
    stride, step = [0] * len(size), 1
    for d in reversed(physical_layout):
        stride[d] = step
        step *= max(size[d], 1)
    return empty_strided(size, stride, dtype=dtype, device=device, requires_grad=requires_grad)


@function(namespace=False)
def new_empty_strided(
    self: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """:func:`empty_strided` in the dtype and on the device of ``self``.

    >>> import tracejit as tj
    >>> tj.ones(2).new_empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    kind = self.dtype if dtype is None else dtype
    place = place_of(self, device)
    return empty_strided(size, stride, dtype=kind, device=place, requires_grad=requires_grad)


@function(method=False)
def detach(input: Tensor) -> Tensor:
    """``input`` without history, on the same memory.

    >>> import tracejit as tj
    >>> tj.detach(tj.ones(1, requires_grad=True)).requires_grad
    False
    """
    return input.detach()


@function(large=True)
def renorm(input: Tensor, p: Number, dim: int, maxnorm: Number) -> Tensor:
    """Slices along ``dim`` scaled down to a ``p``-norm of ``maxnorm`` where theirs is larger.

    Raises ``RuntimeError`` for fewer than two dimensions and for ``p`` or ``maxnorm`` below what a norm can be.

    >>> import tracejit as tj
    >>> tj.renorm(tj.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if input.ndim < 2:
        raise RuntimeError(
            f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions"
        )
    kept = dim_of(dim, input)
    others = [d for d in builtins.range(input.ndim) if d != kept]
    norms = vector_norm(input, p, others, True)
    scale = e.where(c.gt(norms, maxnorm), e.div(maxnorm, e.add(norms, 1e-7)), 1.0)
    return e.mul(input, scale)


@function(method=False)
def poisson(input: Tensor, generator: Any = None) -> Tensor:
    """Counts of the rates in ``input``, by inversion. Gradients are zero.

    Raises ``RuntimeError`` for negative rates, and for NaN.

    >>> import tracejit as tj
    >>> tj.poisson(tj.zeros(2))
    tensor([0., 0.])
    """
    check_tensor("poisson", input)
    if not hold_everywhere(lambda: c.ge(input, 0), near=input):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    noise = draw_uniform(shape_of(input), dtypes.float64, generator, input)
    rates = as_type(e.detach_copy(input), dtypes.float64)
    drawn = e.where(c.gt(rates, 0.0), poisson_quantile(noise, e.maximum(rates, 1e-300)), 0.0)
    return with_zero_gradient(as_type(drawn, input.dtype), input)


@function(method=False)
def constant_pad_nd(input: Tensor, pad: Sequence[int], value: Number = 0) -> Tensor:
    """``input`` with ``value`` around it: two numbers for each of the last dimensions, the last one first.

    >>> import tracejit as tj
    >>> tj.constant_pad_nd(tj.ones(1), (1, 2))
    tensor([0., 1., 0., 0.])
    """
    return FUNCTIONS["pad"](input, pad, "constant", value)


@function(method=False)
def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """``interpolate`` by the nearest element.

    >>> import tracejit as tj
    >>> tj.nn.functional.upsample_nearest(tj.ones(1, 1, 2), scale_factor=2).shape
    tracejit.Size([1, 1, 4])
    """
    return FUNCTIONS["interpolate"](input, size, scale_factor, "nearest")


@function(method=False)
def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """``interpolate`` along both axes with the corners aligned.

    >>> import tracejit as tj
    >>> tj.nn.functional.upsample_bilinear(tj.ones(1, 1, 2, 2), scale_factor=2).shape
    tracejit.Size([1, 1, 4, 4])
    """
    return FUNCTIONS["interpolate"](input, size, scale_factor, "bilinear", align_corners=True)


@function(namespace=False)
def cauchy_(
    self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None
) -> Tensor:
    """Overwrite ``self`` with Cauchy numbers.

    Raises ``RuntimeError`` unless ``sigma`` is positive.

    >>> import tracejit as tj
    >>> tj.empty(3).cauchy_().shape
    tracejit.Size([3])
    """
    refuse("cauchy", self.dtype, "complex")
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    u = draw_uniform(shape_of(self), self.dtype, generator, self)
    return self._assign(e.add(e.mul(t.tan(e.mul(e.sub(u, 0.5), math.pi)), sigma), median))


@function(namespace=False)
def geometric_(self: Tensor, p: float, *, generator: Any = None) -> Tensor:
    """Overwrite ``self`` with the number of trials to the first success, whose probability is ``p``.

    Raises ``RuntimeError`` unless 0 < p < 1.

    >>> import tracejit as tj
    >>> bool((tj.empty(10).geometric_(0.5) >= 1).all())
    True
    """
    refuse("geometric_cpu", self.dtype, "bool complex")
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    u = draw_uniform(shape_of(self), dtypes.float64, generator, self)
    return self._assign(as_type(e.ceil(e.div(t.log1p(e.neg(u)), math.log1p(-p))), self.dtype))


@function(namespace=False)
def put_(self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Overwrite the elements at ``index`` of ``self`` as one row with those of ``source``, or add them.

    >>> import tracejit as tj
    >>> tj.zeros(2, 2).put_(tj.tensor([1, 2]), tj.tensor([5.0, 6.0]))
    tensor([[0., 5.],
            [6., 0.]])
    """
    refuse_repeated(self)
    refuse_own(self, (index, source))
    row = m.reshape(self, shape=(self.spec.numel,))
    values = m.reshape(source, shape=(source.spec.numel,))
    places = m.reshape(index, shape=(index.spec.numel,))
    filled = FUNCTIONS["index_put"](row, (places,), values, accumulate)
    return self._assign(m.reshape(filled, shape=shape_of(self)))


#: In-place methods that are functions too.
_IN_PLACE = (
    *("abs", "acos", "acosh", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh"),
    *("asin", "asinh", "atan", "atanh", "ceil", "clamp", "clamp_max", "clamp_min", "clip"),
    *("cos", "cosh", "deg2rad", "detach", "erf", "erfc", "exp", "exp2", "expm1", "fill"),
    *("fix", "floor", "frac", "ldexp", "log", "log10", "log1p", "log2", "logit", "nan_to_num"),
    *("neg", "negative", "rad2deg", "reciprocal", "round", "rsqrt", "sigmoid", "sin", "sinc"),
    *(
        "sinh",
        "sqrt",
        "square",
        "tan",
        "tanh",
        "trunc",
        "xlogy",
        "zero",
        "index_put",
        "conj_physical",
        "gcd",
        "lcm",
        "i0",
        "addmv",
        "resize_as",
        "as_strided",
    ),
)


def _in_place(name: str) -> Any:
    def write(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if not is_tensor(input):
            check_tensor(name, input)
        return getattr(input, name)(*args, **kwargs)

    write.__name__ = name
    write.__doc__ = (
        f"``input.{name}(...)``: writes to ``input``.\n\n    >>> import tracejit as tj\n"
        f"    >>> callable(tj.{name})\n    True\n    "
    )
    return write


def install() -> None:
    """Publish the in-place methods that are functions too, once the methods are complete.

    >>> import tracejit as tj
    >>> tj.sqrt_(tj.tensor([4.0]))
    tensor([2.])
    """
    for name in _IN_PLACE:
        if f"{name}_" in METHODS or name in ("detach", "as_strided", "resize_as"):
            FUNCTIONS[f"{name}_"] = _in_place(f"{name}_")
