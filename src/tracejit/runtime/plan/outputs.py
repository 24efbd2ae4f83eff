"""Planning convolutions of many outputs, a lane for each, as native steps that read what is seen where it lies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...ir.graph import Value
from ...ops.taps import tap_products
from ...passes.windows.outputs import has_outputs
from ...passes.windows.strips import equal
from ..outputs import output_bytes, output_step, tiles_of
from ..taps import this_machine
from .seen import Seen, parts_of
from .tap_words import (
    Scratch,
    as_numbers,
    bias_of,
    ends_of,
    filled,
    moved_by,
    rows_of,
    work_of,
)

if TYPE_CHECKING:
    from .plan import Planner


def is_of_outputs(value: Value) -> bool:
    """Is this a product that is computed here?"""
    if value.op is not tap_products:
        return False
    channels = value.value_operands[1].spec.shape[1]
    return has_outputs(this_machine(), rows_of(value), channels, value.attributes)


def _taps(value: Value, seen: Seen, x1: Any) -> tuple[list[Any], int]:
    """The words about parts and taps, and how many parts there are."""
    parts, _ = parts_of(value)
    width = len(seen.distances[2])
    numbers: dict[int, int] = {}
    entries: list[list[int]] = []
    lists: list[int] = []
    for part in parts:
        _, lines, columns = filled(part.taps, (0,))
        lines = sorted(lines, key=seen.distances[1].__getitem__)
        columns = sorted(columns, key=seen.distances[2].__getitem__)
        if not lines or not columns:
            lines = columns = ()
        at = 5 * len(parts) + len(lists)
        entries.append([len(numbers), len(lines), len(columns), at, at + len(lines)])
        lists += [seen.distances[1][i] for i in lines]
        lists += [seen.distances[2][j] for j in columns]
        for j in columns:
            for i in lines:
                numbers[i * width + j] = len(numbers)
    words: list[Any] = [word for entry in entries for word in entry]
    words += lists
    for tap in range(len(numbers)):
        line, column = divmod(tap, width)
        words += [numbers[tap], seen.distances[1][line] * x1 + seen.distances[2][column]]
    return words, len(parts)


def output_products(planner: Planner, value: Value, seen: Seen) -> None:
    """Append the step of a product."""
    x, weight, dtype = *value.value_operands[:2], value.spec.dtype
    work = work_of(value, seen)
    strides, lie = planner.layouts(x).strides, planner.layouts(weight).strides
    x1 = filled(strides[2:], 0)[1]
    words_of_taps, parts = _taps(value, seen, x1)
    taps = len(seen.distances[1]) * len(seen.distances[2])
    spread, sizes = filled(value.attributes["spread"], 1)[1:], filled(value.spec.shape[2:], 1)[1:]
    q0 = seen.counts[2]
    tiles = tiles_of(q0)
    width = -(-q0 // tiles) * spread[1]
    scratch = Scratch(planner, value, output_bytes(dtype.short, work.count, width, taps))
    bias, biased = bias_of(planner, value)
    words = [planner.where(x), planner.where(weight), bias]
    words += [planner.argument(planner.slots[value], 0), scratch.word]
    samples, groups = x.spec.shape[0], value.attributes["groups"]
    numbers = [scratch.each, samples, groups, x.spec.shape[1] // groups, work.rows, q0, tiles]
    numbers += [*seen.size[1:], *strides[:2], x1, *seen.low[1:], *seen.stride[1:]]
    numbers += [*lie[:2], int(equal(lie[1], taps)), *planner.layouts(value).strides[:2]]
    first = filled(parts_of(value)[1], 0)[1:]
    numbers += [*spread, *first, *sizes, parts, biased, *ends_of(value), value.attributes["gaps"]]
    words += as_numbers([*numbers, 0, taps, *words_of_taps])
    lines = (samples * sizes[0] * tiles, sizes[1] // tiles)
    planner.items.append(
        output_step(
            dtype.short, words, lines, work, moved_by(value), scratch.workers, planner.ahead
        )
    )
