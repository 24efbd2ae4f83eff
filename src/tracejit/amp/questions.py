"""Is autocast on, and in what dtype? And the same as switches, for programs that do without ``with``."""

from __future__ import annotations

from typing import Any

from ..dtypes import DType, float16
from ..errors import ArgumentError
from ..modes import MODES
from .switching import change, check_device, settings

__all__ = [
    "autocast_decrement_nesting",
    "autocast_increment_nesting",
    "clear_autocast_cache",
    "get_autocast_cpu_dtype",
    "get_autocast_dtype",
    "get_autocast_gpu_dtype",
    "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled",
    "is_autocast_enabled",
    "set_autocast_cache_enabled",
    "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_autocast_gpu_dtype",
]


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Do products take half precision on this kind of device, on GPUs if none is named?

    Raises ``RuntimeError`` for what is no device.

    >>> import tracejit as tj
    >>> with tj.autocast("cpu"):
    ...     inside = tj.is_autocast_enabled("cpu")
    >>> inside, tj.is_autocast_enabled("cpu")
    (True, False)
    """
    kind = "cuda" if device_type is None else device_type
    return check_device(kind) and bool(getattr(settings(), kind))


def is_autocast_cpu_enabled() -> bool:
    """Do products take half precision on the host?

    >>> import tracejit as tj
    >>> tj.is_autocast_cpu_enabled()
    False
    """
    return settings().cpu


def get_autocast_dtype(device_type: str) -> DType:
    """The dtype that products take inside autocast. Raises ``RuntimeError`` for what is no device.

    >>> import tracejit as tj
    >>> tj.get_autocast_dtype("cpu")
    tracejit.bfloat16
    """
    if not check_device(device_type):
        return float16
    found: DType = getattr(settings(), f"{device_type}_dtype")
    return found


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


def set_autocast_enabled(*args: Any, **kwargs: Any) -> None:
    """Switch autocast: ``set_autocast_enabled(device_type, enabled)``; that of GPUs if no device is named.

    Raises ``TypeError`` for anything but a bool, ``RuntimeError`` for what is no device here.

    >>> import tracejit as tj
    >>> tj.set_autocast_enabled("cpu", True)
    >>> (tj.ones(2, 2) @ tj.ones(2, 2)).dtype
    tracejit.bfloat16
    >>> tj.set_autocast_enabled("cpu", False)
    """
    named = {"device_type", "enabled"} if len(args) + len(kwargs) == 2 else {"enabled"}
    names = tuple(x for x in ("device_type", "enabled") if x in named)
    given = dict(zip(names, args, strict=False)) | kwargs
    if given.keys() != named or len(args) + len(kwargs) != len(named):
        raise ArgumentError(
            "set_autocast_enabled() received an invalid combination of arguments - got "
            f"{(*args, *kwargs.values())!r}, but expected one of:\n * (str device_type, bool enabled)\n"
            " * (bool enabled)\n"
        )
    where = names.index("enabled") + 1
    enabled = _checked("set_autocast_enabled", "enabled", where, given["enabled"], bool)
    kind = _settable(given.get("device_type", "cuda"))
    change(**{kind: enabled})


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Switch autocast of the host. Raises ``TypeError`` for anything but a bool.

    >>> import tracejit as tj
    >>> tj.set_autocast_cpu_enabled(False)
    """
    change(cpu=_plain("enabled", enabled))


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    """Have products take ``dtype`` inside autocast of this kind of device.

    Raises ``TypeError`` for what is no dtype, ``RuntimeError`` for what is no device here.

    >>> import tracejit as tj
    >>> tj.set_autocast_dtype("cpu", tj.bfloat16)
    """
    dtype = _checked("set_autocast_dtype", "dtype", 2, dtype, DType)
    kind = _settable(device_type)
    change(**{f"{kind}_dtype": dtype})


def set_autocast_cpu_dtype(dtype: DType) -> None:
    """Have products take ``dtype`` inside autocast of the host. Raises ``TypeError`` for what is no dtype.

    >>> import tracejit as tj
    >>> tj.set_autocast_cpu_dtype(tj.bfloat16)
    """
    change(cpu_dtype=_plain_dtype(dtype))


def set_autocast_gpu_dtype(dtype: DType) -> None:
    """Have products take ``dtype`` inside autocast of GPUs. Raises ``TypeError`` for what is no dtype.

    >>> import tracejit as tj
    >>> tj.set_autocast_gpu_dtype(tj.float16)
    """
    change(cuda_dtype=_plain_dtype(dtype))


def is_autocast_cache_enabled() -> bool:
    """Was it asked to keep casts of weights? They are not kept here: compiled code needs none.

    >>> import tracejit as tj
    >>> tj.is_autocast_cache_enabled()
    True
    """
    return settings().cache


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Ask to keep casts of weights, which changes no result. Raises ``TypeError`` for anything but a bool.

    >>> import tracejit as tj
    >>> tj.set_autocast_cache_enabled(True)
    """
    change(cache=_plain("enabled", enabled))


def clear_autocast_cache() -> None:
    """Nothing to do: casts of weights are not kept.

    >>> import tracejit as tj
    >>> tj.clear_autocast_cache()
    """


def autocast_increment_nesting() -> int:
    """One more block of autocast is around, by count; their number.

    >>> import tracejit as tj
    >>> tj.autocast_increment_nesting(), tj.autocast_decrement_nesting()
    (1, 0)
    """
    _counted()
    MODES.autocast_depth += 1
    return MODES.autocast_depth


def autocast_decrement_nesting() -> int:
    """One block of autocast less is around, by count; their number.

    >>> import tracejit as tj
    >>> tj.autocast_increment_nesting(), tj.autocast_decrement_nesting()
    (1, 0)
    """
    _counted()
    MODES.autocast_depth -= 1
    return MODES.autocast_depth


def _counted() -> None:
    if MODES.recorder is not None:
        MODES.recorder.unsupported("it counts blocks of autocast")


def _settable(device_type: str) -> str:
    if not check_device(device_type):
        raise RuntimeError(f"there is no {device_type} device to switch autocast for")
    return device_type


def _checked(name: str, argument: str, position: int, value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        wanted = "bool" if kind is bool else "tracejit.dtype"
        raise ArgumentError(
            f"{name}(): argument '{argument}' (position {position}) must be {wanted}, not "
            f"{type(value).__name__}"
        )
    return value


def _plain(argument: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ArgumentError(f"{argument} must be a bool (got {type(value).__name__})")
    return value


def _plain_dtype(value: Any) -> DType:
    if not isinstance(value, DType):
        raise ArgumentError(f"dtype must be a tracejit.dtype (got {type(value).__name__})")
    return value
