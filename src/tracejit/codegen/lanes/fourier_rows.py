"""Fourier transforms of single rows, whose elements fill the lanes: a length is taken for ``steps`` times ``wide``.

``wide`` is the largest divisor of the length that is not more than the lanes. A row is read as ``steps`` vectors of
that many elements, which are transformed like the elements of as many rows (`fourier_stages`). Then roots of unity are
multiplied with, squares of vectors are turned round, and ``wide`` vectors are transformed, of which every lane belongs
to another frequency of the first transform: the four-step algorithm (Bailey, *FFTs in external or hierarchical memory*,
1990). What it leaves is in order.
"""

from __future__ import annotations

from ..products.vector_kind import Kind
from ..products.vector_machine import Machine
from .batches import Batch, batch_module
from .factors import Odd
from .fourier_stages import Complex, Numbers, Stages, constant, run_stages, stage_functions
from .lanes import Lane, Truth

__all__ = ["fourier_rows_module"]

#: Arrays: rows, results, constants, stages (radix, steps, stride of each: those of the first transform, then those of
#: the second). Constants are the sign of the exponent, the scale of results, roots of unity of the first transform's
#: stages; those between both, pairs of vectors; those of real rows, real parts of all frequencies in whole vectors and
#: then imaginary parts; those of the second transform's stages. Numbers: complex elements, ``wide``, ``steps``, how
#: many stages either transform has.
_ARRAYS, _NUMBERS = 4, 5


def fourier_rows_module(dtype: str, mode: str, machine: Machine, symbol: str) -> str:
    """The module with the kernel ``symbol`` over rows; as `fourier.fourier_module`.

    >>> fourier_rows_module("f32", "complex", Machine(64, 8, 3), "transform").count("define i32 @transform(")
    1
    """
    kind = Kind(dtype, machine)

    def write(batch: Batch) -> None:
        _Row(batch).write(mode)

    module = batch_module(
        kind, symbol, _ARRAYS + 1, _NUMBERS, write, checked=True, members_of_tile=1
    )
    return "\n".join([module, *stage_functions(kind)])


class _Row:
    """The kernel on one row."""

    def __init__(self, batch: Batch) -> None:
        self.batch, self.f, self.t = batch, batch.f, batch.lanes
        self.kind, self.lanes = self.t.kind, self.t.kind.lanes
        rows, out, self.constants, self.stages, _, *numbers = batch.words
        self.n, self.wide, self.steps, self.first_count, self.second_count = numbers
        self.rows, self.out, self.odd = rows, out, Odd(self.t)
        f, vector = self.f, self.kind.vector
        self.pair = f"[2 x {vector}]"
        #: Vectors that whole squares of ``steps`` take, and that all frequencies do.
        self.room = f.make(f"and i64 {f.sum(self.steps, self.lanes - 1)}, -{self.lanes}")
        self.vectors = f.divided(f.sum(self.n, self.lanes), self.lanes)[0]
        self.here = batch.scratch
        self.there = f.at(self.here, self.room, self.pair)
        self.square = f.at(self.there, self.room, self.pair)
        self.other_square = f.at(self.square, self.lanes, self.pair)
        #: Real parts, then imaginary parts of a whole row: real rows are told apart there, or put together.
        self.re = f.at(self.other_square, self.lanes, self.pair)
        self.im = f.at(self.re, self.vectors, vector)

    def write(self, mode: str) -> None:
        """What is to be done with a row."""
        f, n = self.f, self.n
        after = f.sum(n, 1)
        before = after if mode == "to_real" else n
        behind = after if mode == "of_real" else n
        x = self._own(self.rows, before)
        self.result = self._own(self.out, behind)
        first = Stages(
            self.stages, self.first_count, self._scalar(self.constants, 2), self.constants
        )
        self.between = self._end_of_roots(self.stages, self.first_count, first.roots)
        self.real_roots = f.at(self.between, self.steps, self.pair)
        if mode == "to_real":
            self._put_together(x)
        else:
            self._take(x)
        found, _, _ = run_stages(self.t, first, self.here, self.there)
        self._multiply(found)
        self._second(found, mode)
        if mode == "of_real":
            self._tell_apart()
        self.odd.note(self.batch)

    # --- where things are ---------------------------------------------------------------------------

    def _scalar(self, array: str, index: str | int) -> str:
        return self.f.at(array, index, self.kind.scalar)

    def _own(self, array: str, elements: str) -> str:
        """Where the row begins, of so many complex elements."""
        return self._scalar(array, self.f.product(self.batch.first, self.f.sum(elements, elements)))

    def _end_of_roots(self, words: str, count: str, roots: str) -> str:
        """What is behind the roots of some stages."""
        f, end = self.f, self.f.variable("ptr", roots)
        with f.loop(0, count) as number:
            stage = f.at(words, f.product(number, 3), "i64")
            used = f.product(f.word(stage, 1), f.difference(f.word(stage, 0), 1))
            end.set(f.at(end.get(), used, f"[2 x {self.kind.scalar}]"))
        return end.get()

    def _vector(self, place: str, index: str | int) -> Lane:
        """A vector of numbers one after the other, wherever they begin."""
        return Lane(self.t, self.kind.load(self.f, self._scalar(place, index)))

    # --- pairs of complex elements --------------------------------------------------------------------

    def _pairs(self, at: str, bits: str, evens: list[int]) -> Complex:
        """Complex elements of memory, as many as there are lanes, of which only those of some bits are read.

        ``evens`` are the places of the real parts, in the order of the lanes.
        """
        f, kind = self.f, self.kind
        low, high = self._masks(bits)
        a = kind.masked_load(f, at, low)
        b = kind.masked_load(f, self._scalar(at, self.lanes), high)
        parts = [kind.shuffled(f, a, b, [lane + part for lane in evens]) for part in (0, 1)]
        return Complex(Lane(self.t, parts[0]), Lane(self.t, parts[1]))

    def _masks(self, bits: str) -> tuple[str, str]:
        """The masks of both vectors that hold pairs of numbers."""
        f = self.f
        high = f.make(f"lshr i64 {bits}, {self.lanes}")
        return self.kind.as_mask(f, bits), self.kind.as_mask(f, high)

    def _first(self, count: str) -> str:
        """The bits of the numbers of the first complex elements, of all lanes' where there are more."""
        few = self.f.least(count, self.lanes)
        return self.f.ones(self.f.sum(few, few))

    def _store(self, value: Complex, at: str, count: str) -> None:
        """Write the first elements, real parts and imaginary parts in turn; results that are not finite are noted."""
        f, kind, lanes = self.f, self.kind, self.lanes
        woven = [lane // 2 + lane % 2 * lanes for lane in range(lanes)]
        masks = self._masks(self._first(count))
        for half, mask in enumerate(masks):
            numbers = [lane + half * (lanes // 2) for lane in woven]
            part = kind.shuffled(f, value.re.ref, value.im.ref, numbers)
            kind.masked_store(f, part, self._scalar(at, half * lanes), mask)

    def _checked(self, value: Complex, count: str) -> None:
        """Note where some of the first elements are not finite."""
        inside = Truth(self.t, self.kind.first_mask(self.f, count))
        for part in (value.re, value.im):
            self.odd.unless_finite(inside.choose(part, self.t.number(0.0)))

    # --- steps --------------------------------------------------------------------------------------

    def _take(self, x: str) -> None:
        """The row as vectors of ``wide`` elements each."""
        f, numbers = self.f, Numbers(self.t, self.here)
        bits, evens = self._first(self.wide), list(range(0, 2 * self.lanes, 2))
        with f.loop(0, self.steps) as step:
            start = f.product(f.sum(self.wide, self.wide), step)
            numbers[step] = self._pairs(self._scalar(x, start), bits, evens)

    def _mirrored(self, place: str, k: str, count: str) -> Complex:
        """The conjugates of the elements as far from the end as k, k + 1 ... are from the start, so many of them."""
        f = self.f
        less = f.difference(self.lanes, f.least(count, self.lanes))
        bits = f.make(f"shl i64 {self._first(count)}, {f.sum(less, less)}")
        start = f.difference(f.difference(self.n, k), self.lanes - 1)
        evens = list(range(2 * self.lanes - 2, -1, -2))
        found = self._pairs(self._scalar(place, f.sum(start, start)), bits, evens)
        return Complex(found.re, -found.im)

    def _multiply(self, found: str) -> None:
        """Roots of unity between both transforms."""
        f, numbers, roots = self.f, Numbers(self.t, found), self.between
        with f.loop(0, self.steps) as k:
            at = f.at(roots, k, self.pair)
            re, im = (self._vector(at, part * self.lanes) for part in (0, 1))
            numbers[k] = numbers[k] * Complex(re, im)
        zero = Complex(self.t.number(0.0), self.t.number(0.0))
        with f.loop(self.steps, self.room) as k:
            numbers[k] = zero

    def _second(self, found: str, mode: str) -> None:
        """The transforms of ``wide`` elements, squares of vectors at a time."""
        f, kind, lanes = self.f, self.kind, self.lanes
        numbers, square = Numbers(self.t, found), Numbers(self.t, self.square)
        factor = constant(self.t, self.constants, 1)
        words = f.at(self.stages, f.product(self.first_count, 3), "i64")
        behind = f.product(self.vectors, 2)
        roots = f.at(self.real_roots, behind, kind.vector)
        with f.loop(0, self.steps, lanes) as start:
            rows = [numbers[f.sum(start, i)] for i in range(lanes)]
            re = kind.transposed(f, [row.re.ref for row in rows])
            im = kind.transposed(f, [row.im.ref for row in rows])
            for i in range(lanes):
                square[str(i)] = Complex(Lane(self.t, re[i]), Lane(self.t, im[i]))
            stages = Stages(words, self.second_count, roots, self.constants)
            last, _, _ = run_stages(self.t, stages, self.square, self.other_square)
            results, left = Numbers(self.t, last), f.difference(self.steps, start)
            with f.loop(0, self.wide) as k:
                place, value = f.sum(f.product(k, self.steps), start), results[k]
                if mode == "of_real":
                    self._keep(value, place, left)
                else:
                    value = value.times(factor)
                    self._checked(value, left)
                    self._store(value, self._scalar(self.result, f.sum(place, place)), left)

    def _keep(self, value: Complex, place: str, count: str) -> None:
        mask = self.kind.first_mask(self.f, count)
        for part, array in ((value.re, self.re), (value.im, self.im)):
            self.kind.masked_store(self.f, part.ref, self._scalar(array, place), mask)

    # --- real rows ----------------------------------------------------------------------------------

    def _root(self, k: str, count: str) -> Complex:
        """Roots of unity of real rows, from frequency k on."""
        f, kind = self.f, self.kind
        mask = kind.first_mask(f, count)
        imaginary = f.at(self.real_roots, self.vectors, kind.vector)
        parts = [
            kind.masked_load(f, self._scalar(array, k), mask)
            for array in (self.real_roots, imaginary)
        ]
        return Complex(Lane(self.t, parts[0]), Lane(self.t, parts[1]))

    def _put_together(self, x: str) -> None:
        """The elements whose transform is that of a real row, from half a spectrum, as vectors of ``wide`` each.

        The imaginary parts of its first and its last frequency are not looked at.
        """
        f, numbers = self.f, Numbers(self.t, self.here)
        bits, evens = self._first(self.wide), list(range(0, 2 * self.lanes, 2))
        with f.loop(0, self.steps) as step:
            k = f.product(self.wide, step)
            a = self._pairs(self._scalar(x, f.sum(k, k)), bits, evens)
            b = self._mirrored(x, k, self.wide)
            end = Truth(
                self.t, self.kind.first_mask(f, f.make(f"zext i1 {f.compare('eq', k, 0)} to i64"))
            )
            a, b = (Complex(z.re, end.choose(self.t.number(0.0), z.im)) for z in (a, b))
            numbers[step] = a + b + (a - b) * self._root(k, self.wide)

    def _tell_apart(self) -> None:
        """Half a spectrum from the transform of a real row's even elements and odd ones as complex numbers."""
        f, t, n = self.f, self.t, self.n
        for array in (self.re, self.im):
            first = f.make(f"load {self.kind.scalar}, ptr {array}")
            f.add(f"store {self.kind.scalar} {first}, ptr {self._scalar(array, n)}")
        half = constant(t, self.constants, 1) * t.number(0.5)
        end = f.sum(n, 1)
        with f.loop(0, end, self.lanes) as k:
            left = f.difference(end, k)
            a = Complex(self._vector(self.re, k), self._vector(self.im, k))
            re, im = (self._backwards(array, k, left) for array in (self.re, self.im))
            b = Complex(re, -im)
            value = (a + b + (a - b) * self._root(k, left)).times(half)
            self._checked(value, left)
            self._store(value, self._scalar(self.result, f.sum(k, k)), left)

    def _backwards(self, array: str, k: str, count: str) -> Lane:
        """The numbers as far from the end as k, k + 1 ... are from the start, so many of them."""
        f, kind = self.f, self.kind
        few = f.least(count, self.lanes)
        bits = f.make(f"shl i64 {f.ones(few)}, {f.difference(self.lanes, few)}")
        start = f.difference(f.difference(self.n, k), self.lanes - 1)
        found = kind.masked_load(f, self._scalar(array, start), kind.as_mask(f, bits))
        turned = kind.shuffled(f, found, found, list(range(self.lanes - 1, -1, -1)))
        return Lane(self.t, turned)
