"""Tensors kept for backward: version checked, free of reference cycles, open to pack and unpack hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import AutogradError
from ..modes import MODES

if TYPE_CHECKING:
    from ..tensor import Tensor
    from .node import Node

INFERENCE = (
    "Inference tensors cannot be saved for backward. To work around you can make a clone to get a "
    "normal tensor and use it in autograd."
)


class SavedTensor:
    """A tensor kept for backward, with the version it had.

    An output is kept without its history, which would tie node and tensor into a cycle; the history is
    put back on access. With hooks (``autograd.graph.saved_tensors_hooks``) only what ``pack`` returned is kept.
    """

    __slots__ = ("edge", "is_output", "number", "packed", "tensor", "unpack_hook", "version")

    def __init__(self, tensor: Tensor, is_output: bool = False, number: int = 0) -> None:
        if tensor._inference:
            raise AutogradError(INFERENCE)
        self.version = tensor._writes.value
        self.is_output = is_output
        self.number = number
        self.tensor: Any = alias_of(tensor) if is_output else tensor
        self.unpack_hook: Any = None
        hooks = MODES.saved_hooks
        if hooks:
            self.edge = None if is_output else tensor._edge()
            self.unpack_hook = hooks[-1][1]
            self.tensor = None
            if MODES.recorder is None or not MODES.recorder.packs_later(self, tensor, hooks[-1][0]):
                self.pack(tensor, hooks[-1][0])

    def pack(self, tensor: Tensor, hook: Any) -> None:
        """Keep what the hook makes of ``tensor``."""
        grad, MODES.grad = MODES.grad, False
        try:
            self.packed = hook(alias_of(tensor))
        finally:
            MODES.grad = grad

    def unpack(self, node: Node) -> Tensor:
        """The saved tensor; an error when it was changed in place since."""
        if self.unpack_hook is not None:
            return self._unpack_packed(node)
        tensor: Tensor = self.tensor
        if tensor._writes.value != self.version:
            self._refuse(tensor, node)
        if tensor._detached > node.sequence and not self.is_output:
            self._refuse_detached(node)
        if MODES.recorder is not None and not tensor._stands_for_samples():
            MODES.recorder.unpacked(tensor)
        if not self.is_output:
            return tensor
        result = alias_of(tensor)
        result._requires_grad = True
        result._grad_fn = node
        if self.number:
            result._output_nr = self.number
        return result

    def values(self, node: Node) -> Tensor:
        """The saved tensor for a pass that records nothing: nobody asks where it came from."""
        if self.unpack_hook is not None or MODES.grad or MODES.recorder is not None:
            return self.unpack(node)
        tensor: Tensor = self.tensor
        if tensor._writes.value != self.version:
            self._refuse(tensor, node)
        if tensor._detached > node.sequence and not self.is_output:
            self._refuse_detached(node)
        return tensor

    def _unpack_packed(self, node: Node) -> Tensor:
        grad, MODES.grad = MODES.grad, False
        try:
            found = self.unpack_hook(self.packed)
        finally:
            MODES.grad = grad
        if not hasattr(found, "_alias"):
            raise ArgumentTypeError(found)
        if MODES.recorder is not None:
            MODES.recorder.unpacked(found)
        result = alias_of(found)
        edge = (node, self.number) if self.is_output else self.edge
        if edge is not None:
            result._continue_from(edge)
        return result

    def _refuse(self, tensor: Tensor, node: Node) -> None:
        made_by = node if self.is_output else tensor._grad_fn
        number = self.number if self.is_output else tensor._output_nr
        origin = "" if made_by is None else f", which is output {number} of {made_by.name()},"
        raise AutogradError(
            "one of the variables needed for gradient computation has been modified by an inplace "
            f"operation: [{tensor.dtype.tensor_name} {list(tensor.shape)}]{origin} is at version "
            f"{tensor._writes.value}; expected version {self.version} instead (saved by {node.name()}).",
            "Hint: clone() the tensor before changing it, or use the out-of-place operation.",
        )

    def _refuse_detached(self, node: Node) -> None:
        raise AutogradError(
            "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_(). This is not "
            f"supported, please use out-of-place `.detach()` instead (saved by {node.name()})."
        )


def alias_of(tensor: Tensor) -> Tensor:
    """The same storage without history; a recorder is told that it is the same."""
    other = tensor._alias()
    if MODES.recorder is not None and not tensor._stands_for_samples():
        MODES.recorder.alias(tensor, other)
    return other


class ArgumentTypeError(AutogradError, TypeError):
    """An unpack hook returned something else than a tensor."""

    def __init__(self, found: object) -> None:
        super().__init__(
            f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
            f"{type(found).__name__}"
        )
