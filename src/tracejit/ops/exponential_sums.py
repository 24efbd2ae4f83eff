"""Running logarithms of sums of exponentials, and the weighted sums that their gradients are made of."""

# mypy: disable-error-code="has-type"
# (gradient rules name ops that are declared by the very decorator they stand in)

from __future__ import annotations

import numpy as np

from ..types import TensorType
from .long_sums import accumulated_along
from .namespace import wide, xp
from .ordering import running_type
from .programs import by_program
from .table import Array, Sample, contraction


def _sums_type(a: TensorType, x: TensorType, top: TensorType, *, dim: int) -> TensorType:
    return x


#: Exponentials of distances below these are normal numbers in double precision, by themselves and times any in single.
_FAR, _NEAR = 700, 600


def _are_near(x: Array, top: Array) -> bool:
    """Can sums along the first axis, for results of less than double precision, be taken in that in one go?"""
    if xp(x) is not np or x.dtype.itemsize > 4 or len(x) < 2:
        return False
    with np.errstate(invalid="ignore"):
        near = np.subtract(top[-1], top[0], dtype=np.float64) < _NEAR
    return bool(near.all() and np.isfinite(top).all() and (x <= top).all())


_SUMS = (Sample(((3, 4), (3, 4), (3, 4)), {"dim": 1}), Sample(((5,), (5,), (5,)), {"dim": 0}))


def _decay(later: Array, earlier: Array) -> Array:
    """``exp(earlier - later)``; nothing is left of what has no weight."""
    with np.errstate(invalid="ignore"):
        return xp(earlier).where(earlier == -np.inf, 0, xp(earlier).exp(earlier - later))


@contraction(
    _sums_type,
    grad={
        "a": lambda g, x, top, dim: sums_before(g, x, top, dim=dim),
        "x": lambda g, a, x, top, dim: g * sums_after(a, x, top, dim=dim),
        "top": lambda g, a, x, top, dim: -(a * sums_before(g, x, top, dim=dim)),
    },
    samples=_SUMS,
)
def sums_after(a: Array, x: Array, top: Array, *, dim: int) -> Array:
    """``sum over j >= i of a[j] * exp(x[i] - top[j])`` along ``dim``, for a ``top`` that does not fall."""
    if not x.ndim or not x.size:
        return a * _decay(top, x)
    n = xp(x)
    a, x, top = (n.moveaxis(v, dim, 0) for v in (a, x, top))
    if _are_near(x, top):
        far = np.subtract(top[0], top, dtype=np.float64)
        sums = np.cumsum((a * np.exp(far))[::-1], axis=0)[::-1] * np.exp(
            x - top[0].astype(np.float64)
        )
        return np.moveaxis(sums.astype(x.dtype), 0, dim)
    sums = n.empty_like(x)
    total = n.zeros_like(x[0])
    for i in reversed(range(len(x))):
        total = a[i] + (total * _decay(top[i + 1], top[i]) if i + 1 < len(x) else 0)
        sums[i] = total * _decay(top[i], x[i])
    return n.moveaxis(sums, 0, dim)


@contraction(
    _sums_type,
    grad={
        "a": lambda g, x, top, dim: sums_after(g, x, top, dim=dim),
        "x": lambda g, a, x, top, dim: a * sums_after(g, x, top, dim=dim),
        "top": lambda g, a, x, top, dim: -(g * sums_before(a, x, top, dim=dim)),
    },
    samples=_SUMS,
)
def sums_before(a: Array, x: Array, top: Array, *, dim: int) -> Array:
    """``sum over i <= j of a[i] * exp(x[i] - top[j])`` along ``dim``, for a ``top`` that does not fall."""
    if not x.ndim or not x.size:
        return a * _decay(top, x)
    n = xp(x)
    a, x, top = (n.moveaxis(v, dim, 0) for v in (a, x, top))
    if _are_near(x, top):
        first = top[0].astype(np.float64)
        sums = np.cumsum(a * np.exp(x - first), axis=0) * np.exp(first - top)
        return np.moveaxis(sums.astype(x.dtype), 0, dim)
    sums = n.empty_like(x)
    for j in range(len(x)):
        before = sums[j - 1] * _decay(top[j], top[j - 1]) if j else 0
        sums[j] = before + a[j] * _decay(top[j], x[j])
    return n.moveaxis(sums, 0, dim)


@contraction(
    running_type,
    grad=lambda g, x, out, dim: sums_after(g, x, out, dim=dim),
    samples=(Sample(((3, 4),), {"dim": 1}), Sample(((5,),), {"dim": 0})),
)
def log_cumsum_exp(x: Array, *, dim: int) -> Array:
    """The logarithm of the sum of the exponentials of everything up to each position along ``dim``."""
    if not x.ndim or not x.size:
        return x.copy()
    found = by_program(log_cumsum_exp, (x,), {"dim": dim}, same_bits=False)
    if found is not None:
        return found
    terms = wide(x)
    if xp(x) is np and terms.dtype == np.float32:
        found = _running_logs(terms.astype(np.float64), dim)
    else:
        found = accumulated_along(xp(x).logaddexp, terms, dim)
    return found.astype(x.dtype, copy=False)


def _running_logs(x: Array, dim: int) -> Array:
    """:func:`log_cumsum_exp` in double precision for results in single, without one call per element if rows allow."""
    top = x.max(axis=dim, keepdims=True)
    with np.errstate(invalid="ignore"):
        if not (top - x.min(axis=dim, keepdims=True) < _FAR).all():
            return accumulated_along(np.logaddexp, x, dim)
    sums = np.exp(x - top)
    np.cumsum(sums, axis=dim, out=sums)
    found = np.log(sums, out=sums)
    found += top
    first = (np.s_[:],) * dim + (0,)
    found[first] = x[first]  # to its last place, and the sign of a zero
    return found
