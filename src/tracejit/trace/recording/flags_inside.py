"""Leaves that start or stop requiring grad while a function is recorded.

What was read of a tensor before is not what is read of it after: gradients go to one of the two. An argument that
starts to require grad becomes a second input of the graph for what comes after, the one of the two that gradients go
to; another leaf from outside that starts or stops is read by its values alone from then on, which suits whatever no
backward pass outside goes to. A call leaves leaves as the run left them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...autograd.node import AccumulateGrad, Node
from ...ir.graph import Value
from ...ops import elementwise
from ...tensor import Tensor
from ..state.modules import parameter_class
from .kept_alive import KeptAlive

if TYPE_CHECKING:
    from .inputs import Signature
    from .recording import Step

#: Why a change of a leaf from outside cannot be compiled.
FLAGS = "requires_grad_() inside a compiled function"


@dataclass(frozen=True, slots=True)
class NewLeaf:
    """A leaf that requires grad, or a parameter."""

    kind: type[Tensor]
    requires_grad: bool

    def make(self, values: Tensor) -> Tensor:
        """One on the memory of a tensor without a history."""
        if self.kind is Tensor:
            return values.requires_grad_()
        parameter: Any = self.kind
        made: Tensor = parameter(values, self.requires_grad)
        return made


class FlagsInside:
    """The part of a recorder that follows which tensors require grad."""

    failure: str | None
    signature: Signature
    roots: dict[int, Value]
    parents: dict[int, tuple[Tensor, tuple[Step, ...]]]
    external: dict[int, tuple[Tensor, Value]]
    written: dict[int, Tensor]
    path: dict[Any, None]
    alive: KeptAlive
    careful: Callable[[str], Any]
    emit: Callable[..., Value]
    inside: Callable[[Tensor], bool]
    nodes_behind: Callable[[Iterable[Tensor]], Iterator[Node]]
    not_in_rounds: Callable[[], None]
    is_spent: Callable[[Tensor], bool]
    unsupported: Callable[[str], None]
    value_of: Callable[[Tensor], Value]

    def __init__(self) -> None:
        self.positions: dict[int, int] = {}  # of arguments, by identity
        self.new_leaves: dict[int, Tensor] = {}  # made by the run, and kept alive
        #: Leaves from outside that do not require grad for now: their values with and without a gradient.
        self.stopped: dict[int, tuple[Value, Value]] = {}
        self.started: dict[int, Tensor] = {}  # arguments that the run made leaves that require grad
        self.cut: set[int] = set()  # other leaves that started, by identity
        #: Leaves from outside whose flags the run changed, and whether they required grad before.
        self.found_flags: dict[int, tuple[Tensor, bool]] = {}
        self.read_before: set[int] = set()  # those among them that were read before
        #: What stands for tensors in views made before their flags changed.
        self.stand_ins: dict[int, list[Tensor]] = {}
        self.left_behind: set[int] = set()  # what stands for tensors as they were, by identity

    def leaf_made(self, tensor: Tensor) -> None:
        """``requires_grad`` of a tensor changes."""
        if self.inside(tensor):
            self.new_leaves[id(tensor)] = tensor
        elif self.failure is None:
            self.found_flags.setdefault(id(tensor), (tensor, tensor._requires_grad))
            with self.careful(FLAGS):
                self._flag_changed(tensor)

    def new_leaf(self, tensor: Tensor) -> NewLeaf | None:
        """What a result is that the run made, if it is more than a value with a history."""
        kind, wanted = type(tensor), tensor._requires_grad
        if kind is not Tensor and kind is not parameter_class():
            self.unsupported(f"it returns a new {kind.__name__}")
        if kind is Tensor and not (wanted and id(tensor) in self.new_leaves):
            return None
        return NewLeaf(kind, wanted) if tensor._grad_fn is None else None

    def _flag_changed(self, tensor: Tensor) -> None:
        self.not_in_rounds()
        before = self.value_of(tensor)
        key = id(tensor)
        if not tensor._requires_grad:
            after = self._started(tensor, before)
        elif tensor._base is None:
            after = self.emit(elementwise.detach_copy, (before,), {})
            self.stopped[key] = before, after
        else:
            after = None
        if after is None:
            self.unsupported(FLAGS)
            return
        self.leave_behind(tensor, before)
        self.roots[key] = after

    def _started(self, tensor: Tensor, before: Value) -> Value | None:
        """What is read of a leaf from outside that requires grad from now on; None where that cannot be told."""
        key = id(tensor)
        found = self.stopped.pop(key, None)
        if found is not None and before is found[1]:
            return found[0]
        if key not in self.positions and tensor._base is None:
            self.cut.add(key)
            return self.emit(elementwise.detach_copy, (before,), {})
        if found is not None or key not in self.positions or key in self.written:
            return None  # it was written to meanwhile
        if self._was_read(key, before):
            self.read_before.add(key)
        after = self.signature.leaf(self.positions[key], tensor)
        self.external[key] = tensor, after
        self.started[key] = tensor
        return after

    def _was_read(self, key: int, value: Value) -> bool:
        """Did anything read this value of the tensor that ``key`` is the identity of, or may it still do so?"""
        if any(x is value and other != key for other, x in self.roots.items()):
            return True
        return any(x is value for statement in self.path for x in read_by(statement))

    def leave_behind(self, tensor: Tensor, value: Value) -> Tensor | None:
        """Views made so far show ``value``, as what the tensor shows is another one from now on.

        Returned is what stands for the tensor as it was, if there are any.
        """
        stand_in = tensor._alias()
        shown = [k for k, (source, _) in self.parents.items() if source is tensor]
        if not shown:
            return None
        self.alive.append(stand_in)
        self.left_behind.add(id(stand_in))
        self.roots[id(stand_in)] = value
        for number in shown:
            self.parents[number] = (stand_in, self.parents[number][1])
        self.stand_ins.setdefault(id(tensor), []).append(stand_in)
        return stand_in

    def keeps_its_views(self, tensor: Tensor) -> bool:
        """Would writing to ``tensor`` change what was read of it, or views of it, before its flag changed?"""
        if id(tensor) in self.read_before:
            return True
        if id(tensor) not in self.stand_ins:
            return False
        self.alive.sweep(len(self.alive))
        stand_ins = self.stand_ins[id(tensor)]
        return any(source is x for source, _ in self.parents.values() for x in stand_ins)

    def check_flags(self, outputs: Sequence[Tensor]) -> None:
        """Can a backward pass outside come to leaves that are read by their values alone?"""
        closed = self.cut.union(self.stopped)
        if not closed:
            return
        live = [x for x in outputs if not self.is_spent(x)]
        ends = (n.variable for n in self.nodes_behind(live) if type(n) is AccumulateGrad)
        if any(id(leaf) in closed for leaf in ends):
            self.unsupported(FLAGS)

    @property
    def flags_left(self) -> tuple[tuple[Tensor | int, bool], ...]:
        """Leaves from outside that require grad now and did not before, or the other way round.

        Arguments are told by their positions.
        """
        return tuple(
            (self.positions.get(key, tensor), tensor._requires_grad)
            for key, (tensor, before) in self.found_flags.items()
            if tensor._requires_grad is not before
        )

    @contextmanager
    def flags_as_found(self) -> Iterator[None]:
        """Leaves from outside require grad as the run found them, for who compares or notes the state of then."""
        changed = [t for t, before in self.found_flags.values() if t._requires_grad is not before]
        for tensor in changed:
            tensor._requires_grad = not tensor._requires_grad
        try:
            yield
        finally:
            for tensor in changed:
                tensor._requires_grad = not tensor._requires_grad
                tensor._rebound()


def read_by(statement: Any) -> Sequence[Any]:
    """What a value, a guard or a number is made of."""
    if isinstance(statement, Value):
        return statement.value_operands
    return getattr(statement, "value", None), getattr(statement, "at", None)
