"""Nodes of the autograd graph: one per recorded op, one per leaf, edges between them.

Every node is numbered when it is made, after the nodes its edges lead to: numbers fall along every path,
which is what lets the backward walk run in one pass (see ``engine``).
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..modes import MODES
from .handle import RemovableHandle

if TYPE_CHECKING:
    from ..tensor import Tensor
    from ..types import TensorType
    from .joint import Split
    from .op_node import Steps

__all__ = ["FREED", "AccumulateGrad", "Edge", "Node"]

Edge = tuple["Node", int]
Hook = Callable[..., Any]

#: The number the next node gets; all nodes made before have lower ones.
next_number = itertools.count().__next__


FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they "
    "have already been freed). Saved intermediate values of the graph are freed when you call "
    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
    "graph a second time or if you need to access saved tensors after calling backward."
)


class Node:
    """A step of the backward pass: gradients of its outputs in, gradients of its inputs out."""

    # Rarely set attributes are class defaults: a recorded op pays for none of them.
    n_outputs = 1
    only_reads = (
        False  # gradients that arrive are neither changed nor passed on: they may be shared
    )
    ends_in_leaves = False  # may `into_leaves` and `for_leaves` know a short way?
    hooked = False  # True once any kind of hook was registered
    hooks: dict[int, Hook] | None = None
    prehooks: dict[int, Hook] | None = None
    tensor_hooks: dict[int, dict[int, Hook]] | None = None
    retained: dict[int, weakref.ref[Tensor]] | None = (
        None  # output number -> tensor that keeps .grad
    )
    silent: frozenset[int] = frozenset()  # edges along which it is known to pass nothing on
    always_runs = False  # does it do something though no gradient comes?
    joint = False  # may some of its outputs have been computed from others?
    partial = False  # does it free only what lies between the results and inputs of a pass?
    label: str | None = None  # the name a composite function gives its last node
    _metadata: dict[str, Any] | None = None

    def __init__(self, edges: Sequence[Edge | None], n_outputs: int = 1) -> None:
        self.edges: tuple[Edge | None, ...] = tuple(edges)
        self.sequence = next_number()  # edges exist by now: numbers fall along every path
        if n_outputs != 1:
            self.n_outputs = n_outputs
        if MODES.anomaly is not None:
            MODES.anomaly.remember(self)

    def set_edges(self, edges: Sequence[Edge | None]) -> None:
        """Connect a node that was made before its edges; it is numbered again, after what they lead to."""
        self.edges = tuple(edges)
        self.sequence = next_number()

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The nodes this one passes gradients to, with the output number each edge stands for."""
        return tuple((None, 0) if e is None else e for e in self.edges)

    def result_type(self, number: int) -> TensorType | None:
        """The type of output ``number``, where the node knows it."""
        del number
        return None

    @property
    def metadata(self) -> dict[str, Any]:
        """A dictionary for whatever should be remembered with this node."""
        if self._metadata is None:
            self._metadata = {}
        return self._metadata

    def name(self) -> str:
        """The name printed for this node, such as ``MulBackward0``."""
        return type(self).__name__

    def apply(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        """Gradients of the inputs, one per edge, from gradients of the outputs."""
        raise NotImplementedError

    def come_by(self) -> Sequence[Tensor | None]:
        """What ``apply`` is where a pass comes by that has no gradient for any output: it looks at what was saved."""
        return [None] * len(self.edges)

    def way(self, outputs: int) -> int:
        """The bits of the edges that a pass comes to from outputs with these bits, for a ``partial`` node."""
        del outputs
        return -1

    def filled(self, grads: list[Tensor | None], silent: int) -> list[Tensor | None]:
        """The gradients for a ``partial`` node to whose outputs with these bits a pass comes without one."""
        del silent
        return grads

    def into_leaves(self, output: Tensor, steps: Steps | None = None) -> bool:
        """Run the pass from ``output``, a result of this node, down to its leaves; False where that takes a walk.

        With ``steps``, ``output`` is what they made of the node's one result.
        """
        return False

    def for_leaves(
        self, output: Tensor, wanted: Sequence[Tensor], keep: bool, steps: Steps | None = None
    ) -> list[Tensor] | None:
        """The gradients of leaves in a pass from ``output`` that stores none; None where that takes a walk."""
        return None

    def release(self) -> None:
        """Drop what was saved for backward."""

    def left_off(self) -> None:
        """A pass that was not to keep the graph ended in an error of this node."""

    def apply_part(
        self, grads: list[Tensor | None], wanted: Sequence[bool]
    ) -> Sequence[Tensor | None]:
        """Like ``apply``, for a ``partial`` node of which only some gradients are ``wanted``."""
        del wanted
        return self.apply(grads)

    def split(self, watched: Sequence[int], grads: Sequence[Tensor | None]) -> Split | None:
        """A pass in pieces, for a ``joint`` node, where gradients come to ``watched`` outputs by way of others."""
        del watched, grads
        return None

    def release_part(self, grads: Sequence[Tensor | None], wanted: Sequence[bool]) -> None:
        """Drop what a pass with these gradients came by."""
        del grads, wanted
        self.release()

    @property
    def keeps(self) -> bool:
        """Would ``release`` drop something that another pass would need?"""
        return False

    @property
    def freed(self) -> bool:
        """Was something dropped that another pass would need?"""
        return False

    def register_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(grad_inputs, grad_outputs)`` after this node ran; it may return other ``grad_inputs``."""
        if self.hooks is None:
            self.hooks = {}
        self._tell_recorder()
        self.hooked = True
        return RemovableHandle(self.hooks, hook)

    def register_prehook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(grad_outputs)`` before this node runs; it may return other ``grad_outputs``."""
        if self.prehooks is None:
            self.prehooks = {}
        self._tell_recorder()
        self.hooked = True
        return RemovableHandle(self.prehooks, hook)

    def register_tensor_hook(self, number: int, hook: Hook) -> RemovableHandle:
        """Call ``hook(grad)`` on the gradient of output ``number``."""
        if self.tensor_hooks is None:
            self.tensor_hooks = {}
        self.hooked = True
        return RemovableHandle(self.tensor_hooks.setdefault(number, {}), hook)

    def retain(self, number: int, tensor: Tensor) -> None:
        """Store the gradient of output ``number`` in ``tensor.grad``, after all hooks."""
        if self.retained is None:
            self.retained = {}
        self.hooked = True
        self.retained[number] = weakref.ref(tensor)

    def _tell_recorder(self) -> None:
        if MODES.recorder is not None:
            MODES.recorder.hooked("a hook on a node inside a compiled function", self)

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


class AccumulateGrad(Node):
    """The end of a path: adds what arrives to ``variable.grad``."""

    def __init__(self, leaf: Tensor) -> None:
        super().__init__(())
        self.variable = leaf

    def result_type(self, number: int) -> TensorType:
        """That of the leaf."""
        del number
        kind: TensorType = self.variable.spec
        return kind

    @classmethod
    def of(cls, leaf: Tensor) -> AccumulateGrad:
        """The one node of ``leaf``, kept as long as a graph uses it."""
        reference = leaf._accumulate
        node = None if reference is None else reference()
        if node is None:
            node = cls(leaf) if MODES.anomaly is not None else _plain_end(leaf)
            leaf._accumulate = weakref.ref(node)
            if leaf._end_number is not None:
                node.sequence = leaf._end_number
        return node


def _plain_end(leaf: Tensor) -> AccumulateGrad:
    """``AccumulateGrad(leaf)``, which every call makes that a leaf is given to, without asking what it always asks."""
    node = _new(AccumulateGrad)
    node.edges = ()
    node.sequence = next_number()
    node.variable = leaf
    return node


_new = object.__new__
