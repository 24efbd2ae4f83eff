"""Nodes of the autograd graph: one per recorded op, one per leaf, edges between them."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..ops.movement import sum_to
from ..ops.elementwise import cast
from ..ops.table import Elementwise, Op
from ..types import TensorType

if TYPE_CHECKING:
    from ..tensor import Tensor

Edge = tuple["Node", int]

_sequence = itertools.count()

FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time."
)


class Node:
    """A step of the backward pass: gradients of its outputs in, gradients of its inputs out."""

    __slots__ = ("__weakref__", "edges", "hooks", "metadata", "n_outputs", "prehooks", "sequence", "tensor_hooks")

    def __init__(self, edges: Sequence[Edge | None], n_outputs: int = 1) -> None:
        self.edges = tuple(edges)
        self.n_outputs = n_outputs
        self.sequence = next(_sequence)
        self.hooks: dict[int, Callable[..., Any]] | None = None
        self.prehooks: dict[int, Callable[..., Any]] | None = None
        self.tensor_hooks: dict[int, dict[int, Callable[..., Any]]] | None = None
        self.metadata: dict[str, Any] | None = None

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The nodes this one passes gradients to, with the output number each edge stands for."""
        return tuple((None, 0) if e is None else e for e in self.edges)

    def name(self) -> str:
        """The name printed for this node, such as ``MulBackward0``."""
        return type(self).__name__

    def apply(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        """Gradients of the inputs, one per edge, from gradients of the outputs."""
        raise NotImplementedError

    def release(self) -> None:
        """Drop what was saved for backward."""

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


class AccumulateGrad(Node):
    """The end of a path: adds what arrives to ``leaf.grad``."""

    __slots__ = ("variable",)

    def __init__(self, leaf: Tensor) -> None:
        super().__init__(())
        self.variable = leaf

    @classmethod
    def of(cls, leaf: Tensor) -> AccumulateGrad:
        """The one node of ``leaf``, kept as long as a graph uses it."""
        reference = leaf._accumulate
        node = None if reference is None else reference()
        if node is None:
            node = cls(leaf)
            leaf._accumulate = weakref.ref(node)
        return node


class SavedTensor:
    """A tensor kept for backward, with the version it had.

    An output is kept without its history, which would tie node and tensor into a cycle; the history is put back on
    access.
    """

    __slots__ = ("is_output", "tensor", "version")

    def __init__(self, tensor: Tensor, is_output: bool = False) -> None:
        self.tensor = tensor._alias() if is_output else tensor
        self.version = tensor._version.value
        self.is_output = is_output

    def unpack(self, node: Node, op_name: str) -> Tensor:
        """The saved tensor; an error when it was changed in place since."""
        tensor = self.tensor
        if tensor._version.value != self.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"[{tensor.dtype!r} {list(tensor.shape)}], which "
                + (f"is output 0 of {node.name()}, " if self.is_output else f"was saved by {node.name()}, ")
                + f"is at version {tensor._version.value}; expected version {self.version} instead. "
                "Hint: clone() the tensor before changing it, or use the out-of-place operation."
            )
        if not self.is_output:
            return tensor
        result = tensor._alias()
        result._requires_grad = True
        result._grad_fn = node
        return result


class OpNode(Node):
    """The backward step of one table op; its gradients are the op's own rules."""

    __slots__ = ("attributes", "op", "operands", "out_type", "saved")

    def __init__(self, op: Op, edges: Sequence[Edge | None], attributes: dict[str, Any]) -> None:
        super().__init__(edges)
        self.op = op
        self.attributes = attributes

    @classmethod
    def record(
        cls, op: Op, operands: tuple[Any, ...], attributes: dict[str, Any], out: Tensor
    ) -> None:
        """Make ``out`` the result of ``op`` in the graph."""
        edges = [getattr(x, "_edge", _no_edge)() for x in operands]
        needed: set[str] = set()
        for position, edge in enumerate(edges):
            if edge is not None:
                rule = op.gradient_rule(position)
                if rule is None:
                    edges[position] = None
                else:
                    needed.update(rule.needs)
        if not any(edges):
            return
        node = cls(op, edges, attributes)
        node.operands = tuple(x.type if hasattr(x, "_edge") else x for x in operands)
        node.out_type = out.type
        node.saved = node._save(needed, operands, out)
        out._requires_grad = True
        out._grad_fn = node

    def _save(
        self, needed: set[str], operands: tuple[Any, ...], out: Tensor
    ) -> dict[str, Any] | None:
        saved: dict[str, Any] = {}
        for name, x in zip(self.op.operands, operands, strict=False):
            if name in needed:
                saved[name] = SavedTensor(x) if hasattr(x, "_edge") else x
        if "out" in needed:
            saved["out"] = SavedTensor(out, is_output=True)
        return saved

    def name(self) -> str:
        return "".join(part.title() for part in self.op.name.split("_")) + "Backward0"

    @property
    def saved_tensors(self) -> dict[str, Any]:
        """What was saved for backward, by operand name."""
        if self.saved is None:
            raise RuntimeError(FREED)
        return {
            name: s.unpack(self, self.op.name) if isinstance(s, SavedTensor) else s
            for name, s in self.saved.items()
        }

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_saved_"):
            values = self.saved_tensors | self.attributes
            if name[7:] in values:
                return values[name[7:]]
        raise AttributeError(f"{self.name()} has no attribute {name!r}")

    def apply(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        g = grads[0]
        known = {"g": g, "out_type": self.out_type, "types": self.operands, **self.saved_tensors}
        return differentiate_operands(
            self.op, self.operands, self.attributes, known, [e is not None for e in self.edges]
        )

    def release(self) -> None:
        self.saved = None


def _no_edge() -> None:
    return None


def differentiate_operands(
    op: Op,
    operand_types: Sequence[Any],
    attributes: dict[str, Any],
    known: dict[str, Any],
    wanted: Sequence[bool],
) -> list[Any]:
    """Run the gradient rules of ``op``: the one function behind the tape and IR differentiation.

    ``known`` maps ``g``, ``out``, operand names, ``out_type`` and ``types`` to tensors or IR values.
    """
    for name, kind in zip(op.operands, operand_types, strict=False):
        known[name + "_type"] = kind
    result: list[Any] = []
    for position, want in enumerate(wanted):
        rule = op.gradient_rule(position) if want else None
        if rule is None:
            result.append(None)
            continue
        known["position"] = position
        gradient = rule.function(*(known[n] if n in known else attributes[n] for n in rule.needs))
        result.append(fit(gradient, operand_types[position], isinstance(op, Elementwise)))
    return result


def fit(gradient: Any, operand: TensorType, broadcast: bool) -> Any:
    """A gradient in its operand's own shape and dtype."""
    if broadcast:
        gradient = sum_to(gradient, operand.shape)
    if gradient.dtype is not operand.dtype:
        gradient = cast(gradient, dtype=operand.dtype)
    return gradient
