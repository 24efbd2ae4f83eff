"""Tensors on memory of other libraries, without copying: NumPy arrays and DLPack."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import dtypes
from .cuda.arrays import namespace
from .errors import ArgumentError, ArgumentValueError, user_line
from .modes import MODES
from .tensor import Tensor

#: DLPack's numbers for memory of a GPU, and for host memory that is managed by one.
_CUDA = (2, 13)


def from_numpy(array: Any) -> Tensor:
    """A tensor on the memory of ``array``: changes of one are seen by the other.

    ``TypeError`` unless ``array`` is a NumPy array of a supported dtype. A read-only array gives a tensor that
    refuses in-place operations, with a warning.

    >>> import numpy as np
    >>> import tracejit as tj
    >>> a = np.zeros(2)
    >>> x = tj.from_numpy(a)
    >>> a[0] = 5
    >>> x
    tensor([5., 0.], dtype=tracejit.float64)
    """
    if not isinstance(array, np.ndarray):
        raise ArgumentError(f"expected np.ndarray (got {type(array).__name__})")
    if not array.dtype.isnative:
        raise ArgumentError(
            "given numpy array has byte order different from the native byte order. Conversion between "
            "byte orders is currently not supported."
        )
    dtypes.from_numpy(array.dtype)  # refuses what tensors cannot hold
    if not array.flags.writeable:
        warnings.warn(
            "The given NumPy array is not writable: the tensor shares its memory and refuses in-place "
            f"operations. Copy the array if it should be writable. ({user_line()})",
            UserWarning,
            stacklevel=2,
        )
    found = None if MODES.recorder is None else MODES.recorder.array_shown(array)
    tensor = Tensor._wrap(np.asarray(array).view()) if found is None else found
    tensor._inference = MODES.inference
    if not array.flags.writeable:
        tensor._writes.read_only = True
    return tensor


def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A vector on the memory of ``buffer`` (bytes, a bytearray, an array): ``count`` elements from byte ``offset``.

    -1 means as many as there are. Raises ``ValueError`` for nothing to look at, places outside, and a rest that is no
    whole element. Read-only buffers give tensors that refuse in-place operations, with a warning.

    >>> import tracejit as tj
    >>> tj.frombuffer(bytearray([1, 0, 2, 0]), dtype=tj.int16)
    tensor([1, 2], dtype=tracejit.int16)
    """
    kind, whole = dtypes.as_dtype(dtype), memoryview(buffer).nbytes
    if not whole or not count:
        raise ArgumentValueError(f"both buffer length ({whole}) and count ({count}) must not be 0")
    if not 0 <= offset < whole:
        raise ArgumentValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length "
            f"({whole} bytes) minus 1"
        )
    left = whole - offset
    if left % kind.itemsize if count < 0 else count * kind.itemsize > left:
        raise ArgumentValueError(
            f"{'all' if count < 0 else count} elements of {kind.itemsize} bytes do not fit the "
            f"{left} bytes after offset {offset}"
        )
    made = from_numpy(np.frombuffer(buffer, kind.np, count, offset))
    return made.requires_grad_(requires_grad)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor on the memory of an object that speaks DLPack (``__dlpack__``), without copying.

    It is a copy with ``copy``, and where ``device`` is another one. Raises ``ValueError`` where ``copy=False`` forbids
    that.

    >>> import numpy as np
    >>> import tracejit as tj
    >>> tj.from_dlpack(np.arange(3.0))
    tensor([0., 1., 2.], dtype=tracejit.float64)
    """
    if not hasattr(ext_tensor, "__dlpack__"):
        raise ArgumentError(
            f"from_dlpack(): expected an object with __dlpack__, not {type(ext_tensor).__name__}",
            "Capsules carry no device; pass the tensor or array itself.",
        )
    asks = getattr(ext_tensor, "__dlpack_device__", None)
    kind, _ = (1, 0) if asks is None else asks()
    array = (namespace() if kind in _CUDA else np).from_dlpack(ext_tensor)
    dtypes.from_numpy(array.dtype)
    if MODES.recorder is not None:
        MODES.recorder.unsupported("from_dlpack() inside a compiled function")
    made = Tensor._wrap(array)
    moved: Tensor = made if device is None else made.to(device)
    if moved is not made and copy is False:
        raise ArgumentValueError(f"cannot move to {device} from {made.device} without copying")
    return moved.clone() if copy and moved is made else moved


def from_cuda_array(source: Any) -> Tensor:
    """A tensor on the memory of an object with ``__cuda_array_interface__``, without copying.

    Raises ``RuntimeError`` where there is no GPU.
    """
    array = namespace().asarray(source)
    dtypes.from_numpy(array.dtype)
    if MODES.recorder is not None:
        MODES.recorder.unsupported("an array of a GPU inside a compiled function")
    return Tensor._wrap(array)


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule that shares the memory of ``tensor``; it can be taken once.

    >>> import tracejit as tj
    >>> type(tj.to_dlpack(tj.ones(2))).__name__
    'PyCapsule'
    """
    return tensor.__dlpack__()


def operands_of(name: str, inputs: Sequence[Any]) -> list[Any]:
    """The inputs of one of NumPy's functions as the tensor operation ``name`` takes them.

    >>> import tracejit as tj
    >>> [x.dtype for x in operands_of("matmul", [tj.ones(2, 2), np.ones((2, 2))])]
    [tracejit.float64, tracejit.float64]
    """
    found = [_operand(name, x) for x in inputs]
    if all(isinstance(x, Tensor) for x in found):
        kind = _numpy_kind(name, [x.dtype for x in found])
        return found if kind is None else [x.to(kind) for x in found]
    return found


def _operand(name: str, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return from_numpy(np.array(value) if not value.flags.writeable else value)
    if name == "sub" and isinstance(value, np.bool_):
        return float(value)  # a number of NumPy may be subtracted from, unlike a bool
    return value.item() if isinstance(value, np.generic) else value


def _numpy_kind(name: str, kinds: Sequence[dtypes.DType]) -> dtypes.DType | None:
    """The dtype that NumPy computes in, to which single numbers in arrays count like others; None to leave it to us."""
    if any(kind.is_extension for kind in kinds):
        return None
    found = np.result_type(*(kind.np for kind in kinds))
    return dtypes.from_numpy(
        np.dtype(np.float64) if name == "div" and found.kind in "biu" else found
    )
