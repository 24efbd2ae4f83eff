"""Views that calls return: how they lie is found at one call, and known at those after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...cuda.arrays import MODULES, address_of
from ...layout import MemoryLayout, layout_of
from ...meta import ANY
from ...mirrored import Mirrored
from ...modes import MODES
from ...tensor import Tensor
from ..recording.recording import Step


class _Lying(NamedTuple):
    """How a view lies in a tensor."""

    layout: MemoryLayout
    offset: int  # in bytes
    strides: tuple[int, ...]
    whole: bool  # the elements of the tensor in their order


class SeenAgain:
    """A chain of views of one tensor after the other.

    A dispatcher that looks at everything takes longer than the program of a small function. Of a tensor without history
    that lies as the one before, the same view shows the same elements.
    """

    __slots__ = ("detached", "known", "steps")

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = tuple(steps)
        self.detached = any(op.name == "detach_copy" for op, _ in steps)
        #: How the tensor lay, and the view in it; None for one that the ops have to make. One word, for any thread.
        self.known: tuple[MemoryLayout, _Lying | None] | None = None

    def show(self, tensor: Tensor) -> Tensor:
        """What the steps show of a tensor."""
        if self.detached or not _is_plain(tensor):
            return self.computed(tensor)
        known = self.known
        if known is None or known[0] is not tensor._layout:
            out = self.computed(tensor)
            self.known = layout_of(tensor), _lies(tensor, out)
            return out
        if known[1] is None:
            return self.computed(tensor)
        layout, offset, strides, whole = known[1]
        block = tensor._block
        if whole and tensor._array is None and block is not None:
            out = Tensor._of_block(block, layout.spec, layout)
        else:
            shape, dtype = layout.spec.shape, layout.spec.dtype.np
            out = Tensor._wrap(np.ndarray(shape, dtype, tensor.array, offset, strides))
        out._shows(tensor, self.steps)
        return out

    def computed(self, tensor: Tensor) -> Tensor:
        """The same by the ops themselves."""
        for op, attributes in self.steps:
            tensor = op(tensor, **attributes) if op.name != "detach_copy" else tensor.detach()
        return tensor


def _is_plain(tensor: Tensor) -> bool:
    """Has the tensor neither history nor base, and memory of the host for all that happens to it?"""
    return not (
        tensor._requires_grad
        or tensor._base is not None
        or MODULES
        or ANY[0]
        or type(tensor._block) is Mirrored
        or MODES.recorder is not None
        or MODES.builder is not None
    )


def _lies(tensor: Tensor, out: Tensor) -> _Lying | None:
    """How ``out`` lies in ``tensor``; None where it is no view of it that can be made again by its layout alone."""
    if out._base is not tensor or out._requires_grad or type(out._block) is Mirrored:
        return None
    array: Any = out.array
    whole = tensor.array
    if not whole.flags.c_contiguous or array.flags.writeable != whole.flags.writeable:
        return None
    layout = layout_of(out)
    offset = address_of(array) - address_of(whole) if layout.spec.numel else 0
    same = layout.spec.dtype is tensor.dtype and layout.spec.numel == tensor.numel() and not offset
    rows = tuple(s * layout.spec.dtype.itemsize for s in layout.spec.contiguous_strides())
    return _Lying(layout, offset, array.strides, same and array.strides == rows)
