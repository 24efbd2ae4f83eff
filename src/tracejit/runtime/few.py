"""Convolutions whose groups have few rows as program steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..codegen.products.tap_few import few_scratch
from ..codegen.products.tap_few_weights import few_weight_scratch
from ..sizes import call
from .ahead import NONE, Ahead
from .launcher import COARSE, for_workers
from .taps import SIZES, TapStep, Word, Work, all_products, code_step, shared_units, this_machine

if TYPE_CHECKING:
    from .plan.seen import Seen

__all__ = [
    "Piece",
    "few_bytes",
    "few_products_step",
    "few_weight_bytes",
    "few_weights_step",
    "piece_of",
    "splits_of",
]

#: Columns of positions that go together at most, and bytes of what is copied for them: of a channel, and of all.
_COLUMNS, _CHANNEL_BYTES, _PIECE_BYTES = 512, 16 << 10, 128 << 10


class Piece(NamedTuple):
    """Some positions of few rows, ``strip`` lines of ``span`` columns, and what is copied for them.

    That is ``lines`` of each plane, each phase of them ``width`` columns, of some channels ``together``.
    """

    strip: Any
    span: Any
    lines: Any
    width: Any
    together: Any


def few_products_step(
    dtype: str,
    words: Sequence[Word],
    piece: Piece,
    work: Work,
    moved: tuple[Any, Any, Any],
    workers: int,
    ahead: Ahead = NONE,
) -> TapStep:
    """The step of ``tap_products`` for groups of few rows, its arguments in the order of ``FEW_PRODUCT_WORDS``.

    >>> from .taps import vector_machine
    >>> if vector_machine() is not None:
    ...     piece, work = Piece(8, 30, 10, 48, 1), Work(64, 9, 4, 28, 30, 1)
    ...     step = few_products_step("f32", [], piece, work, (0, 0, 0), 2)
    ...     assert step.extent == (-1, 64 * 4 * 4)
    """
    strips, tiles = -(-work.lines // piece.strip), -(-work.width // piece.span)
    units = work.groups * work.planes * strips * tiles
    division = call(shared_units, units, all_products(work))
    flags = for_workers(workers)
    return code_step(
        "few_products", dtype, words, division, work, moved, ahead, "tap_products", flags
    )


def few_weights_step(
    dtype: str,
    words: Sequence[Word],
    units: Any,
    work: Work,
    moved: tuple[Any, Any, Any],
    workers: int,
    ahead: Ahead = NONE,
) -> TapStep:
    """The step of ``tap_weights`` for groups of few rows, its arguments in the order of ``FEW_WEIGHT_WORDS``.

    >>> from .taps import vector_machine
    >>> if vector_machine() is not None:
    ...     step = few_weights_step("f32", [], 64, Work(64, 9, 4, 28, 30, 1), (0, 0, 0), 2)
    ...     assert step.extent == (-1, 64)
    """
    division = call(shared_units, units, all_products(work))
    flags = COARSE + for_workers(workers)
    return code_step(
        "few_weights", dtype, words, division, work, moved, ahead, "tap_weights", flags
    )


def piece_of(dtype: str, seen: Seen, channels: Any) -> Piece:
    """How positions of few rows are cut, where so many channels of a group are seen.

    >>> from .plan.seen import Seen
    >>> seen = Seen((1, 28, 28), (1, 28, 28), (0, -1, -1), (1, 1, 1), ((0,), (0, 1, 2), (0, 1, 2)), (1, 1))
    >>> from .taps import vector_machine
    >>> vector_machine() is None or piece_of("f32", seen, 1)[:3]
    (16, 28, 18)
    """
    lanes = this_machine().vector // SIZES[dtype]
    _, lines, columns = seen.counts
    step, reach = seen.steps[1], seen.reach
    given = (lines, columns, *reach, step, seen.shift, seen.phases, channels)
    return Piece(*call(_cut, lanes, SIZES[dtype], *given))


def _cut(
    lanes: int,
    nbytes: int,
    lines: int,
    columns: int,
    planes: int,
    reach: int,
    step: int,
    shift: int,
    phases: int,
    channels: int,
) -> tuple[int, int, int, int, int]:
    """A piece's strip, span, lines, width, and channels together.

    >>> _cut(16, 4, 56, 56, 1, 3, 2, 1, 2, 1)
    (8, 56, 17, 64, 1)
    >>> _cut(16, 4, 1, 9000, 1, 1, 1, 2, 1, 64)
    (1, 512, 1, 528, 62)
    """
    span = min(columns, _COLUMNS)
    width = -(-(span + shift) // lanes) * lanes
    row = planes * phases * width * nbytes
    strip = 16 if (15 * step + reach) * row <= _CHANNEL_BYTES else 8
    strip = min(lines, max(strip, reach // (2 * step)))  # what strips share is copied again
    seen = (strip - 1) * step + reach
    return strip, span, seen, width, max(1, min(channels, _PIECE_BYTES // (seen * row)))


def few_bytes(dtype: str, seen: Seen, piece: Piece, taps: int, results: Any) -> Any:
    """Bytes that each worker needs for products of few rows: a piece, so many taps, and results to be woven.

    >>> from .plan.seen import Seen
    >>> seen = Seen((1, 28, 28), (1, 28, 28), (0, -1, -1), (1, 1, 1), ((0,), (0, 1, 2), (0, 1, 2)), (1, 1))
    >>> from .taps import vector_machine
    >>> vector_machine() is None or few_bytes("f32", seen, piece_of("f32", seen, 1), 9, 0) > 4 * 18 * 32
    True
    """
    channel = seen.reach[0] * piece.lines * seen.phases * piece.width
    together = piece.together
    return few_scratch(this_machine(), SIZES[dtype], together * channel, together * taps, results)


def few_weight_bytes(dtype: str, seen: Seen, piece: Piece, taps: int, rows: Any) -> Any:
    """Bytes that each worker needs for gradients of weights of few rows.

    >>> from .plan.seen import Seen
    >>> seen = Seen((1, 28, 28), (1, 28, 28), (0, -1, -1), (1, 1, 1), ((0,), (0, 1, 2), (0, 1, 2)), (1, 1))
    >>> from .taps import vector_machine
    >>> vector_machine() is None or few_weight_bytes("f32", seen, piece_of("f32", seen, 1), 9, 1) > 4 * 18 * 32
    True
    """
    channel = seen.reach[0] * piece.lines * seen.phases * piece.width
    return few_weight_scratch(this_machine(), SIZES[dtype], channel, taps, rows)


def splits_of(channels: Any, taps: int, enough: int = 4) -> Any:
    """Into how many units the taps of a channel are divided: there should be several, and each copies what it sees.

    From ``enough`` channels on there are several without that.

    >>> splits_of(64, 49), splits_of(1, 49), splits_of(16, 49, 64)
    (1, 4, 4)
    """
    return call(_splits, channels, taps, enough)[0]


def _splits(channels: int, taps: int, enough: int) -> tuple[int]:
    return (1 if channels >= enough else max(1, min(4, taps // 4)),)
