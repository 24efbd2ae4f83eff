"""Writing to tensors in place: what autograd refuses, version counters, and histories through views."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import ops
from .autograd.node import Node, next_number
from .autograd.op_node import OpNode, Overwritten
from .cuda.arrays import MODULES, address_of, is_writeable, owner_of, repeated_dims, write_into
from .errors import AutogradError, DtypeError, ShapeError
from .meta import ANY, NO_DATA, is_meta
from .mirrored import Mirrored, memory_of_tensor, mirrored
from .modes import MODES
from .ops import memory_views, movement
from .tensor_core import _SEVERAL, Version, ViewStep
from .tensor_parts import PartMethods

if TYPE_CHECKING:
    from .tensor import Tensor

_COPY_HINT = "Wrap the update in `with tj.no_grad():`, or clone() the tensor first."
_LOOK_BACK = 32  # nodes one in-place function is made of, at most


class InplaceMethods(PartMethods):
    """The one way values change: ``_assign``."""

    __slots__ = ()

    def _check_inplace(self) -> None:
        """Refuse what autograd cannot follow."""
        if self._inference and not MODES.inference:
            raise AutogradError(
                "Inplace update to inference tensor outside InferenceMode is not allowed. You can make "
                "a clone to get a normal tensor before doing inplace update."
            )
        if not MODES.grad:
            return
        base = self._base
        if base is not None and (base._requires_grad or self._requires_grad):
            if self._untracked_view:
                raise AutogradError(
                    "A view was created in no_grad mode and is being modified inplace with grad mode "
                    "enabled.",
                    "Take the view outside no_grad, or clone() it.",
                )
            self._check_whole()
            if base.is_leaf:  # or a view of it that was made a leaf, and a view of that
                raise AutogradError(
                    "a view of a leaf Variable that requires grad is being used in an in-place operation.",
                    _COPY_HINT,
                )
        if self._requires_grad and self.is_leaf:
            raise AutogradError(
                "a leaf Variable that requires grad is being used in an in-place operation.",
                _COPY_HINT,
            )

    def _check_whole(self) -> None:
        """Refuse one of several views, which autograd cannot follow."""
        if self._piece is not None:
            raise AutogradError(
                f"{self._piece} is a view and is being modified inplace. {_SEVERAL}"
            )

    def _next_node(self) -> int:
        """The number of the first node that is made from now on."""
        return next_number() if MODES.grad else 0

    def _assign(self, new: Tensor, since: int = 0, own: Tensor | None = None) -> Tensor:
        """Overwrite the values in place with ``new`` (broadcast, cast) and take over its history.

        ``since`` is the number of the first node that the function which computed ``new`` can have made. ``own`` is
        what that was given for this tensor, where another operand shows its memory, too.
        """
        if self._is_mere_memory() and self._write_part(self._array, new):
            return self  # type: ignore[return-value]
        self._check_inplace()
        if MODES.recorder is not None:
            MODES.recorder.trial_writes(self)
        MODES.before_write()
        given = new
        new = self._conform(new)
        if self._stands_for_samples():
            self._block.assign(new, MODES.grad and (new.requires_grad or self._requires_grad))
            self._writes.value += 1
            return self  # type: ignore[return-value]
        target, base = memory_of_tensor(self), self._base
        from_tape = new.requires_grad
        tracked = MODES.grad and (
            from_tape or self._requires_grad or (base is not None and base._requires_grad)
        )
        if tracked:
            self._check_whole()
        if ANY[0] and is_meta(new.array) and not is_meta(target):
            raise NotImplementedError(NO_DATA)
        if not is_writeable(target):
            target = self._writeable(tracked, given)
        if tracked and from_tape:
            made = new._grad_fn
            if made is None or made.sequence < since or new._base is not None:
                new = ops.elementwise.clone(new)  # this becomes a copy of it, not the tensor itself
            assert new._grad_fn is not None
            self._keep_saved(new._grad_fn, since, own)
        if not (ANY[0] and is_meta(target)):
            turned = type(self._block) is Mirrored
            write_into(target, mirrored(new.array) if turned else new.array)
        self._writes.value += 1
        if MODES.recorder is not None:
            MODES.recorder.assign(self, new)
        if tracked:
            self._rebase(new)
        result: Any = self
        return result  # type: ignore[no-any-return]

    def _writeable(self, tracked: bool, given: Tensor) -> Any:
        """The memory of a part of an expanded tensor in which no element stands for two, or all become one number."""
        array, base = memory_of_tensor(self), self._base
        if array.size == 0 and not tracked:
            return array.copy()
        repeating = (movement.expand, memory_views.as_strided)
        expanded = any(op in repeating for op, _ in self._chain)
        repeated = repeated_dims(array.strides, array.shape) and given.spec.numel != 1
        if repeated or (expanded and tracked and not self._by_strides(array)):
            raise AutogradError(
                "unsupported operation: more than one element of the written-to tensor refers to a "
                "single memory location. Please clone() the tensor before performing the operation."
            )
        source = array if base is None else base.array
        # What was detached from an expanded tensor has no base: its elements tell.
        expanded = expanded or bool(repeated_dims(source.strides, source.shape))
        if expanded and not self._writes.read_only and is_writeable(owner_of(source)):
            memory = memory_of(source)
            if memory is not None:
                offset = address_of(array) - address_of(memory)
                return np.ndarray(array.shape, array.dtype, memory, offset, array.strides)
        raise AutogradError(
            "the tensor is read-only: it shares memory with a read-only array",
            "clone() it before writing to it.",
        )

    def _by_strides(self, array: Any) -> bool:
        """Lead from the base to this view in one step, which values can be written through; False if there is none."""
        base: Any = self._base
        whole = base.array
        size = array.itemsize
        if not whole.flags.c_contiguous or whole.itemsize != size or whole.size == 0:
            return False
        if Mirrored in (type(self._block), type(base._block)):
            return False
        place = {
            "size": tuple(array.shape),
            "stride": tuple(step // size for step in array.strides),
            "start": (address_of(array) - address_of(whole)) // size,
        }
        if min(place["stride"], default=0) < 0:
            return False
        self._chain = ((memory_views.as_strided, place),)
        return True

    def _conform(self, new: Tensor) -> Tensor:
        """``new`` in this tensor's shape and dtype; an error when it does not fit."""
        here, there = self.spec, new.spec
        if there.dtype.rank > here.dtype.rank:
            raise DtypeError(
                f"result type {there.dtype.title} can't be cast to the desired output type {here.dtype.title}"
            )
        if there.shape != here.shape:
            if not _expands(there.shape, here.shape):
                raise ShapeError(
                    f"output with shape {list(here.shape)} doesn't match the broadcast shape "
                    f"{list(there.shape)}"
                )
            new = ops.movement.expand(new, shape=here.shape)
        if MODULES and not new._unplaced and there.shape and new.get_device() != self.get_device():
            new = new.to(self.device)
        if there.dtype is not here.dtype:
            new = ops.elementwise.cast(new, dtype=here.dtype)
        return new

    def _keep_saved(self, last: Node, since: int, only: Tensor | None) -> None:
        """Nodes of ``new`` that saved this tensor get a copy of the values that are about to go.

        ``x.mul_(w)`` differentiates with respect to w by the old x. Nodes from before the in-place function keep what
        they saved: their backward pass refuses it, for it has changed. So does that of ``x.mul_(x)``, which saved ``x``
        as the other operand; ``only`` is what counts as this tensor then.
        """
        own = self._edge()
        since = max(since, own[0].sequence + 1 if own is not None else 0)
        recent: list[tuple[int, Node]] = [(-last.sequence, last)]
        seen = {last}
        kept: dict[int, Tensor] = {}
        for _ in range(_LOOK_BACK):
            if not recent:
                return
            node = heapq.heappop(recent)[1]
            if node.sequence < since:
                return
            if isinstance(node, OpNode) and node.saved:
                self._copy_saved(node.saved, kept, only)
            for edge in node.edges:
                if edge is not None and edge[0] not in seen:
                    seen.add(edge[0])
                    heapq.heappush(recent, (-edge[0].sequence, edge[0]))

    def _copy_saved(
        self, saved: dict[str, Any], kept: dict[int, Tensor], only: Tensor | None
    ) -> None:
        version = self._writes
        for entry in saved.values():
            tensor = getattr(entry, "tensor", None)
            if tensor is None or tensor._writes is not version or entry.version != version.value:
                continue
            if only is not None and tensor is not only:
                continue
            if id(tensor) not in kept:
                copy = tensor._alias()
                copy._array, copy._block, copy._pointer, copy._layout = (
                    tensor.array.copy(),
                    None,
                    0,
                    None,
                )
                copy._writes = Version()
                if MODES.recorder is not None:
                    MODES.recorder.copied(tensor, copy)
                edge = None if entry.is_output else tensor._edge()
                if edge is not None:
                    copy._continue_from(edge)
                kept[id(tensor)] = copy
            entry.tensor, entry.version = kept[id(tensor)], 0

    # --- histories --------------------------------------------------------------------------------

    def _rebase(self, new: Tensor) -> None:
        """Make ``new``'s history this tensor's, and through the base that of every other view."""
        base = self._base
        if base is None:
            self._take_history(new)
            self._writes.history += 1
            self._history = self._writes.history
            return
        recorder, MODES.recorder = MODES.recorder, None
        try:
            before = base._alias()
            before._writes = Version()
            edge = base._edge()
            if edge is not None:
                before._continue_from(edge)
            base._take_history(write_through(before, self._path(), new))
        finally:
            MODES.recorder = recorder
        self._writes.history += 1
        base._history = self._writes.history
        self._refresh()

    def _take_history(self, new: Tensor) -> None:
        self._rebound()
        before = self._edge()
        if new._requires_grad:
            self._requires_grad, self._grad_fn = True, new._grad_fn
            self._output_nr = new._output_nr
        elif before is not None:
            self._grad_fn, self._output_nr = Overwritten([before]), 0
        if self._retains_grad and self._grad_fn is not None:
            if before is not None and before[0].retained is not None:
                before[0].retained.pop(before[1], None)
            self._grad_fn.retain(self._output_nr, self)  # type: ignore[arg-type]


def _expands(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Does ``shape`` broadcast to exactly ``target``?"""
    ahead = len(target) - len(shape)
    return ahead >= 0 and all(a in (1, b) for a, b in zip(shape, target[ahead:], strict=True))


def memory_of(array: Any) -> Any:
    """What lies behind a host array, as one row; None where it has gaps.

    >>> import numpy as np
    >>> memory_of(np.zeros((3, 2))[1:].T).shape
    (6,)
    """
    array = owner_of(array)
    flags = array.flags
    return array.reshape(-1, order="A") if flags.c_contiguous or flags.f_contiguous else None


def write_through(base: Any, chain: Sequence[ViewStep], value: Any) -> Any:
    """``base`` with ``value`` written where the chain of view ops would read; works on tensors and IR values.

    >>> import tracejit as tj
    >>> base = tj.zeros(2, 2)
    >>> chain = [(tj.ops.table.lookup("permute"), {"dims": (1, 0)})]
    >>> write_through(base, chain, tj.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[1., 3.],
            [2., 4.]])
    """
    if not chain:
        return value
    (op, attributes), rest = chain[0], chain[1:]
    if rest:
        value = write_through(op(base, **attributes), rest, value)
    return ops.inverse.write(op, attributes, base, value)
