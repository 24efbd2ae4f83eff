"""Division with a remainder: zeros in what is left, and NumPy's functions on a device.

CuPy computes a remainder from the rounded quotient, which is far off for large quotients and NaN for infinite divisors,
and the C remainder of integers in float64. Here the exact remainder of floats comes first and the quotient from it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .op import Array
from .underived import Missing


def flat_slope(zeros: Any, flat: bool) -> Any:
    """The gradient of ``floor_divide``: ``zeros`` if it is ``flat``; PyTorch has none for the function of that name.

    >>> flat_slope(0, True)
    0
    """
    return zeros if flat else Missing("aten::floor_divide")(zeros)


def on_host(name: str, x: Array, y: Array) -> Array:
    """NumPy's ``floor_divide``, ``remainder`` or ``fmod``; zeros that remain have the sign of ``x``, as in C.

    >>> on_host("remainder", np.array([-4.0, 5.0]), np.array([2.0, -3.0]))
    array([-0., -1.])
    """
    found = getattr(np, name)(x, y)
    zero = found == 0 if name == "remainder" and found.dtype.kind not in "iu" else False
    return np.where(zero, np.copysign(found, x), found) if np.any(zero) else found


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
        return n.where(against, rest + y, rest)
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
