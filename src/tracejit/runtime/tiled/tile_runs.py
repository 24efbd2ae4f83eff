"""Runs of steps that go through a batch of matrices together: products, and the kernels between them.

Scores of an attention are made by a product for every head of every sequence, changed by a kernel, and read by another
product. Done one step after the other each step writes and reads all scores; done for one head after the other they
stay in the cache of the processor that made them, and most need no memory but a worker's own::

    scores = matmul(q, k)       all heads            for each head: scores = matmul(q, k)
    weights = softmax(scores)   all heads      ->                   weights = softmax(scores)
    out = matmul(weights, v)    all heads                           out = matmul(weights, v)

A *unit* is one point of the leading dimensions that all values of a run share. A step belongs to a run if what it
computes for a unit depends, of the values of the run, on what belongs to that unit only.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...codegen.cpu.kernel import points_together
from ...codegen.memory_order import in_memory_order
from ...extents import hint
from ...ir.graph import Value
from ...ops.contraction import matmul
from ...passes.fusion.groups import Call, Group, Schedule, Step, looks_up, picks_from_row, root
from ...types import Shape
from ..assembly import Placed
from ..blas import find_blas
from ..plan.views import Layouts, matrix_layout

#: A batch of fewer matrices is no batch.
LEAST_UNITS = 2


@dataclass(frozen=True, eq=False)
class TileRun:
    """Steps ``first`` to ``last - 1`` of a schedule, over units of these extents.

    ``inside`` are the values that nothing else reads.
    """

    first: int
    last: int
    units: Shape
    inside: tuple[Value, ...]


def find_tile_runs(
    schedule: Schedule, layouts: Layouts, placed: Placed
) -> tuple[Schedule, tuple[TileRun, ...]]:
    """``schedule`` with the steps of every run side by side, and the runs."""
    blas = find_blas()
    if blas is None or not blas.controlled:
        return schedule, ()
    if not any(_is_batch(step, blas.max_size, layouts) for step in schedule.steps):
        return schedule, ()
    finder = _Finder(schedule, layouts, placed, blas.max_size)
    runs = finder.runs()
    return finder.ordered(runs) if runs else (schedule, ())


class _Finder:
    """The steps of a schedule and what depends on what."""

    def __init__(
        self,
        schedule: Schedule,
        layouts: Layouts,
        placed: Placed,
        most: int,
    ) -> None:
        self.schedule = schedule
        self.layouts = layouts
        self.steps = schedule.steps
        self.before = placed.before
        ahead = {**placed.after, **placed.before}
        self.maker = {v: i for i, step in enumerate(self.steps) for v in made_by(step)}
        self.reads: list[list[Value]] = [list(read_by(step)) for step in self.steps]
        self.needs: list[set[int]] = []
        self.readers: dict[Value, set[int]] = {}
        for i, step in enumerate(self.steps):
            late = [x for v in made_by(step) for x in ahead.get(v, ())]
            sources = [*map(root, self.reads[i]), *late]
            self.needs.append({self.maker[x] for x in sources if x in self.maker} - {i})
            for x in map(root, self.reads[i]):
                self.readers.setdefault(x, set()).add(i)
        self.users: list[set[int]] = [set() for _ in self.steps]
        for i, needs in enumerate(self.needs):
            for j in needs:
                self.users[j].add(i)
        self.most = most  # the longest side of a matrix
        self.shown = {root(v) for v in schedule.graph.outputs}
        self.node = list(range(len(self.steps)))  # of the members of a run, the last
        self.waits = self.closure()

    def runs(self) -> list[tuple[Shape, frozenset[int]]]:
        """Units and members of every run."""
        found: list[tuple[Shape, frozenset[int]]] = []
        taken: set[int] = set()
        for i, step in enumerate(self.steps):
            if i in taken or self.writes_late(step) or not _is_batch(step, self.most, self.layouts):
                continue
            assert isinstance(step, Call)
            units = step.value.spec.shape[:-2]
            members = self.grow(i, units, taken)
            if len(members) > 1 and self.inside(members):
                found.append((units, frozenset(members)))
                taken |= members
                self.contract(members)
        return found

    def writes_late(self, step: Step) -> bool:
        """Does a step write over what others must have read before?"""
        return any(v in self.before for v in made_by(step))

    # --- growing -----------------------------------------------------------------------------------------------

    def grow(self, start: int, units: Shape, taken: set[int]) -> set[int]:
        """The run that begins with one product."""
        members = {start}
        waiting = sorted(self.needs[start] | self.users[start])
        refused: set[int] = set()
        while waiting:
            step = waiting.pop(0)
            if step in members or step in taken or step in refused:
                continue
            joined = members | {step}
            if not self.fits(step, units, members) or not self.is_convex(joined):
                refused.add(step)
                continue
            members = joined
            refused.clear()
            waiting = sorted(
                {x for m in members for x in (*self.needs[m], *self.users[m])} - members
            )
        return members

    def fits(self, number: int, units: Shape, members: set[int]) -> bool:
        """Does a step go through its work unit by unit, with those of the run?"""
        step = self.steps[number]
        if self.writes_late(step) or not _walks(
            step, units, self.schedule, self.layouts, self.most
        ):
            return False
        own = set(made_by(step))
        inside = {v for m in members for v in made_by(self.steps[m])}
        if not all(self.is_apart(step, x, units) for x in self.reads[number] if root(x) in inside):
            return False
        return all(
            self.is_apart(self.steps[m], x, units)
            for m in members
            for x in self.reads[m]
            if root(x) in own
        )

    def is_apart(self, reader: Step, x: Value, units: Shape) -> bool:
        """Of a value of the run, does ``reader`` read through ``x`` at a unit what belongs to that unit only?"""
        source, layout = root(x), self.layouts(x)
        if layout.root is not source or tuple(source.spec.shape[: len(units)]) != units:
            return False
        expected = source.spec.contiguous_strides()
        if isinstance(reader, Group):
            dims = reader.externals[x]
            strides = {a: s for a, s in zip(dims, layout.strides, strict=True) if a is not None}
        else:
            if x.spec.shape[:-2] != units:
                return False
            strides = dict(enumerate(layout.strides))
        return all(e == 1 or strides.get(a) == expected[a] for a, e in enumerate(units))

    def is_convex(self, members: set[int]) -> bool:
        """Does nothing outside both wait for a member and be waited for by another?"""
        bits = sum(1 << m for m in members)
        above = 0
        for m in members:
            above |= self.waits[m]
        above &= ~bits
        return not any(
            self.waits[k] & bits for k in range(min(members), len(self.steps)) if above >> k & 1
        )

    def inside(self, members: Iterable[int]) -> list[Value]:
        """Values that only steps of the run read, in memory of their own."""
        found = []
        everyone = set(members)
        for m in sorted(everyone):
            for v in stored_by(self.schedule, self.steps[m]):
                hidden = v not in self.shown and self.readers.get(v, set()) <= everyone
                if hidden and self.layouts(v).root is v and self.readers.get(v):
                    found.append(v)
        return found

    # --- order -------------------------------------------------------------------------------------------------

    def contract(self, members: set[int]) -> None:
        """From now on the members are one step, as late as the last of them."""
        for m in members:
            self.node[m] = max(members)
        self.waits = self.closure()

    def in_order(self) -> list[int]:
        """All steps, those of a run side by side, as close to the order they were in as can be."""
        members: dict[int, list[int]] = {}
        for i, node in enumerate(self.node):
            members.setdefault(node, []).append(i)
        count = {n: len(self.needs_of(n, group)) for n, group in members.items()}
        ready = [n for n, missing in count.items() if not missing]
        heapq.heapify(ready)
        order: list[int] = []
        while ready:
            node = heapq.heappop(ready)
            order += members[node]
            for user in {self.node[u] for m in members[node] for u in self.users[m]} - {node}:
                count[user] -= 1
                if not count[user]:
                    heapq.heappush(ready, user)
        assert len(order) == len(self.steps), "runs of steps made a cycle"
        return order

    def needs_of(self, node: int, members: Iterable[int]) -> set[int]:
        """What a step or run waits for directly."""
        return {self.node[x] for m in members for x in self.needs[m]} - {node}

    def closure(self) -> list[int]:
        """For every step the steps it waits for, as bits; a run waits and is waited for as a whole."""
        waits = [0] * len(self.steps)
        order = self.in_order()
        bits: dict[int, int] = {}
        for i in order:
            bits[self.node[i]] = bits.get(self.node[i], 0) | 1 << i
        at = 0
        while at < len(order):
            node, first = self.node[order[at]], at
            while at < len(order) and self.node[order[at]] == node:
                at += 1
            found = 0
            for other in self.needs_of(node, order[first:at]):
                found |= bits[other] | waits[other]
            for i in order[first:at]:
                waits[i] = found
        return waits

    def ordered(
        self, runs: Sequence[tuple[Shape, frozenset[int]]]
    ) -> tuple[Schedule, tuple[TileRun, ...]]:
        """The schedule in its new order, and where the runs are in it."""
        order = self.in_order()
        position = {step: at for at, step in enumerate(order)}
        found = []
        for units, members in runs:
            first = min(position[m] for m in members)
            inside = tuple(self.inside(members))
            found.append(TileRun(first, first + len(members), units, inside))
        steps = tuple(self.steps[i] for i in order)
        return Schedule(self.schedule.graph, steps, self.schedule.outputs), tuple(found)


def made_by(step: Step) -> Sequence[Value]:
    """The values a step computes."""
    return step.values if isinstance(step, Group) else (step.value,)


def read_by(step: Step) -> Iterable[Value]:
    """The values a step reads, views of them too."""
    return step.externals if isinstance(step, Group) else step.value.value_operands


def stored_by(schedule: Schedule, step: Step) -> Sequence[Value]:
    """The values a step writes."""
    return schedule.outputs[step] if isinstance(step, Group) else (step.value,)


def _is_batch(step: Step, most: int, layouts: Layouts) -> bool:
    """Is this a product of a batch of matrices that BLAS computes, and can read as they lie?"""
    if not isinstance(step, Call) or step.value.op is not matmul:
        return False
    kind = step.value.spec
    if kind.dtype.short not in ("f32", "f64") or kind.ndim < 3:
        return False
    sizes = (*kind.shape[-2:], step.value.value_operands[0].spec.shape[-1])
    count = 1
    for extent in kind.shape[:-2]:
        count *= hint(extent)
    batch = kind.shape[:-2]
    if any(
        matrix_layout(x.spec.shape, layouts(x).strides, batch) is None
        for x in step.value.value_operands
    ):
        return False
    return count >= LEAST_UNITS and max(map(hint, sizes)) <= most


def _walks(step: Step, units: Shape, schedule: Schedule, layouts: Layouts, most: int) -> bool:
    """Is the range of a step cut along these leading dimensions?"""
    if isinstance(step, Call):
        return _is_batch(step, most, layouts) and step.value.spec.shape[:-2] == units
    ahead = len(units)
    if len(step.domain) <= ahead or tuple(step.domain[:ahead]) != units:
        return False
    if any(looks_up(v) or picks_from_row(v) for v in step.values):
        return False  # they may refuse their input
    outputs, together = schedule.outputs[step], 1
    if step.reduced:
        printed = in_memory_order(step, outputs, layouts)
    else:
        printed, together = points_together(step, outputs, layouts)
    if any(a != b for v in step.values for a, b in _leading(step, printed, v, ahead)):
        return False
    if printed.reduced:
        outer = any(a in printed.reduced for a in range(ahead))
        return not (outer or printed.is_column or printed.ends_in_final or printed.ends_in_columns)
    inner = 1
    for extent in reversed(
        printed.domain[ahead:]
    ):  # what is done together must not reach over units
        if inner == together:
            return True
        inner *= extent
    return bool(inner == together)


def _leading(step: Group, printed: Group, value: Value, ahead: int) -> Iterable[tuple[int, int]]:
    """For a dimension of ``value`` that goes along a leading axis before or in print: that axis, and the other."""
    for a, b in zip(step.dims[value], printed.dims[value], strict=True):
        if a is not None and b is not None and min(a, b) < ahead:
            yield a, b
