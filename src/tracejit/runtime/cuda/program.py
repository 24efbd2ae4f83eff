"""What programs on a device need of Python at run time: memory, the stream, status words, numbers from the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...cuda.arrays import (
    address_of,
    empty_block,
    is_on_device,
    namespace,
    on_device,
    ordered,
    placed,
)
from ...cuda.driver import device_count, driver
from ...cuda.precision import get_float32_matmul_precision
from ...errors import DeviceError
from ..launcher import failure
from .capture import CapturedProgram, can_be_captured
from .gemm import CUBLAS, FLOAT32, TF32, TOO_LARGE
from .plan import SLOTS
from .status import WORDS
from .worth import is_worth_a_graph

__all__ = ["DeviceMemory", "special_slots"]


class Uploaded:
    """A number of the host in a device's memory, for one call."""

    __slots__ = ("_pointer", "array")

    def __init__(self, array: Any) -> None:
        self.array = array
        self._pointer = address_of(array)


def _compute() -> int:
    return FLOAT32 if get_float32_matmul_precision() == "highest" else TF32


class DeviceMemory:
    """The memory of one device, as a program's generated function uses it."""

    def __init__(self, index: int) -> None:
        self.index = index

    def names(self) -> dict[str, Any]:
        """What the generated function of a program refers to."""
        module, bind = namespace(), driver(self.index).bind
        current = module.cuda.get_current_stream

        def stream() -> int:
            bind()
            return int(current().ptr)

        return {
            "fail": self.fail,
            "allocate": partial(empty_block, index=self.index),
            "address_of": address_of,
            "uploaded": self.uploaded,
            "stream": stream,
            "take_word": WORDS.take,
            "refused": WORDS.refused,
            "handle": lambda: int(module.cuda.Device(self.index).cublas_handle),
            "compute": _compute,
            "workspace": int,  # zero: cuBLAS's own
        }

    def capturing(self, program: Any, asked: bool) -> Any:
        """What runs a program as a CUDA graph, where it can be one and that is ``asked`` for or pays; else None."""
        if not can_be_captured(program.plan) or not (asked or is_worth_a_graph(program)):
            return None
        return CapturedProgram(program, self.index, asked)

    def fail(self, code: int) -> None:
        """A launch or a product was not accepted: `DeviceError` with the driver's words."""
        row, status = failure(code)
        if status & CUBLAS:
            hint = "Is there memory left on the GPU? Free tensors, or use smaller batches."
            if status == CUBLAS | TOO_LARGE:
                hint = "Rows, columns and strides of its matrices have to be below 2**31: split it."
            raise DeviceError(
                f"CUDA: the matrix product at step {row} of a program could not be queued: "
                f"cuBLAS answers with status {status & ~CUBLAS}",
                hint,
            )
        raise driver(self.index).error(f"step {row} of a program could not be queued", status)

    def switching(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """``run``, with this device current where there are others."""
        if device_count() < 2:
            return run
        return lambda *tensors: on_device(self.index, run, *tensors)

    def uploaded(self, tensor: Any) -> Any:
        """``tensor`` itself on the device, else a copy of its number there."""
        array = tensor.array
        return tensor if is_on_device(array) else Uploaded(placed(array, self.index))

    def made(self, array: Any) -> Any:
        """A constant where kernels can read it."""
        return ordered(placed(array, self.index))

    def shaped(self, kind: Any, start: int, strides: Any) -> Callable[[Any], Any]:
        """A function from a block to an array in it."""
        return lambda block: block.shaped(kind.shape, kind.dtype.np, start, strides)

    def shifted(self, array: Any, shape: Any, dtype: Any, start: int, strides: Any) -> Any:
        """The memory of ``array`` seen with another offset (from its first element), shape and strides."""
        if start == 0 and array.shape == shape and array.strides == strides:
            return array
        module = namespace()
        if not array.size:
            return module.empty(shape, dtype)
        return module.ndarray(shape, dtype, array.data + start, strides)


def special_slots(refuses: bool, products: bool) -> Sequence[str]:
    """The values of a device's slots, as expressions of the generated function.

    >>> special_slots(refuses=False, products=False)
    ('stream()', '0', '0', '0', '0')
    """
    found = ("stream()", "word.ptr" if refuses else "0", "handle()", "compute()", "workspace()")
    used: tuple[str, ...] = found if products else (*found[:2], "0", "0", "0")
    assert len(used) == SLOTS
    return used
