"""What the taps of a convolution see from positions, as three dimensions and the words of native steps."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import gcd
from typing import Any, NamedTuple

from ...ir.graph import Value
from ...ops.taps import tap_weights
from ...passes.windows.strips import equal
from ...types import Shape

__all__ = ["Part", "Seen", "parts_of", "seen_by"]

Three = tuple[Any, Any, Any]


class Seen(NamedTuple):
    """Positions ``counts``, ``stride`` apart, the first of which sees ``low + distances``, of an array of ``size``.

    Planes and lines are copied ``every`` elements apart; columns in phases.
    """

    counts: Three
    size: Three
    low: Three
    stride: tuple[int, int, int]
    distances: tuple[tuple[int, ...], ...]
    every: tuple[int, int]

    @property
    def steps(self) -> tuple[int, int]:
        """From one position to the next, in planes and in lines that are copied."""
        return self.stride[0] // self.every[0], self.stride[1] // self.every[1]

    @property
    def reach(self) -> tuple[int, int]:
        """Planes and lines that one position looks at."""
        planes, lines = (max(d) // n + 1 for d, n in zip(self.distances, self.every, strict=False))
        return planes, lines

    @property
    def phases(self) -> int:
        """How many of the phases of columns are looked at."""
        return max(d % self.stride[2] for d in self.distances[2]) + 1

    @property
    def shift(self) -> int:
        """How far in its phase a tap is at most."""
        return max(self.distances[2]) // self.stride[2]

    def lines_of(self, taps: Sequence[int]) -> list[int]:
        """The lines that taps with these numbers see, of those that are copied."""
        return sorted(self.distances[1][t] // self.every[1] for t in taps)

    def places(self, lines: Any, width: Any) -> list[Any]:
        """Where each tap is in a copy of so many lines a plane, whose phases have so many columns."""
        row, apart = self.phases * width, self.stride[2]
        planes = [d // self.every[0] * lines * row for d in self.distances[0]]
        rows = [d // self.every[1] * row for d in self.distances[1]]
        columns = [d % apart * width + d // apart for d in self.distances[2]]
        return [sum(at) for at in itertools.product(planes, rows, columns)]

    def flat(self, strides: Shape) -> Seen:
        """The same with one long line, where each position sees one element, and lines follow each other."""
        whole = equal(self.counts[1:], self.size[1:]) and equal(self.low[1:], (0, 0))
        alone = self.distances[1:] == ((0,), (0,)) and self.stride[1:] == (1, 1)
        if not (alone and whole and len(strides) > 3 and equal(strides[-2], self.size[2])):
            return self
        counts, size = (
            (planes, 1, lines * columns) for planes, lines, columns in (self.counts, self.size)
        )
        return self._replace(counts=counts, size=size)

    def words(self, strides: Shape) -> list[Any]:
        """The words of `SEEN_WORDS`, given the strides of (samples, channels, *size)."""
        return [*self.size, *_three(strides, 2, 0)[:4], *self.low, *self.stride, *self.every]


class Part(NamedTuple):
    """One phase of the result: the taps that give something to it, by their numbers along each dimension."""

    phase: tuple[int, ...]
    taps: tuple[tuple[int, ...], ...]


def _three(given: Sequence[Any], kept: int, missing: Any) -> tuple[Any, ...]:
    """Three dimensions after the first ``kept`` numbers."""
    return (*given[:kept], *(missing,) * (3 + kept - len(given)), *given[kept:])


def _seen(size: Shape, counts: Shape, low: Shape, stride: Shape, distances: Any) -> Seen:
    nearest = [min(d) for d in distances]
    low = tuple(a + n for a, n in zip(low, nearest, strict=True))
    distances = [tuple(i - n for i in d) for d, n in zip(distances, nearest, strict=True)]
    apart, far = _three(stride, 0, 1), _three(distances, 0, (0,))
    every = tuple(gcd(apart[dim], *far[dim]) for dim in range(2))
    return Seen(
        _three(counts, 0, 1),
        _three(size, 0, 1),
        _three(low, 0, 0),
        apart,
        far,
        every,  # type: ignore[arg-type]
    )


def seen_by(value: Value) -> Seen:
    """What positions see of the first operand; of results in phases, what those of a phase see.

    >>> from tracejit.dtypes import float32
    >>> from tracejit.ops.taps import tap_products
    >>> from tracejit.types import TensorType
    >>> x, w = Value(TensorType((1, 2, 9), float32)), Value(TensorType((4, 2, 3), float32))
    >>> made = {"distances": ((0, 1, 2),), "low": (-1,), "stride": (2,), "spread": (1,), "counts": (5,)}
    >>> found = seen_by(Value(TensorType((1, 4, 5), float32), tap_products, (x, w), made))
    >>> found.counts, found.low, found.phases, found.places(1, 6)
    ((1, 1, 5), (0, 0, -1), 2, [0, 6, 1])
    """
    given, size = value.attributes, value.value_operands[0].spec.shape[2:]
    counts, low, distances = given["counts"], given["low"], given["distances"]
    if value.op is tap_weights or all(s == 1 for s in given["spread"]):
        return _seen(size, counts, low, given["stride"], distances)
    found: list[Any] = []
    for dim, s in enumerate(given["spread"]):
        if s == 1:
            found.append((counts[dim], low[dim], distances[dim]))
            continue
        reach = max(distances[dim])
        before = low[dim] + reach
        start, back = before // s, [(reach - d) // s for d in distances[dim]]
        end = -(-(before + counts[dim]) // s)
        found.append((end - start, start - max(back), tuple(max(back) - n for n in back)))
    some, first, far = (tuple(column) for column in zip(*found, strict=True))
    return _seen(size, some, first, given["stride"], far)


def parts_of(value: Value) -> tuple[list[Part], tuple[Any, ...]]:
    """The phases of a result of `tap_products`, the last dimension's next to each other, and the first ones' numbers.

    >>> from tracejit.dtypes import float32
    >>> from tracejit.ops.taps import tap_products
    >>> from tracejit.types import TensorType
    >>> y, w = Value(TensorType((1, 2, 4), float32)), Value(TensorType((4, 2, 3), float32))
    >>> made = {"distances": ((2, 1, 0),), "low": (-1,), "stride": (1,), "spread": (2,), "counts": (8,)}
    >>> parts_of(Value(TensorType((1, 4, 8), float32), tap_products, (y, w), made))
    ([Part(phase=(0,), taps=((0, 2),)), Part(phase=(1,), taps=((1,),))], (1,))
    """
    given = value.attributes
    chosen, first = [], []
    for s, low, distances in zip(given["spread"], given["low"], given["distances"], strict=True):
        reach = max(distances)
        chosen.append(
            [tuple(t for t, d in enumerate(distances) if (reach - d) % s == r) for r in range(s)]
        )
        first.append((low + reach) % s if s > 1 else 0)
    phases = itertools.product(*(range(s) for s in given["spread"]))
    return [
        Part(phase, tuple(c[r] for c, r in zip(chosen, phase, strict=True))) for phase in phases
    ], tuple(first)
