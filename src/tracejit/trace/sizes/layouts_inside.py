"""How tensors of a recorded run lie in memory, where that hangs on sizes which are symbols of the recording.

What the run made lies row by row, arguments lie as their signature says, and what views do to strides is a rule in
plain arithmetic, which extents go through. So whether a tensor is contiguous is a comparison of extents like others.
"""

from __future__ import annotations

from collections.abc import Callable

from ...layout import layout_of
from ...ops import elementwise
from ...tensor import Tensor
from ...types import Shape, TensorType
from ..recording.recording import Step
from ..tree.structure import stride_pattern, strides_of
from .found_sizes import RecordedExtents, has_extents, plain


class LayoutsInside:
    """The part of a recorder that is asked how tensors lie."""

    scope: RecordedExtents | None
    origin: Callable[[Tensor], tuple[Tensor, tuple[Step, ...]]]

    def layout_read(self, tensor: Tensor) -> None:
        """The run asks how a tensor lies: where sizes have a part in that, it is known for these only."""
        if self.scope is None or self.scope.closed:
            return
        base, steps = self.origin(tensor)
        shapes = (base.spec.shape, [attributes for _, attributes in steps], tensor.spec.shape)
        if has_extents(shapes):
            for number in self.scope.values():
                int(self.scope.extent((((number,), 1),)))

    def is_row_major(self, tensor: Tensor, found: bool) -> bool:
        """Whether a tensor lies row by row without gaps, which was ``found`` for the sizes of this run."""
        if self.scope is not None and not self.scope.closed:
            strides = self._strides(tensor)
            if strides is None or _row_major(tensor.spec.shape, strides) is not found:
                self.layout_read(tensor)
        return found

    def _strides(self, tensor: Tensor) -> Shape | None:
        """The strides of a tensor, with extents in them; None where no rule tells."""
        base, steps = self.origin(tensor)
        kind, strides = base.spec, layout_of(base).strides
        if has_extents(kind.shape):
            pattern = stride_pattern(plain(kind.shape), strides)
            strides = strides_of(pattern, kind.shape) if pattern[0] == "dense" else strides
        for op, attributes in steps:
            if op is elementwise.detach_copy:
                continue
            rule = getattr(op, "strides", None)
            if rule is None:
                return None
            new: TensorType = op.infer((kind,), attributes)
            found = rule(kind.shape, strides, new.shape, **attributes)
            if found is None:
                return None
            kind, strides = new, found[1]
        return strides


def _row_major(shape: Shape, strides: Shape) -> bool:
    """Do elements with these strides lie row by row without gaps?"""
    if any(extent == 0 for extent in shape):
        return True
    step = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != step:
            return False
        step = step * extent
    return True
