"""Layers that pad: by a constant, by reflection, by the border or around."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..errors import ArgumentValueError
from . import functional as F
from .module import Module

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _Pad(Module):
    """Padding of the last ``rank`` dimensions: one width, or (before, after) from the last dimension on."""

    rank: ClassVar[int]
    mode: ClassVar[str]

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        given = isinstance(padding, (tuple, list))
        self.padding: Any = tuple(padding) if given else (padding,) * (2 * self.rank)  # type: ignore[arg-type]
        if len(self.padding) != 2 * self.rank:
            raise ValueError(
                f"{type(self).__name__}: expected {2 * self.rank} widths, got {len(self.padding)}"
            )

    def forward(self, input: Any) -> Any:
        """The padded tensor."""
        return F.pad(input, self.padding, mode=self.mode)

    def extra_repr(self) -> str:
        """The widths."""
        return str(self.padding)


class _ConstantPad(_Pad):
    """Padding by ``value``."""

    mode = "constant"

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Any) -> Any:
        """The padded tensor."""
        return F.pad(input, self.padding, mode="constant", value=self.value)

    def extra_repr(self) -> str:
        """The widths and the value."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """``value`` around the last dimension."""

    rank = 1


class ConstantPad2d(_ConstantPad):
    """``value`` around the last two dimensions."""

    rank = 2


class ConstantPad3d(_ConstantPad):
    """``value`` around the last three dimensions."""

    rank = 3


class _ZeroPad(_Pad):
    """Padding by zeros."""

    mode = "constant"


class ZeroPad1d(_ZeroPad):
    """Zeros around the last dimension."""

    rank = 1


class ZeroPad2d(_ZeroPad):
    """Zeros around the last two dimensions.

    >>> import tracejit as tj
    >>> tj.nn.ZeroPad2d((1, 0, 0, 1))(tj.ones(1, 1, 1))
    tensor([[[0., 1.],
             [0., 0.]]])
    """

    rank = 2


class ZeroPad3d(_ZeroPad):
    """Zeros around the last three dimensions."""

    rank = 3


class ReflectionPad1d(_Pad):
    """The last dimension reflected at its ends."""

    rank, mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """The last two dimensions reflected at their ends."""

    rank, mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    """The last three dimensions reflected at their ends."""

    rank, mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    """The ends of the last dimension repeated."""

    rank, mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """The ends of the last two dimensions repeated."""

    rank, mode = 2, "replicate"


class ReplicationPad3d(_Pad):
    """The ends of the last three dimensions repeated."""

    rank, mode = 3, "replicate"


class _CircularPad(_Pad):
    """Checks the input before its last dimensions are continued."""

    mode = "circular"

    def forward(self, input: Any) -> Any:
        """The padded input; ``ValueError`` unless it is a batch of channels, or channels alone."""
        if input.ndim not in (self.rank + 1, self.rank + 2):
            raise ArgumentValueError(
                f"expected {self.rank + 1}D or {self.rank + 2}D input (got {input.ndim}D input)"
            )
        return super().forward(input)


class CircularPad1d(_CircularPad):
    """The last dimension continued from its other end."""

    rank = 1


class CircularPad2d(_CircularPad):
    """The last two dimensions continued from their other ends."""

    rank = 2


class CircularPad3d(_CircularPad):
    """The last three dimensions continued from their other ends."""

    rank = 3
