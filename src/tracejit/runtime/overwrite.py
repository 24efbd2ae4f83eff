"""Which results may be written over an input's memory."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.graph import Value
from ..passes.groups import Call, Group, Schedule, root
from .views import Layouts


def overwrites(
    schedule: Schedule, layouts: Layouts, wanted: Mapping[int, int]
) -> dict[Value, Value]:
    """Outputs that can be written over an input: a pointwise kernel computes them, and is the only and last reader."""
    graph = schedule.graph
    readers: dict[Value, list[Group | Call]] = {}
    for step in schedule.steps:
        reads = step.externals if isinstance(step, Group) else step.value.value_operands
        for value in reads:
            readers.setdefault(root(value), []).append(step)
    found: dict[Value, Value] = {}
    for position, source in wanted.items():
        value, target = graph.outputs[position], graph.inputs[source]
        maker = next((g for g in schedule.groups if value in g.dims), None)
        if maker is None or value in found or target in set(found.values()):
            continue
        if _same_points(maker, value, target, layouts) and all(
            r is maker for r in readers.get(target, ())
        ):
            found[value] = target
            layouts.found[value] = layouts(target)
    return found


def _same_points(group: Group, value: Value, target: Value, layouts: Layouts) -> bool:
    """Does the group read ``target`` only at the point where it writes ``value``?"""
    if group.reduced or value.type != target.type:
        return False
    shown = [x for x in group.externals if root(x) is target]
    strides = layouts(target).strides
    dense = strides == target.type.contiguous_strides()
    return dense and all(x is target and group.externals[x] == group.dims[value] for x in shown)
