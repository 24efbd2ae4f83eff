"""Settings of the process under PyTorch's names."""

from __future__ import annotations

from typing import Any

from . import cpu, cuda, dtypes
from .device import device, device_at, index_of, set_default
from .errors import ArgumentError
from .modes import MODES
from .tensor_kinds import GPU_KINDS, KINDS, TensorKind

__all__ = [
    "get_default_device",
    "get_device_module",
    "get_num_interop_threads",
    "get_num_threads",
    "is_warn_always_enabled",
    "set_default_device",
    "set_default_tensor_type",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_num_threads",
    "set_warn_always",
]

device_kind = device
_warn_always = False


def get_num_threads() -> int:
    """How many threads run kernels, the calling one included.

    >>> import tracejit as tj
    >>> tj.get_num_threads() >= 1
    True
    """
    from .runtime import threads

    return threads.get_num_threads()


def set_num_threads(num: int) -> None:
    """Run kernels on ``num`` threads from now on. Raises ``ValueError`` unless it is a positive integer.

    What was compiled before, and needs memory for each thread, stays with as many as there are CPUs, or were set then.

    >>> import tracejit as tj
    >>> tj.set_num_threads(tj.get_num_threads())
    """
    from .runtime import threads

    threads.set_num_threads(num)


def get_num_interop_threads() -> int:
    """1: ops run one after the other.

    >>> import tracejit as tj
    >>> tj.get_num_interop_threads()
    1
    """
    return 1


def set_num_interop_threads(num: int) -> None:
    """Accepted and without effect: ops run one after the other.

    >>> import tracejit as tj
    >>> tj.set_num_interop_threads(1)
    """


def set_flush_denormal(mode: bool) -> bool:
    """Count subnormal numbers as zero (True), or keep them as usual; False where the CPU cannot do what was asked for.

    Many CPUs compute with them a hundred times slower, as with gradients that fade over hundreds of steps. It is a
    setting of the calling thread; kernels that it runs on several threads follow it. How operations that move or
    compare numbers see one that is subnormal already is not said.

    >>> import tracejit as tj
    >>> tj.set_flush_denormal(False)
    True
    """
    from .runtime.machine_code.loader import LoadError
    from .runtime.native.native import native

    if MODES.recorder is not None:
        MODES.recorder.unsupported("set_flush_denormal() is called inside a compiled function")
    try:
        return bool(native().flush(1 if mode else 0))
    except LoadError:
        return not mode


def set_default_tensor_type(t: Any) -> None:
    """Let new tensors have the dtype of a kind of tensors, the class or its name, and be on a GPU if it says so.

    Raises ``TypeError`` for what is no kind of floating-point tensors, ``RuntimeError`` for a GPU that is not there.

    >>> import tracejit as tj
    >>> tj.set_default_tensor_type(tj.FloatTensor)
    >>> tj.set_default_tensor_type("tracejit.FloatTensor")
    """
    kinds = GPU_KINDS if ".cuda." in str(t) else KINDS
    kind = kinds.get(t.rpartition(".")[2]) if isinstance(t, str) else t
    if not isinstance(kind, TensorKind):
        raise ArgumentError(f"invalid type object: {t!r}")
    if kind.is_cuda or get_default_device().type == "cuda":
        set_default("cuda" if kind.is_cuda else None)
    dtypes.set_default_dtype(kind.dtype)


def get_default_device() -> device:
    """Where factories make new tensors in this thread, unless their own ``device=`` says otherwise.

    >>> import tracejit as tj
    >>> tj.get_default_device()
    device(type='cpu')
    """
    return device_at(index_of(None))


def get_device_module(device: Any = None) -> Any:
    """What knows a kind of device: ``cuda`` or ``cpu``; without a name ``cuda`` if there is a GPU.

    Raises ``RuntimeError`` for what is no device.

    >>> import tracejit as tj
    >>> tj.get_device_module("cuda") is tj.cuda
    True
    """
    if device is None:
        return cuda if cuda.is_available() else cpu
    if not isinstance(device, (str, device_kind)):
        raise RuntimeError(
            f"Invalid value of device '{device}', expect tracejit.device, str, or None"
        )
    kind = device_kind(device).type
    if kind not in ("cpu", "cuda"):
        raise RuntimeError(f"Device '{device}' does not have a corresponding module here.")
    return cpu if kind == "cpu" else cuda


def set_default_device(device: Any) -> None:
    """Let factories make new tensors on a device, in this thread and unless their own ``device=`` says otherwise.

    Modules that are built have their parameters there too. None is the host. What is made from other tensors
    (``zeros_like``, ``x.new_ones``) or on memory that is there (``from_numpy``) does not ask. A GPU without a number is
    the one that is current where a tensor is made. Raises ``RuntimeError`` for a device that is not there.

    >>> import tracejit as tj
    >>> tj.set_default_device("meta")
    >>> tj.ones(2).device
    device(type='meta')
    >>> tj.set_default_device("cpu")
    """
    set_default(device)


def set_warn_always(b: bool, /) -> None:
    """Kept and without effect: how often a warning is shown, the filters of :mod:`warnings` say.

    Raises ``RuntimeError`` for anything but a bool.

    >>> import tracejit as tj
    >>> tj.set_warn_always(False)
    """
    global _warn_always
    if not isinstance(b, bool):
        raise RuntimeError(f"setWarnOnlyOnce expects a bool, but got {type(b).__name__}")
    _warn_always = b


def is_warn_always_enabled() -> bool:
    """What :func:`set_warn_always` set.

    >>> import tracejit as tj
    >>> tj.is_warn_always_enabled()
    False
    """
    return _warn_always
