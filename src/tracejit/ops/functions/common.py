"""Small helpers of the composite functions: argument checks and conversions."""

from __future__ import annotations

import cmath
import sys
from collections.abc import Sequence
from math import prod
from pathlib import Path
from types import CodeType
from typing import Any, TypeGuard

import numpy as np

from ... import dtypes
from ...cuda.arrays import MODULES, placed
from ...device import index_of
from ...dtypes import DType
from ...errors import ArgumentError
from ...meta import ANY, is_meta
from ...modes import MODES
from ...number_limits import holds, refuse_vast
from ...types import Shape
from ...varying import is_varying
from .. import shapes
from ..complex_numbers import complex_of_parts
from ..complex_numbers import conjugated as conjugated
from ..elementwise import cast, clone, mul, where
from ..mixin import OperatorMixin
from ..movement import cat
from ..promotion import UnsupportedDtypeError
from ..source import full

Tensor = Any  # an eager tensor or an IR value: a composite works on either
Number = bool | int | float


def is_tensor(x: object) -> TypeGuard[Any]:
    """Is ``x`` an eager tensor or an IR value?"""
    return isinstance(x, OperatorMixin)


def check_tensor(name: str, x: object, argument: str = "input", position: int = 1) -> None:
    """Raise ``TypeError`` unless ``x`` is a tensor."""
    if not isinstance(x, OperatorMixin):
        raise ArgumentError(
            f"{name}(): argument '{argument}' (position {position}) must be Tensor, "
            f"not {type(x).__name__}"
        )


def shape_of(x: Tensor) -> Shape:
    """The extents as a plain tuple."""
    shape: Shape = x.spec.shape
    return shape


def dim_of(dim: int, x: Tensor, *, extra: int = 0) -> int:
    """``dim`` counted from the front."""
    return shapes.normalize_dim(dim, len(x.spec.shape), extra=extra)


def dims_of(dim: int | Sequence[int] | None, x: Tensor) -> Shape:
    """Sorted dimensions counted from the front; None means all."""
    return shapes.normalize_dims(dim, len(x.spec.shape))


_HERE = Path(__file__).parent
_PACKAGE = str(_HERE.parent.parent)
_MODULES = f"{_PACKAGE}/nn/"
_FACTORIES = frozenset(
    [
        str(_HERE.parent / "keywords.py"),
        f"{_PACKAGE}/tensor_make.py",
        f"{_PACKAGE}/signal/windows.py",
        *(
            str(_HERE / f"{name}.py")
            for name in ("common", "factories", "ranges", "sampling", "triangles", "window_shapes")
        ),
    ]
)
#: Factories in files that hold other functions too.
_OTHERS = frozenset(
    {
        *("_frequencies", "empty_permuted", "empty_strided", "fftfreq", "rfftfreq"),
        "sparse_coo_tensor",
    }
)


def settle(result: Tensor, device: Any) -> Tensor:
    """Put a fresh tensor on ``device``; without one, what a user made is on the host.

    What library code makes without saying where goes where it is needed.
    """
    if not hasattr(result, "_array"):
        return result
    if device is None:
        if MODULES:
            result._unplaced = _called_by_library()
        index = default_index()
        if index == -1 or result._array is None or is_meta(result._array):
            return result
    else:
        index = index_of(device)
    array = placed(result.array, index)
    if array is not result._array:
        result._array, result._block, result._pointer, result._layout = array, None, 0, None
    result._unplaced = False
    return result


def default_index() -> int:
    """The device of new tensors where nobody says which: of those that users make, and modules for them."""
    if MODES.default_device is None or _called_by_library(besides=_MODULES):
        return -1
    return index_of(None)


def _called_by_library(besides: str = "/") -> bool:
    frame = sys._getframe(2)
    while _is_factory(frame.f_code) and frame.f_back is not None:
        frame = frame.f_back
    file = frame.f_code.co_filename
    return file.startswith(_PACKAGE) and not (besides != "/" and file.startswith(besides))


def _is_factory(code: CodeType) -> bool:
    file = code.co_filename
    return file in _FACTORIES or (code.co_name in _OTHERS and file.startswith(_PACKAGE))


def place_of(x: Tensor, device: Any) -> Any:
    """``device``, or where ``x`` lies."""
    asked = device is None and (MODULES or ANY[0] or MODES.default_device is not None)
    return getattr(x, "device", None) if asked else device


def as_type(x: Tensor, dtype: DType) -> Tensor:
    """``x`` in ``dtype``, itself when it has it."""
    return x if x.spec.dtype is dtype else cast(x, dtype=dtype)


def constant(value: Number, dtype: DType, shape: Shape = ()) -> Tensor:
    """A tensor filled with ``value``."""
    if isinstance(value, complex) and not dtype.is_complex:
        if value.imag and dtype is not dtypes.bool_:
            raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")
        value = bool(value) if dtype is dtypes.bool_ else value.real
    if isinstance(value, complex):
        if not cmath.isfinite(value):  # of which a product would mix the parts
            parts = [
                full(shape=(*shape, 1), value=v, dtype=dtype.to_real())
                for v in (value.real, value.imag)
            ]
            return complex_of_parts(cat(*parts, dim=len(shape)))
        return mul(full(shape=shape, value=1, dtype=dtype), value)
    if is_varying(value) and _takes(value, dtype):  # an operand, so that any value will do
        # infinite, it would multiply the other part of a complex number as well
        kind = dtype.to_real() if dtype.is_complex else dtype
        return as_type(mul(full(shape=shape, value=1, dtype=kind), value), dtype)
    return full(shape=shape, value=value, dtype=dtype)


def refuse_but_indices(name: str, dtype: DType) -> None:
    """Raise ``RuntimeError`` for a dtype that is neither int32 nor int64."""
    if dtype not in (dtypes.int32, dtypes.int64):
        raise UnsupportedDtypeError(f'"{name}" not implemented for {dtype.title!r}')


def refuse_overflow(dtype: DType, *values: Any) -> None:
    """Raise ``RuntimeError`` where one of the numbers is beyond what ``dtype`` holds, ``OverflowError`` beyond 64 bits.

    Numbers that vary are not asked about types that hold nearly all of them, which would be a guard for nothing.
    """
    wide = dtypes.int64, dtypes.float32, dtypes.float64
    for value in values:
        vast = dtype in wide and not (isinstance(value, float) and dtype is dtypes.int64)
        if isinstance(value, complex) or (vast and is_varying(value)):
            continue
        if type(value) is int:
            refuse_vast(value)
        if not holds(dtype, value):
            raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")


def refuse_filling(dtype: DType, value: Any, *shape: Any) -> None:
    """Raise ``RuntimeError`` where ``value`` may not fill a tensor; a half number alone becomes infinite."""
    if not (dtype.is_half and prod(shapes.size_arguments(shape)) == 1):
        refuse_overflow(dtype, value)


def _takes(value: Any, dtype: DType) -> bool:
    """Is a number as an operand converted to ``dtype`` as one in an attribute is?"""
    if dtype.is_differentiable:
        return True
    return dtype is dtypes.int64 and isinstance(value, int) and -(2**63) <= value < 2**63


def as_tensor_like(value: Tensor | Number, x: Tensor) -> Tensor:
    """``value`` itself, or a 0-d tensor of the dtype of ``x``."""
    return value if is_tensor(value) else constant(value, x.spec.dtype)


def with_zero_gradient(found: Tensor, x: Tensor) -> Tensor:
    """``found`` as what was computed from ``x``, with a gradient of zero."""
    if not getattr(x, "requires_grad", False):
        return found
    return where(full(shape=x.spec.shape, value=True, dtype=dtypes.bool_), found, x)


def promoted(*xs: Tensor | Number) -> DType:
    """The dtype an elementwise op on ``xs`` would compute in."""
    return dtypes.result_type_of(
        (dtypes.of_scalar(x), 0)
        if isinstance(x, (int, float, complex, np.generic))
        else (x.dtype, 2 if x.ndim else 1)
        for x in xs
    )


def upcast(x: Tensor) -> Tensor:
    """Half precision as float32: composites of many steps round once, at the end."""
    dtype = x.spec.dtype
    if dtype.is_half:
        return cast(x, dtype=dtypes.float32)
    return x


def require_float(name: str, x: Tensor) -> None:
    """Raise ``RuntimeError`` unless ``x`` is floating point."""
    check_tensor(name, x)
    refuse(name, x.spec.dtype, "bool int complex")


def refuse_bool(name: str, dtype: DType) -> None:
    """Raise ``RuntimeError`` where the dtype is that of bools."""
    refuse(name, dtype, "bool")


def refuse(name: str, dtype: DType, categories: str) -> None:
    """Raise ``RuntimeError`` for a dtype of one of these categories: "bool", "int", "float", "complex"."""
    if dtype.category in categories:
        raise UnsupportedDtypeError(f'"{name}" not implemented for {dtype.title!r}')


def is_copy(x: Tensor, source: Tensor) -> bool:
    """Is ``x``, which was to show ``source``, a copy; or, where it stands for a sample of a batch, is the batch one?

    >>> import tracejit as tj
    >>> row = tj.ones(2, 3)
    >>> is_copy(row.reshape(6), row), is_copy(row.mT.reshape(6), row.mT)
    (False, True)
    """
    if getattr(x, "_base", source) is not None or not shapes.numel(shape_of(source)):
        return False
    samples = getattr(x._block, "samples", None)
    return samples is None or is_copy(samples, source)


def alone(x: Tensor) -> Tensor:
    """``x``, which shows what nobody else will see, as a tensor that is no view: programs may ``detach_()`` it.

    >>> import tracejit as tj
    >>> alone(tj.ones(2, 3).reshape(6))._is_view()
    False
    """
    if getattr(x, "_base", None) is not None:
        x._stand_alone()
    return x


def own(x: Tensor) -> Tensor:
    """``x``, or a copy where it is a view: moved and repeated elements may happen to lie where they were."""
    return clone(x) if getattr(x, "_base", None) is not None else x
