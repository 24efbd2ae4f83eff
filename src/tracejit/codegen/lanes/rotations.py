"""Small matrices taken apart side by side: orthogonal factors, eigenvalues of symmetric ones, singular values.

QR is Householder's, with LAPACK's signs. Eigenvalues and singular values are Jacobi's: rotations, each of which makes
one pair of columns orthogonal, sweep over all pairs until nothing is left to do. That is as accurate as LAPACK's
reduction to fewer diagonals and needs no decisions but when to end, which every lane makes for itself: a matrix that
is done is left alone, so that its result does not depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .batches import Batch
from .factors import Odd
from .lanes import Changing, Lane, Lanes, Rows, Truth

__all__ = ["ROTATIONS"]

#: Sweeps after which a matrix is left to somebody else: matrices of 32 rows take ten.
_SWEEPS = 30


def _precision(t: Lanes) -> float:
    return 2.0**-23 if t.kind.nbytes == 4 else 2.0**-52


def _extreme(t: Lanes) -> float:
    """Numbers whose squares, and those of its reciprocal, neither overflow nor vanish."""
    return 2.0**40 if t.kind.nbytes == 4 else 2.0**400


def _unless_moderate(odd: Odd, size: Lane) -> None:
    """Note a matrix that overflows or vanishes where it is squared; zeros alone do neither."""
    t = size.of
    limit, zero = _extreme(t), t.number(0.0)
    odd.where(size.is_not("lt", t.number(limit)))
    odd.where((size > zero) & (size < t.number(1.0 / limit)))


def _largest(t: Lanes, rows: Rows, m: str, n: str) -> Lane:
    """The largest size of an element; no number where one is none."""
    best = t.changing(t.number(0.0))
    with t.f.loop(0, m) as i:
        row = rows[i]
        with t.f.loop(0, n) as j:
            size, so_far = abs(row[j]), best.get()
            keeps = size < so_far
            best.set(keeps.choose(so_far, size + so_far * t.number(0.0)))
    return best.get()


def _identity(t: Lanes, rows: Rows, m: str, n: str) -> None:
    """Ones on the diagonal, of so many rows and columns (not fewer rows)."""
    with t.f.loop(0, m) as i:
        row = rows[i]
        with t.f.loop(0, n) as j:
            row[j] = t.number(0.0)
    with t.f.loop(0, n) as i:
        rows[i][i] = t.number(1.0)


# --- orthogonal factors -------------------------------------------------------------------------


def _reflection(t: Lanes, a: Rows, k: str, m: str, odd: Odd) -> Lane:
    """What is below the diagonal of column k becomes zero by a reflection; its vector takes that place.

    Gives its weight, zero where there was nothing below.
    """
    f, zero, one = t.f, t.number(0.0), t.number(1.0)
    squares, sizes = t.changing(zero), t.changing(zero)
    with f.loop(f.sum(k, 1), m) as i:
        value = a[i][k]
        squares.set(t.fused(value, value, squares.get()))
        sizes.set(sizes.get() + abs(value))
    top, below = a[k], sizes.get()
    first = top[k]
    nothing = below.equals(zero)
    size = abs(first) + below
    _unless_moderate(odd, size)
    length = t.fused(first, first, squares.get()).root()
    turned = (first < zero).choose(length, -length)
    kept = nothing.choose(first, turned)
    weight = nothing.choose(zero, (turned - first) / turned)
    through = nothing.choose(zero, one / (first - turned))
    with f.loop(f.sum(k, 1), m) as i:
        row = a[i]
        row[k] = row[k] * through
    top[k] = kept
    return weight


def _reflect(
    t: Lanes, a: Rows, k: str, m: str, weight: Lane, right: tuple[Rows, str, str], sums: Rows
) -> None:
    """Apply the reflection of column k of ``a`` to columns of another matrix (from one number up to another)."""
    f, (b, start, stop), own = t.f, right, sums[0]
    top, after = b[k], f.sum(k, 1)
    with f.loop(start, stop) as j:
        own[j] = top[j]
    with f.loop(after, m) as i:
        factor, row = a[i][k], b[i]
        with f.loop(start, stop) as j:
            own[j] = t.fused(factor, row[j], own[j])
    with f.loop(start, stop) as j:
        own[j] = own[j] * weight
        top[j] = top[j] - own[j]
    with f.loop(after, m) as i:
        less, row = -a[i][k], b[i]
        with f.loop(start, stop) as j:
            row[j] = t.fused(less, own[j], row[j])


def _orthogonal_factors(batch: Batch) -> None:
    """Arrays: matrices, Q above R, which are odd. Numbers: rows, columns (not more)."""
    given, out, marks, m, n = batch.words
    f, t = batch.f, batch.lanes
    elements = f.product(m, n)
    batch.take(given, elements, batch.scratch)
    a, behind = Rows(t, batch.scratch, n), batch.room_of(elements)
    packed, odd = Rows(t, batch.room(behind), n), Odd(t)
    sums = Rows(t, batch.room(f.sum(behind, f.product(f.sum(m, n), n))), n)
    weights = sums[1]
    with f.loop(0, n) as k:
        weights[k] = weight = _reflection(t, a, k, m, odd)
        _reflect(t, a, k, m, weight, (a, f.sum(k, 1), n), sums)
    with f.loop(0, n) as i:
        row, found = a[i], packed[f.sum(m, i)]
        with f.loop(0, i) as j:
            found[j] = t.number(0.0)
        with f.loop(i, n) as j:
            found[j] = row[j]
            odd.unless_finite(row[j])
    _identity(t, packed, m, n)
    with f.loop(0, n) as back:
        k = f.difference(f.difference(n, 1), back)
        _reflect(t, a, k, m, weights[k], (packed, k, n), sums)
    batch.give(packed.place, f.product(f.sum(m, n), n), out)
    odd.note(batch, marks)


# --- rotations ----------------------------------------------------------------------------------


class Rotation:
    """A rotation: small ones change little, which is rounded little (Rutishauser 1966)."""

    def __init__(self, tangent: Lane) -> None:
        t, one = tangent.of, tangent.of.number(1.0)
        cosine = one / t.fused(tangent, tangent, one).root()
        self.tangent, self.sine = tangent, tangent * cosine
        self.less, self.half = -self.sine, self.sine / (one + cosine)
        self.less_half = -self.half

    def of(self, x: Lane, y: Lane) -> tuple[Lane, Lane]:
        """Both numbers turned."""
        t = x.of
        return (
            t.fused(self.less, t.fused(self.half, x, y), x),
            t.fused(self.sine, t.fused(self.less_half, y, x), y),
        )


class _Sweeps:
    """Which matrices are not done, from sweep to sweep."""

    def __init__(self, t: Lanes) -> None:
        self.t = t
        self.left: Changing = t.changing(t.number(1.0))
        self.moved: Changing = t.changing(t.number(0.0))

    @contextmanager
    def pairs(self, n: str, odd: Odd) -> Iterator[tuple[str, str]]:
        """Pairs of columns, again and again until all matrices are done."""
        f, t = self.t.f, self.t
        sweep = f.variable("i64", 0)
        with f.as_long(sweep, _SWEEPS) as number:
            self.moved.set(t.number(0.0))
            with f.loop(0, n) as p, f.loop(f.sum(p, 1), n) as q:
                yield p, q
            self.left.set(self.moved.get())
            sweep.set(f.sum(number, 1))
            more = (self.left.get() > t.number(0.0)).anywhere()
            sweep.set(f.make(f"select i1 {more}, i64 {sweep.get()}, i64 {_SWEEPS}"))
        odd.where(self.left.get() > t.number(0.0))

    def rotation(self, apart: Lane, mixed: Lane, large: Truth) -> Rotation:
        """What takes the product ``mixed`` of a pair away, where it is large and there is work left.

        ``apart`` is how much the second of the two has on the diagonal more than the first.
        """
        t = self.t
        one, zero = t.number(1.0), t.number(0.0)
        turns = large & (self.left.get() > zero)
        self.moved.set(turns.choose(one, self.moved.get()))
        ratio = apart / (mixed + mixed)
        tangent = one / (abs(ratio) + t.fused(ratio, ratio, one).root())
        signed = (ratio < zero).choose(-tangent, tangent)
        return Rotation(turns.choose(signed, zero))


def _turn(t: Lanes, a: Rows, pair: tuple[str, str], n: str, rotation: Rotation) -> None:
    """Rotate two rows."""
    first, second = a[pair[0]], a[pair[1]]
    with t.f.loop(0, n) as r:
        first[r], second[r] = rotation.of(first[r], second[r])


def _in_order(
    t: Lanes, values: Rows, rows: list[tuple[Rows, str]], n: str, descending: bool
) -> None:
    """Sort values, and rows of matrices with them, by exchanging neighbours."""
    f, own = t.f, values[0]
    with f.loop(0, n) as done, f.loop(1, f.difference(n, done)) as j:
        i = f.difference(j, 1)
        a, b = own[i], own[j]
        wrong = (a < b) if descending else (b < a)
        with f.when(wrong.anywhere()):
            own[i], own[j] = wrong.choose(b, a), wrong.choose(a, b)
            for matrix, count in rows:
                first, second = matrix[i], matrix[j]
                with f.loop(0, count) as r:
                    x, y = first[r], second[r]
                    first[r], second[r] = wrong.choose(y, x), wrong.choose(x, y)


def _eigenvalues(batch: Batch) -> None:
    """Arrays: symmetric matrices (lower triangle), values above vectors (columns), which are odd. Numbers: rows."""
    given, out, marks, n = batch.words
    f, t = batch.f, batch.lanes
    a, place = batch.square(given, n)
    elements = f.product(n, n)
    turned = Rows(t, place, n)
    packed = Rows(t, f.at(place, elements, t.kind.vector), n)
    odd, sweeps = Odd(t), _Sweeps(t)
    with f.loop(0, n) as i:
        row = a[i]
        with f.loop(0, i) as j:
            a[j][i] = row[j]
    _identity(t, turned, n, n)
    size = _largest(t, a, n, n)
    _unless_moderate(odd, size)
    least = size * t.number(_precision(t) / 4)
    with sweeps.pairs(n, odd) as (p, q):
        first, second = a[p], a[q]
        top, low, mixed = first[p], second[q], first[q]
        rotation = sweeps.rotation(low - top, mixed, abs(mixed) > least)
        with f.loop(0, n) as r:
            across = a[r]
            first[r], second[r] = across[p], across[q] = rotation.of(first[r], second[r])
        moved, zero = rotation.tangent * mixed, t.number(0.0)
        first[p], second[q] = top - moved, low + moved
        left = rotation.tangent.equals(zero).choose(mixed, zero)
        first[q] = second[p] = left
        _turn(t, turned, (p, q), n, rotation)
    values = packed[0]
    with f.loop(0, n) as i:
        values[i] = a[i][i]
    _in_order(t, packed, [(turned, n)], n, descending=False)
    with f.loop(0, n) as i:
        row = turned[i]
        with f.loop(0, n) as j:
            packed[f.sum(j, 1)][i] = row[j]
    batch.give(packed.place, f.sum(elements, n), out)
    odd.note(batch, marks)


def _products(t: Lanes, a: Rows, pair: tuple[str, str], m: str) -> tuple[Lane, Lane, Lane]:
    """The products of two rows with themselves and each other."""
    first, second = a[pair[0]], a[pair[1]]
    sums = [t.changing(t.number(0.0)) for _ in range(3)]
    with t.f.loop(0, m) as r:
        x, y = first[r], second[r]
        for total, (b, c) in zip(sums, ((x, x), (y, y), (x, y)), strict=True):
            total.set(t.fused(b, c, total.get()))
    return sums[0].get(), sums[1].get(), sums[2].get()


def _singular_values(batch: Batch) -> None:
    """Arrays: matrices, U above the values above V^T, which are odd. Numbers: rows, columns (not more)."""
    given, out, marks, m, n = batch.words
    f, t = batch.f, batch.lanes
    elements = f.product(m, n)
    batch.take(given, elements, batch.scratch)
    a, behind = Rows(t, batch.scratch, n), batch.room_of(elements)
    columns = Rows(t, batch.room(behind), m)
    behind = f.sum(behind, elements)
    turned = Rows(t, batch.room(behind), n)
    packed = Rows(t, batch.room(f.sum(behind, f.product(n, n))), n)
    odd, sweeps = Odd(t), _Sweeps(t)
    with f.loop(0, m) as i:
        row = a[i]
        with f.loop(0, n) as j:
            columns[j][i] = row[j]
    _identity(t, turned, n, n)
    _unless_moderate(odd, _largest(t, a, m, n))
    rounding = t.counted(m).root() * t.number(_precision(t))
    with sweeps.pairs(n, odd) as (p, q):
        left, right, mixed = _products(t, columns, (p, q), m)
        large = abs(mixed) > rounding * (left.root() * right.root())
        rotation = sweeps.rotation(right - left, mixed, large)
        _turn(t, columns, (p, q), m, rotation)
        _turn(t, turned, (p, q), n, rotation)
    own = packed[m]
    with f.loop(0, n) as j:
        squares, column = t.changing(t.number(0.0)), columns[j]
        with f.loop(0, m) as i:
            squares.set(t.fused(column[i], column[i], squares.get()))
        size = squares.get()
        own[j] = size.root()
        odd.where(size.is_not("gt", t.number(_extreme(t) ** -3)))
    _in_order(t, Rows(t, own.place, n), [(columns, m), (turned, n)], n, descending=True)
    with f.loop(0, n) as j:
        column, value, row, found = columns[j], own[j], turned[j], packed[f.sum(f.sum(m, 1), j)]
        with f.loop(0, m) as i:
            packed[i][j] = column[i] / value
        with f.loop(0, n) as i:
            found[i] = row[i]
    batch.give(packed.place, f.sum(elements, f.product(n, f.sum(n, 1))), out)
    odd.note(batch, marks)


#: What there is: arrays, numbers, and what writes it.
ROTATIONS: dict[str, tuple[int, int, Callable[[Batch], None]]] = {
    "qr": (3, 2, _orthogonal_factors),
    "eigh": (3, 1, _eigenvalues),
    "svd": (3, 2, _singular_values),
}
