"""Changes of tensors where autograd does not look: under ``no_grad``, through ``detach()`` and ``.data``.

A leaf stays the end of the tape, whatever its values are: what is computed from new ones has its gradient there, too.
Steps of the tape that kept a tensor see what is put into it through ``.data``; results must not lead to such steps,
whose gradients the graph knows from the values that the tensor had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ..autograd.node import AccumulateGrad, Node, next_number
from ..autograd.op_node import OpNode
from ..ir.graph import Value
from ..ops.continued import continued
from ..tensor import Tensor
from ..tensor_core import Version
from .freeing import kept_by
from .hooks_inside import UNSEEN


class UnseenWrites:
    """The part of a recorder that knows which writes the tape does not."""

    trial: Any
    builder: Any
    external: dict[int, tuple[Tensor, Value]]
    unseen_writes: list[Version]
    inside: Callable[[Tensor], bool]
    may_be_saved: Callable[..., bool]
    nodes_behind: Callable[[Iterable[Tensor]], Iterator[Node]]
    note: Callable[[Value], None]
    opaque: Callable[..., None]
    origin: Callable[[Tensor], tuple[Tensor, tuple[Any, ...]]]

    def __init__(self) -> None:
        #: Tensors that were changed under steps which may have kept them, the number of the next step, and why.
        self.stale: list[tuple[Tensor, int, str]] = []

    def goes_on(self, tensor: Tensor) -> bool:
        """Is this a leaf from outside, which stays the end of the tape with other values?"""
        outside = id(tensor) in self.external and self.trial is None
        return outside and tensor._requires_grad and tensor.is_leaf

    def unseen(self, viewed: Tensor, tensor: Tensor) -> bool:
        """What requires grad is changed where autograd does not look; does it, a leaf, go on with other values?"""
        if self.goes_on(tensor):
            return True
        if self.trial is None and self.inside(viewed):
            self.unseen_writes.append(viewed._writes)
        else:
            self.opaque(UNSEEN, viewed)
        return False

    def continues(self, after: Value, before: Value) -> Value:
        """``after``, the values of a leaf that held ``before``."""
        with self.builder.writing():
            result: Value = continued(after, before)
        self.note(result)
        return result

    def changed_beneath(self, tensor: Tensor, reason: str, but: Value | None = None) -> None:
        """What steps of the tape kept of ``tensor`` changes, and they do not notice; not counted is that of a value."""
        if not self.may_be_saved(tensor, except_for=but):
            return
        if self.trial is not None:
            self.opaque(reason)
        else:
            self.stale.append((tensor, next_number(), reason))

    def check_kept(self, outputs: Sequence[Tensor]) -> None:
        """Refuse results that lead to steps which kept what was changed beneath them."""
        if not self.stale:
            return
        for node in self.nodes_behind(outputs):
            if isinstance(node, AccumulateGrad):
                continue
            for tensor, number, reason in self.stale:
                if node.sequence < number and self._kept(node, tensor):
                    self.opaque(reason)
                    return

    def _kept(self, node: Node, tensor: Tensor) -> bool:
        if not isinstance(node, OpNode):
            return True
        return any(
            entry.tensor._writes is tensor._writes or self.origin(entry.tensor)[0] is tensor
            for entry in kept_by(node)
        )
