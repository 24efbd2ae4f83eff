"""Small matrices taken apart side by side: triangular factors, and what follows from them.

Rows are exchanged as LAPACK says: the pivot is the first of the largest elements of a column. A matrix that needs an
exception (a pivot of zero, a result that is no finite number) is marked as *odd*; somebody else is to look at it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from .batches import Batch
from .lanes import Lane, Lanes, Rows, Truth

__all__ = ["FACTORS", "Odd"]


class Odd:
    """Which matrices need an exception."""

    def __init__(self, t: Lanes) -> None:
        self.t, self.sum = t, t.changing(t.number(0.0))

    def unless_finite(self, value: Lane) -> None:
        """It is where a value is not: zero times that is no number."""
        self.sum.set(self.t.fused(value, self.t.number(0.0), self.sum.get()))

    def unless_moderate(self, pivot: Lane) -> None:
        """It is where a pivot is so small or so large, but not zero, that quotients lose digits or vanish."""
        t, size = self.t, abs(pivot)
        limit = 2.0**100 if t.kind.nbytes == 4 else 2.0**960
        small = (size < t.number(1 / limit)) & (size > t.number(0.0))
        self.where(small | size.is_not("lt", t.number(limit)))

    def where(self, truth: Truth) -> None:
        """It is where something holds."""
        no_number, so_far = self.t.number(float("nan")), self.sum.get()
        self.sum.set(truth.choose(no_number, so_far))

    def note(self, batch: Batch, array: str = "") -> None:
        """Write a one for each such matrix, a zero for the others; or, in checked kernels, say that there is one."""
        odd = self.sum.get().is_not("eq", self.t.number(0.0))
        if batch.failed:
            with batch.f.when(odd.anywhere()):
                batch.f.add(f"store i32 1, ptr {batch.failed}")
            return
        found = odd.choose(self.t.number(1.0), self.t.number(0.0))
        at = batch.f.at(array, batch.first, self.t.kind.scalar)
        batch.f.add(f"store {self.t.kind.vector} {found.ref}, ptr {at}, align {self.t.kind.nbytes}")


class _Exchanged:
    """What is done to all rows that a pivot moves."""

    def __init__(self, t: Lanes, wholes: Sequence[tuple[Rows, str | int]]) -> None:
        self.t, self.wholes = t, wholes

    def exchange(self, k: str, other: str, place: Lane) -> None:
        """Exchange row k and another one where that is the pivot's."""
        f, here = self.t.f, place.equals(self.t.counted(other))
        with f.when(here.anywhere()):
            for rows, columns in self.wholes:
                top, low = rows[k], rows[other]
                with f.loop(0, columns) as j:
                    a, b = top[j], low[j]
                    top[j], low[j] = here.choose(b, a), here.choose(a, b)


def _pivot(t: Lanes, a: Rows, k: str, rows: str) -> Lane:
    """Where the largest element of column k is, from row k on."""
    best, place = t.changing(abs(a[k][k])), t.changing(t.counted(k))
    with t.f.loop(t.f.sum(k, 1), rows) as i:
        value, so_far = abs(a[i][k]), best.get()
        larger = value > so_far
        best.set(larger.choose(value, so_far))
        place.set(larger.choose(t.counted(i), place.get()))
    return place.get()


def _reciprocal(t: Lanes, pivot: Lane) -> Lane:
    """One through the pivot; one where that is zero, for then there is nothing below it."""
    one = t.number(1.0)
    return pivot.equals(t.number(0.0)).choose(one, one / pivot)


def _eliminate(
    t: Lanes,
    a: Rows,
    shape: tuple[str, str],
    others: Sequence[tuple[Rows, str | int]],
    seen: Callable[[str, Lane], None],
) -> None:
    """L (without its diagonal of ones) and U in place of a matrix, and what is right of it taken along.

    ``seen`` is called with the number of each column and the row of its pivot.
    """
    f, (rows, columns) = t.f, shape
    exchanged = _Exchanged(t, [(a, columns), *others])
    with f.loop(0, f.least(rows, columns)) as k:
        place = _pivot(t, a, k, rows)
        after = f.sum(k, 1)
        with f.loop(after, rows) as i:
            exchanged.exchange(k, i, place)
        seen(k, place)
        top = a[k]
        tops = [(left[k], count) for left, count in others]
        through = _reciprocal(t, top[k])
        with f.loop(after, rows) as i:
            row = a[i]
            factor = row[k] * through
            row[k] = factor
            less = -factor
            with f.loop(after, columns) as j:
                row[j] = t.fused(less, top[j], row[j])
            for (left, _), (first, count) in zip(others, tops, strict=True):
                low = left[i]
                with f.loop(0, count) as j:
                    low[j] = t.fused(less, first[j], low[j])


def _substitute(t: Lanes, a: Rows, b: Rows, n: str, columns: str | int, odd: Odd) -> None:
    """``a`` is upper triangular: the solution in place of b."""
    f = t.f
    with f.loop(0, n) as back:
        k = f.difference(f.difference(n, 1), back)
        pivot, low = a[k][k], b[k]
        odd.unless_moderate(pivot)
        odd.where(pivot.equals(t.number(0.0)))
        with f.loop(0, columns) as j:
            value = low[j] / pivot
            low[j] = value
            odd.unless_finite(value)
        with f.loop(0, k) as i:
            less, row = -a[i][k], b[i]
            with f.loop(0, columns) as j:
                row[j] = t.fused(less, low[j], row[j])


def _nothing(k: str, place: Lane) -> None:
    del k, place


def _inverse(batch: Batch) -> None:
    """Arrays: matrices, inverses, which are odd. Numbers: rows."""
    given, out, marks, n = batch.words
    f, t = batch.f, batch.lanes
    a, place = batch.square(given, n)
    b, odd = Rows(t, place, n), Odd(t)
    with f.loop(0, n) as i:
        row = b[i]
        with f.loop(0, n) as j:
            row[j] = t.number(0.0)
        row[i] = t.number(1.0)
    _eliminate(t, a, (n, n), [(b, n)], _nothing)
    _substitute(t, a, b, n, n, odd)
    batch.give(place, f.product(n, n), out)
    odd.note(batch, marks)


def _solution(batch: Batch) -> None:
    """Arrays: matrices, right hand sides, solutions, which are odd. Numbers: rows, columns on the right."""
    given, right, out, marks, n, columns = batch.words
    f, t = batch.f, batch.lanes
    a, place = batch.square(given, n)
    b, odd, elements = Rows(t, place, columns), Odd(t), f.product(n, columns)
    batch.take(right, elements, place)
    _eliminate(t, a, (n, n), [(b, columns)], _nothing)
    _substitute(t, a, b, n, columns, odd)
    batch.give(place, elements, out)
    odd.note(batch, marks)


class _ColumnTile:
    """Some columns of the right hand side of one system, a lane for each; the matrix is the same in all lanes."""

    def __init__(self, batch: Batch, n: str, columns: str) -> None:
        f, lanes = batch.f, batch.lanes.kind.lanes
        self.batch, self.n, self.columns = batch, n, columns
        tile = f.divided(batch.first, lanes)[0]
        self.system, number = f.divided(tile, f.quotient_up(columns, lanes))
        self.column = f.product(number, lanes)
        self.mask = batch.lanes.kind.first_mask(f, f.difference(columns, self.column))

    def matrix(self, array: str) -> Rows:
        """The matrix, at the beginning of the scratch memory."""
        batch, n, t = self.batch, self.n, self.batch.lanes
        f, elements = batch.f, batch.f.product(self.n, self.n)
        own = f.at(array, f.product(self.system, elements), t.kind.scalar)
        whole = Rows(t, batch.scratch, elements)[0]
        with f.loop(0, elements) as e:
            whole[e] = Lane(t, t.kind.number(f, f.at(own, e, t.kind.scalar)))
        return Rows(t, batch.scratch, n)

    def right(self, array: str) -> Rows:
        """The columns, behind the matrix."""
        t = self.batch.lanes
        rows = Rows(t, self.batch.room(self.batch.f.product(self.n, self.n)), 1)
        with self.batch.f.loop(0, self.n) as i:
            value = t.kind.masked_load(self.batch.f, self._row(array, i), self.mask)
            rows[i][0] = Lane(t, value)
        return rows

    def give(self, rows: Rows, array: str) -> None:
        """Put the columns back."""
        f, kind = self.batch.f, self.batch.lanes.kind
        with f.loop(0, self.n) as i:
            kind.masked_store(f, rows[i][0].ref, self._row(array, i), self.mask)

    def _row(self, array: str, i: str) -> str:
        f = self.batch.f
        row = f.sum(f.product(self.system, self.n), i)
        return f.at(
            array, f.sum(f.product(row, self.columns), self.column), self.batch.lanes.kind.scalar
        )


def _solution_of_columns(batch: Batch) -> None:
    """As `_solution`, of few systems with many columns."""
    given, right, out, marks, n, columns = batch.words
    tile, t = _ColumnTile(batch, n, columns), batch.lanes
    a, b, odd = tile.matrix(given), tile.right(right), Odd(t)
    _eliminate(t, a, (n, n), [(b, 1)], _nothing)
    _substitute(t, a, b, n, 1, odd)
    tile.give(b, out)
    odd.note(batch, marks)


def _triangular_factors(batch: Batch, regular: bool = False) -> None:
    """Arrays: matrices, factors with exchanges (from one) in a last column, which are odd. Numbers: rows, columns.

    Where matrices are to be ``regular``, those with a pivot of zero are odd, too.
    """
    given, out, marks, rows, columns = batch.words
    f, t = batch.f, batch.lanes
    elements = f.product(rows, columns)
    batch.take(given, elements, batch.scratch)
    a, place = Rows(t, batch.scratch, columns), batch.room(batch.room_of(elements))
    wide = f.sum(columns, 1)
    packed, odd = Rows(t, place, wide), Odd(t)
    with f.loop(0, rows) as i:
        packed[i][columns] = t.number(0.0)

    def seen(k: str, place: Lane) -> None:
        packed[k][columns] = place + t.number(1.0)

    _eliminate(t, a, (rows, columns), [], seen)
    with f.loop(0, rows) as i:
        row, found = a[i], packed[i]
        with f.loop(0, columns) as j:
            value = row[j]
            found[j] = value
            odd.unless_finite(value)
    with f.loop(0, f.least(rows, columns)) as i:
        odd.unless_moderate(a[i][i])
        if regular:
            odd.where(a[i][i].equals(t.number(0.0)))
    batch.give(place, f.product(rows, wide), out)
    odd.note(batch, marks)


def _determinant(batch: Batch) -> None:
    """Arrays: matrices, determinants, which are odd. Numbers: rows."""
    given, out, marks, n = batch.words
    f, t = batch.f, batch.lanes
    a, place = batch.square(given, n)
    odd, zero = Odd(t), t.number(0.0)
    product, singular = t.changing(t.number(1.0)), t.changing(t.number(1.0))

    def seen(k: str, place: Lane) -> None:
        now = product.get()
        product.set(place.equals(t.counted(k)).choose(now, -now))

    _eliminate(t, a, (n, n), [], seen)
    with f.loop(0, n) as i:
        pivot = a[i][i]
        product.set(product.get() * pivot)
        singular.set(pivot.equals(zero).choose(zero, singular.get()))
        odd.unless_moderate(pivot)
    found = product.get()
    small = t.number(2.0**-100 if t.kind.nbytes == 4 else 2.0**-900)
    odd.unless_finite(found)
    odd.where((abs(found) < small) & (singular.get() > zero))
    Rows(t, place, 1)[0][0] = found
    batch.give(place, 1, out)
    odd.note(batch, marks)


def _triangle(batch: Batch) -> None:
    """Arrays: triangular matrices, right hand sides, solutions. Numbers: rows, columns on the right, one if lower."""
    given, right, out, n, columns, lower = batch.words
    f, t = batch.f, batch.lanes
    a, place = batch.square(given, n)
    b, elements = Rows(t, place, columns), f.product(n, columns)
    batch.take(right, elements, place)
    first = f.compare("ne", lower, 0)
    with f.loop(0, n) as done:
        back = f.difference(f.difference(n, 1), done)
        k = f.make(f"select i1 {first}, i64 {done}, i64 {back}")
        pivot, low = a[k][k], b[k]
        with f.loop(0, columns) as j:
            low[j] = low[j] / pivot
        start = f.make(f"select i1 {first}, i64 {f.sum(k, 1)}, i64 0")
        stop = f.make(f"select i1 {first}, i64 {n}, i64 {k}")
        with f.loop(start, stop) as i:
            less, row = -a[i][k], b[i]
            with f.loop(0, columns) as j:
                row[j] = t.fused(less, low[j], row[j])
    batch.give(place, elements, out)


def _root(batch: Batch) -> None:
    """Arrays: matrices, Cholesky's factors, which are odd. Numbers: rows."""
    given, out, marks, n = batch.words
    f, t = batch.f, batch.lanes
    a, _ = batch.square(given, n)
    odd = Odd(t)
    with f.loop(0, n) as k:
        after, top = f.sum(k, 1), a[k]
        root = top[k].root()
        top[k] = root
        through = t.number(1.0) / root
        odd.unless_moderate(root)
        odd.where(root.is_not("gt", t.number(0.0)))
        with f.loop(after, n) as i:
            row = a[i]
            row[k] = row[k] * through
            top[i] = t.number(0.0)
        with f.loop(after, n) as i:
            row = a[i]
            less = -row[k]
            with f.loop(after, f.sum(i, 1)) as j:
                row[j] = t.fused(less, a[j][k], row[j])
    batch.give(batch.scratch, f.product(n, n), out)
    odd.note(batch, marks)


#: What there is: arrays, numbers, and what writes it.
FACTORS: dict[str, tuple[int, int, Callable[[Batch], None]]] = {
    "inv": (3, 1, _inverse),
    "solve": (4, 2, _solution),
    "solve_columns": (4, 2, _solution_of_columns),
    "lu": (3, 2, _triangular_factors),
    "lu_regular": (3, 2, partial(_triangular_factors, regular=True)),
    "det": (3, 1, _determinant),
    "cholesky": (3, 1, _root),
    "triangle": (3, 3, _triangle),
}
