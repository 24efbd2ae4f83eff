"""What tensors take of a GPU's memory: CuPy's pool, the most it ever handed out and held, and what is left."""

from __future__ import annotations

from typing import Any

from ..errors import OutOfMemoryError
from .arrays import MODULES, namespace
from .devices import Where, number_of
from .streams import reclaim

#: The pool hands out multiples of this.
_UNIT = 512


class Peaks:
    """The most bytes that tensors took, and that the pool held, of each device.

    The pool counts what is in use block by block, so it is asked only when there may be a new maximum: ``bound`` is
    what was in use when it was last asked, and all that was handed out since.
    """

    def __init__(self) -> None:
        self.used: dict[int, int] = {}
        self.held: dict[int, int] = {}
        self.bound: dict[int, int] = {}

    def note(self, module: Any, index: int) -> tuple[int, int]:
        """Look at the current device's pool, whose number is ``index``: bytes in use and held."""
        pool = module.get_default_memory_pool()
        used, held = int(pool.used_bytes()), int(pool.total_bytes())
        self.used[index] = max(used, self.used.get(index, 0))
        self.held[index] = max(held, self.held.get(index, 0))
        self.bound[index] = used
        return used, held

    def took(self, module: Any, index: int, nbytes: int) -> None:
        """Bytes were handed out."""
        bound = self.bound.get(index, 0) + -(-nbytes // _UNIT) * _UNIT
        self.bound[index] = bound
        if bound > self.used.get(index, 0):
            self.note(module, index)


_peaks = Peaks()


def _now(device: Where) -> tuple[int, int]:
    """Bytes in use and held of a device; nothing where nothing was ever placed on one."""
    if not MODULES:
        return 0, 0
    module, index = namespace(), number_of(device)
    with module.cuda.Device(index):
        return _peaks.note(module, index)


def memory_allocated(device: Where = None) -> int:
    """Bytes that arrays take of a GPU's memory; 0 where nothing was ever placed on one.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     assert tj.cuda.memory_allocated() >= 0
    """
    return _now(device)[0]


def max_memory_allocated(device: Where = None) -> int:
    """The most bytes that arrays took since the start, or since `reset_peak_memory_stats`.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     assert tj.cuda.max_memory_allocated() >= tj.cuda.memory_allocated()
    """
    return max(_now(device)[0], _peaks.used.get(number_of(device), 0)) if MODULES else 0


def reset_peak_memory_stats(device: Where = None) -> None:
    """Let `max_memory_allocated` and `max_memory_reserved` count from now on.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     tj.cuda.reset_peak_memory_stats()
    """
    if MODULES:
        index = number_of(device)
        _peaks.used.pop(index, None)
        _peaks.held.pop(index, None)


def memory_reserved(device: Where = None) -> int:
    """Bytes the pool holds: what arrays take, and what it keeps to hand out again.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     assert tj.cuda.memory_reserved() >= tj.cuda.memory_allocated()
    """
    return _now(device)[1]


def max_memory_reserved(device: Where = None) -> int:
    """The most bytes the pool held since the start, or since `reset_peak_memory_stats`.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     assert tj.cuda.max_memory_reserved() >= tj.cuda.memory_reserved()
    """
    return max(_now(device)[1], _peaks.held.get(number_of(device), 0)) if MODULES else 0


memory_cached, max_memory_cached = memory_reserved, max_memory_reserved  # their names before


def reset_max_memory_allocated(device: Where = None) -> None:
    """What `reset_peak_memory_stats` does, by its name before that.

    >>> reset_max_memory_allocated()
    """
    reset_peak_memory_stats(device)


reset_max_memory_cached = reset_max_memory_allocated


def mem_get_info(device: Where = None) -> tuple[int, int]:
    """Bytes of a GPU's memory that are free, and all of them, as the driver counts; `DeviceError` without a GPU.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     assert tj.cuda.mem_get_info()[0] <= tj.cuda.mem_get_info()[1]
    """
    module = namespace()
    with module.cuda.Device(number_of(device)):
        free, total = module.cuda.runtime.memGetInfo()
    return int(free), int(total)


def memory_stats(device: Where = None) -> dict[str, int]:
    """What is known of the pool under PyTorch's keys: bytes allocated and reserved, now and at most.

    >>> sorted(memory_stats())[0]
    'allocated_bytes.all.current'
    """
    return {
        "allocated_bytes.all.current": memory_allocated(device),
        "allocated_bytes.all.peak": max_memory_allocated(device),
        "reserved_bytes.all.current": memory_reserved(device),
        "reserved_bytes.all.peak": max_memory_reserved(device),
    }


def memory_summary(device: Where = None, abbreviated: bool = False) -> str:
    """`memory_stats` as text, a line each.

    >>> print(memory_summary().splitlines()[0].split("  ")[0])
    allocated_bytes.all.current
    """
    return "\n".join(
        f"{name:<30}{n / 2**20:>12,.1f} MiB" for name, n in memory_stats(device).items()
    )


def set_per_process_memory_fraction(fraction: float, device: Where = None) -> None:
    """Let the pool hold no more than a share of a GPU's memory.

    Raises ``ValueError`` for a fraction outside of [0, 1], `DeviceError` without a GPU.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     tj.cuda.set_per_process_memory_fraction(1.0)
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    module, index = namespace(), number_of(device)
    _, total = mem_get_info(index)
    with module.cuda.Device(index):
        module.get_default_memory_pool().set_limit(size=int(fraction * total))


def empty_cache() -> None:
    """Give memory that is kept for reuse back to the driver.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     tj.cuda.empty_cache()
    """
    if MODULES:
        module = namespace()
        reclaim(wait=True)
        module.get_default_memory_pool().free_all_blocks()
        module.get_default_pinned_memory_pool().free_all_blocks()


def ipc_collect() -> None:
    """Nothing to do: no memory of a GPU is shared with other processes here.

    >>> ipc_collect()
    """


def watch_memory(module: Any) -> None:
    """Note the most memory in use at every allocation from now on, and say what to do where there is none left."""
    before = module.cuda.get_allocator()

    def allocate(nbytes: int) -> Any:
        index = module.cuda.runtime.getDevice()
        reclaim()
        try:
            try:
                found = before(nbytes)
            except module.cuda.memory.OutOfMemoryError:
                if not reclaim(wait=True):
                    raise
                found = before(nbytes)
        except module.cuda.memory.OutOfMemoryError as error:
            used, held = _peaks.note(module, index)
            raise OutOfMemoryError(
                f"CUDA out of memory: {nbytes:,} bytes are wanted on cuda:{index}, where tensors take "
                f"{used:,} and the pool holds {held:,} ({error})",
                "Free tensors on the GPU, call tj.cuda.empty_cache(), or use smaller batches.",
            ) from None
        _peaks.took(module, index, nbytes)
        return found

    module.cuda.set_allocator(allocate)
