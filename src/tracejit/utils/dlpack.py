"""Tensors as DLPack capsules and back."""

from __future__ import annotations

from ..interop import from_dlpack, to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]
