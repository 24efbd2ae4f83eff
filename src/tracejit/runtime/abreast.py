"""Depthwise convolutions of small planes as program steps: a lane of a vector is a channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..codegen.products.tap_abreast import LEAST_LINE, abreast_scratch
from ..codegen.products.tap_abreast_weights import abreast_weight_scratch
from ..sizes import call
from ..types import Shape
from .ahead import NONE, Ahead
from .launcher import for_workers
from .taps import SIZES, TapStep, Word, Work, all_products, code_step, shared_units, this_machine

__all__ = ["abreast_bytes", "abreast_step", "abreast_weight_bytes"]


def abreast_step(
    name: str,
    dtype: str,
    words: Sequence[Word],
    units: Any,
    work: Work,
    moved: tuple[Any, Any, Any],
    workers: int,
    ahead: Ahead = NONE,
) -> TapStep:
    """The step of ``products``, words as in ``ABREAST_WORDS``, or ``weights``, as in ``ABREAST_WEIGHT_WORDS``.

    >>> from .taps import vector_machine
    >>> if vector_machine() is not None:
    ...     step = abreast_step("products", "f32", [], 64, Work(32, 9, 2, 7, 7, 1), (0, 0, 0), 2)
    ...     assert step.extent == (-1, 64)
    """
    lanes = this_machine().vector // SIZES[dtype]
    division = call(_divide, lanes, units, all_products(work))
    code = f"abreast_{name}"
    flags = for_workers(workers)
    return code_step(code, dtype, words, division, work, moved, ahead, f"tap_{name}", flags)


def _divide(lanes: int, units: int, total: int) -> tuple[int, int, int]:
    """The parallel extent in units, its grain of whole vectors of channels, and whether other threads may run.

    >>> _divide(16, 1024, 1 << 21)
    (1024, 64, 1)
    """
    units, grain, release = shared_units(units, total)
    return units, -(-grain // lanes) * lanes, release


def abreast_bytes(
    dtype: str, seen: Any, copied: Any, results: Any, taps: int, parts: int, counts: Shape
) -> Any:
    """Bytes that each worker needs for products, of so many parts of so many lines and columns.

    >>> from .taps import vector_machine
    >>> machine = vector_machine()
    >>> machine is None or abreast_bytes("f32", 49, 81, 49, 9, 1, (7, 7)) > machine.vector * (81 + 49 + 9)
    True
    """
    lines, columns = counts
    blocks = parts * lines * (columns // LEAST_LINE + 1)
    return abreast_scratch(this_machine(), SIZES[dtype], seen, copied, results, taps, blocks)


def abreast_weight_bytes(dtype: str, seen: Any, copied: Any, positions: Any, taps: int) -> Any:
    """Bytes that each worker needs for gradients of weights.

    >>> from .taps import vector_machine
    >>> machine = vector_machine()
    >>> machine is None or abreast_weight_bytes("f32", 49, 81, 49, 9) > machine.vector * (81 + 49 + 9)
    True
    """
    return abreast_weight_scratch(this_machine(), SIZES[dtype], seen, copied, positions, taps)
