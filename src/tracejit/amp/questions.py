"""Is autocast on, and in what dtype?"""

from __future__ import annotations

from ..dtypes import DType, bfloat16, float16
from ..modes import MODES

__all__ = [
    "get_autocast_cpu_dtype",
    "get_autocast_dtype",
    "get_autocast_gpu_dtype",
    "is_autocast_enabled",
]


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Do products take half precision here?

    >>> import tracejit as tj
    >>> with tj.autocast("cpu"):
    ...     inside = tj.is_autocast_enabled()
    >>> inside, tj.is_autocast_enabled()
    (True, False)
    """
    return MODES.autocast is not None


def get_autocast_dtype(device_type: str) -> DType:
    """The dtype that products take inside autocast.

    >>> import tracejit as tj
    >>> tj.get_autocast_dtype("cpu")
    tracejit.bfloat16
    """
    current: DType | None = MODES.autocast
    return current or (float16 if device_type == "cuda" else bfloat16)


def get_autocast_gpu_dtype() -> DType:
    """The dtype that products take inside autocast of a GPU.

    >>> import tracejit as tj
    >>> tj.get_autocast_gpu_dtype()
    tracejit.float16
    """
    return get_autocast_dtype("cuda")


def get_autocast_cpu_dtype() -> DType:
    """The dtype that products take inside autocast of the host.

    >>> import tracejit as tj
    >>> tj.get_autocast_cpu_dtype()
    tracejit.bfloat16
    """
    return get_autocast_dtype("cpu")
