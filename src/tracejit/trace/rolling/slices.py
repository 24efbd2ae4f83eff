"""Slices of slices as slices of the whole, so that items cut off in several steps are of one stack; late views."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.builder import mapped
from ...ir.graph import Value
from ...ops import movement
from ...passes.fusion.groups import is_view, root


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


def shown_late(statements: Sequence[Value]) -> Sequence[Value]:
    """The statements with each view of what a scatter wrote right before its first reader.

    ``x[1:] -= y`` shows the part once more after it was written, and the next round reads that very view: it belongs to
    the round that reads it, or rounds would hand on a part beside the whole.
    """
    late = {v for v in statements if is_view(v) and root(v).op is movement.slice_scatter}
    if not late:
        return statements
    found: dict[Value, None] = {}

    def write(value: Value) -> None:
        """Write a view after what it shows, unless that is done."""
        if value in late and value not in found:
            write(value.value_operands[0])
            found[value] = None

    for value in statements:
        if value not in late:
            for x in value.value_operands:
                write(x)
            found[value] = None
    for value in statements:
        write(value)
    return list(found)


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
