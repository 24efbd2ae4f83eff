"""Fourier transforms of many rows at once, a lane of a vector for each: Stockham's order.

Elements of complex rows alternate between real and imaginary parts, and so do the vectors that they are put into. Real
rows are taken for complex ones of half the length, even elements for real parts; what belongs to which frequency is
told apart afterwards, or put together before.
"""

from __future__ import annotations

from ..products.vector_kind import Kind
from ..products.vector_machine import Machine
from .batches import Batch, batch_module
from .columns import Columns
from .factors import Odd
from .fourier_stages import Complex, Numbers, Stages, constant, root, run_stages, stage_functions

__all__ = ["fourier_module"]

#: Arrays: rows, results, constants (the sign of the exponent, the scale of results, roots of unity of all stages, then
#: those of real rows), stages (radix, steps, stride of each, then how many numbers their roots are). Numbers: complex
#: elements, stages, columns next to each other (of columns).
_ARRAYS, _NUMBERS = 4, 3


def fourier_module(
    dtype: str, mode: str, machine: Machine, symbol: str, columns: bool = False
) -> str:
    """The module with the kernel ``symbol`` over rows, or over columns.

    Rows are "complex" before and after, "of_real" or "to_real" numbers. It returns one where a result is not finite.

    >>> fourier_module("f32", "complex", Machine(64, 8, 3), "transform").count("define i32 @transform(")
    1
    """
    kind = Kind(dtype, machine)
    one = {"complex": _of_complex, "of_real": _of_real, "to_real": _to_real}[mode]

    def write(batch: Batch) -> None:
        one(_Transform(batch, columns))

    module = batch_module(kind, symbol, _ARRAYS + 1, _NUMBERS, write, checked=True)
    return "\n".join([module, *stage_functions(kind)])


# --- kernels ------------------------------------------------------------------------------------


class _Transform:
    """What the kernels share."""

    def __init__(self, batch: Batch, columns: bool) -> None:
        self.batch, self.f, self.t = batch, batch.f, batch.lanes
        self.rows, self.out, self.constants, self.stages, _, *numbers = batch.words
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
        stages = Stages(self.stages, self.count, self.roots, self.constants)
        found, other, self.roots = run_stages(self.t, stages, first, second)
        return found, other

    def take(self, pairs: str, real: bool = False) -> None:
        """So many complex elements, or pairs of real ones."""
        if self.columns is not None:
            self.columns.take(self.rows, pairs, self.here, real)
        else:
            self.batch.take(self.rows, self.f.sum(pairs, pairs), self.here)

    def give(self, place: str, pairs: str, real: bool = False) -> None:
        """Put results back; it is noted where some are not finite."""
        numbers = Numbers(self.t, place)
        with self.f.loop(0, pairs) as k:
            for part in (numbers[k].re, numbers[k].im):
                self.odd.unless_finite(part)
        self.odd.note(self.batch)
        if self.columns is not None:
            self.columns.give(place, pairs, self.out, real)
        else:
            self.batch.give(place, self.f.sum(pairs, pairs), self.out)

    def mirrored(self, x: Numbers, k: str) -> Complex:
        """The conjugate of the number as far from the end as k is from the start."""
        other = x[self.f.difference(self.n, k)]
        return Complex(other.re, -other.im)


def _of_complex(transform: _Transform) -> None:
    f, t, n = transform.f, transform.t, transform.n
    transform.take(n)
    found, _ = transform.run(transform.here, transform.there)
    numbers, factor = Numbers(t, found), constant(t, transform.constants, 1)
    with f.loop(0, n) as k:
        numbers[k] = numbers[k].times(factor)
    transform.give(found, n)


def _of_real(transform: _Transform) -> None:
    """The sum of both halves of each pair of frequencies is that of the even elements, their difference of the odd."""
    f, t, n = transform.f, transform.t, transform.n
    transform.take(n, real=True)
    found, other = transform.run(transform.here, transform.there)
    x, y = Numbers(t, found), Numbers(t, other)
    x[n] = x["0"]
    half = constant(t, transform.constants, 1) * t.number(0.5)
    with f.loop(0, f.sum(n, 1)) as k:
        a, b = x[k], transform.mirrored(x, k)
        odd = (a - b) * root(t, transform.roots, k)
        y[k] = (a + b + odd).times(half)
    transform.give(other, f.sum(n, 1))


def _to_real(transform: _Transform) -> None:
    """The imaginary parts of the first and the last frequency are not looked at."""
    f, t, n = transform.f, transform.t, transform.n
    transform.take(f.sum(n, 1))
    x, y = Numbers(t, transform.here), Numbers(t, transform.there)
    for end in ("0", n):
        x[end] = Complex(x[end].re, t.number(0.0))
    used = f.word(transform.stages, f.product(transform.count, 3))
    own = f.at(transform.roots, used, t.kind.scalar)
    factor = constant(t, transform.constants, 1)
    with f.loop(0, n) as k:
        a, b = x[k], transform.mirrored(x, k)
        odd = (a - b) * root(t, own, k)
        y[k] = (a + b + odd).times(factor)
    found, _ = transform.run(transform.there, transform.here)
    transform.give(found, n, real=True)
