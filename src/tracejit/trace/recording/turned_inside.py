"""Tensors that a recorded run gives another shape in place, or lets forget their history.

``x.squeeze_()``, ``x.t_()``, ``x.detach_()``: the tensor is another view of its memory from now on. Of one that the run
made, the value is another one, and what showed the tensor before goes on showing what it showed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...ir.graph import Value
from ...modes import MODES
from ...ops import elementwise, movement
from ...tensor import Tensor
from .kept_alive import KeptAlive

if TYPE_CHECKING:
    from .function_notes import Trial
    from .recording import Step

#: Views that a call can make anew, and undo.
_TURNS = (movement.squeeze, movement.unsqueeze, movement.permute)


class TurnedInside:
    """The part of a recorder that follows shapes changed in place."""

    failure: str | None
    overwritten: bool
    scope: Any
    roots: dict[int, Value]
    parents: dict[int, tuple[Tensor, tuple[Step, ...]]]
    external: dict[int, tuple[Tensor, Value]]
    views: dict[int, tuple[Value, Value]]
    alive: KeptAlive
    careful: Callable[[str], Any]
    changed_beneath: Callable[..., None]
    trial: Trial | None
    emit: Callable[..., Value]
    inside: Callable[[Tensor], bool]
    leave_behind: Callable[[Tensor, Value], Tensor | None]
    not_in_rounds: Callable[[], None]
    origin: Callable[[Tensor], tuple[Tensor, tuple[Step, ...]]]
    show: Callable[[Tensor, Value], None]
    trial_turns: Callable[[Tensor, str], None]
    unsupported: Callable[[str], None]
    value_of: Callable[[Tensor], Value]
    write_counts: dict[int, int]
    write_through: Callable[[Value, Sequence[Step], Value], Value]

    def __init__(self) -> None:
        #: By identity: what lies in the memory of a tensor that was turned, and the views that lead from there to it.
        self.turned: dict[int, tuple[Value, tuple[Step, ...]]] = {}
        self.reshaped: list[Tensor] = []
        self.outside_turned: dict[
            int, int
        ] = {}  # how often views of tensors from outside were turned

    def no_view(self, tensor: Tensor) -> None:
        """``tensor``, just made as a view, is none."""
        if self.failure is None:
            self.reshaped.append(tensor)

    def reshape_in_place(self, tensor: Tensor, view: Tensor, name: str) -> None:
        """``tensor`` is about to become ``view``, one of itself, by the method of this name."""
        self.trial_turns(tensor, name)
        if self.failure is None:
            with self.careful(f"{name}()"):
                steps = self._steps_between(tensor, view)
                hidden = tensor._requires_grad and not MODES.grad  # its history has the old shape
                if steps is None or hidden or not all(op in _TURNS for op, _ in steps):
                    self.unsupported(f"{name}() inside a compiled function")
                else:
                    self.overwritten = (
                        True  # what was kept of it for backward passes is out of date
                    )
                    self._become(tensor, steps, name, view)

    def detach_in_place(self, tensor: Tensor) -> None:
        """``tensor``, which requires grad, is about to forget its history."""
        self.trial_turns(tensor, "detach_")
        if self.failure is None:
            with self.careful("detach_()"):
                if tensor._base is None and id(tensor) in self.parents and self.inside(tensor):
                    # A function made it as a view of what it alone knew.
                    self.roots[id(tensor)] = self.value_of(tensor)
                    del self.parents[id(tensor)]
                # What a custom function's backward forgets is known to its rule, which takes no part in the tape.
                if tensor._grad_fn is not None and self.trial is None:
                    self.changed_beneath(tensor, None, "detach_() of what a backward pass needs")
                self._become(tensor, ((elementwise.detach_copy, {}),), "detach_")

    def _steps_between(self, tensor: Tensor, view: Tensor) -> tuple[Step, ...] | None:
        steps: tuple[Step, ...] = ()
        while view is not tensor:
            if id(view) in self.roots or id(view) not in self.parents:
                return None
            view, more = self.parents[id(view)]
            steps = more + steps
        return steps

    def _become(
        self, tensor: Tensor, steps: tuple[Step, ...], name: str, view: Tensor | None = None
    ) -> None:
        key = id(tensor)
        self.not_in_rounds()
        before = self.value_of(tensor)
        root = key in self.roots
        possible = self.inside(tensor) and (root or name != "detach_")
        if not possible or self._has_views(tensor, view):
            self.unsupported(f"{name}() inside a compiled function")
            return
        if not root:
            self._turn_view(tensor, steps)
            return
        self.leave_behind(tensor, before)
        value = before
        for op, attributes in steps:
            value = self.emit(op, (value,), attributes)
        value = self.emit(elementwise.clone, (value,), {}, tracked=True)
        memory, known = self.turned.get(key, (before, ()))
        turns = tuple(step for step in steps if step[0] in _TURNS)
        self.turned[key] = memory, known + turns
        self.roots[key] = value
        self.show(tensor, value)

    def _turn_view(self, tensor: Tensor, steps: tuple[Step, ...]) -> None:
        """Views of the ``tensor``, itself a view, show what it showed; it shows something else."""
        source, known = self.parents[id(tensor)]
        for number, (shown, more) in self.parents.items():
            if shown is tensor:
                self.parents[number] = source, known + more
        self.parents[id(tensor)] = source, known + steps
        origin, _ = self.origin(source)
        if id(origin) in self.external and origin._writes is tensor._writes:
            for counts in (self.outside_turned, self.write_counts):
                counts[id(origin)] = counts.get(id(origin), 0) + 1
        self.views.pop(id(tensor), None)
        self.reshaped.append(tensor)
        if self.scope is not None:
            self.show(tensor, self.value_of(tensor))

    def _has_views(self, tensor: Tensor, but: Tensor | None) -> bool:
        """Are there views but one with a history that leads back to ``tensor``, as it is now?"""
        if not tensor._requires_grad:
            return False
        self.alive.sweep(len(self.alive))
        return any(x._base is tensor and x is not but for x in self.alive.tensors)

    def in_memory(self, output: Tensor, origin: Tensor) -> tuple[Value, tuple[Step, ...]]:
        """What lies in the memory of ``origin``, of which ``output`` is the whole or a view; the views from there."""
        value = self.roots[id(origin)]
        memory, steps = self.turned.get(id(origin), (value, ()))
        if all(op is not movement.permute for op, _ in steps):
            return value, ()
        if output is not origin:
            self.unsupported("a view, among the results, of what was transposed in place")
        return self.write_through(memory, steps, value), steps

    def is_own(self, output: Tensor, turns: Sequence[Step]) -> bool:
        """Is an output no view, though it is shown through some?"""
        return bool(turns) or (output._base is None and any(output is x for x in self.reshaped))
