"""Kernels that transform rows or columns, and what they are given: for eager code and for compiled code alike.

Many rows of few elements have a lane of a vector each, and so have columns; the elements of other rows fill the lanes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np

from ..codegen.lanes.fourier import fourier_module
from ..codegen.lanes.fourier_rows import fourier_rows_module
from ..codegen.lanes.fourier_stages import RADICES
from ..codegen.products.vector_machine import vector_machine
from ..cuda.arrays import address_of
from ..passes.windows.strips import at_most
from .machine_code.vector_modules import VectorModule

__all__ = ["Transform", "constants_address", "has_kernel", "is_many"]

#: Most elements of rows that have a lane each though they would fill the lanes, of rows and columns that have one, and
#: of other rows.
_FEW, _MOST_ACROSS, _MOST = 1 << 7, 1 << 10, 1 << 14
#: Elements of rows that are worth a hand-over to another thread.
_GRAIN = 1 << 13


def has_kernel(n: int, real: bool, columns: bool) -> bool:
    """Is there a kernel for rows (or columns) of n elements, which are ``real`` before or afterwards?

    >>> vector_machine() is None or [has_kernel(n, True, False) for n in (16, 15, 22, 1 << 15)]
    [True, False, False, False]
    """
    if vector_machine() is None or n < 1 or (real and n % 2):
        return False
    return n <= (_MOST_ACROSS if columns else _MOST) and _factors(n // 2 if real else n) is not None


def is_many(kind: str, rows: Any) -> Any:
    """Do so many rows fill at least half of the lanes?

    >>> vector_machine() is None or (is_many("f32", 1), is_many("f32", 64))
    (False, True)
    """
    return at_most(_lanes(kind) // 2, rows)


def _lanes(kind: str) -> int:
    machine: Any = vector_machine()
    return int(machine.vector) * 8 // int(kind[1:])


@dataclass(frozen=True)
class Transform:
    """A transform of n elements along a dimension.

    ``mode`` says what rows are ("complex", "of_real" or "to_real"), ``kind`` what numbers are ("f32" or "f64"). Of
    ``many`` rows (or columns), each has a lane where that costs less.
    """

    mode: str
    kind: str
    n: int
    inverse: bool
    scale: float
    columns: bool
    many: bool

    @property
    def length(self) -> int:
        """How many complex elements are transformed."""
        return self.n if self.mode == "complex" else self.n // 2

    @cached_property
    def across(self) -> bool:
        """Has each row a lane?"""
        if self.columns or not self.many:
            return self.columns
        filled = _wide(self.length, self.lanes) == self.lanes
        return self.length <= (_FEW if filled else _MOST_ACROSS)

    @property
    def lanes(self) -> int:
        """Numbers of a vector."""
        return _lanes(self.kind)

    def module(self) -> VectorModule:
        """The kernel, which fails where a result is not finite."""
        return _module(self.mode, self.kind, self.columns, self.across)

    @cached_property
    def constants(self) -> tuple[np.ndarray, np.ndarray]:
        """What the kernel reads besides rows: numbers, and words."""
        return _constants(self.length, self.n, self.inverse, self.scale, self.kind, self.across)

    def numbers(self, outer: Any, inner: Any) -> tuple[Any, ...]:
        """The numbers that the kernel is given behind arrays: ``outer`` rows, or blocks of ``inner`` columns."""
        length, lanes = self.length, self.lanes
        if self.across:
            stages = len(_factors(length) or ())
            return length, stages, inner, outer, 4 * (length + 1 + lanes)
        wide = _wide(length, lanes)
        steps = length // wide
        counts = (len(_factors(n) or ()) for n in (steps, wide))
        room = 4 * (steps + lanes) + 4 * lanes + 2 * ((length + lanes) // lanes)
        return length, wide, steps, *counts, outer, room

    def tiles(self, outer: Any, inner: Any) -> Any:
        """How many tiles the kernel has to do."""
        if self.columns:
            return outer * -(-inner // self.lanes)
        return -(-outer // self.lanes) if self.across else outer

    def words(self) -> tuple[str, ...]:
        """What `constants_address` finds it by again."""
        flags = (str(int(flag)) for flag in (self.inverse, self.columns, self.many))
        return self.mode, self.kind, str(self.n), self.scale.hex(), *flags

    @property
    def grain(self) -> int:
        """Tiles that are worth a hand-over to another thread: a power of two."""
        work = 2 * self.length * (self.lanes if self.across else 1)
        return 1 << (max(1, _GRAIN // work) - 1).bit_length()


def constants_address(*words: str) -> int:
    """Where the numbers (0) or the words (1) are that a kernel reads, behind `Transform.words`. They stay there.

    >>> of = Transform("complex", "f32", 4, False, 1.0, False, False)
    >>> vector_machine() is None or constants_address(*of.words(), "0") == constants_address(*of.words(), "0")
    True
    """
    return address_of(_lasting(*words[:-1]).constants[int(words[-1])])


@cache
def _lasting(
    mode: str, kind: str, n: str, scale: str, inverse: str, columns: str, many: str
) -> Transform:
    """The transform of some words, whose constants programs read: it is never let go of."""
    flags = (flag == "1" for flag in (columns, many))
    return Transform(mode, kind, int(n), inverse == "1", float.fromhex(scale), *flags)


@cache
def _module(mode: str, kind: str, columns: bool, across: bool) -> VectorModule:
    machine: Any = vector_machine()
    symbol = f"tracejit_fourier_{mode}_{'columns' if columns else 'rows' if across else 'row'}"
    if across:
        return VectorModule(symbol, fourier_module(kind, mode, machine, symbol, columns))
    return VectorModule(symbol, fourier_rows_module(kind, mode, machine, symbol))


@cache
def _factors(n: int) -> tuple[int, ...] | None:
    """Radices whose product is n; None where there are none."""
    found = []
    for radix in RADICES:
        while n % radix == 0:
            found.append(radix)
            n //= radix
    return tuple(found) if n == 1 else None


def _wide(n: int, lanes: int) -> int:
    """The largest divisor of n that is not more than the lanes."""
    return max(d for d in range(1, lanes + 1) if n % d == 0)


@lru_cache(maxsize=256)
def _constants(
    length: int, n: int, inverse: bool, scale: float, kind: str, across: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers (the sign, the scale, roots of unity) and words (radix, steps and stride of each stage, and more)."""
    sign = 1 if inverse else -1
    words, roots = (_across if across else _along)(length, n, sign, _lanes(kind))
    numbers = np.concatenate([np.array([sign, scale]), *roots])
    return numbers.astype(f"f{int(kind[1:]) // 8}"), np.array(words, np.int64)


def _across(length: int, n: int, sign: int, lanes: int) -> tuple[list[int], list[np.ndarray]]:
    """Words and roots of unity where each row has a lane; the last word is how many numbers the stages' roots are."""
    words, roots = _stages(length, sign)
    words.append(sum(map(len, roots)))
    return words, [*roots, *([] if n == length else [_of_real_rows(length, n, sign).ravel()])]


def _along(length: int, n: int, sign: int, lanes: int) -> tuple[list[int], list[np.ndarray]]:
    """Words and roots of unity where the elements of a row fill the lanes."""
    wide = _wide(length, lanes)
    steps = length // wide
    words, roots = _stages(steps, sign)
    more_words, more_roots = _stages(wide, sign)
    between = np.zeros((steps, 2, lanes))
    turns = np.arange(steps)[:, None] * np.arange(wide)
    between[:, :, :wide] = _roots(sign * turns, length).swapaxes(1, 2)
    own = np.zeros((2, (length + lanes) // lanes * lanes))
    if n != length:
        own[:, : length + 1] = _of_real_rows(length, n, sign).T
    return words + more_words, [*roots, between.ravel(), own.ravel(), *more_roots]


def _of_real_rows(length: int, n: int, sign: int) -> np.ndarray:
    """What tells apart, or puts together, even and odd elements of real rows, for each frequency."""
    own = _roots(sign * np.arange(length + 1), n)
    return sign * np.stack([-own[:, 1], own[:, 0]], -1)


def _stages(n: int, sign: int) -> tuple[list[int], list[np.ndarray]]:
    """Radix, steps and stride of each stage, and the roots of unity that it multiplies with."""
    words, roots, left, stride = list[int](), list[np.ndarray](), n, 1
    for radix in _factors(n) or ():
        steps = left // radix
        turns = np.arange(steps)[:, None] * np.arange(1, radix)
        roots.append(_roots(sign * turns, left).ravel())
        words += (radix, steps, stride)
        left, stride = steps, stride * radix
    return words, roots


def _roots(turns: np.ndarray, n: int) -> np.ndarray:
    """Cosines and sines of ``turns / n`` of a circle, exact where those are simple.

    They are rounded once, where the machine has numbers that are more precise.
    """
    rest = turns % n
    angle = rest.astype(np.longdouble) * (8 * np.arctan(np.longdouble(1)) / n)
    found = np.stack([np.cos(angle), np.sin(angle)], -1)
    quarter, within = np.divmod(4 * rest, n)
    simple = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])[quarter]
    return np.where((within == 0)[..., None], simple, found).astype(np.float64)
