"""Elementwise ops with truth values or bits: comparison, logic, predicates, bitwise operations."""

from __future__ import annotations

from . import promotion as p
from .namespace import xp
from .table import Array, elementwise


@elementwise("x == y", ufunc="equal", promotion=p.compare_or_complex)
def eq(x: Array, y: Array) -> Array:
    """x == y."""


@elementwise("x != y", ufunc="not_equal", promotion=p.compare_or_complex)
def ne(x: Array, y: Array) -> Array:
    """x != y."""


@elementwise("x < y", ufunc="less", promotion=p.compare)
def lt(x: Array, y: Array) -> Array:
    """x < y."""


@elementwise("x <= y", ufunc="less_equal", promotion=p.compare)
def le(x: Array, y: Array) -> Array:
    """x <= y."""


@elementwise("x > y", ufunc="greater", promotion=p.compare)
def gt(x: Array, y: Array) -> Array:
    """x > y."""


@elementwise("x >= y", ufunc="greater_equal", promotion=p.compare)
def ge(x: Array, y: Array) -> Array:
    """x >= y."""


@elementwise("x & y", ufunc="logical_and", promotion=p.logical)
def logical_and(x: Array, y: Array) -> Array:
    """True where x and y are both non-zero."""


@elementwise("x | y", ufunc="logical_or", promotion=p.logical)
def logical_or(x: Array, y: Array) -> Array:
    """True where x or y is non-zero."""


@elementwise("x ^ y", ufunc="logical_xor", promotion=p.logical)
def logical_xor(x: Array, y: Array) -> Array:
    """True where exactly one of x and y is non-zero."""


@elementwise("~x", ufunc="logical_not", promotion=p.logical)
def logical_not(x: Array) -> Array:
    """True where x is zero."""


@elementwise("x & y", ufunc="bitwise_and", promotion=p.bitwise)
def bitwise_and(x: Array, y: Array) -> Array:
    """Bitwise and."""


@elementwise("x | y", ufunc="bitwise_or", promotion=p.bitwise)
def bitwise_or(x: Array, y: Array) -> Array:
    """Bitwise or."""


@elementwise("x ^ y", ufunc="bitwise_xor", promotion=p.bitwise)
def bitwise_xor(x: Array, y: Array) -> Array:
    """Bitwise exclusive or."""


@elementwise("~x", ufunc="invert", promotion=p.bitwise)
def bitwise_not(x: Array) -> Array:
    """Bitwise complement; logical not for bool."""


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


@elementwise("isinf(x)", ufunc="isinf", promotion=p.compare_or_complex)
def isinf(x: Array) -> Array:
    """True where x is positive or negative infinity."""


@elementwise("isfinite(x)", ufunc="isfinite", promotion=p.compare_or_complex)
def isfinite(x: Array) -> Array:
    """True where x is neither NaN nor infinite."""


@elementwise(None, promotion=p.compare)
def signbit(x: Array) -> Array:
    """True where the sign of x is negative, -0.0 included."""
    if x.dtype.kind in "biu":
        return x < x.dtype.type(0)
    return xp(x).signbit(x)
