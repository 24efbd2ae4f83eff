"""Planning convolutions as native steps."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from ...codegen.products.tap_few_blocks import FEW_ROWS, tall_code
from ...ir.graph import Value
from ...ops.taps import tap_products, tap_weights
from ...passes.windows.strips import at_most, equal
from ...types import Shape
from ..few import (
    few_bytes,
    few_products_step,
    few_weight_bytes,
    few_weights_step,
    piece_of,
    splits_of,
)
from ..machine_code.vector_modules import VectorModule
from ..taps import memory_step, scratch_bytes, tap_module, tap_step
from .abreast import abreast_products, abreast_weights, is_abreast, reads_abreast
from .outputs import is_of_outputs, output_products
from .records import Slot
from .seen import Part, Seen, parts_of, seen_by
from .tap_words import (
    Scratch,
    as_numbers,
    bias_of,
    ends_of,
    filled,
    moved_by,
    rows_of,
    weight_places,
    work_of,
)

if TYPE_CHECKING:
    from .plan import Planner

__all__ = ["is_read", "is_taps", "is_written", "modules_of", "plan_taps"]


def is_taps(value: Value) -> bool:
    """Is this one of the ops that are planned here?

    >>> from tracejit.ir import parse
    >>> is_taps(parse("graph f(x: f32[2]) { %0: f32[2] = exp(x) return %0 }").outputs[0])
    False
    """
    return value.op is tap_products or value.op is tap_weights


def is_read(value: Value, number: int, strides: Shape) -> bool:
    """Can operand ``number`` lie like this? Mostly the weight may lie anyhow, of others the last dimension is dense.

    >>> from tracejit.dtypes import float32
    >>> from tracejit.types import TensorType
    >>> x, w = Value(TensorType((1, 2, 9), float32)), Value(TensorType((4, 2, 3), float32))
    >>> value = Value(TensorType((1, 4, 7), float32), tap_products, (x, w), {"groups": 1})
    >>> is_read(value, 0, (18, 1, 2)), is_read(value, 1, (1, 4, 8))
    (False, True)
    """
    if value.op is not tap_products or number != 1:
        return equal(strides[-1], 1)
    dense = value.value_operands[1].spec.contiguous_strides()
    return not is_of_outputs(value) or equal(strides[2:], dense[2:])


def is_written(value: Value, strides: Shape) -> bool:
    """Can the step write its result like this? Positions are dense.

    >>> from tracejit.dtypes import float32
    >>> from tracejit.types import TensorType
    >>> value = Value(TensorType((1, 4, 7), float32), tap_products, (), {})
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


def modules_of(value: Value) -> list[VectorModule]:
    """The native code that the steps of a convolution run.

    >>> from tracejit.dtypes import float32
    >>> from tracejit.types import TensorType
    >>> from tracejit.codegen.products.vector_machine import vector_machine
    >>> x, w = Value(TensorType((1, 4, 9), float32)), Value(TensorType((4, 4, 3), float32))
    >>> made = {"groups": 1, "around": True, "stride": (1,)}
    >>> value = Value(TensorType((1, 4, 9), float32), tap_products, (x, w), made)
    >>> vector_machine() is None or [m.symbol for m in modules_of(value)]
    ['tracejit_tap_memory', 'tracejit_tap_products']
    """
    assert value.op is not None
    name, dtype = value.op.name, value.spec.dtype.short
    if is_abreast(value):
        return [tap_module(name.replace("tap_", "abreast_"), dtype)]
    if _has_few(value):
        return [tap_module(name.replace("tap_", "few_"), dtype)]
    if is_of_outputs(value):
        return [tap_module("output_products", dtype)]
    copied = [tap_module("tap_memory", dtype)] if _is_copied(value) else []
    return [*copied, tap_module(name, dtype)]


def _has_few(value: Value) -> bool:
    return at_most(rows_of(value), FEW_ROWS)


def _is_copied(value: Value) -> bool:
    """Is what windows see copied first: with what is around it, or because columns they see are not neighbours?"""
    return bool(value.attributes["around"]) or value.attributes["stride"][-1] != 1


def _is_spread(value: Value) -> bool:
    return value.op is tap_products and any(s != 1 for s in value.attributes["spread"])


def plan_taps(planner: Planner, value: Value) -> None:
    """Append the steps of a convolution.

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
    planner.place(value)
    seen = seen_by(value)
    if is_abreast(value) and reads_abreast(planner, value):
        plan = abreast_products if value.op is tap_products else abreast_weights
        plan(planner, value, seen)
    elif _has_few(value):
        if not _is_spread(value):
            seen = seen.flat(planner.layouts(value.value_operands[0]).strides)
        plan = _few_products if value.op is tap_products else _few_weights
        plan(planner, value, seen)
    elif is_of_outputs(value):
        output_products(planner, value, seen)
    else:
        _many(planner, value, seen)


def _sizes(value: Value) -> list[Any]:
    """Samples, groups, channels and rows of a group."""
    x, groups = value.value_operands[0], value.attributes["groups"]
    return [x.spec.shape[0], groups, x.spec.shape[1] // groups, rows_of(value)]


def _many(planner: Planner, value: Value, seen: Seen) -> None:
    """The steps of groups of many rows: copying where it is needed, and computing."""
    other = value.value_operands[1]
    op, dtype, work = value.op, value.spec.dtype, work_of(value, seen)
    assert op is not None
    memory, lie, places = _memory(planner, value, seen)
    scratch = Scratch(planner, value, scratch_bytes(op.name, dtype.short, work.count))
    given: list[tuple[int, Any]] = [memory, planner.where(other)]
    (p2, p1, p0), steps = _box(seen.counts, tuple(lie[2:]))
    first, second = planner.layouts(other).strides[:2]
    numbers = [*_sizes(value), p2, p1, p0, *lie[:2], *steps, first, second]
    after = places
    taps = len(places)
    if value.op is tap_products:
        bias, biased = bias_of(planner, value)
        given.append(bias)
        numbers += [
            *planner.layouts(value).strides[:2],
            biased,
            *ends_of(value),
            value.attributes["gaps"],
            0,
        ]
        after = [*places, *weight_places(other, planner.layouts(other))]
    words = [*given, planner.argument(planner.slots[value], 0), scratch.word]
    words += as_numbers([scratch.each, *numbers, taps, *after])
    planner.items.append(
        tap_step(op.name, dtype.short, words, work, moved_by(value), scratch.workers, planner.ahead)
    )
    planner.release((value, "memory"))


def _memory(
    planner: Planner, value: Value, seen: Seen
) -> tuple[tuple[int, int], list[Any], list[Any]]:
    """What is seen: where it begins, its strides for samples, channels and positions, and where taps are in it."""
    x = value.value_operands[0]
    layout = planner.layouts(x)
    if not _is_copied(value):
        strides = filled(layout.strides[2:], 0)
        steps = [s * n for s, n in zip(strides, seen.stride, strict=True)]
        first = sum(s * n for s, n in zip(strides, seen.low, strict=True))
        places = [first + place for place in _places(seen, layout.strides)]
        return planner.where(x), [*layout.strides[:2], *steps], places
    width = seen.counts[2] + seen.shift
    row = seen.phases * width
    planes, lines = (
        (count - 1) * step + reach
        for count, step, reach in zip(seen.counts, seen.steps, seen.reach, strict=False)
    )
    samples, channels = x.spec.shape[:2]
    total = planes * lines * row
    nbytes = samples * channels * total * x.spec.dtype.itemsize
    offset = planner.arena.take(nbytes, (value, "memory"))
    memory = planner.argument(Slot("arena", 0, offset), 0)
    words = [planner.where(x), memory]
    numbers = [samples, channels, *seen.words(layout.strides), planes, lines, width, seen.phases]
    words += as_numbers(numbers)
    sizes = (samples * channels * planes, lines, row)
    moved = (x.spec.nbytes, 0, nbytes)
    planner.items.append(memory_step(x.spec.dtype.short, words, sizes, moved, planner.ahead))
    steps = [seen.steps[0] * lines * row, seen.steps[1] * row, 1]
    return memory, [channels * total, total, *steps], seen.places(lines, width)


def _places(seen: Seen, strides: Shape) -> list[Any]:
    """Where taps are in what has these strides for (samples, channels, *size)."""
    dims = zip(seen.distances, filled(strides[2:], 0), strict=True)
    return [sum(at) for at in itertools.product(*([d * s for d in ds] for ds, s in dims))]


def _box(counts: Shape, steps: Shape) -> tuple[tuple[Any, Any, Any], tuple[Any, Any]]:
    """Positions as three dimensions, the last one dense, and the steps of the others; rows without gaps are one."""
    found = [(counts[-1], 1)]
    for count, step in zip(counts[-2::-1], steps[-2::-1], strict=True):
        if equal(count, 1):
            continue
        if len(found) == 1 and equal(step, found[0][0]):
            found = [(found[0][0] * count, 1)]
        else:
            found.insert(0, (count, step))
    found = [(1, 0)] * (3 - len(found)) + found
    (p2, x2), (p1, x1), (p0, _) = found
    return (p2, p1, p0), (x2, x1)


def _few_products(planner: Planner, value: Value, seen: Seen) -> None:
    """The step of a product whose groups have few rows."""
    x, weight = value.value_operands[:2]
    dtype, work = value.spec.dtype, work_of(value, seen)
    parts, first = parts_of(value)
    spread = value.attributes["spread"]
    piece = piece_of(dtype.short, seen, work.count // len(seen.places(1, 1)))
    xs = planner.layouts(x).strides
    channel, direct = xs[1], not _is_copied(value)
    if direct:  # nothing is copied
        piece = piece._replace(lines=0, width=xs[-2], together=work.count // len(seen.places(1, 1)))
        places = _places(seen, xs)
    else:
        places = seen.places(piece.lines, piece.width)
        channel = seen.reach[0] * piece.lines * seen.phases * piece.width
    order = [number for part in parts for number in _numbers_of(part, value)]
    woven = spread[-1] > 1
    results = len(parts) * work.rows * piece.strip * piece.width if woven else 0
    nbytes = few_bytes(dtype.short, seen, piece, len(order), results)
    scratch = Scratch(planner, value, nbytes)
    bias, biased = bias_of(planner, value)
    layout, out = planner.layouts(weight), planner.layouts(value).strides[:2]
    wm, wc = layout.strides[:2]
    z2, z1, z0 = filled(value.spec.shape[2:], 1) if _is_spread(value) else seen.counts
    factors = weight_places(weight, layout)
    words = [planner.where(x), planner.where(weight), bias]
    words += [planner.argument(planner.slots[value], 0), scratch.word]
    numbers = [scratch.each, *_sizes(value), *seen.counts, piece.strip, piece.span]
    numbers += seen.words(xs)
    below = seen.stride[1] if direct else seen.steps[1]
    numbers += [seen.reach[0], piece.lines, piece.width, seen.phases, below, piece.together]
    numbers += [channel, int(direct), wm, wc, *out, z1 * z0, z0]
    numbers += [*filled(spread, 1), *filled(first, 0), z2, z1, z0]
    numbers += [len(parts), biased, *ends_of(value), value.attributes["gaps"], 0, len(order)]
    numbers += [*(places[n] for n in order), *(factors[n] for n in order)]
    for part in parts:
        lines = seen.lines_of(filled(part.taps, (0,))[1])
        numbers += [len(_numbers_of(part, value)), tall_code(lines, seen.steps[1]) if lines else 0]
    words += as_numbers(numbers)
    step = few_products_step(
        dtype.short, words, piece, work, moved_by(value), scratch.workers, planner.ahead
    )
    planner.items.append(step)


def _few_weights(planner: Planner, value: Value, seen: Seen) -> None:
    """The step of a gradient of a weight whose groups have few rows."""
    x, y = value.value_operands
    dtype, work = value.spec.dtype, work_of(value, seen)
    taps = len(seen.places(1, 1))
    channels = work.count // taps
    piece = piece_of(dtype.short, seen, 1)
    nbytes = few_weight_bytes(dtype.short, seen, piece, taps, work.rows)
    scratch = Scratch(planner, value, nbytes)
    splits = splits_of(work.groups * channels, taps)
    words = [planner.where(x), planner.where(y)]
    words += [planner.argument(planner.slots[value], 0), scratch.word]
    numbers = [scratch.each, *_sizes(value), *seen.counts, piece.strip, piece.span]
    numbers += seen.words(planner.layouts(x).strides)
    numbers += [seen.reach[0], piece.lines, piece.width, seen.phases, seen.steps[1]]
    numbers += [*planner.layouts(y).strides[:2], splits, taps]
    words += as_numbers([*numbers, *seen.places(piece.lines, piece.width)])
    units = work.groups * channels * splits
    step = few_weights_step(
        dtype.short, words, units, work, moved_by(value), scratch.workers, planner.ahead
    )
    planner.items.append(step)


def _numbers_of(part: Part, value: Value) -> list[int]:
    """The numbers of the taps of a part among all: columns after columns, from the first line they see on."""
    distances = filled(value.attributes["distances"], (0,))
    planes, lines, columns = filled(part.taps, (0,))
    _, height, width = map(len, distances)
    lines = sorted(lines, key=distances[1].__getitem__)
    return [(p * height + t) * width + c for p in planes for c in columns for t in lines]
