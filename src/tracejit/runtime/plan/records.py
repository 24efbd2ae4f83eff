"""What plans are made of besides native steps: places of values, calls of ops' own bodies, constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...dtypes import int64
from ...ir.graph import Value
from ...ops.table import Op
from ...types import Shape, TensorType


@dataclass(frozen=True)
class Slot:
    """Where a materialised value lives at run time."""

    kind: str  # "input", "output", "arena", "pack", "host", "constant"
    index: int
    offset: int = 0

    def moved(self, nbytes: int) -> Slot:
        """The place so many bytes further."""
        return Slot(self.kind, self.index, self.offset + nbytes)


@dataclass(frozen=True)
class Products:
    """The matrix products that a library computes: their dtypes, how to find it (None where it is missing).

    ``levels`` is how many strides a batch of matrices may take.
    """

    dtypes: frozenset[str]
    find: Callable[[], Any]
    levels: int = 2


@dataclass(frozen=True)
class HostCall:
    """A step that runs an op's own body on arrays."""

    op: Op
    operands: tuple[Any, ...]  # Operand views (Slot, TensorType, offset, strides) or Python numbers
    attributes: dict[str, Any]
    index: int


@dataclass(frozen=True)
class HostOperand:
    """An array argument of a host call."""

    slot: Slot
    spec: TensorType
    offset: int
    strides: Shape


@dataclass(frozen=True)
class Constant:
    """An array made once per program: a source that a library call reads."""

    op: Op
    attributes: dict[str, Any]


def may_lie_on_the_host(value: Value) -> bool:
    """Inputs that a call on a GPU may find on the host: single numbers, and keys of random draws."""
    shape = value.spec.shape
    return shape == () or (shape == (2,) and value.spec.dtype is int64)
