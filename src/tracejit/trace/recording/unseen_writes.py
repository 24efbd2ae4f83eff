"""Changes of tensors where autograd does not look: under ``no_grad``, through ``detach()`` and ``.data``.

A leaf stays the end of the tape, whatever its values are: what is computed from new ones has its gradient there, too.
Steps of the tape that kept a tensor see what is put into it through ``.data``; results must not lead to such steps,
whose gradients the graph knows from the values that the tensor had.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...autograd.function import FunctionNode
from ...autograd.node import AccumulateGrad, Node, next_number
from ...autograd.op_node import OpNode
from ...ir.graph import Value
from ...ops.continued import continued
from ...tensor import Tensor
from ...tensor_core import Version
from ..backward.freeing import kept_by
from .hooks_inside import UNSEEN
from .kept_alive import KeptAlive

#: How hard it may be to tell whether two views have an element in common.
MAX_WORK: Any = 1000
#: References to a tensor that is looked at in a list, and is in no other place.
_LISTED = 3


class UnseenWrites:
    """The part of a recorder that knows which writes the tape does not."""

    trial: Any
    builder: Any
    roots: dict[int, Value]
    parents: dict[int, tuple[Tensor, tuple[Any, ...]]]
    alive: KeptAlive
    sharing: set[int]
    reads_later: list[Any]
    unsupported: Callable[[str], None]
    unseen_writes: list[Version]
    inside: Callable[[Tensor], bool]
    may_be_saved: Callable[..., bool]
    nodes_behind: Callable[[Iterable[Tensor]], Iterator[Node]]
    note: Callable[[Value], None]
    opaque: Callable[..., None]
    origin: Callable[[Tensor], tuple[Tensor, tuple[Any, ...]]]

    def __init__(self) -> None:
        #: Tensors that were changed under steps which may have kept them, the number of the next step, and why.
        self.stale: list[_Stale] = []

    def goes_on(self, tensor: Tensor) -> bool:
        """Does this tensor stay where it is on the tape, a leaf or a result, with other values?"""
        return self.trial is None and id(tensor) in self.roots and bool(tensor.requires_grad)

    def unseen(self, viewed: Tensor, tensor: Tensor) -> bool:
        """What requires grad is changed where autograd does not look; does it go on with other values?"""
        if self.goes_on(tensor):
            return True
        if self.trial is None and self.inside(viewed):
            self.unseen_writes.append(viewed._writes)
        else:
            self.opaque(UNSEEN, viewed)
        return False

    def continues(self, after: Value, before: Value) -> Value:
        """``after``, the values of what held ``before`` and stays where it is on the tape."""
        with self.builder.writing():
            result: Value = continued(after, before)
        self.note(result)
        return result

    def changed_beneath(
        self, tensor: Tensor, part: Tensor | None, reason: str, but: Value | None = None
    ) -> None:
        """What steps of the tape kept of a ``part`` of ``tensor``, or of it all, changes, and they do not notice.

        Not counted is that of a value.
        """
        if id(tensor) in self.sharing and self._shown_elsewhere(
            tensor, tensor if part is None else part
        ):
            self.unsupported("an in-place change of what a custom function returned")
        if not self.may_be_saved(tensor, except_for=but):
            return
        if self.trial is not None:
            self.opaque(reason)
        else:
            kept = weakref.ref(tensor), tensor._writes, None if part is None else part.array
            self.stale.append(_Stale(*kept, next_number(), reason))

    def check_kept(self, outputs: Sequence[Tensor]) -> None:
        """Refuse results that lead to steps which kept what was changed beneath them."""
        if not self.stale:
            return
        known: dict[int, list[_Stale]] = {}  # by what tells that a tensor is the one, or shows it
        for stale in self.stale:
            for key in (stale.version, stale.tensor()):
                known.setdefault(id(key), []).append(stale)
        for node in self.nodes_behind(outputs):
            if not isinstance(node, AccumulateGrad):
                found = next(self._kept_stale(node, known), None)
                if found is not None:
                    self.opaque(found.reason)
                    return

    def _shown_elsewhere(self, tensor: Tensor, part: Tensor) -> bool:
        """Can a part of ``tensor``, which a custom function was given or returned, be read by another name?"""
        self.alive.sweep(len(self.alive))
        tensors, place = self.alive.tensors, part.array
        for x in tensors:
            if x is tensor or x._array is None or _far(x.array, place):
                continue
            if self.origin(x)[0] is not tensor and _meet(x.array, place):
                shown = sum(source is x for source, _ in self.parents.values())
                shown += sum(view._base is x for view in tensors)
                if sys.getrefcount(x) > shown + _LISTED:  # else views of it are all there is
                    return True
        return False

    def _kept_stale(self, node: Node, known: Mapping[int, list[_Stale]]) -> Iterator[_Stale]:
        """The changes of what a step had kept."""
        followed = isinstance(node, FunctionNode) and not self.reads_later
        if not followed and not isinstance(node, OpNode):
            yield from (stale for stale in self.stale if node.sequence < stale.number)
            return
        for x in [entry.tensor for entry in kept_by(node)]:
            for key in (x._writes, self.origin(x)[0]):
                for stale in known.get(id(key), ()):
                    later = node.sequence < stale.number
                    if later and (x._array is None or _meet(x.array, stale.part)):
                        yield stale


@dataclass(frozen=True, eq=False)
class _Stale:
    """A tensor of which a part, or all, was changed under steps made before the one of this number."""

    tensor: weakref.ref[Tensor]
    version: Version
    part: Any
    number: int
    reason: str


def _far(one: Any, other: Any) -> bool:
    """Do two arrays lie in different stretches of memory, which is soon found out?"""
    return type(one) is type(other) is np.ndarray and not np.may_share_memory(one, other)


def _meet(one: Any, other: Any) -> bool:
    """May two arrays have an element in one place?"""
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return True
    try:
        return np.shares_memory(one, other, MAX_WORK)
    except np.exceptions.TooHardError:
        return True
