"""The memory behind tensors under PyTorch's names."""

from __future__ import annotations

from .tensor_info import Storage as UntypedStorage

__all__ = ["UntypedStorage"]
