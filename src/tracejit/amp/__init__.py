"""Mixed precision under PyTorch's names: products in half precision, and losses scaled against underflow."""

from __future__ import annotations

from . import on_cpu as on_cpu
from . import on_cuda as on_cuda
from .autocasting import autocast, custom_bwd, custom_fwd, is_autocast_available
from .scaling import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
