"""Walks along a sequence, step by step, in recordings some of whose sizes vary: written down as one loop.

The recorder writes down what runs, so a walk is as many rounds of statements as this call has steps, and a recording of
it is good for sequences of that length alone. Where a layer of this package walks, the round is known beforehand: it is
written down once, on values instead of tensors, and the loop has as many rounds as the sequence has steps, whatever a
call brings. What this call computes is computed step by step as ever, unheard.

What the steps keep on the tape lies between the same results and the same inputs for any number of rounds from two on,
which sizes are: what a round hands on is behind the next one, and from the last but one on ahead of all results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...autograd.node import next_number
from ...ir.builder import Builder
from ...ir.graph import Value
from ...ir.loops import body_of, part_value
from ...modes import MODES
from ...ops import elementwise
from ...passes.gradient.gradient import storage
from ...tensor import Tensor
from ..sizes.found_sizes import has_extents, user_line
from .walks import State, Step, Walk, is_native_walk, walk_key

if TYPE_CHECKING:
    from collections import Counter

    from ...autograd.node import Node
    from .inputs import Signature
    from .kept_alive import KeptAlive


class WalksInside:
    """The part of a recorder that knows of walks along sequences."""

    signature: Signature
    builder: Builder
    failure: str | None
    scope: Any
    line: tuple[str, int] | None
    rounds: Any
    parts: list[Any]
    watched: Any
    roots: dict[int, Value]
    alive: KeptAlive
    taped: Counter[Value]
    value_of: Callable[[Tensor], Value]
    note: Callable[[Value], None]
    emit: Callable[..., Value]
    show: Callable[[Tensor, Value], None]
    stop_trial: Callable[[str], None]

    def __init__(self) -> None:
        self.walks = 0
        self.unheard: list[tuple[int, int]] = []  # the steps of the tape that were made unheard

    def walks_at_any_size(self, items: Tensor) -> bool:
        """A layer is about to walk along a sequence: is this recording for those of other lengths or batches, too?"""
        self.walks += 1
        if self.failure is not None or self.scope is None or MODES.autocast is not None:
            return False
        if self.parts or MODES.saved_hooks:  # which are to see every step
            return False
        # Devices run no loops whose number of rounds a call brings.
        return items.get_device() < 0 and has_extents(self.value_of(items).spec.shape)

    def walk(
        self,
        run: Callable[[], tuple[Tensor, State]],
        step: Step,
        items: Sequence[Tensor],
        start: Sequence[Tensor],
        fixed: Sequence[Tensor],
    ) -> tuple[Tensor, State] | None:
        """What ``run`` returns, which takes ``step`` from item to item, as one loop; None where it cannot be one.

        That is a stack of what was collected, and what the last step handed on. The first dimension of ``items`` is the
        step.
        """
        self.stop_trial("walks along a sequence")
        tensors = (*start, *fixed, *items)
        try:
            values = [self.value_of(x) for x in tensors]
            loop = self._loop(Walk(step, len(start), len(items)), tensors, values)
        except Exception:  # noqa: BLE001  (recording must never break the run it listens to)
            return None
        if loop is None:
            return None
        first = next_number()
        with self._unheard(tensors):
            watched = self.watched
            stack, end = run() if watched is None else watched.apart(self, run)
        self.unheard.append((first, next_number()))
        self.rounds = None  # an open loop has no place for this one
        parts = [self._part(loop, i) for i in range(len(body_of(loop).outputs))]
        tracked = any(x._requires_grad for x in tensors)
        for tensor, value in zip((*end, stack), parts, strict=False):
            self._made(tensor, value, tracked)
        self.taped.update(map(storage, (*values, *parts)))
        return stack, end

    def was_unheard(self, node: Node) -> bool:
        """Was this step of the tape made by a walk that was written down as a loop?"""
        return any(first < node.sequence < last for first, last in self.unheard)

    def _loop(self, walk: Walk, tensors: Sequence[Tensor], values: Sequence[Value]) -> Value | None:
        """The statement of the loop, the same one in every run that comes by."""
        graph = walk.round([v.spec for v in values], self.scope)
        if not is_native_walk(graph, values[-1].spec.shape[0]):
            return None
        key = walk_key(graph, values)
        known = self.signature.loops.get(key)
        if known is None:  # what is collected must not depend on the sizes of later calls
            kept = walk.read_by_backward(values, [MODES.grad and x._requires_grad for x in tensors])
        else:
            kept = walk.collected(known)
        new = walk.loop(graph, values, kept)
        new.line = self.line or user_line()
        known = self.signature.loops.setdefault(key, new)
        # The same, in symbols of the present recording.
        known.spec, known.attributes = new.spec, new.attributes
        return known

    @contextmanager
    def _unheard(self, tensors: Sequence[Tensor]) -> Iterator[None]:
        """What runs is not written down, and the tensors have the sizes of this call."""
        modes = MODES.recorder, MODES.builder
        types = [(x, x._run_time_type) for x in tensors]
        MODES.recorder = MODES.builder = None
        try:
            for x, _ in types:
                x._type = x._run_time_type = None
            yield
        finally:
            MODES.recorder, MODES.builder = modes
            for x, kind in types:
                x._type, x._run_time_type = None, kind

    def _part(self, loop: Value, index: int) -> Value:
        """A part of a loop, written down."""
        new = part_value(loop, index)
        value = self.builder.insert(new)
        value.spec = new.spec  # a known one has that of an earlier recording
        self.note(value)
        return value

    def _made(self, tensor: Tensor, value: Value, tracked: bool) -> None:
        """A tensor is one of the results of a loop."""
        if tracked and not tensor._requires_grad:
            value = self.emit(elementwise.detach_copy, (value,), {})
        self.alive.append(tensor)
        self.roots[id(tensor)] = value
        self.show(tensor, value)
