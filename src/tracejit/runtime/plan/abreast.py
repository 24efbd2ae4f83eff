"""Planning depthwise convolutions of small planes, a lane for each channel, as native steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...codegen.products.tap_abreast import LEAST_LINE, row_code
from ...ir.graph import Value
from ...ops.shapes import numel
from ...ops.taps import tap_products
from ...passes.windows.strips import at_most, equal
from ..abreast import abreast_bytes, abreast_step, abreast_weight_bytes
from ..few import splits_of
from .seen import Seen, parts_of, seen_by
from .tap_words import (
    Scratch,
    as_numbers,
    bias_of,
    ends_of,
    filled,
    moved_by,
    weight_places,
    work_of,
)

if TYPE_CHECKING:
    from .plan import Planner

#: Positions that are copied, and results of a plane, at most: of products, and of weights of many channels.
MOST_POSITIONS, MOST_OF_WEIGHTS = 2304, 8192
LEAST_CHANNELS, MANY_CHANNELS = 8, 64
#: Channels that are some vectors, which workers share without dividing taps.
_SOME_VECTORS = 64


def is_abreast(value: Value) -> bool:
    """Is this a convolution of single channels whose planes are small?

    >>> from tracejit.dtypes import float32
    >>> from tracejit.ops.taps import tap_weights
    >>> from tracejit.types import TensorType
    >>> x, y = Value(TensorType((1, 16, 7), float32)), Value(TensorType((1, 16, 7), float32))
    >>> walk = {"distances": ((0, 1, 2),), "low": (-1,), "stride": (1,), "counts": (7,)}
    >>> value = Value(TensorType((48, 1), float32), tap_weights, (x, y), {"groups": 16, **walk})
    >>> is_abreast(value)
    True
    """
    x, groups = value.value_operands[0], value.attributes["groups"]
    rows = value if value.op is tap_products else value.value_operands[1]
    if not at_most(LEAST_CHANNELS, groups) or len(value.attributes["distances"]) > 2:
        return False
    if not (equal(x.spec.shape[1], groups) and equal(rows.spec.shape[1], groups)):
        return False
    many = value.op is not tap_products and at_most(MANY_CHANNELS, groups)
    most = MOST_OF_WEIGHTS if many else MOST_POSITIONS
    return at_most(_copied(seen_by(value)) + numel(value.attributes["counts"]), most)


def reads_abreast(planner: Planner, value: Value) -> bool:
    """Does the weight lie so that its taps follow each other?"""
    if value.op is not tap_products:
        return True
    weight = value.value_operands[1]
    places = weight_places(weight, planner.layouts(weight))
    return all(equal(place, number) for number, place in enumerate(places))


def _extents(seen: Seen) -> tuple[Any, Any]:
    """Lines and columns that all positions see."""
    lines, columns = (
        (count - 1) * step + max(far) + 1
        for count, step, far in zip(
            seen.counts[1:], seen.stride[1:], seen.distances[1:], strict=True
        )
    )
    return lines, columns


def _copied(seen: Seen) -> Any:
    return numel(_extents(seen))


def _sides(planner: Planner, value: Value, seen: Seen) -> list[Any]:
    """The words of `SIDES`."""
    strides = planner.layouts(value.value_operands[0]).strides
    xs = filled(strides[2:], 0)[1]
    _, lines, columns = seen.size
    whole = equal(lines, 1) or equal(xs, columns)
    stretches = [1, lines * columns, 0] if whole else [lines, columns, xs]
    return [
        *(lines, columns, *strides[:2], *stretches),
        *(*seen.low[1:], *seen.stride[1:], *_extents(seen)),
    ]


def abreast_products(planner: Planner, value: Value, seen: Seen) -> None:
    """Append the step of a product."""
    weight, dtype = value.value_operands[1], value.spec.dtype
    parts, first = parts_of(value)
    sizes = filled(value.spec.shape[2:], 1)[1:]
    _, width = _extents(seen)
    in_lines = at_most(LEAST_LINE, seen.counts[2])
    taps: list[Any] = []
    codes = []
    for part in parts:
        _, lines, columns = filled(part.taps, (0,))
        columns = sorted(columns, key=seen.distances[2].__getitem__)
        seen_columns = [seen.distances[2][j] for j in columns]
        code = row_code(seen_columns, seen.stride[2]) if in_lines and columns else 0
        codes += [len(lines) * len(columns), code]
        for i in lines:
            for j in columns:
                line = seen.distances[1][i]
                number = i * len(seen.distances[2]) + j
                taps += [line * width + seen.distances[2][j], number, line]
    spread = filled(value.attributes["spread"], 1)[1:]
    lanes = (
        numel(seen.size),
        _copied(seen),
        numel(sizes),
        len(taps) // 3,
        len(parts),
        seen.counts[1:],
    )
    scratch = Scratch(planner, value, abreast_bytes(dtype.short, *lanes))
    bias, biased = bias_of(planner, value)
    words = [planner.where(x) for x in (value.value_operands[0], weight)]
    words += [bias, planner.argument(planner.slots[value], 0), scratch.word]
    numbers = [scratch.each, value.attributes["groups"], *seen.counts[1:]]
    numbers += _sides(planner, value, seen)
    numbers += [planner.layouts(weight).strides[0], *planner.layouts(value).strides[:2]]
    numbers += [*spread, *filled(first, 0)[1:], *sizes]
    numbers += [len(parts), int(in_lines), biased, *ends_of(value)]
    numbers += [value.attributes["gaps"], 0, len(taps) // 3]
    numbers += [*taps, *codes]
    words += as_numbers(numbers)
    units = value.spec.shape[0] * value.spec.shape[1]
    planner.items.append(
        abreast_step(
            "products",
            dtype.short,
            words,
            units,
            work_of(value, seen),
            moved_by(value),
            scratch.workers,
            planner.ahead,
        )
    )


def abreast_weights(planner: Planner, value: Value, seen: Seen) -> None:
    """Append the step of a gradient of a weight."""
    x, y = value.value_operands
    dtype, places = value.spec.dtype, _places(seen)
    positions, channels = numel(seen.counts), value.attributes["groups"]
    lanes = (numel(seen.size), _copied(seen), positions, len(places))
    scratch = Scratch(planner, value, abreast_weight_bytes(dtype.short, *lanes))
    splits = splits_of(channels, len(places), _SOME_VECTORS)
    words = [planner.where(x), planner.where(y)]
    words += [planner.argument(planner.slots[value], 0), scratch.word]
    numbers = [scratch.each, x.spec.shape[0], channels, *seen.counts[1:]]
    numbers += _sides(planner, value, seen)
    numbers += [*planner.layouts(y).strides[:2], splits, len(places), *places]
    words += as_numbers(numbers)
    planner.items.append(
        abreast_step(
            "weights",
            dtype.short,
            words,
            channels * splits,
            work_of(value, seen),
            moved_by(value),
            scratch.workers,
            planner.ahead,
        )
    )


def _places(seen: Seen) -> list[Any]:
    """Where each tap looks in the copy."""
    _, width = _extents(seen)
    _, lines, columns = seen.distances
    return [line * width + column for line in lines for column in columns]
