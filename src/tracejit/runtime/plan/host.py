"""Calls of ops' own bodies on arrays, with everything made ready that does not change from one call to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops import slabs
from ...ops.conversions import convert_scalar
from ...ops.table import Elementwise, operand_info
from ...types import Shape, TensorType
from .records import HostCall, HostOperand

View = Callable[[Any], Any]


def caller(call: HostCall, constants: Sequence[Any], memory: Any = None) -> Callable[..., Any]:
    """A function from the memory of the array operands (of their storage, in order) to the result.

    ``constants`` are the arrays of the program's constants, ``memory`` that of its device if it has one. The result has
    memory of its own and is contiguous.
    """
    operands = [x.spec if isinstance(x, HostOperand) else x for x in call.operands]
    shown = [x for x in call.operands if isinstance(x, HostOperand)]
    views: list[View] = [viewer(x, constants, memory) for x in shown]
    kind = call.op.infer(operands, call.attributes)
    if memory is not None:
        return _on_device(call, operands, views, kind.shape, memory)
    shape, dtype = kind.shape, kind.dtype.np
    body = _body(call, operands, dtype)

    def run(*storage: Any) -> Any:
        arrays = [view(memory) for view, memory in zip(views, storage, strict=True)]
        with np.errstate(all="ignore"):
            result = np.asarray(body(arrays), dtype, order="C")
        return result if result.shape == shape else result.reshape(shape)

    return run


def _on_device(
    call: HostCall, operands: Sequence[Any], views: Sequence[View], shape: Shape, memory: Any
) -> Callable[..., Any]:
    """The same for a device, where an op says itself how its body computes."""
    op, attributes = call.op, call.attributes
    numbers = {i: x for i, x in enumerate(operands) if not isinstance(x, TensorType)}

    def run(*storage: Any) -> Any:
        arrays = [view(block) for view, block in zip(views, storage, strict=True)]
        for i, number in numbers.items():
            arrays.insert(i, number)
        return memory.made(op.evaluate(arrays, attributes)).reshape(shape)

    return run


def _body(
    call: HostCall, operands: Sequence[Any], result: np.dtype[Any]
) -> Callable[[list[Any]], Any]:
    """The op's body on the array operands: numbers in their places, operands in the dtype it computes in.

    Large elementwise results are of all threads, as in eager code.
    """
    op, attributes = call.op, call.attributes
    dtypes: Sequence[Any] = [None] * len(operands)
    computed: Sequence[Any] = ()
    if isinstance(op, Elementwise):
        computed = op.types(tuple(map(operand_info, operands)), attributes)[0]
        dtypes = [d.np for d in computed]
    converted = {
        i: np.dtype(dtype)
        for i, (x, dtype) in enumerate(zip(operands, dtypes, strict=True))
        if dtype is not None and isinstance(x, TensorType) and x.dtype.np != dtype
    }
    numbers = {
        i: convert_scalar(x, computed[i]) if computed else x
        for i, x in enumerate(operands)
        if not isinstance(x, TensorType)
    }

    def run(arrays: list[Any]) -> Any:
        for i, number in numbers.items():
            arrays.insert(i, number)
        for i, dtype in converted.items():
            arrays[i] = arrays[i].astype(dtype)
        if isinstance(op, Elementwise) and max([x.size for x in arrays]) >= slabs.SHARED:
            found = op.in_slabs(arrays, attributes, result)
            if found is not None:
                return found
        return op.body(*arrays, **attributes)

    return run


def viewer(operand: HostOperand, constants: Sequence[Any], memory: Any = None) -> View:
    """A function from the memory of an operand's storage (on a device: from its block) to the operand's array."""
    kind, dtype = operand.spec, operand.spec.dtype.np
    strides = tuple(s * dtype.itemsize for s in operand.strides)
    start = operand.slot.offset + operand.offset * dtype.itemsize
    shifted = _shifted if memory is None else memory.shifted
    if operand.slot.kind == "constant":
        shown = shifted(constants[operand.slot.index], kind.shape, dtype, start, strides)
        return lambda _: shown
    if operand.slot.kind not in ("output", "arena", "pack"):
        return lambda array: shifted(array, kind.shape, dtype, start, strides)
    if memory is not None:
        return memory.shaped(kind, start, strides)  # type: ignore[no-any-return]
    return lambda block: np.ndarray(kind.shape, dtype, block, start, strides)


def _shifted(array: Any, shape: Any, dtype: Any, start: int, strides: Any) -> Any:
    """``array``'s memory seen with another offset (from its first element), shape and strides."""
    if start == 0 and array.shape == shape and array.strides == strides:
        return array
    if not array.size:
        return np.empty(shape, dtype)
    if array.flags.c_contiguous and dtype.isbuiltin == 1:
        return np.ndarray(shape, dtype, array, start, strides)
    holder = np.lib.stride_tricks.as_strided(array, shape, strides)
    if start == 0:
        return holder
    interface = dict(holder.__array_interface__)
    interface["data"] = (interface["data"][0] + start, interface["data"][1])
    interface["strides"] = strides
    return np.asarray(_Interface(interface, array)).view(dtype)


class _Interface:
    """Memory of ``owner`` described by an array interface."""

    def __init__(self, interface: dict[str, Any], owner: Any) -> None:
        self.__array_interface__ = interface
        self.owner = owner
