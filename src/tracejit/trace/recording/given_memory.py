"""Tensors from outside that a recorded run gives other memory: ``tensor.data = new``, and back again.

The values of ``new`` are those of the tensor from then on, and ``new`` shows what the tensor shows. A call does the
same: it gives the tensor memory of its own, and results that show ``new`` are made of the tensor. A tensor that is
given the memory back that it had (``old = p.data; p.data = other; ...; p.data = old``) was never away for a call.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...ir.graph import Value
from ...layout import layout_of
from ...ops import elementwise
from ...passes.fusion.groups import is_view
from ...passes.gradient.gradient import is_selected
from ...tensor import Tensor
from ...tensor_core import Version
from .kept_alive import KeptAlive
from .recording import MOVED, Step, writes_once_moved

#: Why something that is assigned to .data cannot be compiled.
ASSIGNED = "assignment to .data inside a compiled function"


class GivenMemory:
    """The part of a recorder that follows which memory tensors have."""

    failure: str | None
    overwritten: bool
    roots: dict[int, Value]
    parents: dict[int, tuple[Tensor, tuple[Step, ...]]]
    external: dict[int, tuple[Tensor, Value]]
    written: dict[int, Tensor]
    write_counts: dict[int, int]
    new_leaves: dict[int, Tensor]
    stand_ins: dict[int, list[Tensor]]
    left_behind: set[int]
    sharing: set[int]
    turned: dict[int, Any]
    alive: KeptAlive
    careful: Callable[[str], Any]
    changed_beneath: Callable[..., None]
    continues: Callable[[Value, Value], Value]
    emit: Callable[..., Value]
    goes_on: Callable[[Tensor], bool]
    leave_behind: Callable[[Tensor, Value], Tensor | None]
    may_be_saved: Callable[..., bool]
    not_in_rounds: Callable[[], None]
    opaque: Callable[..., None]
    origin: Callable[[Tensor], tuple[Tensor, tuple[Step, ...]]]
    stop_trial: Callable[[str], None]
    unsupported: Callable[[str], None]
    value_of: Callable[[Tensor], Value]
    write_outside: Callable[..., None]

    def __init__(self) -> None:
        #: Tensors from outside that have other memory, and what counts the writes of all else that shows it; None where
        #: whatever else shows it is known to show the tensor.
        self.rebound: dict[int, weakref.ref[Version] | None] = {}
        #: Such tensors whose memory is shown by what it was taken from.
        self.given_on: set[int] = set()
        #: What stands for them in views of the memory that they had before the run.
        self.homes: dict[int, Tensor] = {}
        #: What the run had written to that memory when they left it.
        self.left: dict[int, Value] = {}
        self.moved_from: list[Tensor] = []  # kept alive: identities stay theirs
        #: Tensors that have the memory again that they had.
        self.returned_home: set[int] = set()

    def data_set(self, tensor: Tensor, new: Tensor) -> None:
        """``tensor.data = new`` is about to happen: it gets the memory of ``new``."""
        self.stop_trial("assigns to .data")
        if self.failure is None:
            with self.careful(ASSIGNED):
                self._rebind(tensor, new)

    def _rebind(self, tensor: Tensor, new: Tensor) -> None:
        self.not_in_rounds()
        self.overwritten = True
        value, key = self.value_of(new), id(tensor)
        before = self.value_of(tensor)
        returns = key in self.homes and self._is_home(new, self.homes[key])
        if not returns and not self._can_be_given(tensor, new, value):
            self.unsupported(ASSIGNED)
            return
        if key not in self.written:
            self.write_outside(tensor, differentiable=False, tracked=False)
        self.changed_beneath(tensor, None, ASSIGNED)
        if tensor.requires_grad and not self.goes_on(tensor):
            self.opaque(ASSIGNED, tensor)
        if returns:
            self._return_home(tensor, before)
        else:
            self._move(tensor, new, value, before)

    def _is_home(self, new: Tensor, home: Tensor) -> bool:
        """Does ``new`` show all of the memory that ``home`` stands for?"""
        source, steps = self.origin(new)
        return source is home and all(op is elementwise.detach_copy for op, _ in steps)

    def _can_be_given(self, tensor: Tensor, new: Tensor, value: Value) -> bool:
        """Is ``new``, of this ``value``, the run's own and like what ``tensor``, one from outside, holds?"""
        computed = value.op is not None and not is_view(value) and not is_selected(value)
        alike = layout_of(new) == layout_of(tensor) and new.spec == tensor.spec
        outside = id(tensor) in self.external and tensor._base is None
        return outside and computed and alike and id(new) in self.roots

    def _move(self, tensor: Tensor, new: Tensor, value: Value, before: Value) -> None:
        key = id(tensor)
        if new._requires_grad:
            value = self.emit(elementwise.detach_copy, (value,), {})
        home = self._leave(tensor, before)
        if key not in self.rebound:
            if home is not None:
                self.homes[key] = home
            if before is not self.external[key][1]:
                self.left[key] = before
        if self._can_show(new):
            self.rebound[key] = None
            self.given_on.add(key)
            del self.roots[id(new)]
            self.parents[id(new)] = tensor, ((elementwise.detach_copy, {}),)
        else:
            self.rebound[key] = weakref.ref(new._writes)
            self.given_on.discard(key)
        count = self.write_counts.get(key, 0)
        self.write_counts[key] = count if count < 0 else MOVED - count
        self.roots[key] = self.continues(value, before) if self.goes_on(tensor) else value

    def _leave(self, tensor: Tensor, before: Value) -> Tensor | None:
        """Views made so far show the memory that ``tensor`` had, which no write to it reaches any more."""
        stand_in = self.leave_behind(tensor, before)
        if stand_in is not None:
            self.moved_from.append(self.stand_ins[id(tensor)].pop())
        return stand_in

    def _can_show(self, new: Tensor) -> bool:
        """Can ``new`` be taken for a view of the tensor that is given its memory?"""
        key = id(new)
        known = (self.external, self.new_leaves, self.stand_ins, self.sharing, self.turned)
        plain = type(new) is Tensor and new._base is None and not new._requires_grad
        return plain and not any(key in x for x in known) and not self.may_be_saved(new)

    def _return_home(self, tensor: Tensor, before: Value) -> None:
        """``tensor`` has the memory again that it had before the run, and that no write reached meanwhile."""
        key = id(tensor)
        self._leave(tensor, before)
        home = self.homes.pop(key)
        for number, (source, steps) in self.parents.items():
            if source is home:
                self.parents[number] = tensor, steps
        self.left_behind.discard(id(home))
        self.roots[key] = self.roots.pop(id(home))
        self.left.pop(key, None)
        del self.rebound[key]
        self.given_on.discard(key)
        self.returned_home.add(key)
        self.write_counts[key] = writes_once_moved(self.write_counts[key]) or 0

    def changed_where_given(self, tensor: Tensor) -> None:
        """``tensor`` is written to; where others show memory it was given, no version of theirs counts that."""
        if id(tensor) in self.given_on:
            self.changed_beneath(tensor, None, ASSIGNED)

    def given_is_kept(self, tensor: Tensor) -> bool:
        """Was ``tensor`` given memory that something else shows: the tensor it came from, or what the tape keeps?"""
        given = self.rebound.get(id(tensor))
        if given is None:
            return False
        self.alive.sweep(len(self.alive))
        return given() is not None

    def writes_since_moved(self, key: int) -> int | None:
        """How often the tensor of this identity was written to, if it was given other memory."""
        return writes_once_moved(self.write_counts.get(key, 0))

    def new_values(self) -> Iterator[tuple[Value, Value, int]]:
        """The inputs that the run wrote to, what is in them at the end, and how often they were written or MOVED.

        One that was written to and then given other memory comes twice: its old memory may be shown outside.
        """
        for key in self.written:
            value = self.external[key][1]
            if key in self.left:
                yield value, self.left[key], 0
            if self.roots[key] is not value:
                yield value, self.roots[key], self.write_counts[key]

    def written_while_away(self) -> Iterator[tuple[Value, int]]:
        """Inputs that hold what they held, and how often they were written to in other memory."""
        for key in self.returned_home:
            value, count = self.external[key][1], self.write_counts[key]
            if count > 0 and self.roots[key] is value:
                yield value, count

    def check_rebound(self, outputs: Sequence[Tensor], values: Sequence[Value]) -> None:
        """What was assigned to .data must be in no second place: results of replays lie apart."""
        given = [self.roots[key] for key in self.rebound]
        if len(set(given)) < len(given) or not set(given).isdisjoint(values):
            self.unsupported(ASSIGNED)
            return
        rebound = [self.written[key] for key in self.rebound]
        others = [x for x in outputs if self.rebound and id(self.origin(x)[0]) not in self.rebound]
        for number, tensor in enumerate(rebound):
            if any(_share(x, tensor) for x in (*others, *rebound[:number])):
                self.unsupported(ASSIGNED)
                return


def _share(one: Tensor, other: Tensor) -> bool:
    """Have two tensors an element in common, which the run left there?"""
    if isinstance(one.array, np.ndarray) and isinstance(other.array, np.ndarray):
        return np.may_share_memory(one.array, other.array)
    return one._writes is other._writes or one.array is other.array
