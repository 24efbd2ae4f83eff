"""Convolutions of many outputs with something around, or strides, as program steps: a lane of a vector is an output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..codegen.products.tap_outputs import output_scratch
from ..codegen.products.tap_outputs_blocks import TOGETHER
from ..sizes import call
from .ahead import NONE, Ahead
from .launcher import for_workers
from .taps import SIZES, TapStep, Word, Work, all_products, code_step, shared_units, this_machine

__all__ = ["output_bytes", "output_step", "tiles_of"]

#: Columns of a part of a line that is long, at least; and results of some outputs worth turning their weight.
_TILE, _RESULTS = 112, 512


def output_step(
    dtype: str,
    words: Sequence[Word],
    lines: tuple[Any, Any],
    work: Work,
    moved: tuple[Any, Any, Any],
    workers: int,
    ahead: Ahead = NONE,
) -> TapStep:
    """The step of ``tap_products`` with words as in ``OUTPUT_WORDS``, so many parts of lines of so many columns.

    >>> from .taps import vector_machine
    >>> if vector_machine() is not None:
    ...     step = output_step("f32", [], (28, 14), Work(1, 9 * 64, 2, 14, 14, 256), (0, 0, 0), 2)
    ...     assert step.extent == (-1, 28 * -(-256 // (2 * vector_machine().vector // 4)))
    """
    span = TOGETHER * this_machine().vector // SIZES[dtype]
    division = call(_divide, span, *lines, work.groups, work.rows, all_products(work))
    flags = for_workers(workers)
    code = "output_products"
    return code_step(code, dtype, words, division, work, moved, ahead, "tap_products", flags)


def _divide(
    span: int, lines: int, columns: int, groups: int, rows: int, total: int
) -> tuple[int, int, int]:
    """The parallel extent in units, its grain, and the flag for letting other Python threads run.

    >>> _divide(32, 28, 14, 1, 256, 9 * 64 * 2 * 14 * 14 * 256)
    (224, 28, 1)
    """
    units, grain, release = shared_units(lines * groups * -(-rows // span), total)
    return units, max(grain, min(lines, -(-_RESULTS // columns))), release


def output_bytes(dtype: str, count: Any, width: Any, taps: int) -> Any:
    """Bytes that each worker needs, for so many channels and taps, and columns of a part of a line.

    >>> from .taps import vector_machine
    >>> machine = vector_machine()
    >>> machine is None or output_bytes("f32", 576, 56, 9) > machine.vector * 2 * (576 + 56)
    True
    """
    return output_scratch(this_machine(), SIZES[dtype], count, width, taps)


def tiles_of(columns: Any) -> Any:
    """Into how many parts so many columns of positions are divided.

    >>> tiles_of(112), tiles_of(1000)
    (1, 8)
    """
    return call(_tiles, columns)[0]


def _tiles(columns: int) -> tuple[int]:
    return (max(1, columns // _TILE),)
