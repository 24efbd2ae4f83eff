"""Values that later kernels compute again from what is in memory anyway, rather than having them stored.

Before (the kernel of a norm stores its centred and its normalised input for the backward pass)::

    [ mean = mean(x)   centred = x - mean   ...   scale = rsqrt(...)   normal = centred * scale ]
    ...
    [ a = sum(g * normal) ]   [ b = sum(g * centred) ]

After::

    [ mean = mean(x)   ...   scale = rsqrt(...) ]
    ...
    [ centred' = x - mean   normal' = centred' * scale   a = sum(g * normal') ]
    [ centred'' = x - mean   b = sum(g * centred'') ]

A kernel that reads one of ``x`` and ``normal`` may as well read the other, and a number for each row costs nothing;
``normal`` is not written then. That pays where a value is a few quick operations away from one large value in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...extents import hint
from ...ir.builder import mapped
from ...ir.graph import Graph, Statement, Value
from ...ops.table import Elementwise, Reduction
from ..gradient.recompute import Order, again, rewritten
from .groups import FULL, Group, Schedule, is_constant, is_elementary, root

__all__ = ["compute_late", "traffic"]

#: Elements of a value from which on its kernel waits for memory. What is smaller lies in the cache, and kernels for it
#: are the same for all sizes.
LARGE = 1 << 20
#: A value that has so many times fewer elements than another one costs nothing beside it.
SMALL = 8
#: Operations that are done again for a value, at most.
MOST_OPERATIONS = 8
#: The part of all that kernels read and write that has to be saved: fusion is done once more for it.
WORTH_WHILE = 20


@dataclass
class _Late:
    """What a later group computes again, and what it reads for that."""

    values: dict[Value, None] = field(default_factory=dict)
    reads: set[Value] = field(default_factory=set)


def compute_late(graph: Graph, schedule: Schedule, order: Order) -> tuple[Graph, Order] | None:
    """``graph`` with such values computed again, and ``order`` with it; None where that saves little.

    ``schedule`` is what its fusion came to, perhaps of a graph in which some values were moved.

    >>> from tracejit.ir import parse
    >>> from .fusion import fuse
    >>> graph = parse('''graph f(x: f32[1024, 1024], g: f32[1024]) {
    ...     %0: f32[1024, 1] = sum(x, dims=(1,), keepdim=True)
    ...     %1: f32[1024, 1024] = sub(x, %0)
    ...     %2: f32[1024, 1] = amax(%1, dims=(1,), keepdim=True)
    ...     %3: f32[1024] = sum(%1, dims=(0,), keepdim=False)
    ...     return %2, %3
    ... }''')
    >>> found = compute_late(graph, fuse(graph, lambda value: True), {})
    >>> [value.op.name for value in found[0].values]
    ['sum', 'sub', 'amax', 'sub', 'sum']
    """
    search = _Search(graph, schedule)
    late = search.found()
    if search.saved * WORTH_WHILE <= traffic(schedule):
        return None
    return _Rewriting(graph, schedule, late, order).run()


def traffic(schedule: Schedule) -> int:
    """The bytes that kernels read and write, each value once a kernel.

    >>> from tracejit.ir import parse
    >>> from .fusion import fuse
    >>> graph = parse("graph f(x: f32[8]) { %0: f32[8] = exp(x) %1: f32[8] = add(%0, x) return %1 }")
    >>> traffic(fuse(graph, lambda value: True))
    64
    """
    moved = 0
    for group, outputs in schedule.outputs.items():
        reads = dict.fromkeys(map(root, group.externals))
        moved += sum(_bytes(x) for x in (*reads, *outputs) if not is_constant(x))
    return moved


def _bytes(value: Value) -> int:
    return int(hint(value.spec.nbytes))


def _is_small(value: Value, beside: Value) -> bool:
    return int(hint(value.spec.numel)) * SMALL <= int(hint(beside.spec.numel))


class _Search:
    """Finds what is better computed again, and by which groups."""

    def __init__(self, graph: Graph, schedule: Schedule) -> None:
        self.schedule = schedule
        self.known = {*graph.inputs, *graph.values}
        self.readers = schedule.graph.users()
        self.group = {v: g for g in schedule.groups for v in g.values}
        self.shown = {root(x) for x in schedule.graph.outputs}
        self.stored = {v for outputs in schedule.outputs.values() for v in outputs}
        self.late: dict[Group, _Late] = {}
        self.saved = 0  # bytes that are neither read nor written then

    def found(self) -> dict[Group, _Late]:
        """What each group computes again."""
        for group, outputs in self.schedule.outputs.items():
            for value in outputs:
                self.look_at(group, value)
        return self.late

    def look_at(self, group: Group, value: Value) -> None:
        """Have ``value``, which ``group`` stores, computed by its readers, if less is read and written then."""
        if int(hint(value.spec.numel)) < LARGE or group.level[value] != FULL:
            return
        readers = self.late_readers(group, value)
        parts = self.parts(group, value) if readers else None
        if readers is None or parts is None:
            return
        values, leaves = parts
        saved = _bytes(value)
        for reader in readers:
            reads = {root(x) for x in reader.externals} | self.late.get(reader, _Late()).reads
            new = sum(_bytes(x) for x in leaves if x not in reads)
            if new > _bytes(value):
                return
            saved += _bytes(value) - new
        self.saved += saved
        self.stored.discard(value)
        for reader in readers:
            late = self.late.setdefault(reader, _Late())
            late.values.update(values)
            late.reads.update(leaves)

    def late_readers(self, group: Group, value: Value) -> list[Group] | None:
        """The other groups that read a value itself; None where anything else does."""
        found: dict[Group, None] = {}
        for user in self.readers.get(value, ()):
            reader = self.group.get(user)
            if reader is group:
                continue
            direct = user in self.known and isinstance(user.op, (Elementwise, Reduction))
            if reader is None or not direct:
                return None
            found[reader] = None
        return [*found] if value in self.known and value not in self.shown else None

    def parts(self, group: Group, value: Value) -> tuple[dict[Value, None], list[Value]] | None:
        """What is computed for a value, operands first, and the large values that it is made of; None for too much."""
        found: dict[Value, None] = {}
        leaves: dict[Value, None] = {}
        if not self.collect(group, value, found, leaves) or len(leaves) > 1:
            return None
        return found, [*leaves]

    def collect(
        self, group: Group, value: Value, found: dict[Value, None], leaves: dict[Value, None]
    ) -> bool:
        """Add what is computed for a value; False where that is too much, or cannot be done again."""
        if value in found:
            return True
        quick = isinstance(value.op, Elementwise) and not is_elementary(value)
        if not quick or value not in self.known:
            return False
        for x in value.value_operands:
            source = root(x)
            if source in self.known and (_is_small(source, value) or is_constant(source)):
                continue
            computed = self.group.get(source) is group and source not in self.stored
            if computed and x is source:
                if not self.collect(group, source, found, leaves):
                    return False
            elif computed or source not in self.known:
                return False
            else:
                leaves[source] = None
        found[value] = None
        return len(found) <= MOST_OPERATIONS


class _Rewriting:
    """Writes the graph with copies for late readers."""

    def __init__(
        self, graph: Graph, schedule: Schedule, late: Mapping[Group, _Late], order: Order
    ) -> None:
        self.graph = graph
        self.group = {v: g for g in schedule.groups for v in g.values}
        self.late = late
        self.before = order
        self.order: Order = {}
        self.body: list[Statement] = []
        self.mapping: dict[Value, Value] = {v: v for v in graph.inputs}
        self.copies: dict[tuple[Group, Value], Value] = {}

    def run(self) -> tuple[Graph, Order]:
        """The new graph, and what must be complete before some of its values."""
        for value in self.graph.values:
            group = self.group.get(value)
            late = self.late.get(group) if group is not None else None
            changed: dict[Value, Value] = {}
            if group is not None and late is not None:
                wanted = [x for x in value.value_operands if x in late.values]
                changed = {x: self.copied(group, x) for x in wanted}
            new = mapped(value, {**self.mapping, **changed})
            self.mapping[value] = new
            self.body.append(new)
            if value in self.before:
                self.order[new] = self.mapped(self.before[value])
        return rewritten(self.graph, self.body, self.mapped(self.graph.outputs), self.order)

    def mapped(self, values: Sequence[Value]) -> tuple[Value, ...]:
        """What stands for some values."""
        return tuple(self.mapping[v] for v in values)

    def copied(self, group: Group, value: Value) -> Value:
        """``value`` as ``group`` computes it, of values that are in memory by then."""
        key = group, value
        if key not in self.copies:
            late, changed = self.late[group].values, dict[Value, Value]()
            for x in value.value_operands:
                if x in late:
                    changed[x] = self.copied(group, x)
            new = again(value, {**self.mapping, **changed})
            self.body.append(new)
            sources = [root(x) for x in value.value_operands if x not in late]
            waits = [x for x in sources if x in self.group]
            if waits:
                self.order[new] = self.mapped(waits)
            self.copies[key] = new
        return self.copies[key]
