"""Element types and PyTorch's promotion rules.

A :class:`DType` names an element type once for every layer: ``name`` for people, ``short`` for the IR,
``np`` for storage. Promotion follows PyTorch's documented lattice, in which operands rank as tensors with
dimensions, then 0-d tensors, then Python numbers: a lower rank changes the result only by its *category*
(bool < int < float < complex), never by its width.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from threading import get_ident
from typing import Any

import ml_dtypes
import numpy as np

from .errors import DtypeError

CATEGORIES = ("bool", "int", "float", "complex")


@dataclass(frozen=True, eq=False)
class DType:
    """An element type, such as ``tracejit.float32``.

    >>> import tracejit as tj
    >>> tj.float32, tj.float32.itemsize, tj.int8.is_floating_point
    (tracejit.float32, 4, False)
    """

    name: str
    short: str
    np: np.dtype[Any]
    category: str

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.np.itemsize

    @property
    def is_floating_point(self) -> bool:
        """True for float16, bfloat16, float32, float64, and float8 of all kinds."""
        return self.category == "float"

    @property
    def is_half(self) -> bool:
        """True for float16 and bfloat16, which are stored and not computed in."""
        return self.is_floating_point and self.itemsize == 2

    @property
    def is_complex(self) -> bool:
        """True for complex64 and complex128."""
        return self.category == "complex"

    @cached_property  # asked for every result that may get a history
    def is_differentiable(self) -> bool:
        """True for floating point and complex: what gradients exist for."""
        return self.category in ("float", "complex")

    def to_real(self) -> DType:
        """The dtype of the parts of a complex number; any other dtype itself."""
        return {"c64": float32, "c128": float64}.get(self.short, self)

    def to_complex(self) -> DType:
        """The complex dtype with parts of this one; complex64 for what has none of its own."""
        return complex128 if self.to_real() is float64 else complex64

    @property
    def is_signed(self) -> bool:
        """True unless bool or unsigned."""
        return self.short not in ("bool", "u8", "u16", "u32", "u64")

    @property
    def is_wide_unsigned(self) -> bool:
        """True for uint16, uint32 and uint64, which are stored and converted, and promoted to floats only."""
        return self.short in ("u16", "u32", "u64")

    @property
    def is_eight_bit_float(self) -> bool:
        """True for float8 of all kinds, which are stored and converted, and never promoted."""
        return self.is_floating_point and self.itemsize == 1

    @property
    def is_extension(self) -> bool:
        """True for what NumPy has from ml_dtypes: bfloat16 and float8. Its elements are no Python floats."""
        return self.short == "bf16" or self.is_eight_bit_float

    @cached_property
    def rank(self) -> int:
        """Position of the category in bool < int < float < complex."""
        return CATEGORIES.index(self.category)

    @property
    def title(self) -> str:
        """The name in errors about result types, such as ``Float`` or ``Long``."""
        return _TITLES[self.name]

    @property
    def tensor_name(self) -> str:
        """The name of a tensor type in errors, such as ``tracejit.FloatTensor``."""
        return f"tracejit.{self.title}Tensor"

    def __repr__(self) -> str:
        return f"tracejit.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (by_name, (self.name,))


bool_ = DType("bool", "bool", np.dtype(np.bool_), "bool")
uint8 = DType("uint8", "u8", np.dtype(np.uint8), "int")
int8 = DType("int8", "i8", np.dtype(np.int8), "int")
int16 = DType("int16", "i16", np.dtype(np.int16), "int")
int32 = DType("int32", "i32", np.dtype(np.int32), "int")
int64 = DType("int64", "i64", np.dtype(np.int64), "int")
uint16 = DType("uint16", "u16", np.dtype(np.uint16), "int")
uint32 = DType("uint32", "u32", np.dtype(np.uint32), "int")
uint64 = DType("uint64", "u64", np.dtype(np.uint64), "int")
float8_e4m3fn = DType("float8_e4m3fn", "f8e4m3fn", np.dtype(ml_dtypes.float8_e4m3fn), "float")
float8_e5m2 = DType("float8_e5m2", "f8e5m2", np.dtype(ml_dtypes.float8_e5m2), "float")
float8_e4m3fnuz = DType(
    "float8_e4m3fnuz", "f8e4m3fnuz", np.dtype(ml_dtypes.float8_e4m3fnuz), "float"
)
float8_e5m2fnuz = DType(
    "float8_e5m2fnuz", "f8e5m2fnuz", np.dtype(ml_dtypes.float8_e5m2fnuz), "float"
)
float16 = DType("float16", "f16", np.dtype(np.float16), "float")
bfloat16 = DType("bfloat16", "bf16", np.dtype(ml_dtypes.bfloat16), "float")
float32 = DType("float32", "f32", np.dtype(np.float32), "float")
float64 = DType("float64", "f64", np.dtype(np.float64), "float")
complex64 = DType("complex64", "c64", np.dtype(np.complex64), "complex")
complex128 = DType("complex128", "c128", np.dtype(np.complex128), "complex")

ALL = (bool_, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64)
INTEGERS = (uint8, int8, int16, int32, int64)
FLOATS = (float16, bfloat16, float32, float64)
COMPLEX = (complex64, complex128)
#: What no kernel computes with.
UNSIGNED = (uint16, uint32, uint64)
EIGHT_BITS = (float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz)

_TITLES = {
    "bool": "Bool",
    "uint8": "Byte",
    "uint16": "UInt16",
    "uint32": "UInt32",
    "uint64": "UInt64",
    "int8": "Char",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    **{d.name: d.name.capitalize() for d in EIGHT_BITS},
    "float16": "Half",
    "bfloat16": "BFloat16",
    "float32": "Float",
    "float64": "Double",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}
_EVERY = (*ALL, *COMPLEX, *UNSIGNED, *EIGHT_BITS)
_BY_NAME = {d.name: d for d in _EVERY} | {d.short: d for d in _EVERY}
_BY_NUMPY = {d.np: d for d in _EVERY}
_PYTHON = {bool: bool_, int: int64, float: float64}

_default = float32
_assumed: dict[int, DType] = {}  # by thread


def by_name(name: str) -> DType:
    """The dtype called ``name`` (``"float32"`` or ``"f32"``)."""
    return _BY_NAME[name]


def from_numpy(dtype: Any) -> DType:
    """The DType of a NumPy dtype; ``TypeError`` when tensors cannot hold it (object, str, ...)."""
    found = _BY_NUMPY.get(np.dtype(dtype))
    if found is None:
        supported = ", ".join(d.name for d in _EVERY)
        raise TypeError(
            f"can't convert np.ndarray of type {np.dtype(dtype)}. The only supported types are: {supported}."
        )
    return found


def as_dtype(dtype: Any) -> DType:
    """A DType from a DType, a Python type, or anything NumPy understands as a dtype.

    Python's ``float`` has the precision that it has in Python, whatever the default dtype.
    """
    if isinstance(dtype, DType):
        return dtype
    if dtype in _PYTHON:
        return _PYTHON[dtype]
    return from_numpy(dtype)


def get_default_dtype() -> DType:
    """The dtype Python floats turn into (float32 unless changed).

    >>> import tracejit as tj
    >>> tj.get_default_dtype()
    tracejit.float32
    """
    return _assumed.get(get_ident(), _default) if _assumed else _default


@contextmanager
def assuming(dtype: DType) -> Iterator[None]:
    """In this thread ``dtype`` is the default: what was recorded is compiled as it was typed, whatever the default now.

    >>> with assuming(float64):
    ...     get_default_dtype()
    tracejit.float64
    """
    thread = get_ident()
    before = _assumed.get(thread)
    _assumed[thread] = dtype
    try:
        yield
    finally:
        if before is None:
            del _assumed[thread]
        else:
            _assumed[thread] = before


def set_default_dtype(dtype: Any) -> None:
    """Set the dtype Python floats turn into; ``TypeError`` unless it is a floating point dtype.

    >>> import tracejit as tj
    >>> tj.set_default_dtype(tj.float32)
    """
    global _default
    if not isinstance(dtype, DType) or not dtype.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    _default = dtype


def of_scalar(value: Any) -> DType:
    """The dtype a Python number has when it becomes a tensor."""
    if isinstance(value, (bool, np.bool_)):
        return bool_
    if isinstance(value, (complex, np.complexfloating)):
        return get_default_dtype().to_complex()
    return int64 if isinstance(value, (int, np.integer)) else get_default_dtype()


def promote_types(type1: DType, type2: DType) -> DType:
    """The smallest dtype that holds both, as PyTorch defines it.

    >>> import tracejit as tj
    >>> tj.promote_types(tj.uint8, tj.int8), tj.promote_types(tj.float16, tj.bfloat16)
    (tracejit.int16, tracejit.float32)
    """
    a, b = type1, type2
    if a is b:
        return a
    if a.is_eight_bit_float or b.is_eight_bit_float:
        raise DtypeError(
            f"Promotion for Float8 Types is not supported, attempted to promote {a.title} and {b.title}"
        )
    if a.rank != b.rank:
        high, low = (a, b) if a.rank > b.rank else (b, a)
        if not high.is_wide_unsigned:
            return complex128 if high.is_complex and low is float64 else high
    if a.is_wide_unsigned or b.is_wide_unsigned:
        raise DtypeError(
            "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
            f"{a.title} and {b.title}"
        )
    if a.itemsize == b.itemsize:  # uint8 with int8, float16 with bfloat16
        return int16 if a.category == "int" else float32
    return a if a.itemsize > b.itemsize else b


def _combine(higher: DType | None, lower: DType | None) -> DType | None:
    """Fold a lower-ranked operand class into a higher one: only a larger category may widen it."""
    if higher is None or lower is None:
        return higher or lower
    if higher.is_complex:
        return higher
    if higher.is_floating_point:
        return higher.to_complex() if lower.is_complex else higher
    if higher is bool_ or lower.is_differentiable:
        return promote_types(higher, lower)
    return higher


def result_type_of(operands: Iterable[tuple[DType, int]]) -> DType:
    """Promote operands given as ``(dtype, rank)``: rank 2 has dimensions, 1 is a 0-d tensor, 0 a Python number."""
    best: list[DType | None] = [None, None, None]
    for dtype, rank in operands:
        known = best[rank]
        best[rank] = dtype if known is None else promote_types(known, dtype)
    result = _combine(best[2], _combine(best[1], best[0]))
    assert result is not None
    return result
