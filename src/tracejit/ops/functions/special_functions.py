"""Functions of statistics and physics that are made of others, and the published special functions."""

from __future__ import annotations

import math
from typing import Any

from ...dtypes import get_default_dtype
from .. import comparison as c
from .. import elementwise as e
from .. import entropies
from .. import special_functions as sp
from .. import transcendental as t
from ..table import function
from .common import Number, Tensor, as_type, check_tensor, promoted, refuse, upcast
from .complex_numbers import real

publish = function()
for _op in (sp.i0, sp.igamma, sp.igammac, sp.gcd, sp.lcm, sp.nextafter):
    publish(_op)


@function(method=False, namespace=False)
def entr(input: Tensor) -> Tensor:
    """``-x * log(x)``: 0 at zero, -inf below.

    >>> import tracejit as tj
    >>> tj.special.entr(tj.tensor([0.0, 0.5, -1.0]))
    tensor([0.0000, 0.3466,   -inf])
    """
    check_tensor("entr", input)
    return entropies.entr(input)


@function(method=False, namespace=False)
def ndtr(input: Tensor) -> Tensor:
    """The probability that a standard normal variable is below ``input``.

    >>> import tracejit as tj
    >>> tj.special.ndtr(tj.tensor([0.0]))
    tensor([0.5000])
    """
    check_tensor("ndtr", input)
    return e.mul(t.erfc(e.mul(input, -math.sqrt(0.5))), 0.5)


@function(method=False, namespace=False)
def xlog1py(input: Tensor | Number, other: Tensor | Number) -> Tensor:
    """``input * log1p(other)``, zero where ``input`` is zero (unless ``other`` is NaN).

    >>> import tracejit as tj
    >>> tj.special.xlog1py(tj.tensor([0.0, 2.0]), tj.tensor([-1.0, 0.0]))
    tensor([0., 0.])
    """
    return entropies.xlog1py(input, other)


@function()
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension ``p``.

    Raises ``RuntimeError`` when ``p`` is below one.

    >>> import tracejit as tj
    >>> tj.mvlgamma(tj.tensor([2.0]), 1)
    tensor([0.])
    """
    check_tensor("mvlgamma", input)
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    x = input if input.dtype.is_floating_point else as_type(input, get_default_dtype())
    total: Any = p * (p - 1) / 4.0 * math.log(math.pi)
    for j in range(p):
        total = e.add(t.lgamma(e.sub(x, j / 2.0)), total)
    return total


@function()
def logaddexp(input: Tensor, other: Tensor) -> Tensor:
    """``log(exp(input) + exp(other))`` without overflow; of complex numbers too.

    >>> import tracejit as tj
    >>> tj.logaddexp(tj.tensor([0.0]), tj.tensor([0.0]))
    tensor([0.6931])
    """
    kind = promoted(input, other)
    if not kind.is_complex:
        return t.logaddexp(input, other)
    x, y = as_type(input, kind), as_type(other, kind)
    first = c.ge(real(x), real(y))
    above, below = e.where(first, x, y), e.where(first, y, x)
    # Between two logarithms of zero, or of the same infinite number, there is no distance.
    alone = c.logical_or(c.eq(real(above), -math.inf), c.logical_and(c.isinf(x), c.eq(x, y)))
    distance = e.where(alone, 0.0, e.sub(below, above))
    return e.where(alone, above, e.add(t.log1p(t.exp(distance)), above))


@function(large=True)
def logaddexp2(input: Tensor, other: Tensor) -> Tensor:
    """``log2(2**input + 2**other)`` without overflow.

    >>> import tracejit as tj
    >>> tj.logaddexp2(tj.tensor([1.0]), tj.tensor([1.0]))
    tensor([2.])
    """
    kind = promoted(input, other)
    refuse("logaddexp2", kind, "bool int complex")
    scale = math.log(2.0)
    x, y = (e.mul(upcast(as_type(operand, kind)), scale) for operand in (input, other))
    return as_type(e.div(t.logaddexp(x, y), scale), kind)
