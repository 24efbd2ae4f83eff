"""In-place changes while a function is recorded: the graph stays functional, outside tensors are written back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ir.graph import Value
from ...modes import MODES
from ...ops import elementwise, memory_views, movement
from ...ops.inverse import write
from ...passes.fusion.groups import is_view
from ...passes.gradient.gradient import is_selected
from ...tensor import Tensor
from ...tensor_core import Version
from ..rounds.rounds import Wrote
from ..sizes.found_sizes import user_line
from .flags_inside import read_by
from .given_memory import GivenMemory
from .kept_alive import KeptAlive
from .outside import overlaps_itself
from .parts_inside import PartsInside
from .recording import Step
from .regions import Regions
from .unseen_writes import UnseenWrites

THROUGH = "an in-place change through detach()"


class WritesInside(GivenMemory, PartsInside, UnseenWrites):
    """The part of a recorder that follows in-place changes."""

    failure: str | None
    roots: dict[int, Value]
    parents: dict[int, tuple[Tensor, tuple[Step, ...]]]
    alive: KeptAlive
    found_flags: dict[int, Any]
    tracked_writes: set[int]
    builder: Any
    emit: Callable[..., Value]
    value_of: Callable[[Tensor], Value]
    unsupported: Callable[[str], None]
    stop_trial: Callable[[str], None]
    trial: Any
    unseen_writes: list[Version]
    inside: Callable[[Tensor], bool]
    careful: Callable[[str], Any]
    layout_read: Callable[[Tensor], None]
    path: dict[Any, None]
    not_in_rounds: Callable[[], None]
    rounds: Any
    line: tuple[str, int] | None
    may_be_saved: Callable[..., bool]
    can_be_written: Callable[[Tensor, Sequence[Step]], bool]
    shows_the_same: Callable[[Tensor, Tensor], bool]

    def __init__(self) -> None:
        GivenMemory.__init__(self)
        PartsInside.__init__(self)
        UnseenWrites.__init__(self)
        self.written: dict[int, Tensor] = {}
        self.memory = Regions()  # of all from outside
        self.written_memory = Regions()
        self.write_counts: dict[int, int] = {}
        self.written_apart: set[int] = set()  # through .data, which no version counts
        self.tracked_aliases: set[int] = set()  # changed through detach() to what requires grad
        self.not_to_be_read: set[int] = set()  # for they share memory with what was changed
        self.overwritten = False  # was anything changed in place?

    def assign(self, tensor: Tensor, new: Tensor) -> None:
        """``tensor`` was overwritten in place with ``new``."""
        if self.failure is None:
            with self.careful("an in-place change"):
                self._assign(tensor, new)

    def _assign(self, tensor: Tensor, new: Tensor) -> None:
        if self.parts or any(x._requires_grad or x._flows for x in (tensor, new)):
            self.not_in_rounds()
        self.overwritten = True
        self._keep(new)
        value = self.value_of(new)
        version = tensor._writes
        viewed = tensor
        tensor, steps = self.origin(viewed)
        self.value_of(tensor)
        goes_on = not MODES.grad and viewed._flows is True and self.unseen(viewed, tensor)
        self.changes_for_parts(tensor)
        self.changed_where_given(tensor)
        if any(op is movement.reshape for op, _ in steps):
            self.layout_read(viewed)  # whether it is a view may hang on sizes
        through = tuple(step for step in steps if step[0] is not elementwise.detach_copy)
        detached, steps = len(through) < len(steps), through
        if not self.can_be_written(tensor, steps):
            return
        if detached:
            self.not_in_rounds()
            goes_on |= self.goes_on(tensor) and not (new._requires_grad and MODES.grad)
            apart = version is not tensor._writes
            value = self._through_alias(tensor, viewed if apart else None, value, new)
        elif new._requires_grad and not MODES.grad:  # its values alone are taken
            value = self.emit(elementwise.detach_copy, (value,), {})
        itself = not detached and self.shows_the_same(viewed, new)
        if not itself:
            value = self._copied(value)
        earlier = self.write_counts.get(id(tensor))
        if id(tensor) in self.external:
            into_tape = new._requires_grad and MODES.grad and not detached
            self.write_outside(tensor, into_tape, MODES.grad and not detached)
            moved = version is tensor._writes  # not so through .data
            count = self.write_counts.get(id(tensor), 0)
            self.write_counts[id(tensor)] = count + (moved if count >= 0 else -moved)
            if not moved:
                self.written_apart.add(id(tensor))
        if itself:  # as the second half of ``x[i] += 1`` does
            self._wrote_itself(tensor)
            return
        before = self.roots[id(tensor)]
        after = self.write_through(before, steps, value)
        if MODES.grad and not detached and tensor.requires_grad and not new._requires_grad:
            after = self._still_tracked(before, after, steps)
        self.roots[id(tensor)] = self.continues(after, before) if goes_on else after
        if self.rounds is not None:
            line = self.line or user_line()
            self.rounds.wrote(Wrote(viewed, tensor, steps, new, line, before, earlier))

    def _keep(self, new: Tensor) -> None:
        """Keep what was written, once: what is kept twice never goes."""
        if id(new) not in self.roots and id(new) not in self.parents:
            self.alive.append(new)

    def _wrote_itself(self, tensor: Tensor) -> None:
        if self.rounds is not None:
            self.rounds.wrote_itself(tensor)

    def _through_alias(
        self, tensor: Tensor, part: Tensor | None, value: Value, new: Tensor
    ) -> Value:
        """What is written through detach(), or to a ``part`` through .data, of which what was saved does not notice."""
        # what computed `new` may have saved it too: only the alias leads there
        own = value if new._requires_grad else None
        tracked = new._requires_grad and MODES.grad
        if part is not None:
            self.changed_beneath(tensor, part, THROUGH, own)
        if tensor.requires_grad and (tracked or not self.goes_on(tensor)):
            self.opaque(THROUGH, tensor)
        if not new._requires_grad:
            return value
        if tracked:  # from here on the alias takes part in autograd, its source not
            self.tracked_aliases.add(id(tensor))
        return self.emit(elementwise.detach_copy, (value,), {})

    def _copied(self, value: Value) -> Value:
        """What a tensor holds that was given ``value``: a copy."""
        if value.op is None or is_view(value) or is_selected(value):
            return self.emit(elementwise.clone, (value,), {}, tracked=True)
        return value

    def no_tracked_alias(self, view: Tensor, tensor: Tensor) -> None:
        """A value is read: not that of an alias which, unlike the ``tensor`` it shows, takes part in autograd."""
        if id(tensor) in self.tracked_aliases and view._flows and not tensor._flows:
            self.unsupported("a detached tensor that an in-place change made part of autograd")

    def _still_tracked(self, before: Value, after: Value, steps: Sequence[Step]) -> Value:
        """``after``, written over the whole of ``before``: constants that require grad all the same."""
        partly = (movement.slice, movement.diagonal, memory_views.unfold, memory_views.as_strided)
        if any(op in partly or op.name == "select" for op, _ in steps):
            return after  # computed from what it is written into
        with self.builder.writing():
            result: Value = elementwise.overwritten(after, before)
        self.note(result)
        return result

    def note(self, value: Value) -> None:
        """Add a value to the path, after what it is made of."""
        if value.op is not None and value not in self.path:
            for operand in value.value_operands:
                self.note(operand)
            self.path[value] = None

    def write_through(self, base: Value, steps: Sequence[Step], value: Value) -> Value:
        """The new value of a storage after one of its views was overwritten."""
        if not steps:
            return value
        (op, attributes), rest = steps[0], steps[1:]
        if rest:
            value = self.write_through(self.emit(op, (base,), attributes), rest, value)
        with self.builder.writing():
            result: Value = write(op, attributes, base, value)
        self.note(result)
        return result

    def write_outside(self, tensor: Tensor, differentiable: bool, tracked: bool) -> None:
        """A tensor from outside changes: the compiled call must write it back."""
        if differentiable or (tracked and tensor.requires_grad):
            self.unsupported(
                "an in-place change of a tensor from outside that takes part in autograd"
            )
        if tracked:
            self.tracked_writes.add(id(tensor))
        if id(tensor) in self.written:
            return
        if overlaps_itself(tensor):
            self.unsupported(
                "an in-place change of a view of a tensor from outside whose elements share memory"
            )
        shared = [k for k in self.memory.sharing(tensor, self._external_at) if k != id(tensor)]
        if shared:
            self.not_in_rounds()
            self.not_to_be_read.update(shared)
            self.check_unread()
        self.written[id(tensor)] = tensor
        self.written_memory.add(id(tensor))

    def check_unread(self) -> None:
        """Inputs that share memory with what was changed do not matter where nothing reads or changes them."""
        keys = self.not_to_be_read
        if not keys:
            return
        values = {self.external[key][1] for key in keys}
        read = (x for statement in self.path for x in read_by(statement))
        known = keys.intersection(self.written) or keys.intersection(self.found_flags)
        if known or any(isinstance(x, Value) and x in values for x in read):
            self.unsupported("an in-place change of a tensor that shares memory with another input")

    def _external_at(self, key: int) -> Tensor:
        return self.external[key][0]

    def overlaps_written(self, tensor: Tensor) -> bool:
        """Does a newly captured tensor share memory with one already changed?"""
        return any(
            key != id(tensor)
            for key in self.written_memory.sharing(tensor, self.written.__getitem__)
        )
