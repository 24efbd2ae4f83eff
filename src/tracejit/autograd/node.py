"""Nodes of the autograd graph: one per recorded op, one per leaf, edges between them.

Every node is numbered when it is made, after the nodes its edges lead to: numbers fall along every path,
which is what lets the backward walk run in one pass (see ``engine``).
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import AutogradError
from ..modes import MODES
from ..ops.table import Op
from .handle import RemovableHandle
from .names import torch_name
from .rules import differentiate_operands, fit
from .saved import SavedTensor

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__ = [
    "FREED",
    "AccumulateGrad",
    "Edge",
    "Node",
    "OpNode",
    "Overwritten",
    "SavedTensor",
    "differentiate_operands",
    "fit",
]

Edge = tuple["Node", int]
Hook = Callable[..., Any]

_next_number = itertools.count().__next__
next_number = (
    _next_number  # the number the next node would get; all nodes made before have lower ones
)


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
    partial = False  # does it free only what lies between the results and inputs of a pass?
    label: str | None = None  # the name a composite function gives its last node
    _metadata: dict[str, Any] | None = None

    def __init__(self, edges: Sequence[Edge | None], n_outputs: int = 1) -> None:
        self.edges: tuple[Edge | None, ...] = tuple(edges)
        self.sequence = _next_number()  # edges exist by now: numbers fall along every path
        if n_outputs != 1:
            self.n_outputs = n_outputs
        if MODES.anomaly is not None:
            MODES.anomaly.remember(self)

    def set_edges(self, edges: Sequence[Edge | None]) -> None:
        """Connect a node that was made before its edges; it is numbered again, after what they lead to."""
        self.edges = tuple(edges)
        self.sequence = _next_number()

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The nodes this one passes gradients to, with the output number each edge stands for."""
        return tuple((None, 0) if e is None else e for e in self.edges)

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

    def into_leaves(self, output: Tensor) -> bool:
        """Run the pass from ``output``, a result of this node, down to its leaves; False where that takes a walk."""
        return False

    def for_leaves(
        self, output: Tensor, wanted: Sequence[Tensor], keep: bool
    ) -> list[Tensor] | None:
        """The gradients of leaves in a pass from ``output`` that stores none; None where that takes a walk."""
        return None

    def release(self) -> None:
        """Drop what was saved for backward."""

    def apply_part(
        self, grads: list[Tensor | None], wanted: Sequence[bool]
    ) -> Sequence[Tensor | None]:
        """Like ``apply``, for a ``partial`` node of which only some gradients are ``wanted``."""
        del wanted
        return self.apply(grads)

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
    node.sequence = _next_number()
    node.variable = leaf
    return node


_new = object.__new__


class OpNode(Node):
    """The backward step of one table op; its gradients are the op's own rules."""

    op: Op
    attributes: dict[str, Any]
    operands: tuple[Any, ...]  # types of tensors, values of numbers
    out_type: Any
    saved: dict[str, Any] | None

    @classmethod
    def record(
        cls, op: Op, operands: tuple[Any, ...], attributes: dict[str, Any], out: Tensor
    ) -> None:
        """Make ``out`` the result of ``op`` in the graph."""
        edges: list[Edge | None] = []
        types: list[Any] = []
        wanted: list[int] = []
        rules, variadic = op.rules, op.variadic
        for position, x in enumerate(operands):
            edge = None
            if not hasattr(x, "_edge"):  # a number
                types.append(x)
            else:
                types.append(x.spec)
                tracked = x._requires_grad or x._base is not None
                if tracked and rules[0 if variadic else position] is not None:
                    edge = x._edge()
                    if edge is not None:
                        wanted.append(position)
            edges.append(edge)
        if not wanted:
            return
        node = _new(cls)
        node.op = op
        node.attributes = attributes
        node.operands = tuple(types)
        node.out_type = out.spec
        saved: dict[str, Any] = {}
        for name, position in op.saves(tuple(wanted)):
            x = out if position < 0 else operands[position]
            saved[name] = SavedTensor(x, position < 0) if hasattr(x, "_edge") else x
        node.saved = saved
        node.edges = tuple(edges)
        node.sequence = _next_number()  # as __init__ does, without the call
        if MODES.anomaly is not None:
            MODES.anomaly.remember(node)
        out._requires_grad = True
        out._grad_fn = node

    def name(self) -> str:
        """PyTorch's name of the node where it has this op."""
        if self.label is not None:
            return f"{self.label}Backward0"
        return torch_name(self.op.name, self.operands, self.attributes)

    @property
    def saved_tensors(self) -> dict[str, Any]:
        """What was saved for backward, by operand name."""
        if self.saved is None:
            raise AutogradError(FREED)
        return {
            name: s.unpack(self) if isinstance(s, SavedTensor) else s
            for name, s in self.saved.items()
        }

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_saved_"):
            values = self.saved_tensors | self.attributes
            if name[7:] in values:
                return values[name[7:]]
        raise AttributeError(f"{self.name()} has no attribute {name!r}")

    def apply(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        """Run the op's gradient rules."""
        if self.saved is None:
            raise AutogradError(FREED)
        known = {"g": grads[0], "out_type": self.out_type, "types": self.operands}
        for name, kept in self.saved.items():
            known[name] = kept.values(self) if type(kept) is SavedTensor else kept
        return differentiate_operands(self.op, self.operands, self.attributes, known, self.edges)

    def release(self) -> None:
        """Drop the saved tensors. A node that saved none can run again, as in PyTorch."""
        if self.saved:
            self.saved = None

    @property
    def keeps(self) -> bool:
        """Are there saved tensors or numbers?"""
        return bool(self.saved)

    @property
    def freed(self) -> bool:
        """Were the saved tensors dropped?"""
        return self.saved is None


class Overwritten(Node):
    """The step of a tensor that was overwritten with constants: nothing flows back, but it still requires grad."""

    def name(self) -> str:
        """PyTorch's name for it."""
        return "CopyBackwards"

    def apply(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        """Zeros."""
        (g,) = grads
        return [None if g is None else g.new_zeros(tuple(g.shape))]
