"""What is set of autocast for each device, and the door that casts the operands of products."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from .. import dispatch
from ..cuda.driver import is_available
from ..dtypes import DType, bfloat16, float16, float32
from ..modes import MODES
from ..ops import contraction, convolution
from ..ops.elementwise import cast
from ..ops.table import Op, set_dispatcher
from ..tensor import Tensor

__all__: list[str] = []

#: Devices that autocast knows in PyTorch, and that there are none of here.
_OTHERS = ("ipu", "xpu", "hip", "maia", "xla", "mps", "hpu", "mtia", "privateuseone")
_STRANGE = ("mkldnn", "opengl", "opencl", "ideep", "ve", "fpga", "lazy", "vulkan", "meta")
_PRODUCTS = frozenset({contraction.matmul, convolution.convolution, convolution.convolution_input})
_CAST = (float32, float16, bfloat16)
_lock = threading.Lock()
_inside = [0]  # threads whose products are cast


class Settings(NamedTuple):
    """Is autocast on for the host and for GPUs, in which dtype, and are casts of weights kept (they never are)?"""

    cpu: bool = False
    cpu_dtype: DType = bfloat16
    cuda: bool = False
    cuda_dtype: DType = float16
    cache: bool = True


_DEFAULT = Settings()


def settings() -> Settings:
    """What is set in this thread.

    >>> settings().cpu
    False
    """
    found: Settings = MODES.autocast_settings or _DEFAULT
    return found


def check_device(device_type: str) -> bool:
    """Is this a device of this package? ``RuntimeError`` for what is none in PyTorch either.

    >>> check_device("cuda"), check_device("xpu")
    (True, False)
    """
    if device_type in ("cpu", "cuda"):
        return True
    if device_type in _STRANGE:
        raise RuntimeError(
            "unknown device type for autocast in get_autocast_dispatch_key_from_device_type"
        )
    if device_type not in _OTHERS:
        raise RuntimeError(
            "Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, "
            "vulkan, mps, meta, hpu, mtia, privateuseone device type at start of device string: "
            f"{device_type}"
        )
    return False


def change(**values: Any) -> None:
    """Set some of the settings.

    >>> change(cpu=False)
    """
    now = settings()._replace(**values)
    products: DType | None = now.cpu_dtype if now.cpu else None
    if products is None and now.cuda and is_available():
        products = now.cuda_dtype
    step = (products is not None) - (MODES.autocast is not None)
    MODES.autocast, MODES.autocast_settings = products, None if now == _DEFAULT else now
    MODES.note()
    if step:
        with _lock:
            _inside[0] += step
            set_dispatcher(_apply if _inside[0] else dispatch.apply)


@contextlib.contextmanager
def under(given: Settings) -> Iterator[None]:
    """Inside, what ``given`` says is set.

    >>> with under(Settings(cpu=True)):
    ...     inside = settings().cpu
    >>> inside, settings().cpu
    (True, False)
    """
    before = settings()
    change(**given._asdict())
    try:
        yield
    finally:
        change(**before._asdict())


def _apply(op: Op, operands: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """What ops go through while a thread is inside: products take half precision."""
    target = MODES.autocast
    if target is not None and op in _PRODUCTS:
        operands = tuple(
            cast(x, dtype=target) if isinstance(x, Tensor) and x.dtype in _CAST else x
            for x in operands
        )
    return dispatch.apply(op, operands, attributes)
