"""Casts: ``to`` and its short forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import dtypes
from ...cuda.pinned import without_waiting
from ...device import check_device, device, index_of
from ...dtypes import DType
from ...meta import META
from ...modes import MODES
from .. import elementwise as e
from .. import transfer as t
from ..mixin import OperatorMixin
from ..table import METHODS, function
from .common import Tensor, as_type, is_tensor


def _target(argument: Any) -> tuple[DType | None, Any]:
    """The dtype and the device meant by a positional argument of ``to``."""
    if is_tensor(argument):
        return argument.spec.dtype, getattr(argument, "device", None)
    if isinstance(argument, DType) or argument in (int, float, bool):
        return dtypes.as_dtype(argument), None
    if argument is None or isinstance(argument, (str, int, device)):
        return None, argument
    raise TypeError(
        f"to() received an invalid combination of arguments - got ({type(argument).__name__}), but "
        "expected a dtype, a device or a tensor"
    )


@function(namespace=False)
def to(
    self: Tensor,
    *args: Any,
    dtype: Any = None,
    device: Any = None,
    other: Tensor | None = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """``self`` in another dtype, on another device, or like a tensor; itself when nothing changes, unless ``copy``.

    Raises ``RuntimeError`` for a device that is not there, ``TypeError`` for other arguments.

    >>> import tracejit as tj
    >>> tj.tensor([1.7]).to(tj.int64), tj.tensor([1]).to("cpu")
    (tensor([1]), tensor([1]))
    """
    given = [a for a in args if not isinstance(a, bool)] + ([other] if other is not None else [])
    flags = [a for a in args if isinstance(a, bool)]
    non_blocking, copy = non_blocking or flags[:1] == [True], copy or flags[1:] == [True]
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    for argument in given:
        kind, where = _target(argument)
        wanted, device = kind or wanted, device if where is None else where
    moved = self if device is None else moved_to(self, device, non_blocking)
    if wanted is None or wanted is self.spec.dtype:
        return e.clone(moved) if copy and moved is self else moved
    return e.cast(moved, dtype=wanted)


def moved_to(x: Tensor, device: Any, non_blocking: bool = False) -> Tensor:
    """``x`` on a device: itself when it is there already. Raises ``RuntimeError`` for one that is not there.

    With ``non_blocking`` nobody waits for a copy of pinned memory to be done.
    """
    check_device(device)
    if not hasattr(x, "_array"):
        return x
    source, target = x._device_index(), index_of(device)
    if source == target:
        return x
    if source == META:
        raise NotImplementedError(
            "Cannot copy out of meta tensor; no data! Please use module.to_empty() instead of module.to() when moving "
            "module from meta to a different device."
        )
    if MODES.recorder is not None:
        MODES.recorder.unsupported("a move between devices inside a compiled function")
    if non_blocking:
        with without_waiting():
            return t.to_device(x, source=source, device=target)
    return t.to_device(x, source=source, device=target)


@function(namespace=False)
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """``self`` in the dtype of ``other``.

    >>> import tracejit as tj
    >>> tj.tensor([1]).type_as(tj.ones(1))
    tensor([1.])
    """
    return as_type(self, other.spec.dtype)


def _caster(name: str, dtype: DType) -> Callable[..., Tensor]:
    def convert(self: Tensor, memory_format: Any = None) -> Tensor:
        return as_type(self, dtype)

    convert.__name__ = name
    convert.__doc__ = f"``self`` as {dtype.name}; itself when it is already."
    return convert


for _name, _dtype in {
    "float": dtypes.float32,
    "double": dtypes.float64,
    "half": dtypes.float16,
    "bfloat16": dtypes.bfloat16,
    "int": dtypes.int32,
    "long": dtypes.int64,
    "short": dtypes.int16,
    "char": dtypes.int8,
    "byte": dtypes.uint8,
    "bool": dtypes.bool_,
    "cfloat": dtypes.complex64,
    "cdouble": dtypes.complex128,
}.items():
    METHODS[_name] = _caster(_name, _dtype)


@function(method="type", namespace=False)
def type_method(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """``self`` in another dtype, given as one, as a tensor type or by its name; without one, the name of its type.

    Types of tensors say the device, too. Raises ``TypeError`` for what is no dtype, ``ValueError`` for names and types
    of anything else, ``RuntimeError`` for a device that is not there.

    >>> import tracejit as tj
    >>> tj.ones(1).type(tj.int64), tj.ones(1).type(tj.LongTensor), tj.ones(1).type()
    (tensor([1]), tensor([1]), 'tracejit.FloatTensor')
    """
    if dtype is None:
        package, name = self.dtype.tensor_name.split(".")
        return f"{package}.cuda.{name}" if getattr(self, "is_cuda", False) else f"{package}.{name}"
    kind, place = _meant_by(dtype)
    return as_type(self if place is None else moved_to(self, place, non_blocking), kind)


def _meant_by(kind: Any) -> tuple[DType, str | None]:
    """The dtype given as such, or as a type of tensors, which has a device too; not even another tensor tells one."""
    if isinstance(kind, DType):
        return kind, None
    if isinstance(kind, str):
        every = (*dtypes.ALL, *dtypes.COMPLEX, *dtypes.UNSIGNED, *dtypes.EIGHT_BITS)
        names = {d.tensor_name.split(".")[1]: d for d in every}
        if kind.split(".")[-1] not in names:
            raise ValueError(f"invalid type: {kind!r}")
        return names[kind.split(".")[-1]], "cuda" if ".cuda." in kind else "cpu"
    if not isinstance(kind, type):
        raise TypeError("dtype must be a type, str, or dtype object")
    if issubclass(kind, OperatorMixin):
        return dtypes.get_default_dtype(), None
    found = getattr(kind, "dtype", None)
    if isinstance(found, DType):
        return found, "cuda" if getattr(kind, "is_cuda", False) else "cpu"
    raise ValueError(f"invalid type: {kind.__name__!r}")


@function(method=False)
def result_type(tensor1: Any, tensor2: Any) -> DType:
    """The dtype arithmetic on the two operands gives.

    >>> import tracejit as tj
    >>> tj.result_type(tj.tensor([1, 2]), 1.0)
    tracejit.float32
    """
    from .common import promoted

    return promoted(tensor1, tensor2)


@function(method=False)
def can_cast(from_: DType, to: DType) -> bool:
    """May a value of one dtype be stored in the other without leaving its category?

    >>> import tracejit as tj
    >>> tj.can_cast(tj.float64, tj.float32), tj.can_cast(tj.float32, tj.int64)
    (True, False)
    """
    return from_.rank <= to.rank
