"""Fusion: cut a graph into groups that each become one kernel, and calls that stay library calls.

A group iterates over a *domain* (a shape). Its values are elementwise results and reductions; each dimension of a value
is an axis of the domain or an extent of one. Four shapes of group exist:

* no reduction: every value is computed once per point of the domain;
* reductions over some axes, the others kept: one pass over the reduced axes per *stage*; reduced values feed later
  stages, so that softmax, layer norm and cross entropy are one group each;
* a last reduction over the kept axes too (a mean loss): partial results per block, combined in a fixed order;
* reductions over the kept axes instead, beside those over rows (what layer norm hands back to its weights).

Views of materialised values cost nothing (consumers read through strides); views inside a group are renamings of axes.
Sources (constants, iota) are recomputed wherever they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...ir.graph import Graph, Value
from ...ops.table import Reduction
from .admission import Admission
from .groups import (
    FULL,
    Call,
    Group,
    Schedule,
    is_constant,
    is_view,
    looks_up,
    lookup_dims,
    picks_from_row,
    root,
)
from .islands import Island, copied, find_islands
from .siblings import merge_siblings


class Fuser(Admission):
    """Greedy fusion in order of execution: each value joins a group of its operands when that stays legal."""

    # --- the walk ------------------------------------------------------------------------------------------------

    def run(self) -> Schedule:
        islands = find_islands(self.graph, self.fusible, self.before)
        at_last = {island.values[-1]: island for island in islands}
        inside = {v for island in islands for v in island.values}
        done: dict[Any, Island] = {}
        for value in self.graph.values:
            if value in at_last:
                self.visit_island(at_last[value], done)
            elif value not in inside and not is_view(value) and not is_constant(value):
                self.visit(value)
        groups = {i: step for i, step in enumerate(self.steps) if isinstance(step, Group)}
        merge_siblings(groups, self.merge)
        return self.finish()

    def visit(self, value: Value) -> None:
        """A value joins a step, or begins one."""
        if looks_up(value) and self.fusible(value):
            if not picks_from_row(value) or not self.join(value):
                self.look_up(value)
        elif picks_from_row(value):
            if not self.join(value):
                self.new_step(Call(value), value)
        elif not self.fusible(value):
            self.new_step(Call(value), value)
        elif not self.join(value):
            self.start(value)

    def visit_island(self, island: Island, done: dict[Any, Island]) -> None:
        """The steps of an island, which are those of one like it among those that are ``done``."""
        known = done.setdefault(island.key, island)
        if known is island or not island.agrees(known):
            for value in island.values:
                self.visit(value)
            return
        steps: dict[int, int] = {}
        ours = island.like(known)
        for theirs, value in zip(known.values, island.values, strict=True):
            step = self.where[theirs]
            if step in steps:
                self.enter(steps[step], value)
            else:
                steps[step] = self.new_step(copied(self.group(step), ours), value)
        for step, mine in steps.items():
            apart = map(self.now, self.apart[step])
            self.apart[mine] |= {steps[x] for x in apart if x in steps}

    def join(self, value: Value) -> bool:
        """Put ``value`` into the group of one of its operands, merging groups where possible."""
        candidates = []
        for operand in value.value_operands:
            step = self.where.get(root(operand))
            if step is not None and step not in candidates and isinstance(self.steps[step], Group):
                candidates.append(step)
        before = {s for s in candidates if self.rounds.begins_another(self.group(s), value)}
        joined: int | None = None
        for step in sorted(candidates, key=lambda s: -len(self.group(s).domain)):
            if joined is not None:
                self.merge(joined, step)
            elif step not in before and self.may_enter(step, value):
                joined = step
                self.enter(step, value)
                self.apart[step] |= before
        if joined is None and before:
            self.start(value)
            self.apart[self.where[value]] |= before
        return joined is not None or bool(before)

    def may_enter(self, step: int, value: Value) -> bool:
        """Add ``value`` to the group of a step, if dependencies and loops allow it."""
        return self.may_join(step, value) and self.admit(self.group(step), value)

    def start(self, value: Value) -> None:
        """A new group whose domain is the value's (a reduction's operand's) shape."""
        shown = value.value_operands[0] if isinstance(value.op, Reduction) else value
        group = Group(list(shown.spec.shape))
        admitted = self.admit(group, value)
        assert admitted, f"a group cannot start with {value}"
        self.new_step(group, value)

    def look_up(self, value: Value) -> None:
        """A new group that begins with elements of a tensor in memory, at positions in memory."""
        group = Group(list(value.spec.shape), values=[value])
        group.dims[value] = tuple(range(value.spec.ndim))
        group.level[value] = FULL
        table, positions = lookup_dims(value)
        index = value.value_operands[-1]
        if table is not None:
            x = value.value_operands[0]
            group.tables.add(x)
            group.externals[x] = table
        if group.externals.setdefault(index, positions) != positions:
            self.new_step(Call(value), value)
        else:
            self.after_positions(index, self.new_step(group, value))

    def after_positions(self, index: Value, step: int) -> None:
        """Let a lookup follow the positions that it reads, in their kernel, if that computes them from memory."""
        first = self.where.get(root(index))
        if not self.across or first is None or not isinstance(self.steps[first], Group):
            return
        group = self.group(first)
        if group.reduced is None and hangs_on_memory(group, root(index)):
            self.merge(first, step)

    # --- result --------------------------------------------------------------------------------------------------

    def finish(self) -> Schedule:
        """Order the steps, and find which values each group must store."""
        order = self.in_order()
        used: dict[Value, None] = {}
        for step in (self.steps[s] for s in order):
            reads = step.externals if isinstance(step, Group) else step.value.value_operands  # type: ignore[union-attr]
            used.update(dict.fromkeys(map(root, reads)))
        used.update(dict.fromkeys(root(v) for v in self.graph.outputs))
        outputs = {
            g: tuple(v for v in g.values if v in used)
            for g in (self.steps[s] for s in order)
            if isinstance(g, Group)
        }
        return Schedule(self.graph, tuple(self.steps[s] for s in order), outputs)  # type: ignore[misc]


def fuse(
    graph: Graph,
    fusible: Callable[[Value], bool],
    before: Mapping[Value, Sequence[Value]] | None = None,
    across: bool = False,
) -> Schedule:
    """Cut ``graph`` into kernels and calls; ``fusible`` says which values code generation can print.

    ``before`` maps values to others that must be complete, in steps of their own, when they are computed. With
    ``across``, code generation can print reductions of columns, or of all points, beside those of rows.

    >>> from tracejit.ir import parse
    >>> from tracejit.ops.table import Elementwise
    >>> graph = parse("graph f(x: f32[8]) { %0: f32[8] = exp(x) %1: f32[8] = add(%0, x) return %1 }")
    >>> [len(group.values) for group in fuse(graph, lambda v: isinstance(v.op, Elementwise)).groups]
    [2]
    """
    return Fuser(graph, fusible, before or {}, across).run()


def hangs_on_memory(group: Group, value: Value) -> bool:
    """Is a value of a group computed from what the kernel reads?

    Lanes look up at such positions; those that are known without memory are left to LLVM.
    """
    waiting, seen = [value], {value}
    while waiting:
        for x in waiting.pop().value_operands:
            if x in group.externals:
                return True
            if root(x) not in seen:
                seen.add(root(x))
                waiting.append(root(x))
    return False


__all__ = ["Call", "Group", "Schedule", "fuse"]
