"""What tensors take of a GPU's memory: CuPy's pool, and the most it ever handed out."""

from __future__ import annotations

from typing import Any

from .arrays import MODULES, namespace
from .devices import Where, number_of

_peaks: dict[int, int] = {}


def _used(index: int) -> int:
    module = namespace()
    with module.cuda.Device(index):
        used = int(module.get_default_memory_pool().used_bytes())
    _peaks[index] = max(_peaks.get(index, 0), used)
    return used


def memory_allocated(device: Where = None) -> int:
    """Bytes that arrays take of a GPU's memory; 0 where nothing was ever placed on one.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     assert tj.cuda.memory_allocated() >= 0
    """
    return _used(number_of(device)) if MODULES else 0


def max_memory_allocated(device: Where = None) -> int:
    """The most bytes that arrays took since the start, or since `reset_peak_memory_stats`.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     assert tj.cuda.max_memory_allocated() >= tj.cuda.memory_allocated()
    """
    if not MODULES:
        return 0
    index = number_of(device)
    _used(index)
    return _peaks[index]


def reset_peak_memory_stats(device: Where = None) -> None:
    """Let `max_memory_allocated` count from what is allocated now.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     tj.cuda.reset_peak_memory_stats()
    """
    if MODULES:
        _peaks.pop(number_of(device), None)


def memory_reserved(device: Where = None) -> int:
    """Bytes the pool holds: what arrays take, and what it keeps to hand out again.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     assert tj.cuda.memory_reserved() >= tj.cuda.memory_allocated()
    """
    if not MODULES:
        return 0
    module = namespace()
    with module.cuda.Device(number_of(device)):
        return int(module.get_default_memory_pool().total_bytes())


def empty_cache() -> None:
    """Give memory that is kept for reuse back to the driver.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     tj.cuda.empty_cache()
    """
    if MODULES:
        module = namespace()
        module.get_default_memory_pool().free_all_blocks()
        module.get_default_pinned_memory_pool().free_all_blocks()


def watch_peaks(module: Any) -> None:
    """Note the most memory in use at every allocation from now on."""
    before = module.cuda.get_allocator()

    def allocate(nbytes: int) -> Any:
        found = before(nbytes)
        index = module.cuda.runtime.getDevice()
        used = int(module.get_default_memory_pool().used_bytes())
        if used > _peaks.get(index, 0):
            _peaks[index] = used
        return found

    module.cuda.set_allocator(allocate)
