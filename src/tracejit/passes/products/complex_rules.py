"""What elementwise functions of complex numbers are in terms of real and imaginary parts.

Each is what NumPy's body of the op computes, special values included, since eager code runs that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ...dtypes import DType
from ...extents import hint
from ...ir.graph import Value
from ...ops.products_of_parts import imaginary_part_of_product, real_part_of_product
from ...ops.table import lookup

__all__ = ["OF_PARTS", "TO_REAL", "Parts", "Reals", "whole_power"]

#: A value or a number; and a real part and an imaginary one.
Operand = Any
Parts = tuple[Operand, Operand]
#: Smaller exponents are computed by products.
MOST_POWER = 100


class Writer(Protocol):
    """What writes an op on operands that are written already."""

    def write(self, op: Any, operands: Any, /, line: Any = None, **attributes: Any) -> Value:
        """The value."""
        ...


class Reals:
    """Ops on values and numbers of one dtype; on numbers alone they are done at once."""

    def __init__(self, writer: Writer, line: Any, dtype: DType) -> None:
        self.writer, self.line, self.dtype = writer, line, dtype

    def __call__(self, op: Any, *operands: Operand, **attributes: Any) -> Operand:
        """The result of an op."""
        entry = lookup(op) if isinstance(op, str) else op
        if any(isinstance(x, Value) for x in operands):
            return self.writer.write(entry, operands, self.line, **attributes)
        with np.errstate(all="ignore"):
            kind = self.dtype.np.type
            return entry.body(*(x if type(x) is bool else kind(x) for x in operands)).item()

    def where(self, condition: Operand, x: Operand, y: Operand) -> Operand:
        """x where the condition holds, else y."""
        if not isinstance(condition, Value):
            return x if condition else y
        if not isinstance(x, Value) and not isinstance(y, Value):
            x = self.filled(condition.spec.shape, x)
        return self("where", condition, x, y)

    def filled(self, shape: Any, number: Any) -> Value:
        """A number everywhere."""
        return self.writer.write("full", (), self.line, shape=shape, value=number, dtype=self.dtype)


def _apart(op: str) -> Callable[..., Parts]:
    """An op that treats both parts alike."""

    def of_parts(r: Reals, *given: Parts) -> Parts:
        reals, imaginaries = zip(*given, strict=True)
        return r(op, *reals), r(op, *imaginaries)

    return of_parts


def _conjugate(r: Reals, x: Parts) -> Parts:
    return r("clone", x[0]), r("neg", x[1])


def _mul(r: Reals, x: Parts, y: Parts) -> Parts:
    return r(real_part_of_product, *x, *y), r(imaginary_part_of_product, *x, *y)


def _square(r: Reals, x: Parts) -> Parts:
    product = r("mul", *x)
    return r(real_part_of_product, *x, *x), r("add", product, product)


def _div(r: Reals, x: Parts, y: Parts) -> Parts:
    """By the larger part of y (Smith, Algorithm 116, 1962)."""
    (a, b), (c, d) = x, y
    large = r("ge", r("abs", c), r("abs", d))
    p, q = r.where(large, c, d), r.where(large, d, c)
    u, v = r.where(large, a, b), r.where(large, b, a)
    ratio = r("div", q, p)
    through = r("div", 1.0, r("add", p, r("mul", q, ratio)))
    real = r("mul", r("add", u, r("mul", v, ratio)), through)
    part = r("mul", u, ratio)
    imaginary = r("mul", r.where(large, r("sub", v, part), r("sub", part, v)), through)
    none = r("logical_and", r("eq", c, 0.0), r("eq", d, 0.0))
    size = r("abs", c)
    return r.where(none, r("div", a, size), real), r.where(none, r("div", b, size), imaginary)


def _exp(r: Reals, x: Parts) -> Parts:
    """A large exponential may still have small parts: it is multiplied with in two steps."""
    a, b = x
    most = 80.0 if r.dtype.itemsize == 4 else 700.0
    large = r("gt", a, most)
    small, rest = (
        r("exp", r.where(large, r("sub", a, most), a)),
        r.where(large, r("exp", most), 1.0),
    )
    size = r("mul", small, rest)
    real, imaginary = (r("mul", r("mul", small, r(f, b)), rest) for f in ("cos", "sin"))
    on_axis = r("eq", b, 0.0)  # where an infinite size has no part of it
    odd = r("logical_and", r("isinf", a), r("logical_not", r("isfinite", b)))
    vanished = r("logical_and", odd, r("lt", a, 0.0))
    return (
        r.where(r("logical_or", on_axis, odd), size, real),
        r.where(vanished, r("copysign", 0.0, b), r.where(on_axis, b, imaginary)),
    )


def _log(r: Reals, x: Parts) -> Parts:
    """Of the size, of moderate numbers; near one it is told by what it is more or less than that."""
    a, b = (r("abs", part) for part in x)
    most, least = r("maximum", a, b), r("minimum", a, b)
    scale, large, small = _moderate(r, most)
    size = _magnitude(r, (r("mul", a, scale), r("mul", b, scale)))
    more = r.where(large, math.log(4.0), r.where(small, -math.log(_grown(r)), 0.0))
    plain = r("add", r("log", size), more)
    excess = r("add", r("mul", r("sub", most, 1.0), r("add", most, 1.0)), r("mul", least, least))
    near = r("logical_and", r("gt", size, 0.5), r("lt", size, 2.0))
    close = r("mul", r("log1p", r.where(near, excess, 0.0)), 0.5)
    return r.where(near, close, plain), r("atan2", x[1], x[0])


def _sqrt(r: Reals, x: Parts) -> Parts:
    """The larger part of the root from the sum of the size and the real part, without cancellation."""
    a, b = x
    size_a, size_b = r("abs", a), r("abs", b)
    scale, large, small = _moderate(r, r("maximum", size_a, size_b))
    back = r.where(large, 2.0, r.where(small, 1 / math.sqrt(_grown(r)), 1.0))
    p, q = r("mul", size_a, scale), r("mul", size_b, scale)
    first = r("sqrt", r("mul", r("add", p, _magnitude(r, (p, q))), 0.5))
    second = r("div", q, r("mul", first, 2.0))
    first, second = r("mul", first, back), r("mul", second, back)
    left = r("lt", a, 0.0)
    real = r.where(left, second, first)
    imaginary = r("copysign", r.where(left, first, second), b)
    none = r("logical_and", r("eq", a, 0.0), r("eq", b, 0.0))
    real, imaginary = r.where(none, 0.0, real), r.where(none, b, imaginary)
    return _root_of_odd(r, x, (real, imaginary))


def _root_of_odd(r: Reals, x: Parts, found: Parts) -> Parts:
    """Roots of numbers with infinite parts, and of real ones that are no number."""
    a, b = x
    infinite = r("isinf", a)
    right = r("logical_and", infinite, r("gt", a, 0.0))
    left = r("logical_and", infinite, r("lt", a, 0.0))
    beside = r("sub", b, b)  # zero, or no number
    real = r.where(right, a, r.where(left, r("abs", beside), found[0]))
    imaginary = r.where(
        right, r("copysign", beside, b), r.where(left, r("copysign", a, b), found[1])
    )
    upright = r("isinf", b)
    return r.where(upright, float("inf"), real), r.where(upright, b, imaginary)


def _moderate(r: Reals, most: Operand) -> tuple[Operand, Operand, Operand]:
    """What numbers are multiplied with that would be too large or too small, and where they are one or the other."""
    limits = np.finfo(r.dtype.np)
    large = r("gt", most, float(limits.max) / 4)
    small = r("lt", most, float(limits.tiny) * 2**4)
    return r.where(large, 0.25, r.where(small, _grown(r), 1.0)), large, small


def _grown(r: Reals) -> float:
    """A power of four that makes small numbers large enough."""
    return 2.0 ** (48 if r.dtype.itemsize == 4 else 108)


def _rounded_mul(r: Reals, x: Parts, y: Parts) -> Parts:
    """A product each of whose terms is rounded."""
    (a, b), (c, d) = x, y
    real = r("sub", r("mul", a, c), r("mul", b, d))
    return real, r("add", r("mul", a, d), r("mul", b, c))


def _pow(r: Reals, x: Parts, y: Parts) -> Parts:
    """A whole power, by the products that NumPy takes; zero has no sign then, but in the first one."""
    if int(y[0]) == 1:
        return x
    real, imaginary = _product_of(r, x, int(y[0]))
    none = r("logical_and", r("eq", x[0], 0.0), r("eq", x[1], 0.0))
    return r.where(none, 0.0, real), r.where(none, 0.0, imaginary)


def _product_of(r: Reals, x: Parts, count: int) -> Parts:
    """So many factors."""
    power = x
    if count <= 3:
        for _ in range(count - 1):
            power = _rounded_mul(r, x, power)
        return power
    found: Parts = (1.0, 0.0)
    while True:
        if count % 2:
            found = _rounded_mul(r, found, power)
        count //= 2
        if not count:
            return found
        power = _rounded_mul(r, power, power)


def whole_power(operands: Sequence[Operand]) -> bool:
    """Is this a power with a whole exponent that few products compute?

    >>> whole_power([None, 3.0]), whole_power([None, 0.5])
    (True, False)
    """
    exponent = operands[1]
    if isinstance(exponent, Value):
        return False
    number = complex(hint(exponent))
    real = number.real
    if number.imag:
        return False
    return real.is_integer() and 0 < real < MOST_POWER


def _magnitude(r: Reals, x: Parts) -> Operand:
    """The larger part times the root of one and the square of their ratio; infinite where either part is."""
    a, b = (r("abs", part) for part in x)
    largest, smallest = r("maximum", a, b), r("minimum", a, b)
    ratio = r("div", smallest, largest)
    found = r("mul", r("sqrt", r(real_part_of_product, ratio, -1.0, ratio, 1.0)), largest)
    found = r.where(r("eq", largest, 0.0), largest, found)
    infinite = r("logical_or", r("isinf", a), r("isinf", b))
    return r.where(infinite, float("inf"), found)


def _both(compare: str, join: str) -> Callable[..., Operand]:
    """A comparison of both parts."""

    def of_parts(r: Reals, x: Parts, y: Parts) -> Operand:
        return r(join, r(compare, x[0], y[0]), r(compare, x[1], y[1]))

    return of_parts


def _either(test: str, join: str) -> Callable[..., Operand]:
    """A test of both parts."""

    def of_parts(r: Reals, x: Parts) -> Operand:
        return r(join, r(test, x[0]), r(test, x[1]))

    return of_parts


#: Complex results, by the name of the op: the parts, of those of all operands.
OF_PARTS: dict[str, Callable[..., Parts]] = {
    **{name: _apart(name) for name in ("add", "sub", "neg", "clone")},
    "conjugate": _conjugate,
    "mul": _mul,
    "div": _div,
    "square": _square,
    "exp": _exp,
    "log": _log,
    "sqrt": _sqrt,
    "pow": _pow,
}
#: Results that are no complex numbers.
TO_REAL: dict[str, Callable[..., Operand]] = {
    "magnitude": _magnitude,
    "eq": _both("eq", "logical_and"),
    "ne": _both("ne", "logical_or"),
    "isnan": _either("isnan", "logical_or"),
    "isinf": _either("isinf", "logical_or"),
    "isfinite": _either("isfinite", "logical_and"),
}
