"""Fourier transforms of rows and columns by kernels, for the bodies of the ops: eager and compiled code alike."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import aligned, config
from ...cuda.arrays import address_of
from ...ops.host_fourier import set_fourier

if TYPE_CHECKING:
    from ..fourier import Transform

__all__ = ["transform"]

_KINDS = {"f": "f32", "F": "f32", "d": "f64", "D": "f64"}


def transform(
    mode: str, x: np.ndarray, n: int, inverse: bool, scale: float, dim: int = -1
) -> np.ndarray | None:
    """The transform of ``n`` elements along a dimension; ``mode`` says what rows are ("complex", "of_real", "to_real").

    None where there is no kernel for the length. Raises FloatingPointError where a result is not finite.

    >>> found = transform("of_real", np.ones((40, 8)), 8, False, 1.0)
    >>> found is None or found[7].real.tolist()
    [8.0, 0.0, 0.0, 0.0, 0.0]
    """
    if config.disabled:
        return None
    call = _call(mode, x.dtype.char, x.shape, n, inverse, scale, dim)
    return None if call is None else call(x)


class _Call:
    """A transform of arrays of one shape: a program of one step whose slots are arrays and the number of tiles."""

    def __init__(self, of: Transform, shape: tuple[int, ...], outer: int, inner: int) -> None:
        from ..launcher import Step, build_table
        from ..machine_code.vector_modules import address

        self.of, self.shape = of, shape
        real = np.dtype(f"f{int(of.kind[1:]) // 8}")
        self.result = real if of.mode == "to_real" else np.result_type(real, np.complex64)
        constants = [(-1, address_of(y)) for y in of.constants]
        given = [(0, 0), (1, 0), *constants, *((-1, n) for n in of.numbers(outer, inner))]
        tiles = (-1, of.tiles(outer, inner))
        self.table: Any = build_table([Step(address(of.module()), given, tiles, of.grain)])

    def __call__(self, x: np.ndarray) -> np.ndarray:
        out = aligned.empty(self.shape, self.result)
        rows = x if x.flags.c_contiguous else np.ascontiguousarray(x)
        if self.table.run_slots(0, 1, address_of(rows), address_of(out)):
            raise FloatingPointError("a transform that is not finite")
        return out


@lru_cache(maxsize=256)
def _call(
    mode: str, char: str, shape: tuple[int, ...], n: int, inverse: bool, scale: float, dim: int
) -> _Call | None:
    from ..fourier import Transform, has_kernel, is_many

    dim %= len(shape)
    before, after = shape[:dim], shape[dim + 1 :]
    outer, inner = math.prod(before), math.prod(after)
    columns = inner > 1
    if not outer * inner or not has_kernel(n, mode != "complex", columns):
        return None
    of = Transform(mode, _KINDS[char], n, inverse, scale, columns, is_many(_KINDS[char], outer))
    count = n // 2 + 1 if mode == "of_real" else n
    return _Call(of, (*before, count, *after), outer, inner)


set_fourier(transform)
