"""What the steps of convolutions are given: addresses, numbers, scratch memory, and how much work they are."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...codegen.nest import Layout
from ...ir.graph import Value
from ...ops.taps import tap_products
from ...sizes import float_bits
from ..taps import Work
from .arena import aligned
from .records import Slot
from .seen import Seen

if TYPE_CHECKING:
    from .plan import Planner


def rows_of(value: Value) -> Any:
    """Rows of results of a group, or rows of what came out."""
    rows = value if value.op is tap_products else value.value_operands[1]
    return rows.spec.shape[1] // value.attributes["groups"]


def work_of(value: Value, seen: Seen) -> Work:
    """How much there is to do."""
    x = value.value_operands[0]
    taps = 1
    for distances in value.attributes["distances"]:
        taps *= len(distances)
    groups = value.attributes["groups"]
    planes, lines, width = seen.counts
    count = x.spec.shape[1] // groups * taps
    return Work(groups, count, x.spec.shape[0] * planes, lines, width, rows_of(value))


def moved_by(value: Value) -> tuple[Any, Any, Any]:
    """The bytes of both operands and the result."""
    x, other = value.value_operands[:2]
    return x.spec.nbytes, other.spec.nbytes, value.spec.nbytes


def as_numbers(given: Sequence[Any]) -> list[tuple[int, Any]]:
    """Words that are numbers."""
    return [(-1, number) for number in given]


def bias_of(planner: Planner, value: Value) -> tuple[tuple[int, int], int]:
    """Where a number for each row is, and 1 if there is one."""
    if len(value.value_operands) < 3:
        return (-1, 0), 0
    return planner.where(value.value_operands[2]), 1


def ends_of(value: Value) -> tuple[int, int]:
    """The bounds of results, as bits."""
    return float_bits(value.attributes["floor"]), float_bits(value.attributes["ceiling"])


class Scratch:
    """Scratch memory that each worker has a part of, until the step is planned."""

    def __init__(self, planner: Planner, value: Value, nbytes: Any) -> None:
        self.each, self.workers = aligned(nbytes), planner.arena.workers
        key = (value, "scratch")
        offset = planner.arena.take(self.workers * self.each, key)
        self.word = planner.argument(Slot("arena", 0, offset), 0)
        planner.release(key)


def weight_places(weight: Value, layout: Layout) -> list[Any]:
    """Where each tap of the weight is, from the first one."""
    taps = weight.spec.shape[2:]
    strides = layout.strides[2:]
    return [
        sum(i * s for i, s in zip(tap, strides, strict=True))
        for tap in itertools.product(*(range(int(n)) for n in taps))
    ]


def filled(given: Sequence[Any], missing: Any) -> tuple[Any, ...]:
    """Three dimensions."""
    return (*(missing,) * (3 - len(given)), *given)
