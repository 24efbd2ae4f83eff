"""Special functions by SciPy: Bessel functions, incomplete gamma functions, normal distribution; and integer divisors.

They have no scalar expression: in compiled code each is a call of its body.
"""

# mypy: disable-error-code="has-type"
# (gradient rules name ops that are declared by the very decorator they stand in)

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..number_limits import finfo
from . import promotion as p
from .comparison import eq, gt
from .elementwise import POSITIVE, sign, where, zeros_like
from .incomplete_gamma import upper_gamma
from .namespace import special, wide, xp
from .table import Array, elementwise
from .transcendental import exp, lgamma, log
from .underived import Missing

WIDE = (-4.0, 4.0)
#: Means up to which Poisson variables are counted up to.
_FEW = 50.0
#: Enough for intervals of 2^50 counts.
_HALVINGS = 50


def _by_scipy(name: str, *operands: Array) -> Array:
    """A function of ``scipy.special``; half precision computes in float32."""
    function = special(name, *operands)
    return function(*map(wide, operands))


def _first_order(g: Any, x: Any, out: Any, even: Callable[[Any], Any]) -> Any:
    """``even(x) - out / x``, the slope of the modified Bessel function of order one; one half next to zero.

    There a quotient, or its slope, is of numbers that were rounded to few bits, or none.
    """
    least = finfo(x.dtype).eps
    apart = abs(x) > least
    x = where(apart, x, least)
    return g * where(apart, even(x) - out / x, 0.5)


@elementwise(None, promotion=p.to_float, grad=lambda g, x: g * i1(x), domain=WIDE)
def i0(x: Array) -> Array:
    """The modified Bessel function of the first kind of order 0."""
    return _by_scipy("i0", x)


@elementwise(
    None, promotion=p.to_float, grad=lambda g, x, out: g * (i1e(x) - sign(x) * out), domain=WIDE
)
def i0e(x: Array) -> Array:
    """``exp(-|x|) * i0(x)``."""
    return _by_scipy("i0e", x)


@elementwise(
    None, promotion=p.to_float, grad=lambda g, x, out: _first_order(g, x, out, i0), domain=WIDE
)
def i1(x: Array) -> Array:
    """The modified Bessel function of the first kind of order 1."""
    return _by_scipy("i1", x)


@elementwise(
    None,
    promotion=p.to_float,
    grad=lambda g, x, out: _first_order(g, x, out, lambda x: i0e(x) - sign(x) * out),
    domain=WIDE,
)
def i1e(x: Array) -> Array:
    """``exp(-|x|) * i1(x)``."""
    return _by_scipy("i1e", x)


@elementwise(None, promotion=p.to_float, grad=lambda g, x: -g * bessel_j1(x), domain=WIDE)
def bessel_j0(x: Array) -> Array:
    """The Bessel function of the first kind of order 0."""
    return _by_scipy("j0", x)


@elementwise(
    None,
    promotion=p.to_float,
    grad=lambda g, x, out: _first_order(g, x, out, bessel_j0),
    domain=WIDE,
)
def bessel_j1(x: Array) -> Array:
    """The Bessel function of the first kind of order 1."""
    return _by_scipy("j1", x)


@elementwise(None, promotion=p.to_float, domain=POSITIVE)
def bessel_y0(x: Array) -> Array:
    """The Bessel function of the second kind of order 0."""
    return _by_scipy("y0", x)


@elementwise(None, promotion=p.to_float, domain=POSITIVE)
def bessel_y1(x: Array) -> Array:
    """The Bessel function of the second kind of order 1."""
    return _by_scipy("y1", x)


@elementwise(None, promotion=p.to_float, domain=POSITIVE)
def modified_bessel_k0(x: Array) -> Array:
    """The modified Bessel function of the second kind of order 0."""
    return _by_scipy("k0", x)


@elementwise(None, promotion=p.to_float, domain=POSITIVE)
def modified_bessel_k1(x: Array) -> Array:
    """The modified Bessel function of the second kind of order 1."""
    return _by_scipy("k1", x)


@elementwise(None, promotion=p.to_float, domain=POSITIVE)
def scaled_modified_bessel_k0(x: Array) -> Array:
    """``exp(x)`` times the modified Bessel function of the second kind of order 0."""
    return _by_scipy("k0e", x)


@elementwise(None, promotion=p.to_float, domain=POSITIVE)
def scaled_modified_bessel_k1(x: Array) -> Array:
    """``exp(x)`` times the modified Bessel function of the second kind of order 1."""
    return _by_scipy("k1e", x)


@elementwise(None, promotion=p.to_float, domain=WIDE)
def airy_ai(x: Array) -> Array:
    """The Airy function of the first kind."""
    wide = x.astype(np.float64)  # single precision loses the phase of its waves
    found: Array = special("airy", wide)(wide)[0].astype(x.dtype)
    return found


@elementwise(
    None,
    promotion=p.to_float,
    grad=lambda g, x, out: g * (x * out * 2.0 - 2.0 / math.sqrt(math.pi)),
    domain=(-2.0, 4.0),
)
def erfcx(x: Array) -> Array:
    """``exp(x * x) * erfc(x)``, without overflow."""
    return _by_scipy("erfcx", x)


@elementwise(
    None,
    promotion=p.to_float,
    grad=lambda g, out: g * (exp(out * out * 0.5) * math.sqrt(2 * math.pi)),
    domain=(0.05, 0.95),
)
def ndtri(x: Array) -> Array:
    """The number below which a standard normal variable is with probability x."""
    return _by_scipy("ndtri", x)


def _log_ndtr_grad(g: Any, x: Any, out: Any) -> Any:
    """The density over the probability. Below both vanish; far above `erfcx`, or its slope, overflows."""
    large = gt(x, 5.0)
    low, high = where(large, 5.0, x), where(large, x, 5.0)
    above = exp(high * high * -0.5 - where(large, out, 0.0)) * (0.5 / math.pi) ** 0.5
    return g * where(large, above, math.sqrt(2 / math.pi) / erfcx(low * -math.sqrt(0.5)))


@elementwise(
    None,
    promotion=p.to_float,
    grad=_log_ndtr_grad,
    domain=WIDE,
)
def log_ndtr(x: Array) -> Array:
    """The logarithm of the probability that a standard normal variable is below x."""
    return _by_scipy("log_ndtr", x)


@elementwise(
    None,
    promotion=p.to_float,
    grad={"x": Missing("zeta"), "y": lambda g, x, y: g * (x * -1.0 * zeta(x + 1.0, y))},
    domain={"x": (1.5, 4.0), "y": (0.5, 4.0)},
)
def zeta(x: Array, y: Array) -> Array:
    """The Hurwitz zeta function: the sum of ``(k + y)**-x`` for k from 0 on."""
    found = _by_scipy("zeta", x, y)
    return xp(x).where((y == math.inf) & (x > 1.0), math.nan, found)


def _gamma_density(g: Any, a: Any, x: Any) -> Any:
    # Sums, because operands that are bools cannot be subtracted.
    return g * exp((a + -1.0) * log(x) + x * -1.0 - lgamma(a))


@elementwise(
    None,
    promotion=p.floats_only,
    grad={"x": Missing("igamma: input"), "y": lambda g, x, y: _gamma_density(g, x, y)},
    domain=POSITIVE,
)
def igamma(x: Array, y: Array) -> Array:
    """The regularised lower incomplete gamma function: of order x, up to y."""
    return _by_scipy("gammainc", x, y)


@elementwise(
    None,
    promotion=p.floats_only,
    grad={"x": Missing("igammac: input"), "y": lambda g, x, y: -_gamma_density(g, x, y)},
    domain=POSITIVE,
)
def igammac(x: Array, y: Array) -> Array:
    """One minus :func:`igamma`, accurate where that is near one."""
    return upper_gamma(x, y)


@elementwise(None, promotion=p.shift, domain=(1.0, 9.0))
def gcd(x: Array, y: Array) -> Array:
    """The greatest common divisor of integers."""
    return xp(x, y).gcd(x, y)


@elementwise(None, promotion=p.shift, domain=(1.0, 9.0))
def lcm(x: Array, y: Array) -> Array:
    """The least common multiple of integers."""
    n = xp(x, y)
    kind = n.result_type(x, y)
    wide = kind if kind.itemsize >= 4 else np.dtype(np.int32)  # short ones wrap at the end only
    return n.abs(n.lcm(x, y, dtype=wide)).astype(kind)


@elementwise(
    None,
    promotion=p.floats_only,
    grad={"x": lambda g, x, y: where(eq(x, y), 0.0, g), "y": lambda g: zeros_like(g)},
)
def nextafter(x: Array, y: Array) -> Array:
    """The number next to x in the direction of y."""
    return xp(x, y).nextafter(x, y)


@elementwise(None, promotion=p.to_float, domain={"x": POSITIVE, "y": (0.05, 0.95)})
def igamma_inverse(x: Array, y: Array) -> Array:
    """The number up to which the regularised lower incomplete gamma function of order x is y."""
    return _by_scipy("gammaincinv", x, y)


@elementwise(None, promotion=p.to_float, domain={"x": (0.05, 0.95), "y": POSITIVE})
def poisson_quantile(x: Array, y: Array) -> Array:
    """The smallest count that a Poisson variable of mean y does not exceed with probability x."""
    n = xp(x, y)
    if n is not np:  # CuPy has the distribution, but not its inverse
        return _least_count(n, x.astype(np.float64), y.astype(np.float64)).astype(x.dtype)
    shape, kind = np.broadcast_shapes(x.shape, y.shape), np.result_type(x, y)
    levels, means = (np.broadcast_to(wide(a), shape) for a in (x, y))
    few = means <= _FEW
    if few.all():
        return _counted_up(levels, means).astype(kind)
    found = np.empty(shape, kind)
    found[few] = _counted_up(levels[few], means[few])
    found[~few] = np.maximum(np.ceil(_by_scipy("pdtrik", levels[~few], means[~few])), 0)
    return found


def _counted_up(x: Array, y: Array) -> Array:
    """The smallest k whose probability together with that of all below reaches x: for small means, one k after another.

    The library's function takes ten times as long. Rounded, all probabilities may add up to less than x.
    """
    share = np.exp(-y.astype(np.float64))
    reached, found = share.copy(), np.where((x >= 0) & (x < 1) & (y >= 0), 0.0, np.nan)
    for k in range(1, _most(y)):
        above = x > reached
        if not above.any():
            break
        found += above
        share *= y / k
        reached += share
    return found


def _most(y: Array) -> int:
    """More than any quantile of Poisson variables of these means below one."""
    most = float(y.max(initial=0.0))
    return int(most + 12 * math.sqrt(most) + 60)


def _least_count(n: Any, x: Array, y: Array) -> Array:
    """The smallest k with ``gammaincc(k + 1, y) >= x``, by halving an interval that no quantile lies outside of."""
    cdf = special("gammaincc", x, y)
    low = n.full(n.broadcast_shapes(x.shape, y.shape), -1.0)
    high = low + n.ceil(y + 12 * n.sqrt(y) + 60)
    for _ in range(_HALVINGS):
        middle = n.floor((low + high) / 2)
        enough = (cdf(middle + 1, y) >= x) & (middle > low)
        low, high = n.where(enough, low, n.maximum(low, middle)), n.where(enough, middle, high)
    known = (x >= 0) & (x < 1) & (y >= 0) & n.isfinite(y)
    return n.where((x == 0) & (y >= 0), 0.0, n.where(known, high, np.nan))
