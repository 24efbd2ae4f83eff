"""Tensors from Python data: numbers, nested sequences, arrays, other tensors."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from . import aligned, dtypes, ops
from .cuda.arrays import device_index, is_on_device
from .device import device, index_of
from .dtypes import DType
from .errors import ArgumentError, ArgumentValueError, AutogradError, ConversionError, user_line
from .extents import is_symbolic
from .interop import from_cuda_array, from_dlpack, from_numpy
from .modes import MODES
from .number_limits import check_held
from .ops.functions.common import constant, default_index, settle
from .ops.slabs import by_float32, converted
from .tensor import Tensor
from .types import Scalar
from .varying import is_varying

_PLAIN = frozenset((bool, int, float))
_SMALL = 64  # elements a tensor written out in compiled code may have


def tensor(
    data: Any,
    *,
    dtype: DType | None = None,
    device: str | device | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new tensor with a copy of ``data``: a number, nested sequences of numbers or tensors, or an array.

    Without ``dtype``, bools make bool, ints int64, floats the default dtype; arrays and tensors keep theirs. With
    ``pin_memory`` it lies in memory of the host that a GPU reads by itself, if there is one.
    ``ValueError`` for ragged sequences, ``TypeError`` for data that is not numeric, ``RuntimeError`` for an unknown
    device or for integers that require grad.

    >>> import tracejit as tj
    >>> tj.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    >>> tj.tensor([1.0, 2], dtype=tj.float64)
    tensor([1., 2.], dtype=tracejit.float64)
    """
    return new_by("tracejit.tensor", data, dtype, device, requires_grad, pin_memory)


def new_by(
    caller: str,
    data: Any,
    dtype: DType | None,
    device: str | device | None,
    requires_grad: bool,
    pin_memory: bool = False,
) -> Tensor:
    """:func:`tensor`, as ``caller`` makes one.

    >>> new_by("tensor.new_tensor", [1, 2], None, None, False)
    tensor([1, 2])
    """
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    from_tensor = isinstance(data, Tensor)
    result = _copy_of(data, wanted, caller) if from_tensor else _from_data(data, wanted)
    if device is not None or MODES.default_device is not None:
        settle(result, device)
    if pin_memory:
        result = result.pin_memory()
    if requires_grad:
        result._requires_grad = _may_require_grad(result)
    if MODES.inference:
        result._inference = True
    return result


def as_tensor(data: Any, dtype: DType | None = None, device: str | device | None = None) -> Tensor:
    """``data`` as a tensor, sharing memory and history where no conversion is needed.

    >>> import tracejit as tj
    >>> x = tj.tensor([1.0])
    >>> tj.as_tensor(x) is x
    True
    """
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    if device is None and MODES.default_device is not None and default_index() != -1:
        device = MODES.default_device
    if device is not None and index_of(device) != _index_of_data(data):
        moved: Tensor = _shared(data, wanted).to(device)
        return moved
    return _shared(data, wanted)


def _shared(data: Any, wanted: DType | None) -> Tensor:
    """``data`` as a tensor where it lies."""
    if isinstance(data, Tensor):
        if wanted is None or data.dtype is wanted:
            return data
        cast: Tensor = ops.elementwise.cast(data, dtype=wanted)
        return cast
    if hasattr(data, "__cuda_array_interface__"):
        return _shared(from_cuda_array(data), wanted)
    if isinstance(data, np.ndarray) and data.dtype.kind != "O":
        shared = from_numpy(data if data.flags.writeable else data.copy())
        return _shared(shared, wanted)
    if hasattr(data, "__dlpack__") and not isinstance(data, (np.ndarray, np.generic)):
        return _shared(from_dlpack(data), wanted)
    return _from_data(data, wanted)


def asarray(
    obj: Any,
    *,
    dtype: DType | None = None,
    device: str | device | None = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``obj`` as a tensor; ``copy=True`` always copies, ``copy=False`` raises ``ValueError`` where it would have to.

    >>> import numpy as np
    >>> numbers = np.array([1.0, 2.0])
    >>> shared = asarray(numbers)
    >>> numbers[0] = 5.0
    >>> shared
    tensor([5., 2.], dtype=...float64)
    """
    if copy and isinstance(obj, Tensor) and obj.requires_grad:
        copied: Tensor = obj.to(device=device, dtype=dtype, copy=True)  # with a history
        return copied
    if copy:
        return tensor(obj, dtype=dtype, device=device, requires_grad=requires_grad)
    result = as_tensor(obj, dtype, device)
    shares = isinstance(obj, (Tensor, np.ndarray)) or hasattr(obj, "__array_interface__")
    if copy is False and not (shares and (dtype is None or _dtype_of(obj) is dtype)):
        raise ArgumentValueError("can't alias this data without a copy", "Leave copy out.")
    if requires_grad and not result.requires_grad:
        result = result.detach().requires_grad_()
    return result


def _index_of_data(data: Any) -> int:
    """The device on which ``data`` lies."""
    if isinstance(data, Tensor):
        return data._device_index()
    if hasattr(data, "__dlpack_device__") and not isinstance(data, np.ndarray):
        kind, index = data.__dlpack_device__()
        return int(index) if int(kind) == 2 else -1
    return device_index(data)


def _dtype_of(data: Any) -> DType:
    return data.dtype if isinstance(data, Tensor) else dtypes.from_numpy(data.dtype)


def _may_require_grad(result: Tensor) -> bool:
    if not result.dtype.is_differentiable:
        raise AutogradError("Only Tensors of floating point dtype can require gradients")
    if MODES.recorder is not None:
        MODES.recorder.leaf_made(result)
    return True


def _copy_of(data: Tensor, wanted: DType | None, caller: str) -> Tensor:
    """``tensor(x)`` of a tensor: a copy without history, which ``clone().detach()`` says more clearly."""
    import warnings

    warnings.warn(
        "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
        f"sourceTensor.detach().clone().requires_grad_(True), rather than {caller}(sourceTensor). "
        f"({user_line()})",
        UserWarning,
        stacklevel=4,
    )
    grad, MODES.grad = MODES.grad, False
    try:
        copy: Tensor = ops.elementwise.clone(data)
        return copy if wanted is None else ops.elementwise.cast(copy, dtype=wanted)
    finally:
        MODES.grad = grad


def _from_data(data: Any, wanted: DType | None) -> Tensor:
    """A tensor with its own memory from anything that is not a tensor."""
    if is_varying(data) or is_symbolic(data):
        number: Tensor = _from_number(data, wanted)
        return number
    known = None if MODES.recorder is None else MODES.recorder.array_copied(data, wanted)
    if known is not None:
        return known  # type: ignore[no-any-return]
    array = _as_array(data)
    if array is None:
        shape = _shape_of(data)
        dtype = wanted or _infer(data) or dtypes.get_default_dtype()
        flat: list[Any] = []
        _collect(data, shape, 0, flat)
        if _written_down(flat, dtype):
            parts = [constant(v, dtype, (1,)) for v in flat]
            row: Tensor = ops.movement.reshape(ops.movement.cat(*parts, dim=0), shape=shape)
            return _no_view(row)
        array = _filled(flat, shape, dtype)
    else:
        kind = (wanted or dtypes.from_numpy(array.dtype)).np
        array = aligned.copy(by_float32(array, kind), kind)
    if MODES.recorder is not None:
        return written_down(array)
    return Tensor._wrap(array)


def _from_number(data: Any, wanted: DType | None) -> Any:
    """A tensor of a number that varies from call to call."""
    if is_symbolic(data):
        own = dtypes.int64
    else:
        own = dtypes.float64 if isinstance(data, np.float64) else dtypes.of_scalar(data)
    dtype = wanted or own
    if dtype.category == "int" and dtype is not dtypes.int64:
        check_held([data], dtype)
    return constant(data, dtype)


def _as_array(data: Any) -> Any:
    """NumPy's view of arrays, NumPy scalars and array-likes; None for Python data."""
    if isinstance(data, (np.ndarray, np.generic)):
        dtypes.from_numpy(data.dtype)  # refuses object arrays and strings
        return np.asarray(data)
    if isinstance(data, (list, tuple, bool, int, float, complex)):
        return None
    if is_on_device(data):
        return data
    if hasattr(data, "__cuda_array_interface__"):
        return from_cuda_array(data).array
    if hasattr(data, "__array__"):
        return _as_array(np.asarray(data))
    if hasattr(data, "__dlpack__"):
        return np.from_dlpack(data)
    return None


def written_down(array: Any) -> Tensor:
    """What a recorded run makes of an array of its own: small ones are written out, of large ones calls make copies.

    >>> import numpy as np
    >>> written_down(np.array([3.0, 4.0]))
    tensor([3., 4.], dtype=tracejit.float64)
    """
    dtype = dtypes.from_numpy(array.dtype)
    if array.size > _SMALL:
        copied: Tensor = ops.elementwise.clone(Tensor._wrap(array))
        return copied
    if dtype.is_complex:
        pairs = np.stack((array.real, array.imag), axis=-1)
        return ops.complex_numbers.complex_of_parts(written_down(pairs))  # type: ignore[no-any-return]
    values = [float(v) if dtype.is_extension else v.item() for v in array.ravel()]
    if len(set(map(repr, values))) <= 1:
        uniform: Tensor = ops.source.full(
            shape=array.shape, value=values[0] if values else 0, dtype=dtype
        )
        return uniform
    parts = [ops.source.full(shape=(1,), value=v, dtype=dtype) for v in values]
    written: Tensor = ops.movement.reshape(ops.movement.cat(*parts, dim=0), shape=array.shape)
    return _no_view(written)


def _no_view(made: Tensor) -> Tensor:
    """What a recording made out of pieces and gave its shape: a tensor of its own."""
    made._base, made._chain = None, ()
    if MODES.recorder is not None:
        MODES.recorder.no_view(made)
    return made


# --- nested sequences ---------------------------------------------------------------------------------


def _is_sequence(data: Any) -> bool:
    return isinstance(data, (list, tuple, range)) or (
        isinstance(data, Sequence) and not isinstance(data, (str, bytes))
    )


def _shape_of(data: Any) -> tuple[int, ...]:
    """The shape, read off the first entry at each level."""
    shape: list[int] = []
    while True:
        if isinstance(data, (Tensor, np.ndarray)):
            return (*shape, *data.shape)
        if not _is_sequence(data):
            return tuple(shape)
        shape.append(len(data))
        if not data:
            return tuple(shape)
        data = data[0]


def _infer(data: Any) -> DType | None:
    """The dtype of the data, None for an empty sequence."""
    if isinstance(data, bool):
        return dtypes.bool_
    if isinstance(data, int):
        return dtypes.int64
    if isinstance(data, float) and not isinstance(data, np.generic):
        return dtypes.get_default_dtype()
    if isinstance(data, (Tensor, np.ndarray, np.generic)):
        return _dtype_of(data)
    if isinstance(data, complex):
        return dtypes.get_default_dtype().to_complex()
    if isinstance(data, (str, bytes)):
        raise ArgumentError(f"new(): invalid data type '{type(data).__name__}'")
    if _is_sequence(data):
        kinds = dict(zip(map(type, data), data, strict=True))
        deciding = kinds.values() if kinds.keys() <= _PLAIN else data  # those of a type are alike
        found = {d for d in map(_infer, deciding) if d is not None}
        return reduce(dtypes.promote_types, found) if found else None
    if hasattr(data, "__index__"):
        return dtypes.int64
    if hasattr(data, "__float__"):
        return dtypes.get_default_dtype()
    raise ConversionError(f"Could not infer dtype of {type(data).__name__}")


def _written_down(flat: list[Any], dtype: DType) -> bool:
    """Are there numbers that vary from call to call, which a recording can keep as they are?"""
    if len(flat) > _SMALL or not any(is_varying(v) or is_symbolic(v) for v in flat):
        return False
    if any(map(is_symbolic, flat)) and dtype is not dtypes.int64:
        return dtype.is_floating_point
    whole = dtype.category == "int" and all(isinstance(v, int) or is_symbolic(v) for v in flat)
    return whole or dtype.is_floating_point


def _filled(flat: list[Any], shape: tuple[int, ...], dtype: DType) -> Any:
    """The array of these numbers."""
    if dtype.category == "int":
        return _integers(flat, dtype).reshape(shape)
    if dtype.is_complex:
        return np.array(flat, dtype.np).reshape(shape)
    values = [v != 0 for v in flat] if dtype is dtypes.bool_ else flat
    with np.errstate(over="ignore"):
        array = np.array(values, np.float64 if dtype.is_floating_point else bool)
        return converted(array, dtype.np).reshape(shape)


def _integers(values: list[Any], dtype: DType) -> Any:
    """Integers as C converts them; ``RuntimeError`` beyond the 64-bit range."""
    check_held(values, dtype)
    span = 0 if dtype.is_signed else int(np.iinfo(dtype.np).max) + 1
    return np.array([int(v) % span if span else int(v) for v in values], dtype.np)


def _collect(data: Any, shape: tuple[int, ...], level: int, flat: list[Any]) -> None:
    """Append the numbers of ``data`` in order, every level checked against ``shape``."""
    if level == len(shape):
        if _is_sequence(data):
            raise ArgumentError(
                f"only numbers can be at depth {level} of this data, not {type(data).__name__}"
            )
        flat.append(_number(data))
        return
    if isinstance(data, (Tensor, np.ndarray)):
        array = data.detach().numpy() if isinstance(data, Tensor) else data
        if array.shape != shape[level:]:
            _refuse_ragged(shape[level], level, array.shape[0] if array.ndim else 0)
        flat.extend(map(_number, array.ravel()))
        return
    if not _is_sequence(data):
        raise ArgumentError(f"expected a sequence at dim {level}, got {type(data).__name__}")
    if len(data) != shape[level]:
        _refuse_ragged(shape[level], level, len(data))
    if level + 1 == len(shape) and _PLAIN.issuperset(map(type, data)):
        flat.extend(data)
        return
    for entry in data:
        _collect(entry, shape, level + 1, flat)


def _refuse_ragged(expected: int, dim: int, got: int) -> None:
    raise ArgumentValueError(
        f"expected sequence of length {expected} at dim {dim} (got {got})",
        "All rows must have the same length.",
    )


def _number(value: Any) -> Scalar:
    """A Python number of anything that counts as one."""
    if isinstance(value, (bool, int, float, complex)):
        return value  # type: ignore[return-value]
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        found = value.item()
        return found if isinstance(found, (bool, int, float, complex)) else float(found)  # type: ignore[return-value]
    if isinstance(value, (str, bytes)):  # which float() would read
        raise ArgumentError(f"new(): invalid data type '{type(value).__name__}'")
    return operator.index(value) if hasattr(value, "__index__") else float(value)
