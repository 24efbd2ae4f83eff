"""Which results may be written over an input's memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ...ir.graph import Value
from ...ops.contraction import matmul
from ...passes.fusion.groups import ROW, Call, Group, Schedule, looks_up, picks_from_row, root
from ..assembly import assemble
from ..tiled.tile_runs import TileRun
from .views import Layouts


def overwrites(
    schedule: Schedule,
    layouts: Layouts,
    wanted: Mapping[int, int],
    runs: Sequence[TileRun] = (),
) -> dict[Value, Value]:
    """Outputs that can be written over an input: a kernel computes them point by point, and is the last reader.

    Nothing that can refuse its input may run at the same time or later: a call that fails has written nothing.
    In ``runs`` steps take turns, so nothing is written over there. Where another output shows the same value, that
    one is a tensor with memory of its own.
    """
    graph = schedule.graph
    order: dict[Group | Call, int] = {step: i for i, step in enumerate(schedule.steps)}
    safe = max((i + 1 for step, i in order.items() if _may_fail(step)), default=0)
    readers: dict[Value, list[Group | Call]] = {}
    for step in schedule.steps:
        reads = step.externals if isinstance(step, Group) else step.value.value_operands
        for value in reads:
            readers.setdefault(root(value), []).append(step)
    together = {schedule.steps[i] for run in runs for i in range(run.first, run.last)}
    shown = Counter(map(root, graph.outputs))
    makers: dict[Value, Group] = {}
    for group in schedule.groups:
        for value in group.dims:
            makers.setdefault(value, group)
    found: dict[Value, Value] = {}
    taken: set[Value] = set()
    for position, source in wanted.items():
        value, target = graph.outputs[position], graph.inputs[source]
        if shown[root(value)] > 1:
            continue
        maker = makers.get(value)
        if maker is None or maker in together or value in found or target in taken:
            continue
        last = order[maker]
        late = last < safe or any(order[r] > last for r in readers.get(target, ()))
        if not late and same_points(maker, value, target, layouts):
            found[value] = target
            taken.add(target)
            layouts.found[value] = layouts(target)
    return found


def _may_fail(step: Group | Call) -> bool:
    """Can this step end the program: a position outside a row, an op's own body?"""
    if isinstance(step, Group):
        return any(picks_from_row(v) or looks_up(v) for v in step.values)
    return step.value.op not in (matmul, assemble)


def same_points(group: Group, value: Value, target: Value, layouts: Layouts) -> bool:
    """Does the group read ``target`` only at the point where it writes ``value``, and before it writes there?

    In a reduction over outer axes, what follows from a finished column is written after the column was read.
    """
    columns = group.is_column and group.level[value] == ROW
    if (group.reduced and not columns) or value.spec != target.spec:
        return False
    if layouts(target).strides != target.spec.contiguous_strides():
        return False
    if any(root(x) is target for x in group.tables):
        return False
    shown = [x for x in group.externals if root(x) is target]
    if any(x is not target or group.externals[x] != group.dims[value] for x in shown):
        return False
    return not shown or _leads_to(group, target, value)


def _leads_to(group: Group, target: Value, value: Value) -> bool:
    """Is ``value`` computed from ``target``? Then the target's element is in a variable when it is written over."""
    own = set(group.values)
    stack, seen = [value], {value}
    while stack:
        for operand in stack.pop().value_operands:
            shown = root(operand)
            if shown is target:
                return True
            if shown in own and shown not in seen:
                seen.add(shown)
                stack.append(shown)
    return False
