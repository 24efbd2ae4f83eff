"""Values that are changed part by part where they lie: what has to be read before, and what is computed right there.

A scatter changes its *base*; a chain of them, and what the first one changes, are *members* of one memory. Whoever
reads a member has to do so before another piece is written over what it reads. New values are written there at once,
by the kernel that computes them, where all that this kernel may read of the memory are the same elements.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache

from ...codegen.nest import Layout
from ...ir.graph import Value
from ...ops import movement
from ...ops.table import Elementwise
from ...passes.fusion.groups import is_constant, is_view, root
from ...passes.simplify.regions import bounds, misses
from ...passes.windows.strips import equal

__all__ = ["Changes", "is_change"]

#: How many values a kernel may read from, before it is not looked any further.
MOST_LOOKED_AT = 100
#: How much may be read of what was there before a change, after it: more is read from a copy.
MOST_READ_LATER = 32


def is_change(value: Value) -> bool:
    """Is this a scatter of a part at a known place?

    >>> from tracejit.ir import parse
    >>> is_change(parse("graph f(x: f32[2]) { %0: f32[2] = exp(x) return %0 }").outputs[0])
    False
    """
    return value.op is movement.slice_scatter or value.op is movement.diagonal_scatter


class Changes:
    """What reads the members of memories, by the ``position`` of values in a graph, in whose order they are given.

    Inputs are left as they are, but for ``given`` ones.
    """

    def __init__(
        self,
        position: Mapping[Value, int],
        readers: Mapping[Value, list[Value]],
        layout: Callable[[Value], Layout | None],
        fusible: Callable[[Value], bool],
        given: Collection[Value],
    ) -> None:
        self.position = position
        self.readers = readers
        self.layout = layout
        self.fusible = cache(fusible)
        #: For every change what reads members before it; None where something reads later what it changes.
        self.waits: dict[Value, tuple[Value, ...] | None] = {}
        #: The first member of the memory that each member is of.
        self.memory: dict[Value, Value] = {}
        #: What reads earlier members after a change, each with the member.
        self._later: dict[Value, list[tuple[Value, Value]]] = {}
        for value in position:
            if is_change(value):
                self._enter(value, given)

    def _enter(self, change: Value, given: Collection[Value]) -> None:
        """Note what a change has to wait for: the earlier ones have waited for whatever comes before them."""
        base, here = root(change.value_operands[0]), self.position[change]
        if base.op is None and base not in given:
            self.waits[change] = None
            return
        readers = [(r, base) for r in self.readers.get(base, ()) if r is not change]
        readers += self._later.get(base, ())
        later = [(r, member) for r, member in readers if self.position[r] > here]
        direct = change.value_operands[0] is base  # else their places are not to be compared
        followed = len(later) <= MOST_READ_LATER and (direct or not later)
        if not followed or not all(self._misses(r, member, change) for r, member in later):
            self.waits[change] = None
            return
        self.waits[change] = tuple([r for r, _ in readers if self.position[r] < here])
        self._later[change] = later
        self.memory[change] = self.memory.setdefault(base, base)

    def leads_to(self, value: Value, source: Value, own: set[Value]) -> bool:
        """Is ``value`` what a chain of changes makes of ``source``, each of which may be done in its memory?"""
        if value.spec != source.spec:
            return False
        while value is not source:
            if not is_change(value) or value.value_operands[1].spec.numel == 0:
                return False
            base = value.value_operands[0]
            again = root(value.value_operands[1]) is base
            if again or is_view(base) or base in own or self.waits[value] is None:
                return False
            value = base
        return True

    def _misses(self, reader: Value, member: Value, change: Value) -> bool:
        """Does a reader see nothing of what a change writes?"""
        if change.op is not movement.slice_scatter:
            return False
        box = [bounds(change, d) for d in range(change.spec.ndim)]
        low, size = [a for a, _ in box], [b - a + 1 for a, b in box]
        for x in reader.value_operands:
            if root(x) is member:
                view = x
                while is_view(view) and view.value_operands[0] is not member:
                    view = view.value_operands[0]
                if view.op is not movement.slice or view.spec.numel == 0:
                    return False
                if not misses(view, low, size):
                    return False
        return True

    def waits_to_be_computed(
        self, change: Value, value: Value, lie: Layout, readers: Sequence[Value]
    ) -> tuple[Value, ...] | None:
        """Which of ``readers`` must be complete before ``value`` is computed where ``change`` writes it, like ``lie``.

        None where it may not be: a kernel might read elements that are written over already.
        """
        base = root(change.value_operands[0])
        if not isinstance(value.op, Elementwise):
            return None
        if base.op is not None and self.position[base] > self.position[value]:
            return None
        own = self._in_its_kernel(self.memory[change], value, lie)
        if own is None:
            return None
        others = tuple(r for r in readers if r not in own)
        late = any(self.position[r] > self.position[value] for r in others)
        return None if late else others

    def _in_its_kernel(self, memory: Value, value: Value, lie: Layout) -> set[Value] | None:
        """What may read ``memory`` in the kernel of ``value``: the elements that are written over, or None."""
        own: set[Value] = set()
        seen: set[tuple[Value, bool]] = set()
        waiting = [(value, True)]
        first = self.position.get(memory, -1)  # -1: it is given
        while waiting:
            reader, aligned = waiting.pop()
            if (reader, aligned) in seen or self.position[reader] < first:
                continue  # it comes before there was anything to read
            seen.add((reader, aligned))
            if len(seen) > MOST_LOOKED_AT:
                return None
            for x in reader.value_operands:
                source = root(x)
                if self.memory.get(source) is memory:
                    if not aligned or not self._is_there(x, value, lie):
                        return None
                    own.add(reader)
                elif self._may_be_inside(x, source):
                    together = isinstance(source.op, Elementwise) and x is source
                    waiting.append((source, aligned and together and _is_like(source, value)))
        return own

    def _may_be_inside(self, x: Value, source: Value) -> bool:
        """May the kernel that reads ``x`` compute what that shows? A part of it was computed by another one before."""
        if source.op is None or is_constant(source) or not self.fusible(source):
            return False
        while x is not source:
            if x.op is movement.slice:
                return False
            x = x.value_operands[0]
        return True

    def _is_there(self, x: Value, value: Value, lie: Layout) -> bool:
        """Does an operand show the elements that ``value`` takes the place of, in their order?"""
        found = self.layout(x)
        if found is None or not _is_like(x, value):
            return False
        return equal(found.offset, lie.offset) and equal(tuple(found.strides), tuple(lie.strides))


def _is_like(x: Value, value: Value) -> bool:
    return x.spec.ndim == value.spec.ndim and equal(x.spec.shape, value.spec.shape)
