"""Views in a recorded run: each is the steps from the tensor it shows, whose present value they are replayed on.

``x[t]`` is a view at the position in a tensor. What it shows is followed like that of other views, but a call cannot
make it anew: a result shares its memory with nothing else, or the function runs eagerly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ir.graph import Value
from ...mirrored import Mirrored
from ...modes import MODES
from ...ops import elementwise
from ...ops.indexing import take
from ...ops.memory_views import MemoryView
from ...ops.selection import Selected, Selecting
from ...ops.table import Op
from ...tensor import Tensor
from .function_notes import Trial
from .kept_alive import KeptAlive
from .recording import Step
from .regions import Regions


class ViewsInside:
    """The part of a recorder that knows which tensor shows which."""

    roots: dict[int, Value]
    external: dict[int, tuple[Tensor, Value]]
    signature: Any
    parts: Any
    rounds: Any
    scope: Any
    tracked_aliases: set[int]
    trial: Trial | None
    alive: KeptAlive
    memory: Regions
    alias_ends: Callable[[int], None]
    all_written: Callable[[], None]
    emit: Callable[..., Value]
    no_tracked_alias: Callable[[Tensor, Tensor], None]
    overlaps_written: Callable[[Tensor], bool]
    given_is_kept: Callable[[Tensor], bool]
    left_behind: set[int]
    keeps_its_views: Callable[[Tensor], bool]
    part_reads: Callable[[Tensor], None]
    show: Callable[[Tensor, Value], None]
    unsupported: Callable[[str], None]

    def __init__(self) -> None:
        self.parents: dict[int, tuple[Tensor, tuple[Step, ...]]] = {}
        self.views: dict[int, tuple[Value, Value]] = {}  # by tensor: of which value it was which
        #: By what they show: results, and whether they are views at the position in a tensor.
        self.results_of: dict[int, dict[int, bool]] = {}
        self.left_apart: dict[int, int] = {}  # what loops left as x[t], and the x

    def adopt(self, tensor: Tensor, value: Value) -> Value:
        """A tensor from outside stands for a graph input."""
        if type(tensor._block) is Mirrored:
            self.unsupported("a view of conjugates, or of negatives, from outside")
        self.roots[id(tensor)] = value
        self.external[id(tensor)] = (tensor, value)
        self.memory.add(id(tensor))
        self.alive.append(tensor)
        return value

    def forget(self, number: int) -> None:
        """The tensor of this identity is gone."""
        self.roots.pop(number, None)
        self.parents.pop(number, None)
        self.views.pop(number, None)
        self.left_apart.pop(number, None)
        self.tracked_aliases.discard(number)
        if self.trial is not None:
            self.trial.forget(number)
        self.alias_ends(number)

    def value_of(self, tensor: Tensor) -> Value:
        """The current IR value of a tensor."""
        if self.parts:
            self.part_reads(tensor)
        value = self.roots.get(id(tensor))
        if value is not None:
            return value
        self.all_written()
        view = tensor
        tensor, steps = self.origin(tensor)
        self.no_tracked_alias(view, tensor)
        value = self.roots.get(id(tensor))
        known = self.views.get(id(view)) if steps else None
        if known is not None and known[0] is value:
            return known[1]
        if value is None:
            value = self.adopt(tensor, self.signature.capture(tensor))
            if self.overlaps_written(tensor):
                self.unsupported(
                    "a captured tensor shares memory with one that was changed in place"
                )
        whole = value
        for op, attributes in steps:
            value = self.emit(op, (value,), attributes)
        if steps and self.scope is None:
            self.views[id(view)] = whole, value
        return value

    def knows(self, x: Any) -> bool:
        """Did the run make or use this tensor?"""
        self.all_written()
        return id(x) in self.roots or id(x) in self.parents or not isinstance(x, Tensor)

    def origin(self, tensor: Tensor) -> tuple[Tensor, tuple[Step, ...]]:
        """The tensor whose value is known, and the view steps from it to ``tensor``."""
        steps: tuple[Step, ...] = ()
        while id(tensor) not in self.roots and id(tensor) in self.parents:
            tensor, more = self.parents[id(tensor)]
            steps = more + steps
        return tensor, steps

    def can_be_written(self, tensor: Tensor, steps: Sequence[Step]) -> bool:
        """Can the run go on after ``tensor`` is written to through these steps?"""
        if any(getattr(op, "write", None) is None for op, _ in steps):
            self.unsupported("an in-place change of a part of an expanded tensor")
            return False
        if any(isinstance(op, MemoryView) and op.repeats(**given) for op, given in steps):
            self.unsupported("an in-place change of a view whose elements share memory")
            return False
        if id(tensor) in self.left_behind or self.given_is_kept(tensor):
            self.unsupported(
                "an in-place change of what was assigned to .data, or lay there before"
            )
            return False
        if self.keeps_its_views(tensor):
            self.unsupported(
                "an in-place change of what was read or viewed before its flags or shape changed"
            )
            return False
        if id(tensor) in self.left_apart or id(tensor) in self.left_apart.values():
            self.unsupported("an in-place change of what a loop left as x[t], or of such an x")
            return False
        return True

    def stays(
        self, number: int, origin: Tensor, steps: Sequence[tuple[Any, Any]], carried: bool
    ) -> bool:
        """Can what a loop leaves, which shows ``origin``, be a value of its own from here on?"""
        views = [op for op, _ in steps if op is not elementwise.detach_copy]
        if views and (carried or not all(isinstance(op, Selected) for op in views)):
            return False
        if views:
            self.left_apart[number] = id(origin)
        return True

    def shows_the_same(self, view: Tensor, other: Tensor) -> bool:
        """Do two views show the same part of one tensor, which the run has made or written before?"""
        (tensor, steps), (source, others) = self.origin(view), self.origin(other)
        if tensor is not source or self.roots[id(tensor)].op is None:
            return False
        return len(steps) == len(others) and all(map(_same_step, steps, others))

    def cut_off(self, view: Tensor) -> Value | None:
        """What a result shows that is a view at the position in a tensor; None for other results.

        Of what the run made it is the only part that is left, or the run cannot be recorded.
        """
        tensor, steps = self.origin(view)
        selects = any(isinstance(op, Selected) for op, _ in steps)
        others = self.results_of.setdefault(id(tensor), {})
        others[id(view)] = selects
        if len(others) > 1 and any(others.values()):
            self.unsupported("results share memory, one of them at the position in a tensor")
        if id(tensor) in self.left_apart:
            self.unsupported("what a loop left as x[t] for a tensor t, a view, is a result")
        if not selects:
            return None
        if id(tensor) in self.external:
            self.unsupported("x[t] for a tensor t, a view of a tensor from outside, is a result")
        if not view.is_contiguous():
            self.unsupported("x[t] for a tensor t, a view with gaps, is a result")
        return self.emit(elementwise.clone, (self.value_of(view),), {})

    def viewed(
        self, op: Op, operands: Sequence[Any], attributes: dict[str, Any], out: Tensor
    ) -> Value:
        """An op made a view: what stands for it."""
        step: Any = op
        if isinstance(op, Selecting):
            op, step = take, Selected(self.value_of(operands[1]))
            attributes = {**attributes, "shared": True}
        steps: tuple[Step, ...] = ((step, dict(attributes)),)
        if operands[0]._flows and not out._requires_grad and not MODES.grad:
            steps += ((elementwise.detach_copy, {}),)
        self.parents[id(out)] = (operands[0], steps)
        value = self.value_of(out)
        self.show(out, value)
        return value


def _same_step(one: tuple[Any, Any], other: tuple[Any, Any]) -> bool:
    ops = one[0], other[0]
    if all(isinstance(op, Selected) for op in ops):
        ops = ops[0].index, ops[1].index
    return ops[0] is ops[1] and one[1] == other[1]
