"""GPUs: is there one, which is current, its memory, its streams and events. The names are PyTorch's.

Nothing of CUDA is loaded before it is asked for, and without a driver every question has an answer at once:
`is_available` says no, and anything that needs a device raises `DeviceError`, which says what is missing.
"""

from __future__ import annotations

from typing import Any

from ..errors import OutOfMemoryError
from . import nvtx, seeds
from .devices import (
    DeviceProperties,
    can_device_access_peer,
    current_device,
    device,
    device_of,
    get_device_capability,
    get_device_name,
    get_device_properties,
    init,
    is_bf16_supported,
    is_initialized,
    is_tf32_supported,
    set_device,
    synchronize,
)
from .driver import device_count, is_available, why_unavailable
from .graphs import CUDAGraph, graph, make_graphed_callables
from .memory import (
    empty_cache,
    ipc_collect,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from .precision import get_float32_matmul_precision, set_float32_matmul_precision
from .seeds import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from .streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    is_current_stream_capturing,
    set_stream,
    stream,
)

__all__ = [
    "CUDAGraph",
    "DeviceProperties",
    "Event",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_float32_matmul_precision",
    "get_rng_state",
    "get_rng_state_all",
    "graph",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "nvtx",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_float32_matmul_precision",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
    "why_unavailable",
]


def __getattr__(name: str) -> Any:
    if name == "_initialized":  # reversible layers ask for it so, as PyTorch's own checkpoints do
        return is_initialized()
    if name == "default_generators":
        return seeds.default_generators()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
