"""What an int can do that only a plain number can: for objects that stand for an int and know to become one."""

from __future__ import annotations

from typing import Any

import numpy as np


class PlainNumber:
    """Everything here goes through ``__index__``, where it can be noted that the number is no longer open."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        cls.__name__ = "int"  # Python's own errors name the class of what they refuse

    def __index__(self) -> int:
        raise NotImplementedError

    def as_number(self) -> Any:
        """A number to compute with."""
        return self.__index__()

    def __mul__(self, other: Any) -> Any:
        raise NotImplementedError

    def __floordiv__(self, other: Any) -> Any:
        raise NotImplementedError

    def __rfloordiv__(self, other: Any) -> Any:
        raise NotImplementedError

    def __mod__(self, other: Any) -> Any:
        raise NotImplementedError

    def __rmod__(self, other: Any) -> Any:
        raise NotImplementedError

    def __lt__(self, other: Any) -> Any:
        raise NotImplementedError

    def __le__(self, other: Any) -> Any:
        raise NotImplementedError

    def __int__(self) -> int:
        return self.__index__()

    def __trunc__(self) -> int:
        return self.__index__()

    def __floor__(self) -> int:
        return self.__index__()

    def __ceil__(self) -> int:
        return self.__index__()

    def __float__(self) -> float:
        return float(self.__index__())

    def __complex__(self) -> complex:
        return complex(self.__index__())

    def __round__(self, digits: int | None = None) -> int:
        return self.__index__() if digits is None else round(self.__index__(), digits)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.__index__(), dtype)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return int, (self.__index__(),)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(int, name):
            raise AttributeError(f"'int' object has no attribute {name!r}")
        return getattr(self.__index__(), name)

    def __neg__(self) -> Any:
        return self * -1

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __ne__(self, other: object) -> bool:
        found = self.__eq__(other)
        return found if found is NotImplemented else not found

    def __gt__(self, other: Any) -> bool:
        found = self.__le__(other)
        return found if found is NotImplemented else not found

    def __ge__(self, other: Any) -> bool:
        found = self.__lt__(other)
        return found if found is NotImplemented else not found

    def __truediv__(self, other: Any) -> Any:
        return NotImplemented if _knows_numbers(other) else self.as_number() / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.as_number()

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        if modulus is not None:
            return pow(self.__index__(), other, modulus)
        return NotImplemented if _knows_numbers(other) else self.as_number() ** other

    def __rpow__(self, other: Any) -> Any:
        return other ** self.as_number()

    def __and__(self, other: Any) -> Any:
        return self.__index__() & other

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        return self.__index__() | other

    __ror__ = __or__

    def __xor__(self, other: Any) -> Any:
        return self.__index__() ^ other

    __rxor__ = __xor__

    def __invert__(self) -> int:
        return ~self.__index__()

    def __lshift__(self, other: Any) -> Any:
        return self.__index__() << other

    def __rlshift__(self, other: Any) -> Any:
        return other << self.__index__()

    def __rshift__(self, other: Any) -> Any:
        return self.__index__() >> other

    def __rrshift__(self, other: Any) -> Any:
        return other >> self.__index__()


def _knows_numbers(x: Any) -> bool:
    """Does ``x`` know itself what arithmetic with a number is (a tensor, an array)?"""
    return hasattr(type(x), "__array__") and not isinstance(x, (int, float))
