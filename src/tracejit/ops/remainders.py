"""Division with a remainder on a device, as NumPy does it on the host.

CuPy computes a remainder from the rounded quotient, which is far off for large quotients and NaN for infinite divisors,
and the C remainder of integers in float64. Here the exact remainder of floats comes first and the quotient from it.
"""

from __future__ import annotations

from typing import Any

from ..errors import AutogradError
from .op import Array


def flat_slope(zeros: Any, flat: bool) -> Any:
    """The gradient of ``floor_divide``: ``zeros`` if it is ``flat``; PyTorch has none for the function of that name.

    >>> flat_slope(0, True)
    0
    """
    if not flat:
        raise AutogradError("derivative for aten::floor_divide is not implemented")
    return zeros


def on_device(n: Any, name: str, x: Array, y: Array) -> Array:
    """``floor_divide``, ``remainder`` or ``fmod`` of arrays of one dtype by the functions of ``n``.

    >>> import numpy as np
    >>> x, y = np.array([5.0, -5.0, -1.0]), np.array([np.inf, np.inf, 3.0])
    >>> on_device(np, "remainder", x, y), on_device(np, "floor_divide", x, y)
    (array([ 5., inf,  2.]), array([ 0., -1., -1.]))
    """
    if x.dtype.kind in "iu":
        return _c_remainder(n, x, y) if name == "fmod" else getattr(n, name)(x, y)
    rest = n.fmod(x, y)
    if name == "fmod":
        return rest
    zero = rest == 0
    against = ((rest < 0) != (y < 0)) & ~zero  # its sign is not that of the divisor
    if name == "remainder":
        return n.where(zero, n.copysign(rest, y), n.where(against, rest + y, rest))
    return _floor(n, x, y, rest, against)


def _c_remainder(n: Any, x: Array, y: Array) -> Array:
    """The remainder of integers with the sign of x."""
    rest = n.remainder(x, y)
    if x.dtype.kind == "u":
        return rest
    return n.where((rest != 0) & ((x < 0) != (y < 0)), rest - y, rest)


def _floor(n: Any, x: Array, y: Array, rest: Array, against: Array) -> Array:
    """The floor of x / y, from the remainder with the sign of x."""
    one, ratio = x.dtype.type(1), x / y
    quotient = (x - rest) / y
    quotient = n.where(against, quotient - one, quotient)
    below = n.floor(quotient)
    whole = n.where(quotient - below > x.dtype.type(0.5), below + one, below)
    whole = n.where(quotient == 0, n.copysign(x.dtype.type(0), ratio), whole)
    return n.where(y == 0, ratio, whole)
