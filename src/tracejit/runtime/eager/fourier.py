"""Fourier transforms of many rows by kernels, for the bodies of the ops: eager and compiled code alike."""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ... import config
from ...cuda.arrays import address_of
from ...ops.host_fourier import set_fourier

__all__ = ["transform"]

#: Elements of rows that are worth a hand-over to another thread.
_GRAIN = 1 << 13
_KINDS = {"f": "f32", "F": "f32", "d": "f64", "D": "f64"}


def transform(
    mode: str, x: np.ndarray, n: int, inverse: bool, scale: float, dim: int = -1
) -> tuple[np.ndarray, np.ndarray] | None:
    """The transform of ``n`` elements along a dimension, and which rows of it are not finite (or columns: any or none).

    ``mode`` says what rows are ("complex", "of_real" or "to_real"). None where there is no kernel for the length.

    >>> found = transform("of_real", np.ones((40, 8)), 8, False, 1.0)
    >>> found is None or found[0][7].real.tolist()
    [8.0, 0.0, 0.0, 0.0, 0.0]
    """
    from ...codegen.products.vector_machine import vector_machine

    machine = vector_machine()
    length = n if mode == "complex" else n // 2
    if machine is None or config.disabled or (n % 2 and mode != "complex"):
        return None
    factors = _factors(length)
    if factors is None:
        return None
    kind = _KINDS[x.dtype.char]
    real = np.dtype(f"f{int(kind[1:]) // 8}")
    dim %= x.ndim
    after = n // 2 + 1 if mode == "of_real" else n
    shape = (*x.shape[:dim], after, *x.shape[dim + 1 :])
    out = np.empty(shape, real if mode == "to_real" else np.result_type(real, np.complex64))
    rows, lanes = np.ascontiguousarray(x), machine.vector // real.itemsize
    outer, inner = math.prod(x.shape[:dim]), math.prod(x.shape[dim + 1 :])
    columns = dim < x.ndim - 1
    tiles = outer * -(-inner // lanes) if columns else -(-outer // lanes)
    marks = np.empty(tiles * lanes, real)
    constants, stages = _constants(length, n, inverse, scale, real.char)
    grain = 1 << (max(1, _GRAIN // (2 * length * lanes)) - 1).bit_length()
    table = _table(kind, mode, columns, grain)
    places = [address_of(y) for y in (rows, out, marks, constants, stages)]
    room = 4 * (length + 1 + lanes)
    table.run_slots(0, 1, *places, length, len(factors), inner, outer, room, tiles)
    return out, np.flatnonzero(marks if columns else marks[:outer])


@cache
def _factors(n: int) -> tuple[int, ...] | None:
    """Radices whose product is n; None where there are none."""
    from ...codegen.lanes.fourier import RADICES

    found = []
    for radix in RADICES:
        while n % radix == 0:
            found.append(radix)
            n //= radix
    return tuple(found) if n == 1 else None


@lru_cache(maxsize=256)
def _constants(
    length: int, n: int, inverse: bool, scale: float, char: str
) -> tuple[np.ndarray, np.ndarray]:
    """The sign, the scale and the roots of unity; radix, steps and stride of each stage, and how many roots they have.

    Roots are rounded once, where the machine has numbers that are more precise.
    """
    sign = 1 if inverse else -1
    numbers, words, left, stride = [np.array([sign, scale])], list[int](), length, 1
    for radix in _factors(length) or ():
        steps = left // radix
        turns = np.arange(steps)[:, None] * np.arange(1, radix)
        numbers.append(_roots(sign * turns, left).ravel())
        words += (radix, steps, stride)
        left, stride = steps, stride * radix
    words.append(sum(map(len, numbers)) - 2)
    if n != length:
        k = np.arange(length + 1)
        roots = _roots(sign * k, n).reshape(-1, 2)
        numbers.append((sign * np.stack([-roots[:, 1], roots[:, 0]], -1)).ravel())
    return np.concatenate(numbers).astype(char), np.array(words, np.int64)


def _roots(turns: np.ndarray, n: int) -> np.ndarray:
    """Cosines and sines of ``turns / n`` of a circle, exact where those are simple."""
    rest = turns % n
    angle = rest.astype(np.longdouble) * (8 * np.arctan(np.longdouble(1)) / n)
    found = np.stack([np.cos(angle), np.sin(angle)], -1)
    quarter, within = np.divmod(4 * rest, n)
    simple = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])[quarter]
    return np.where((within == 0)[..., None], simple, found).astype(np.float64)


@cache
def _table(kind: str, mode: str, columns: bool, grain: int) -> Any:
    """A program of one step whose arguments are its slots, and the number of tiles the last of them."""
    from ..launcher import Step, build_table

    arguments = [(slot, 0) for slot in range(10)]
    return build_table([Step(_address(kind, mode, columns), arguments, (len(arguments), 0), grain)])


@cache
def _address(kind: str, mode: str, columns: bool) -> int:
    from ...codegen.lanes.fourier import fourier_module
    from ...codegen.products.vector_machine import vector_machine
    from ..machine_code.vector_modules import VectorModule, address

    machine: Any = vector_machine()
    source = fourier_module(kind, mode, machine, columns)
    return address(VectorModule(f"tracejit_fourier_{mode}", source))


set_fourier(transform)
