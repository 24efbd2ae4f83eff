"""Planning convolutions over flat memory as native steps."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from ...codegen.nest import Layout
from ...ir.graph import Value
from ...ops.taps import tap_products, tap_weights
from ...passes.windows.strips import equal
from ...types import Shape
from ..taps import Work, scratch_bytes, tap_step
from .arena import aligned
from .records import Slot

if TYPE_CHECKING:
    from .plan import Planner

__all__ = ["is_read", "is_taps", "is_written", "plan_taps"]


def is_taps(value: Value) -> bool:
    """Is this one of the ops that are planned here?

    >>> from tracejit.ir import parse
    >>> is_taps(parse("graph f(x: f32[2]) { %0: f32[2] = exp(x) return %0 }").outputs[0])
    False
    """
    return value.op is tap_products or value.op is tap_weights


def is_read(value: Value, number: int, strides: Shape) -> bool:
    """Can operand ``number`` lie like this? The weight may lie anyhow, of others the last dimension is dense.

    >>> from tracejit.dtypes import float32
    >>> from tracejit.types import TensorType
    >>> x, w = Value(TensorType((1, 2, 9), float32)), Value(TensorType((4, 2, 3), float32))
    >>> made = {"offsets": (0, 1, 2), "counts": (7,), "steps": (1,), "groups": 1, "gaps": 0}
    >>> value = Value(TensorType((1, 4, 7), float32), tap_products, (x, w), made)
    >>> is_read(value, 0, (18, 1, 2)), is_read(value, 1, (1, 4, 8))
    (False, True)
    """
    return (value.op is tap_products and number == 1) or equal(strides[-1], 1)


def is_written(value: Value, strides: Shape) -> bool:
    """Can the step write its result like this? Positions are dense.

    >>> from tracejit.dtypes import float32
    >>> from tracejit.types import TensorType
    >>> made = {"offsets": (0, 1, 2), "counts": (7,), "steps": (1,), "groups": 1, "gaps": 0}
    >>> value = Value(TensorType((1, 4, 7), float32), tap_products, (), made)
    >>> is_written(value, (99, 10, 1)), is_written(value, (28, 1, 4))
    (True, False)
    """
    if value.op is tap_weights:
        return equal(strides, value.spec.contiguous_strides())
    dense = value.spec.contiguous_strides()
    return all(
        equal(n, 1) or equal(a, b)
        for n, a, b in zip(value.spec.shape[2:], strides[2:], dense[2:], strict=True)
    )


def plan_taps(planner: Planner, value: Value) -> None:
    """Append the step of a convolution over flat memory.

    >>> from tracejit.codegen.products.vector_machine import vector_machine
    >>> from tracejit.passes.windows.taps import taps
    >>> from tracejit.ir import parse
    >>> from tracejit.runtime.plan.plan import make_plan
    >>> graph = parse('''graph f(x: f32[2, 3, 8], w: f32[4, 3, 2]) {
    ...     %0: f32[2, 4, 7] = convolution(x, w, stride=(1,), padding=((0, 0),), dilation=(1,), groups=1)
    ...     return %0
    ... }''')
    >>> found = make_plan(taps(graph), [(24, 8, 1), (6, 2, 1)])
    >>> vector_machine() is None or [step.name for step in found.items] == ["tap_products"]
    True
    """
    x, other = value.value_operands
    offsets, groups = value.attributes["offsets"], value.attributes["groups"]
    slot, dtype = planner.place(value), value.spec.dtype
    assert value.op is not None
    count = x.spec.shape[1] // groups * len(offsets)
    rows = (value if value.op is tap_products else other).spec.shape[1] // groups
    each = aligned(scratch_bytes(value.op.name, dtype.short, count, rows))
    key = (value, "scratch")
    workers = planner.arena.workers
    scratch = planner.arena.take(workers * each, key)
    words = [
        _address(planner, x),
        _address(planner, other),
        planner.argument(slot, 0),
        planner.argument(Slot("arena", 0, scratch), 0),
        *((-1, number) for number in (each, *_numbers(planner, value))),
    ]
    (planes, lines, width), _ = _box(value.attributes["counts"], value.attributes["steps"])
    moved = (x.spec.nbytes, other.spec.nbytes, value.spec.nbytes)
    after = offsets
    if value.op is tap_products:
        after = (*offsets, *_weight_offsets(other, planner.layouts(other)))
    work = Work(groups, count, x.spec.shape[0] * planes, lines, width, rows)
    step = tap_step(value.op.name, dtype.short, words, after, work, moved, workers, planner.ahead)
    planner.items.append(step)
    planner.arena.give(key)


def _numbers(planner: Planner, value: Value) -> list[Any]:
    """Extents and strides, in the order in which the step takes them."""
    x, other = value.value_operands
    groups, taps = value.attributes["groups"], len(value.attributes["offsets"])
    channels = x.spec.shape[1] // groups
    (p2, p1, p0), (x2, x1) = _box(value.attributes["counts"], value.attributes["steps"])
    xn, xc, _ = planner.layouts(x).strides
    first, second = planner.layouts(other).strides[:2]
    if value.op is tap_weights:
        rows = other.spec.shape[1] // groups
        return [
            x.spec.shape[0],
            groups,
            channels,
            rows,
            p2,
            p1,
            p0,
            xn,
            xc,
            x2,
            x1,
            first,
            second,
            taps,
        ]
    on, om = planner.layouts(value).strides[:2]
    sizes = [x.spec.shape[0], groups, channels, value.spec.shape[1] // groups, p2, p1, p0]
    return [*sizes, xn, xc, x2, x1, first, second, on, om, value.attributes["gaps"], taps]


def _box(counts: Shape, steps: Shape) -> tuple[tuple[Any, Any, Any], tuple[Any, Any]]:
    """Positions as three dimensions, the last one dense, and the steps of the others; rows without gaps are one."""
    found = [(counts[-1], 1)]
    for count, step in zip(counts[-2::-1], steps[-2::-1], strict=True):
        if len(found) == 1 and equal(step, found[0][0]):
            found = [(found[0][0] * count, 1)]
        else:
            found.insert(0, (count, step))
    found = [(1, 0)] * (3 - len(found)) + found
    (p2, x2), (p1, x1), (p0, _) = found
    return (p2, p1, p0), (x2, x1)


def _weight_offsets(weight: Value, layout: Layout) -> list[Any]:
    """Where each tap of the weight is, from the first one."""
    taps = weight.spec.shape[2:]
    strides = layout.strides[2:]
    return [
        sum(i * s for i, s in zip(tap, strides, strict=True))
        for tap in itertools.product(*(range(int(n)) for n in taps))
    ]


def _address(planner: Planner, value: Value) -> tuple[int, int]:
    layout = planner.layouts(value)
    slot = planner.slots[layout.root]
    return planner.argument(slot, layout.offset * value.spec.dtype.itemsize)
