"""The nodes of table ops: what eager execution adds to the autograd graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import AutogradError
from ..extents import hint
from ..layout import layout_of
from ..modes import MODES
from ..ops.table import Op
from ..types import TensorType, Turned
from .names import torch_name
from .node import FREED, Edge, Node, next_number
from .rules import differentiate_operands
from .saved import SavedTensor

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__ = ["OpNode", "Overwritten", "Steps"]

_new = object.__new__


def _as_it_lies(x: Tensor) -> TensorType:
    """The type of a tensor, which tells whether it is a transposed matrix."""
    spec: TensorType = x.spec
    if len(spec.shape) == 2:
        rows, columns = map(hint, spec.shape)  # of this run: how it lies is the same for all
        if rows > 1 < columns and layout_of(x).strides == (1, rows):
            return Turned(spec.shape, spec.dtype)
    return spec


class OpNode(Node):
    """The backward step of one table op; its gradients are the op's own rules."""

    op: Op
    attributes: dict[str, Any]
    operands: tuple[Any, ...]  # types of tensors, values of numbers
    out_type: Any
    saved: dict[str, Any] | None
    ends_in_leaves = True

    @classmethod
    def record(
        cls, op: Op, operands: tuple[Any, ...], attributes: dict[str, Any], out: Tensor
    ) -> None:
        """Make ``out`` the result of ``op`` in the graph."""
        edges: list[Edge | None] = []
        types: list[Any] = []
        wanted: list[int] = []
        ends = False  # where a view has no history, but is of a tensor that requires grad
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
                    elif x.requires_grad:
                        ends = True
            edges.append(edge)
        if not wanted and not ends:
            return
        if op.follows:
            types = [_as_it_lies(x) if hasattr(x, "_edge") else x for x in operands]
        saved: dict[str, Any] = {}
        for name, position in op.saves(tuple(wanted)):
            x = out if position < 0 else operands[position]
            saved[name] = SavedTensor(x, position < 0) if hasattr(x, "_edge") else x
        node = cls.made(op, attributes, tuple(types), out.spec, saved, tuple(edges))
        if MODES.anomaly is not None:
            MODES.anomaly.remember(node)
        out._requires_grad = True
        out._grad_fn = node

    @classmethod
    def made(
        cls,
        op: Op,
        attributes: dict[str, Any],
        operands: tuple[Any, ...],
        out_type: Any,
        saved: dict[str, Any],
        edges: tuple[Edge | None, ...],
    ) -> OpNode:
        """The node with these fields, and the next number."""
        node = _new(cls)
        node.op = op
        node.attributes = attributes
        node.operands = operands
        node.out_type = out_type
        node.saved = saved
        node.edges = edges
        node.sequence = next_number()  # as __init__ does, without the call
        return node

    def name(self) -> str:
        """PyTorch's name of the node where it has this op."""
        if self.label is not None:
            return f"{self.label}Backward0"
        return torch_name(self.op.name, self.operands, self.attributes)

    def result_type(self, number: int) -> TensorType | None:
        """That of the op's result."""
        return self.out_type if number == 0 and type(self.out_type) is not tuple else None

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

    def come_by(self) -> Sequence[Tensor | None]:
        """Nothing; what was saved must be there, as it was."""
        if self.saved is None:
            raise AutogradError(FREED)
        for kept in self.saved.values():
            if type(kept) is SavedTensor:
                kept.values(self)
        return [None] * len(self.edges)

    def into_leaves(self, output: Tensor, steps: Steps | None = None) -> bool:
        """Run the pass through steps that read no tensors and the short way of the node under them."""
        found = None if steps is not None or self.out_type.shape else _steps_from(self)
        if found is None or not found.end.into_leaves(output, found):
            return False
        found.release()
        return True

    def for_leaves(
        self, output: Tensor, wanted: Sequence[Tensor], keep: bool, steps: Steps | None = None
    ) -> list[Tensor] | None:
        """The gradients of leaves at the end of the short way of the node under steps that read no tensors."""
        found = None if steps is not None or self.out_type.shape else _steps_from(self)
        if found is None:
            return None
        gradients = found.end.for_leaves(output, wanted, keep, found)
        if gradients is not None and not keep:
            found.release()
        return gradients

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


@dataclass(slots=True, frozen=True, eq=False)
class Steps:
    """Steps from the number ``nodes[0]`` made down to the node ``end``: what they hand it follows from ``key`` alone.

    Such are ``.sum()``, ``.mean()``, ``* 0.5`` after compiled code: they read no tensors, so that a pass that begins
    with one ends with the same gradient every time.
    """

    nodes: list[OpNode]
    key: tuple[Any, ...]
    end: Node

    def gradient(self, one: Tensor) -> Tensor | None:
        """The gradient that ``end`` gets where the pass begins with ``one``."""
        grad_mode, MODES.grad = MODES.grad, False
        try:
            gradient: Tensor | None = one
            for node in self.nodes:
                if gradient is None:
                    return None
                gradient = next(g for g in node.apply([gradient]) if g is not None)
        finally:
            MODES.grad = grad_mode
        return gradient

    def release(self) -> None:
        """Do what a pass does with nodes it is done with."""
        for node in self.nodes:
            node.release()


#: Of how many steps a short way may be.
_MOST_STEPS = 8


def _steps_from(node: OpNode) -> Steps | None:
    """The steps to the first node of another kind that may know a short way; None where one of them reads tensors."""
    if MODES.recorder is not None or MODES.anomaly is not None:
        return None
    nodes: list[OpNode] = []
    key: list[Any] = []
    below: Node = node
    while type(below) is OpNode:
        saved = below.saved
        if saved is None or below.hooked or len(nodes) == _MOST_STEPS:
            return None
        for kept in saved.values():
            if type(kept) is SavedTensor or not kept or kept != kept:
                return None  # keys tell neither zeros nor NaNs apart
        end = None
        for edge in below.edges:
            if edge is not None:
                if end is not None:
                    return None
                end = edge
        if end is None or end[0].n_outputs != 1:
            return None
        nodes.append(below)
        key.append((below.op, below.operands, *below.attributes.values()))
        below = end[0]
    return Steps(nodes, tuple(key), below) if below.ends_in_leaves else None
