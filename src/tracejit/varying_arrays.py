"""Arrays that ``numpy.random`` draws anew at every call: what user code holds in their place while it is recorded.

A tensor may be made of such an array, and be indexed with it; arithmetic with numbers and ``astype`` make another one,
and an element of a vector is a number that varies. All else that is done with it happens in NumPy, unseen, so it gets
the array itself and the recorder hears of it. It is no subclass of ``ndarray``, whose memory code in C would read
without asking.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .standing import Standing, plain
from .varying import OPERATIONS, is_varying

__all__ = ["VaryingArray"]

#: What an array of this shape and dtype always has.
_FIXED = frozenset({"dtype", "flags", "itemsize", "nbytes", "ndim", "shape", "size"})
_NUMBERS = frozenset({int, float, np.float64, np.float32})
_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
_COMPARED = ("lt", "le", "gt", "ge")
#: The other methods of Python that arrays have.
_SEEN = (
    "abs and bool complex contains delitem divmod eq float format index int invert iter lshift matmul "
    "ne or pos rand rdivmod reduce_ex repr rlshift rmatmul ror rrshift rshift rxor setitem str xor"
)


class VaryingArray(Standing):
    """An array that differs from call to call, of the same shape and dtype in all of them."""

    __slots__ = ("_shown",)

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Any, number: Any, owner: Any) -> None:
        super().__init__(value, number, owner)
        self._shown = False  # does something else lie in its memory, which may be written to?

    def _live(self) -> bool:
        return not self._shown and super()._live()

    def _forced(self) -> Any:
        """The array itself, for code that nobody watches."""
        if super()._live():
            self._owner.unsupported("what numpy.random draws is used otherwise than in tensors")
        return self._value

    def told(self, wanted: Any = None) -> Any:
        """A tensor with a copy of what is drawn, in the ``wanted`` dtype; None where that cannot be recorded."""
        return self._owner.array_told(self, wanted) if self._live() else None

    def shown(self) -> Any:
        """A tensor on the memory, of which nothing else is read from now on; None where that cannot be recorded."""
        if not self._live():
            return None
        self._shown = True
        return self._owner.array_told(self, None)

    def __getattr__(self, name: str) -> Any:
        if not hasattr(np.ndarray, name):
            raise AttributeError(f"'numpy.ndarray' object has no attribute {name!r}")
        return getattr(self._value if name in _FIXED else self._forced(), name)

    def __len__(self) -> int:
        return len(self._value)

    def astype(self, dtype: Any, *given: Any, **named: Any) -> Any:
        """Its numbers in another type."""
        if given or named:
            return self._forced().astype(dtype, *given, **named)
        kind = np.dtype(dtype)
        return _derived(lambda array: array.astype(kind), ("astype", str(kind)), self)

    def copy(self, *given: Any, **named: Any) -> Any:
        """The same numbers in other memory."""
        if given or named:
            return self._forced().copy(*given, **named)
        return _derived(lambda array: array.copy(), ("copy",), self)

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    def reshape(self, *shape: Any) -> Any:
        """Its numbers in another shape."""
        if not all(type(n) is int for n in shape):
            return self._forced().reshape(*shape)
        made = _derived(lambda array: array.reshape(shape), ("reshape", *shape), self)
        self._shown = True
        return made

    def __getitem__(self, key: Any) -> Any:
        if type(key) is int and self.ndim == 1 and self.dtype == np.float64 and self._live():
            return self._owner.item_drawn(self, key, self._value[key])
        return self._forced()[_seen(key)]

    def __neg__(self) -> Any:
        return _derived(OPERATIONS["neg"], ("neg",), self)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self._forced(), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(hasattr(type(x), "takes_varying_numbers") for x in inputs):
            return NotImplemented
        return getattr(ufunc, method)(*_seen(inputs), **_seen(kwargs))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return function(*_seen(args), **_seen(kwargs))


def _seen(value: Any) -> Any:
    """What is given to NumPy, with arrays for those that vary."""
    if isinstance_of(value):
        return value._forced()
    if type(value) in (list, tuple):
        return type(value)(map(_seen, value))
    return {k: _seen(x) for k, x in value.items()} if type(value) is dict else value


def isinstance_of(value: Any) -> bool:
    """Is this one of the arrays here?

    >>> isinstance_of(VaryingArray(np.ones(2), None, None)), isinstance_of(np.ones(2))
    (True, False)
    """
    return type(value) is VaryingArray


def _derived(function: Callable[..., Any], key: Any, *operands: Any) -> Any:
    """What a function makes of arrays that vary, and of numbers."""
    arrays = [x for x in operands if isinstance_of(x)]
    known = all(isinstance_of(x) or is_varying(x) or type(x) in _NUMBERS for x in operands)
    if not known or not all(x._live() for x in arrays):
        return function(*map(_seen, operands))
    result = function(*map(plain, operands))
    if type(result) is not np.ndarray:  # what NumPy makes of arrays without a dimension
        return function(*map(_seen, operands))
    return arrays[0]._owner.array_derived(function, key, operands, result)


def _install() -> None:
    """The operators that follow, and the others, which see the array."""

    def arithmetic(name: str, reflected: bool) -> Callable[..., Any]:
        def operator(self: VaryingArray, other: Any) -> Any:
            operands = (other, self) if reflected else (self, other)
            if hasattr(type(other), "takes_varying_numbers"):
                tensor = self.told()
                told = [tensor if x is self else x for x in operands]
                return OPERATIONS[name](*(map(_seen, operands) if tensor is None else told))
            return _derived(OPERATIONS[name], (name,), *operands)

        return operator

    def seen(name: str) -> Callable[..., Any]:
        def method(self: VaryingArray, *given: Any) -> Any:
            return getattr(self._forced(), name)(*map(_seen, given))

        return method

    def in_place(name: str) -> Callable[..., Any]:
        def method(self: VaryingArray, other: Any) -> Any:
            self._value = getattr(self._forced(), name)(_seen(other))
            return self

        return method

    for name in _ARITHMETIC:
        setattr(VaryingArray, f"__{name}__", arithmetic(name, reflected=False))
        setattr(VaryingArray, f"__r{name}__", arithmetic(name, reflected=True))
        setattr(VaryingArray, f"__i{name}__", in_place(f"__i{name}__"))
    for name in _COMPARED:
        setattr(VaryingArray, f"__{name}__", arithmetic(name, reflected=False))
    for name in _SEEN.split():
        setattr(VaryingArray, f"__{name}__", seen(f"__{name}__"))
    for name in ("and", "lshift", "matmul", "or", "rshift", "xor"):
        setattr(VaryingArray, f"__i{name}__", in_place(f"__i{name}__"))


_install()
