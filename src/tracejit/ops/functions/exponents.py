"""Numbers taken apart into mantissas and powers of two."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ... import dtypes
from ...number_limits import finfo
from .. import comparison as c
from .. import elementwise as e
from .. import limits as bounds
from .. import transcendental as t
from ..table import function
from .common import Tensor, as_type, require_float, upcast

#: From where on the exponent of 2 makes zero or infinity of any float32.
_FURTHEST = 400.0
#: The exponents of 2 that a double is multiplied by: what is subnormal before the last product is zero behind it.
_POWERS = (-969.0, 1023.0)


class MantissaAndExponent(NamedTuple):
    """``input = mantissa * 2**exponent``, the mantissa in [0.5, 1) or zero."""

    mantissa: Any
    exponent: Any


@function(large=True)
def frexp(input: Tensor) -> MantissaAndExponent:
    """Mantissas in [0.5, 1), with the signs, and int32 exponents: ``input = mantissa * 2**exponent``, exactly.

    The exponent of zero, infinities and NaN, which are their own mantissas, is 0. Raises ``RuntimeError`` for integers.

    >>> import tracejit as tj
    >>> tj.frexp(tj.tensor([8.0, -0.75]))
    MantissaAndExponent(mantissa=tensor([ 0.5000, -0.7500]), exponent=tensor([4, 0], dtype=tracejit.int32))
    """
    require_float("frexp", input)
    x = upcast(input)
    limits = finfo(x.dtype)
    shift = 2 * round(-math.log2(limits.eps))
    size = e.abs(e.detach_copy(x))
    small = c.logical_and(c.lt(size, limits.smallest_normal), c.gt(size, 0.0))
    x = e.where(small, e.mul(x, 2.0**shift), x)  # normal numbers, of which powers of two are exact
    size = e.abs(e.detach_copy(x))
    plain = c.logical_and(c.isfinite(size), c.gt(size, 0.0))
    size = e.where(plain, size, 0.5)
    power = e.floor(t.log2(size))
    power = e.add(power, as_type(c.ge(_scaled(size, power), 2.0), x.dtype))
    power = e.add(e.sub(power, as_type(c.lt(_scaled(size, power), 1.0), x.dtype)), 1.0)
    power = e.where(plain, power, 0.0)
    exponent = e.sub(power, e.where(small, float(shift), 0.0))
    return MantissaAndExponent(
        as_type(_scaled(x, power), input.dtype), as_type(exponent, dtypes.int32)
    )


def times_power(x: Tensor, exponent: Tensor) -> Tensor:
    """``x * 2**exponent`` for whole exponents: rounded once, where neither the power nor a product on the way is held.

    >>> import tracejit as tj
    >>> times_power(tj.tensor([0.0, 1e-30]), tj.tensor([200, 130]))
    tensor([0.0000e+00, 1.3611e+09])
    """
    wide, rest = (as_type(part, dtypes.float64) for part in (x, exponent))
    if x.dtype is not dtypes.float64:
        power = t.exp2(bounds.clamp_between(rest, -_FURTHEST, _FURTHEST))
        return as_type(e.mul(wide, power), x.dtype)
    powers = []
    for _ in range(3):
        powers.append(bounds.clamp_between(rest, *_POWERS))
        rest = e.sub(rest, powers[-1])
    for power in reversed(powers):
        wide = e.mul(wide, t.exp2(power))
    return wide


def _scaled(x: Tensor, power: Tensor) -> Tensor:
    """``x * 2**-power`` in two steps, neither of which overflows."""
    half = e.floor(e.mul(power, 0.5))
    return e.mul(e.mul(x, t.exp2(e.neg(half))), t.exp2(e.sub(half, power)))
