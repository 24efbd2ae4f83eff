"""Slices of slices as slices of the whole, so that items which were cut off in several steps are items of one stack."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.builder import mapped
from ...ir.graph import Value
from ...ops import movement


def flat_slices(statements: Sequence[Value]) -> tuple[Sequence[Value], dict[Value, Value]]:
    """The statements with every slice of a slice cut from the whole, and what stands for those that changed."""
    found: list[Value] = []
    mapping: dict[Value, Value] = {}
    cut = {v for v in statements if v.op is movement.slice}
    if cut.isdisjoint([v.operands[0] for v in cut]):
        return statements, mapping
    for value in statements:
        new = value
        if not mapping.keys().isdisjoint(value.value_operands):
            new = mapped(value, {x: mapping.get(x, x) for x in value.value_operands})
        inner = new.value_operands[0] if new.op is movement.slice else None
        if inner is not None and inner.op is movement.slice:
            new = _composed(new, inner)
        if new is not value:
            mapping[value] = new
        found.append(new)
    return found, mapping


def _composed(outer: Value, inner: Value) -> Value:
    """``outer``, a slice of ``inner``, as a slice of what ``inner`` is one of."""
    starts, steps = [], []
    for begin, step, first, stride in zip(
        inner.attributes["starts"],
        inner.attributes["steps"],
        outer.attributes["starts"],
        outer.attributes["steps"],
        strict=True,
    ):
        starts.append(begin + first * step)
        steps.append(step * stride)
    attributes = {
        "starts": tuple(starts),
        "counts": outer.attributes["counts"],
        "steps": tuple(steps),
    }
    return Value(outer.spec, movement.slice, inner.operands, attributes, line=outer.line)
