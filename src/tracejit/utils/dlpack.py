"""Tensors as DLPack capsules and back."""

from __future__ import annotations

from typing import Any

from ..interop import from_dlpack
from ..tensor import Tensor

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule that shares the memory of ``tensor``; it can be taken once.

    >>> import tracejit as tj
    >>> type(to_dlpack(tj.ones(2))).__name__
    'PyCapsule'
    """
    return tensor.__dlpack__()
