"""Dtypes that programs compare with, or look sizes up by, and of which there are no tensors."""

from __future__ import annotations

from typing import Any, NoReturn

from .dtypes import DType
from .errors import DtypeError

__all__ = ["NAMED", "NamedDType"]


class NamedDType(DType):
    """A dtype by name: no tensor has it, and making one raises ``DtypeError``.

    >>> import tracejit as tj
    >>> tj.ones(1).dtype == tj.complex32, tj.complex32.itemsize, isinstance(tj.quint8, tj.dtype)
    (False, 4, True)
    """

    def __init__(self, name: str, category: str, size: int = 1) -> None:
        for key, value in (("name", name), ("short", name), ("category", category), ("size", size)):
            object.__setattr__(self, key, value)

    @property
    def np(self) -> NoReturn:  # what would make a tensor asks for it
        """Refused."""
        raise DtypeError(f"there are no tensors of {self.name}")

    @property
    def itemsize(self) -> int:
        """Bytes that an element would take."""
        size: int = self.__dict__["size"]
        return size

    @property
    def is_signed(self) -> bool:
        """Would it hold negative numbers?"""
        return not self.name.startswith(("u", "qu", "bits", "float8"))

    @property
    def title(self) -> str:
        """The name in errors."""
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return (_named, (self.name,))


def _named(name: str) -> NamedDType:
    return NAMED[name]


_WHOLE = (
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)),
    *("qint8", "quint8", "quint4x2", "quint2x4", "bits8", "bits1x8", "bits2x4", "bits4x2"),
)
NAMED = {name: NamedDType(name, "int") for name in _WHOLE}
NAMED.update({name: NamedDType(name, "float") for name in ("float8_e8m0fnu", "float4_e2m1fn_x2")})
NAMED.update(qint32=NamedDType("qint32", "int", 4), bits16=NamedDType("bits16", "int", 2))
NAMED["complex32"] = NAMED["chalf"] = NamedDType("complex32", "complex", 4)
