"""Fourier transforms of many rows at once, a lane of a vector for each: Stockham's order, radices of up to five.

Elements of complex rows alternate between real and imaginary parts, and so do the vectors that they are put into. Real
rows are taken for complex ones of half the length, even elements for real parts; what belongs to which frequency is
told apart afterwards, or put together before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ..products.vector_kind import Kind, inner
from ..products.vector_machine import Machine
from .batches import Batch, batch_module
from .columns import Columns
from .factors import Odd
from .lanes import Lane, Lanes

__all__ = ["MODES", "RADICES", "fourier_module"]

#: In which order a length is taken apart.
RADICES = (4, 2, 3, 5)
#: What rows are: complex before and after, real before, or real after.
MODES = ("complex", "of_real", "to_real")
#: Arrays: rows, results, which of these are not finite, constants (the sign of the exponent, the scale of results,
#: roots of unity of all stages, then those of real rows), stages (radix, steps, stride of each, then how many numbers
#: their roots are). Numbers: complex elements, stages, columns next to each other (of columns).
_ARRAYS, _NUMBERS = 5, 3


def fourier_module(dtype: str, mode: str, machine: Machine, columns: bool = False) -> str:
    """The module with the kernel ``tracejit_fourier_<mode>`` over rows, or over columns.

    >>> fourier_module("f32", "complex", Machine(64, 8, 3)).count("define i32 @tracejit_fourier_complex(")
    1
    """
    kind = Kind(dtype, machine)
    one = {"complex": _of_complex, "of_real": _of_real, "to_real": _to_real}[mode]

    def write(batch: Batch) -> None:
        one(_Transform(batch, columns))

    module = batch_module(kind, f"tracejit_fourier_{mode}", _ARRAYS, _NUMBERS, write)
    return "\n".join([module, *[_stage(kind, radix) for radix in RADICES]])


@dataclass(frozen=True)
class _Complex:
    """A complex number in every lane."""

    re: Lane
    im: Lane

    def __add__(self, other: _Complex) -> _Complex:
        return _Complex(self.re + other.re, self.im + other.im)

    def __sub__(self, other: _Complex) -> _Complex:
        return _Complex(self.re - other.re, self.im - other.im)

    def __mul__(self, other: _Complex) -> _Complex:
        t = self.re.of
        return _Complex(
            t.fused(self.re, other.re, -(self.im * other.im)),
            t.fused(self.re, other.im, self.im * other.re),
        )

    def plus(self, factor: Lane, other: _Complex) -> _Complex:
        """``self + factor * other``, for a real factor."""
        t = self.re.of
        return _Complex(t.fused(factor, other.re, self.re), t.fused(factor, other.im, self.im))

    def plus_turned(self, factor: Lane, other: _Complex) -> _Complex:
        """``self + i * factor * other``, for a real factor."""
        t = self.re.of
        return _Complex(t.fused(-factor, other.im, self.re), t.fused(factor, other.re, self.im))

    def times(self, factor: Lane) -> _Complex:
        """``factor * self``, for a real factor."""
        return _Complex(self.re * factor, self.im * factor)


class _Numbers:
    """Complex numbers in memory: pairs of vectors."""

    def __init__(self, t: Lanes, place: str) -> None:
        self.t, self.place = t, place

    def __getitem__(self, index: str) -> _Complex:
        at = self._at(index)
        vector, next_ = self.t.kind.vector, self.t.f.at(at, 1, self.t.kind.vector)
        return _Complex(
            self.t.made(f"load {vector}, ptr {at}"), self.t.made(f"load {vector}, ptr {next_}")
        )

    def __setitem__(self, index: str, value: _Complex) -> None:
        at, vector = self._at(index), self.t.kind.vector
        self.t.f.add(f"store {vector} {value.re.ref}, ptr {at}")
        self.t.f.add(f"store {vector} {value.im.ref}, ptr {self.t.f.at(at, 1, vector)}")

    def _at(self, index: str) -> str:
        return self.t.f.at(self.place, index, f"[2 x {self.t.kind.vector}]")


def _constant(t: Lanes, constants: str, index: str | int) -> Lane:
    """A number of an array in every lane."""
    return Lane(t, t.kind.number(t.f, t.f.at(constants, index, t.kind.scalar)))


def _root(t: Lanes, constants: str, index: str) -> _Complex:
    """A pair of numbers of an array in every lane."""
    at = t.f.at(constants, index, f"[2 x {t.kind.scalar}]")
    return _Complex(_constant(t, at, 0), _constant(t, at, 1))


# --- stages -------------------------------------------------------------------------------------


def _two(x: list[_Complex], sign: Lane) -> list[_Complex]:
    del sign
    return [x[0] + x[1], x[0] - x[1]]


def _three(x: list[_Complex], sign: Lane) -> list[_Complex]:
    t = sign.of
    total, apart = x[1] + x[2], x[1] - x[2]
    middle, turn = x[0].plus(t.number(-0.5), total), sign * t.number(math.sqrt(0.75))
    return [x[0] + total, middle.plus_turned(turn, apart), middle.plus_turned(-turn, apart)]


def _four(x: list[_Complex], sign: Lane) -> list[_Complex]:
    even, odd = x[0] + x[2], x[1] + x[3]
    first, second = x[0] - x[2], x[1] - x[3]
    return [
        even + odd,
        first.plus_turned(sign, second),
        even - odd,
        first.plus_turned(-sign, second),
    ]


def _five(x: list[_Complex], sign: Lane) -> list[_Complex]:
    t = sign.of
    cosines = [t.number(math.cos(k * math.tau / 5)) for k in (1, 2)]
    sines = [sign * t.number(math.sin(k * math.tau / 5)) for k in (1, 2)]
    outer, inner_ = x[1] + x[4], x[2] + x[3]
    across, between = x[1] - x[4], x[2] - x[3]
    one = x[0].plus(cosines[0], outer).plus(cosines[1], inner_)
    two = x[0].plus(cosines[1], outer).plus(cosines[0], inner_)
    parts = [
        (one, across.times(sines[0]).plus(sines[1], between)),
        (two, across.times(sines[1]).plus(-sines[0], between)),
    ]
    unit = t.number(1.0)
    upper = [middle.plus_turned(unit, turned) for middle, turned in parts]
    lower = [middle.plus_turned(-unit, turned) for middle, turned in parts]
    return [x[0] + outer + inner_, upper[0], upper[1], lower[1], lower[0]]


_SMALL: dict[int, Callable[[list[_Complex], Lane], list[_Complex]]] = {
    2: _two,
    3: _three,
    4: _four,
    5: _five,
}


def _stage(kind: Kind, radix: int) -> str:
    """``steps`` transforms of ``radix`` elements each, for every one of ``stride`` sequences, times roots of unity."""
    given = "ptr noalias %x, ptr noalias %y, i64 %steps, i64 %stride, ptr %roots, ptr %constants"
    f = inner(kind, f"internal void @stage.{radix}({given})")
    t = Lanes(f, kind)
    sign, pair = _constant(t, "%constants", 0), f"[2 x {kind.vector}]"
    apart = f.product("%steps", "%stride")
    with f.loop(0, "%steps") as p:
        at = f.at("%roots", f.product(p, radix - 1), f"[2 x {kind.scalar}]")
        roots = [_root(t, at, str(k)) for k in range(radix - 1)]
        first, place = f.product(p, "%stride"), f.product(f.product(p, radix), "%stride")
        read = [
            _Numbers(t, f.at("%x", f.sum(first, f.product(apart, j)), pair)) for j in range(radix)
        ]
        written = [
            _Numbers(t, f.at("%y", f.sum(place, f.product("%stride", k)), pair))
            for k in range(radix)
        ]
        with f.loop(0, "%stride") as q:
            found = _SMALL[radix]([x[q] for x in read], sign)
            written[0][q] = found[0]
            for y, value, root in zip(written[1:], found[1:], roots, strict=True):
                y[q] = value * root
    f.add("ret void")
    return f.finish()


# --- kernels ------------------------------------------------------------------------------------


class _Transform:
    """What the kernels share."""

    def __init__(self, batch: Batch, columns: bool) -> None:
        self.batch, self.f, self.t = batch, batch.f, batch.lanes
        self.rows, self.out, self.marks, self.constants, self.stages, *numbers = batch.words
        self.n, self.count, inner_ = numbers
        self.odd = Odd(self.t)
        self.columns = Columns(batch, inner_) if columns else None
        pair = f"[2 x {self.t.kind.vector}]"
        size = self.f.sum(self.n, 1 + self.t.kind.lanes)
        self.here, self.there = batch.scratch, self.f.at(batch.scratch, size, pair)
        #: The roots of unity of real rows are behind those of the stages, of which there are so many numbers.
        self.roots = self.f.at(self.constants, 2, self.t.kind.scalar)

    def run(self, first: str, second: str) -> tuple[str, str]:
        """All stages on what is at ``first``: where the result is, and where other room is."""
        f, scalar = self.f, self.t.kind.scalar
        x, y = f.variable("ptr", first), f.variable("ptr", second)
        roots = f.variable("ptr", self.roots)
        with f.loop(0, self.count) as number:
            stage = f.at(self.stages, f.product(number, 3), "i64")
            radix, steps, stride = (f.word(stage, i) for i in range(3))
            a, b, w = x.get(), y.get(), roots.get()
            given = f"ptr {a}, ptr {b}, i64 {steps}, i64 {stride}, ptr {w}, ptr {self.constants}"
            for one in RADICES:
                with f.when(f.compare("eq", radix, one)):
                    f.add(f"call void @stage.{one}({given})")
            used = f.product(steps, f.difference(radix, 1))
            roots.set(f.at(w, used, f"[2 x {scalar}]"))
            x.set(b)
            y.set(a)
        self.roots = roots.get()
        return x.get(), y.get()

    def take(self, pairs: str, real: bool = False) -> None:
        """So many complex elements, or pairs of real ones."""
        if self.columns is not None:
            self.columns.take(self.rows, pairs, self.here, real)
        else:
            self.batch.take(self.rows, self.f.sum(pairs, pairs), self.here)

    def give(self, place: str, pairs: str, real: bool = False) -> None:
        """Put results back; rows with some that are not finite are noted."""
        numbers = _Numbers(self.t, place)
        with self.f.loop(0, pairs) as k:
            for part in (numbers[k].re, numbers[k].im):
                self.odd.unless_finite(part)
        self.odd.note(self.batch, self.marks)
        if self.columns is not None:
            self.columns.give(place, pairs, self.out, real)
        else:
            self.batch.give(place, self.f.sum(pairs, pairs), self.out)

    def mirrored(self, x: _Numbers, k: str) -> _Complex:
        """The conjugate of the number as far from the end as k is from the start."""
        other = x[self.f.difference(self.n, k)]
        return _Complex(other.re, -other.im)


def _of_complex(transform: _Transform) -> None:
    f, t, n = transform.f, transform.t, transform.n
    transform.take(n)
    found, _ = transform.run(transform.here, transform.there)
    numbers, factor = _Numbers(t, found), _constant(t, transform.constants, 1)
    with f.loop(0, n) as k:
        numbers[k] = numbers[k].times(factor)
    transform.give(found, n)


def _of_real(transform: _Transform) -> None:
    """The sum of both halves of each pair of frequencies is that of the even elements, their difference of the odd."""
    f, t, n = transform.f, transform.t, transform.n
    transform.take(n, real=True)
    found, other = transform.run(transform.here, transform.there)
    x, y = _Numbers(t, found), _Numbers(t, other)
    x[n] = x["0"]
    half = _constant(t, transform.constants, 1) * t.number(0.5)
    with f.loop(0, f.sum(n, 1)) as k:
        a, b = x[k], transform.mirrored(x, k)
        odd = (a - b) * _root(t, transform.roots, k)
        y[k] = (a + b + odd).times(half)
    transform.give(other, f.sum(n, 1))


def _to_real(transform: _Transform) -> None:
    """The imaginary parts of the first and the last frequency are not looked at."""
    f, t, n = transform.f, transform.t, transform.n
    transform.take(f.sum(n, 1))
    x, y = _Numbers(t, transform.here), _Numbers(t, transform.there)
    for end in ("0", n):
        x[end] = _Complex(x[end].re, t.number(0.0))
    used = f.word(transform.stages, f.product(transform.count, 3))
    own = f.at(transform.roots, used, t.kind.scalar)
    factor = _constant(t, transform.constants, 1)
    with f.loop(0, n) as k:
        a, b = x[k], transform.mirrored(x, k)
        odd = (a - b) * _root(t, own, k)
        y[k] = (a + b + odd).times(factor)
    found, _ = transform.run(transform.there, transform.here)
    transform.give(found, n, real=True)
