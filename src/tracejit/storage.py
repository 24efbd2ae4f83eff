"""The memory behind tensors under PyTorch's names."""

from __future__ import annotations

from .tensor_info import Storage as UntypedStorage
from .typed_storage import TypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]
