"""Orthogonal polynomials of a degree given by a tensor: Chebyshev, Hermite, Laguerre, Legendre, by their recurrences.

They have no gradient, as in PyTorch; in compiled code each is a call of its body.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..errors import ArgumentValueError
from . import promotion as p
from .namespace import xp
from .table import Array, Sample, elementwise


class Family(NamedTuple):
    """The polynomial of degree one, and that of degree k + 1 from x and those of degrees k and k - 1."""

    first: Callable[[Array], Array]
    next: Callable[[Array, Array, Array, int], Array]


def _doubled(x: Array, now: Array, before: Array, k: int) -> Array:
    return 2 * x * now - before


#: Abramowitz and Stegun, "Handbook of Mathematical Functions", 22.7; W and V have the recurrence of T and U.
FAMILIES: dict[str, Family] = {
    "chebyshev_t": Family(lambda x: x, _doubled),
    "chebyshev_u": Family(lambda x: 2 * x, _doubled),
    "chebyshev_v": Family(lambda x: 2 * x - 1, _doubled),
    "chebyshev_w": Family(lambda x: 2 * x + 1, _doubled),
    "hermite_h": Family(lambda x: 2 * x, lambda x, now, before, k: 2 * (x * now - k * before)),
    "hermite_he": Family(lambda x: x, lambda x, now, before, k: x * now - k * before),
    "laguerre_l": Family(
        lambda x: 1 - x,
        lambda x, now, before, k: ((2 * k + 1 - x) * now - k * before) / (k + 1),
    ),
    "legendre_p": Family(
        lambda x: x, lambda x, now, before, k: ((2 * k + 1) * x * now - k * before) / (k + 1)
    ),
}


#: The recurrences take a step for every degree: more than these would seem to hang.
MOST = 1 << 20


@elementwise(
    None,
    promotion=p.to_float,
    samples=(Sample(((3, 4), np.array([0.0, 1.0, 2.0, 5.0])), {"family": "chebyshev_t"}),),
)
def orthogonal_polynomial(x: Array, n: Array, *, family: str = "chebyshev_t") -> Array:
    """The polynomial of degree n (rounded towards zero) at x; zero below degree zero."""
    m = xp(x, n)
    kind, degrees = FAMILIES[family], m.trunc(n)
    with np.errstate(over="ignore", invalid="ignore"):
        before, now = m.ones_like(x), kind.first(x)
        known = (degrees >= 0) & m.isfinite(degrees)
        found = m.where(known, m.where(degrees == 0, before, now), x.dtype.type(0))
        most = int(m.where(known, degrees, 0).max()) if found.size else 0
        if most > MOST:
            raise ArgumentValueError(f"{family}: the degree {most:,} is more than {MOST:,}")
        for k in range(1, most):
            before, now = now, kind.next(x, now, before, k)
            found = m.where(degrees == k + 1, now, found)
    shape = np.broadcast_shapes(x.shape, n.shape)
    return m.broadcast_to(found, shape).astype(x.dtype, copy=False)
