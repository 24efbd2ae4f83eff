"""Parts of a graph that nothing else reads, many of them alike: fused once, and copied.

What an optimizer does to a parameter depends on its gradient and on what it keeps, and nothing depends on it but what
is left in memory. A model has hundreds of parameters, most of them shaped like others; so the steps that one such
*island* becomes are those of all islands like it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from ...ir.graph import Graph, Value
from ...ir.likeness import Keys
from ...ops.table import Elementwise, Reduction
from .groups import Group, is_constant, is_view, looks_up, picks_from_row, root

__all__ = ["Island", "copied", "find_islands"]

#: Fewer operations are fused sooner than compared.
FEWEST_OPERATIONS = 6


class Island(Keys):
    """Operations that only read each other, and what is there before; those that are alike have the same ``key``."""

    def __init__(self, values: Sequence[Value], shown: Collection[Value]) -> None:
        super().__init__()
        self.values = values
        inside = set(values)
        numbers: dict[Value, int] = {}
        roots: dict[Value, int] = {}
        parts: list[Any] = []
        for value in values:
            for x in value.value_operands:
                if x not in numbers and (origin := root(x)) not in inside:
                    numbers[x] = len(numbers)
                    which = roots.setdefault(origin, len(roots))
                    parts += (x.spec.dtype, self.sizes(x.spec.shape), which, is_constant(origin))
            operands = tuple([self.operand(x, numbers) for x in value.operands])
            parts += (value.op, self.options(value), operands, value.spec.dtype)
            parts += (self.sizes(value.spec.shape), value in shown)
            numbers[value] = len(numbers)
        self.key = tuple(parts)

    def like(self, other: Island) -> dict[Value, Value]:
        """What takes the place of the values of an island that is alike, and of what they read."""
        found: dict[Value, Value] = {}
        for theirs, ours in zip(other.values, self.values, strict=True):
            found.update(zip(theirs.value_operands, ours.value_operands, strict=True))
            found[theirs] = ours
        return found


def copied(group: Group, ours: Mapping[Value, Value]) -> Group:
    """``group`` on the values that ``ours`` has for its own.

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[8]) { %0: f32[8] = exp(x) %1: f32[8] = neg(%0) return %1 }")
    >>> one, other = graph.values
    >>> group = Group([8], None, [one], {one: (0,)}, {one: "full"}, {graph.inputs[0]: (0,)})
    >>> [x.op.name for x in copied(group, {one: other, graph.inputs[0]: one}).externals]
    ['exp']
    """
    return Group(
        list(group.domain),
        group.reduced,
        [ours[v] for v in group.values],
        {ours[v]: dims for v, dims in group.dims.items()},
        {ours[v]: level for v, level in group.level.items()},
        {ours[x]: dims for x, dims in group.externals.items()},
    )


def find_islands(
    graph: Graph,
    fusible: Callable[[Value], bool],
    before: Mapping[Value, Sequence[Value]],
) -> list[Island]:
    """The islands of ``graph`` of which there are several alike; their values may only wait for calls.

    >>> from tracejit.ir import parse
    >>> body = "".join(f"%{i}: f32[8] = add({f'%{i - 1}' if i % 6 else 'xy'[i // 6]}, 1) " for i in range(12))
    >>> graph = parse("graph f(x: f32[8], y: f32[8]) { " + body + "return %5, %11 }")
    >>> [len(island.values) for island in find_islands(graph, lambda value: True, {})]
    [6, 6]
    """
    parts = _Parts(fusible, before)
    for value in graph.values:
        if not is_view(value) and not is_constant(value):
            parts.add(value)
    shown = set(graph.outputs)
    islands = [Island(values, shown) for values in parts.alone()]
    often = Counter(island.key for island in islands)
    return [island for island in islands if often[island.key] > 1]


class _Parts:
    """Operations of which each reads another, and which of these sets nothing else reads."""

    def __init__(
        self, fusible: Callable[[Value], bool], before: Mapping[Value, Sequence[Value]]
    ) -> None:
        self.fusible = fusible
        self.before = before
        self.parts: dict[Value, list[Value]] = {}  # the same list for all that are in it
        self.grouped: set[Value] = set()  # other operations, which groups may begin with
        self.read: list[Value] = []  # of these parts others read something

    def add(self, value: Value) -> None:
        """The next operation."""
        fusible = self.fusible(value)
        reads = dict.fromkeys(map(root, value.value_operands))
        awaited = self.before.get(value, ())
        if not fusible or not _is_plain(value) or any(map(self.fusible, awaited)):
            self.read += [*reads, *awaited]
            if fusible:
                self.grouped.add(value)
            return
        mine = self.parts[value] = [value]
        for x in reads:
            if x in self.grouped:
                self.read.append(value)
            theirs = self.parts.get(x, mine)
            if theirs is not mine:
                mine = self.joined(theirs, mine)

    def joined(self, first: list[Value], second: list[Value]) -> list[Value]:
        """Two parts as one."""
        if len(first) < len(second):
            first, second = second, first
        first += second
        self.parts.update(dict.fromkeys(second, first))
        return first

    def alone(self) -> Iterable[list[Value]]:
        """The parts of which nothing else reads anything, in the order of the graph."""
        found = {id(part): part for part in self.parts.values()}
        for value in self.read:
            if value in self.parts:
                found.pop(id(self.parts[value]), None)
        order = {v: place for place, v in enumerate(self.parts)}
        return [
            sorted(part, key=order.__getitem__)
            for part in found.values()
            if len(part) >= FEWEST_OPERATIONS
        ]


def _is_plain(value: Value) -> bool:
    """Is this an operation on elements at the same points, or a reduction?"""
    plain = isinstance(value.op, (Elementwise, Reduction))
    return plain and not looks_up(value) and not picks_from_row(value)
