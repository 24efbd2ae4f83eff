"""Elementwise ops with truth values or bits: comparison, logic, predicates, bitwise operations."""

from __future__ import annotations

from . import promotion as p
from .namespace import xp
from .table import Array, elementwise


@elementwise("x == y", promotion=p.compare_or_complex)
def eq(x: Array, y: Array) -> Array:
    """x == y."""
    return xp(x, y).equal(x, y)


@elementwise("x != y", promotion=p.compare_or_complex)
def ne(x: Array, y: Array) -> Array:
    """x != y."""
    return xp(x, y).not_equal(x, y)


@elementwise("x < y", promotion=p.compare)
def lt(x: Array, y: Array) -> Array:
    """x < y."""
    return xp(x, y).less(x, y)


@elementwise("x <= y", promotion=p.compare)
def le(x: Array, y: Array) -> Array:
    """x <= y."""
    return xp(x, y).less_equal(x, y)


@elementwise("x > y", promotion=p.compare)
def gt(x: Array, y: Array) -> Array:
    """x > y."""
    return xp(x, y).greater(x, y)


@elementwise("x >= y", promotion=p.compare)
def ge(x: Array, y: Array) -> Array:
    """x >= y."""
    return xp(x, y).greater_equal(x, y)


@elementwise("x & y", promotion=p.logical)
def logical_and(x: Array, y: Array) -> Array:
    """True where x and y are both non-zero."""
    return xp(x, y).logical_and(x, y)


@elementwise("x | y", promotion=p.logical)
def logical_or(x: Array, y: Array) -> Array:
    """True where x or y is non-zero."""
    return xp(x, y).logical_or(x, y)


@elementwise("x ^ y", promotion=p.logical)
def logical_xor(x: Array, y: Array) -> Array:
    """True where exactly one of x and y is non-zero."""
    return xp(x, y).logical_xor(x, y)


@elementwise("~x", promotion=p.logical)
def logical_not(x: Array) -> Array:
    """True where x is zero."""
    return xp(x).logical_not(x)


@elementwise("x & y", promotion=p.bitwise)
def bitwise_and(x: Array, y: Array) -> Array:
    """Bitwise and."""
    return xp(x, y).bitwise_and(x, y)


@elementwise("x | y", promotion=p.bitwise)
def bitwise_or(x: Array, y: Array) -> Array:
    """Bitwise or."""
    return xp(x, y).bitwise_or(x, y)


@elementwise("x ^ y", promotion=p.bitwise)
def bitwise_xor(x: Array, y: Array) -> Array:
    """Bitwise exclusive or."""
    return xp(x, y).bitwise_xor(x, y)


@elementwise("~x", promotion=p.bitwise)
def bitwise_not(x: Array) -> Array:
    """Bitwise complement; logical not for bool."""
    return xp(x).invert(x)


@elementwise("shift_left(x, y)", promotion=p.shift, domain=(0.0, 4.0))
def bitwise_left_shift(x: Array, y: Array) -> Array:
    """x with its bits moved up by y places; 0 for a shift beyond the width."""
    n = xp(x, y)
    width = x.dtype.itemsize * 8
    valid = (y >= 0) & (y < width)
    return n.where(valid, n.left_shift(x, n.where(valid, y, 0).astype(x.dtype)), 0)


@elementwise("shift_right(x, y)", promotion=p.shift, domain=(0.0, 4.0))
def bitwise_right_shift(x: Array, y: Array) -> Array:
    """x with its bits moved down by y places, the sign kept."""
    n = xp(x, y)
    last = x.dtype.itemsize * 8 - 1
    if x.dtype.kind == "u":
        return n.where(y > last, 0, n.right_shift(x, n.minimum(y, y.dtype.type(last))))
    places = n.where((y < 0) | (y > last), last, y).astype(x.dtype)
    return n.right_shift(x, places)


@elementwise("isnan(x)", promotion=p.compare_or_complex)
def isnan(x: Array) -> Array:
    """True where x is NaN."""
    return x != x


@elementwise("isinf(x)", promotion=p.compare_or_complex)
def isinf(x: Array) -> Array:
    """True where x is positive or negative infinity."""
    return xp(x).isinf(x)


@elementwise("isfinite(x)", promotion=p.compare_or_complex)
def isfinite(x: Array) -> Array:
    """True where x is neither NaN nor infinite."""
    return xp(x).isfinite(x)


@elementwise(None, promotion=p.compare)
def signbit(x: Array) -> Array:
    """True where the sign of x is negative, -0.0 included."""
    if x.dtype.kind in "biu":
        return x < x.dtype.type(0)
    return xp(x).signbit(x)
