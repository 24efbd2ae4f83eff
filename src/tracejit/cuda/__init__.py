"""GPUs: is there one, which is current, its memory, its streams and events. The names are PyTorch's.

Nothing of CUDA is loaded before it is asked for, and without a driver every question has an answer at once:
`is_available` says no, and anything that needs a device raises `DeviceError`, which says what is missing.
"""

from __future__ import annotations

from .devices import (
    current_device,
    device,
    get_device_capability,
    get_device_name,
    set_device,
    synchronize,
)
from .driver import device_count, is_available, why_unavailable
from .memory import (
    empty_cache,
    max_memory_allocated,
    memory_allocated,
    memory_reserved,
    reset_peak_memory_stats,
)
from .precision import get_float32_matmul_precision, set_float32_matmul_precision
from .seeds import manual_seed, manual_seed_all
from .streams import Event, Stream, current_stream, default_stream, stream

__all__ = [
    "Event",
    "Stream",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_float32_matmul_precision",
    "is_available",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "memory_allocated",
    "memory_reserved",
    "reset_peak_memory_stats",
    "set_device",
    "set_float32_matmul_precision",
    "stream",
    "synchronize",
    "why_unavailable",
]
