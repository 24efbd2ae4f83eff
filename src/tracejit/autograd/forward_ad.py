"""Forward derivatives: tensors that carry a tangent, and the tangents of what is computed from them.

Inside a level everything is recorded as for backward passes. The tangent of a result is found from that record: the
gradient of the result is linear in the weights that a pass begins with, and the derivative of that with respect to the
weights is the product asked for (as in ``func.jvp``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import ArgumentValueError, AutogradError
from ..modes import MODES
from ..ops.source import full
from . import engine
from .node import AccumulateGrad, Edge, Node

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]


class UnpackedDualTensor(NamedTuple):
    """A tensor and its tangent; None for a tangent that it does not have."""

    primal: Any
    tangent: Any


class _Level:
    """What one level knows: where the tensors with tangents are in the graph, and their tangents."""

    def __init__(self) -> None:
        self.grad, MODES.grad = MODES.grad, True
        self.tangents: dict[Edge, Tensor] = {}


_levels: list[_Level] = []


class MakeDual(Node):
    """Where a tensor got a tangent: gradients go on to what the tensor was made from."""

    def name(self) -> str:
        """The name that is printed."""
        return "MakeDualBackward"

    def apply(self, grads: list[Tensor | None]) -> list[Tensor | None]:
        """What arrived, if there is somewhere to go."""
        return [None if self.edges[0] is None else grads[0]]


def enter_dual_level() -> int:
    """Begin a level, in which tensors can have tangents; its number, 0. ``RuntimeError`` inside another level.

    The gradient mode is on from then to the end of the level.

    >>> level = enter_dual_level()
    >>> exit_dual_level(level=level)
    """
    if _levels:
        raise AutogradError("Nested forward mode AD is not supported at the moment")
    if MODES.recorder is not None:
        MODES.recorder.unsupported("forward_ad inside a compiled function")
    _levels.append(_Level())
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End a level: tensors have no tangents any more. ``RuntimeError`` where there is none, or not this one.

    >>> _ = enter_dual_level()
    >>> exit_dual_level()
    """
    if not _levels or level not in (None, 0):
        raise AutogradError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    MODES.grad = _levels.pop().grad


class dual_level:  # noqa: N801
    """Inside, tensors can have tangents: ``with dual_level():``.

    >>> import tracejit as tj
    >>> from tracejit.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(tj.tensor([1.0, 2.0]), tj.tensor([1.0, 10.0]))
    ...     primal, tangent = forward_ad.unpack_dual(x * x)
    >>> primal, tangent
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *error: object) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """``tensor`` with a ``tangent`` of its shape: a view of it, which counts as one that requires grad.

    Raises ``RuntimeError`` outside a level and for another shape, ``ValueError`` for what has no derivative.

    >>> import tracejit as tj
    >>> with dual_level():
    ...     x = make_dual(tj.tensor(3.0), tj.tensor(1.0))
    ...     unpack_dual(x.sin()).tangent == tj.tensor(3.0).cos()
    tensor(True)
    """
    if not _levels or level not in (None, 0):
        raise AutogradError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    for name, given in (("primal", tensor), ("tangent", tangent)):
        if not given.dtype.is_differentiable:
            raise ArgumentValueError(
                f"Expected {name} to be floating point or complex, but got: {given.dtype!r}"
            )
    if tensor.shape != tangent.shape:
        raise AutogradError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(tensor.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}."
        )
    dual = tensor._alias()
    edge: Edge = MakeDual([tensor._edge()]), 0
    dual._continue_from(edge)
    _levels[-1].tangents[edge] = tangent
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The values of ``tensor`` and its tangent; None for that of a tensor which depends on none, or outside a level.

    Both can be differentiated where they depend on tensors that require grad.

    >>> import tracejit as tj
    >>> unpack_dual(tj.ones(2)).tangent is None
    True
    """
    edge = tensor._edge() if _levels else None
    if edge is None:
        return UnpackedDualTensor(tensor, None)
    tangents = _levels[-1].tangents
    nodes = _nodes_behind(edge[0])
    given = {e: t for e, t in tangents.items() if e[0] in nodes}
    if not given:
        return UnpackedDualTensor(tensor, None)
    outer = any(type(n) is AccumulateGrad for n in nodes) or any(
        t.requires_grad for t in given.values()
    )
    tangent = _product(tensor, edge, given, outer)
    if outer:
        return UnpackedDualTensor(tensor, tangent)
    return UnpackedDualTensor(tensor.detach(), tangent.detach())


def _nodes_behind(root: Node) -> set[Node]:
    """The nodes that a pass from ``root`` could come by."""
    seen = {root}
    stack = [root]
    while stack:
        for edge in stack.pop().edges:
            if edge is not None and edge[0] not in seen:
                seen.add(edge[0])
                stack.append(edge[0])
    return seen


def _product(tensor: Tensor, edge: Edge, given: dict[Edge, Tensor], outer: bool) -> Tensor:
    """The derivative of ``tensor`` along the tangents: that of its gradient with respect to the weights."""
    grad, MODES.grad = MODES.grad, True
    try:
        shape, dtype = tensor.spec.shape, tensor.dtype
        weights: Any = full(shape=shape, value=0, dtype=dtype).requires_grad_()
        end = weights._edge()
        node = MakeDual([end])
        weights = weights._alias()
        weights._continue_from((node, 0))
        first = engine.run(
            [(edge, weights)], retain_graph=True, create_graph=True, capture=list(given)
        )
        roots = [
            (root, given[e]) for e, found in first.items() if (root := found._edge()) is not None
        ]
        second: dict[Edge, Tensor] = {}
        if roots:
            second = engine.run(roots, retain_graph=True, create_graph=outer, capture=[end])
        zeros: Tensor = full(shape=shape, value=0, dtype=dtype)
        return second.get(end, zeros)
    finally:
        MODES.grad = grad
