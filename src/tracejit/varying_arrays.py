"""Arrays that differ from call to call: what user code holds in their place while it is recorded.

Of one that ``numpy.random`` draws a tensor may be made, and a tensor be indexed with it; arithmetic with numbers and
``astype`` make another one, and an element of a vector is a number that varies. One on the memory of a tensor may be
returned. All else that is done with them happens in NumPy, unseen, so it gets the array itself and the recorder hears
of it. They are no subclasses of ``ndarray``, whose memory code in C would read without asking.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .memory_formats import contiguous_format
from .standing import Standing, plain
from .varying import OPERATIONS, is_varying

__all__ = ["StandingArray", "TensorArray", "VaryingArray"]

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


class StandingArray(Standing):
    """Stands for an array; whoever looks at what that holds sees the array itself."""

    __slots__ = ()

    __hash__ = None  # type: ignore[assignment]

    def _forced(self) -> Any:
        """The array itself, for code that nobody watches."""
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        if not hasattr(np.ndarray, name):
            raise AttributeError(f"'numpy.ndarray' object has no attribute {name!r}")
        return getattr(self._value if name in _FIXED else self._forced(), name)

    def __len__(self) -> int:
        return len(self._value)

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    def __getitem__(self, key: Any) -> Any:
        return self._forced()[_seen(key)]

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self._forced(), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(hasattr(type(x), "takes_varying_numbers") for x in inputs):
            return NotImplemented
        return getattr(ufunc, method)(*_seen(inputs), **_seen(kwargs))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return function(*_seen(args), **_seen(kwargs))


class TensorArray(StandingArray):
    """The array on the memory of a tensor, which is in the place of the number that others come from."""

    __slots__ = ("_is_returned",)

    def __init__(self, value: Any, tensor: Any, owner: Any) -> None:
        super().__init__(value, tensor, owner)
        self._is_returned = False

    def _forced(self) -> Any:
        """The array itself, for code that nobody watches."""
        if self._live():
            self._owner.escape(self._number, "numpy()")
        return self._value

    def copy(self, *given: Any, **named: Any) -> Any:
        """The same numbers in other memory."""
        if given or named or not self._live():
            return self._forced().copy(*given, **named)
        return self._number.detach().clone(memory_format=contiguous_format).numpy()

    def __getitem__(self, key: Any) -> Any:
        parts = key if type(key) is tuple else (key,)
        if self._live() and all(map(_is_plain_part, parts)) and np.ndim(self._value[key]):
            return self._number.detach()[key].numpy()
        return super().__getitem__(key)


class VaryingArray(StandingArray):
    """An array that differs from call to call, of the same shape and dtype in all of them."""

    __slots__ = ("_shown",)

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
        return super().__getitem__(key)

    def __neg__(self) -> Any:
        return _derived(OPERATIONS["neg"], ("neg",), self)


def _seen(value: Any) -> Any:
    """What is given to NumPy, with arrays for those that vary."""
    if issubclass(type(value), StandingArray):
        return value._forced()
    if type(value) in (list, tuple):
        return type(value)(map(_seen, value))
    return {k: _seen(x) for k, x in value.items()} if type(value) is dict else value


def _is_plain_part(part: Any) -> bool:
    """Does this, in an index, give a view of a tensor, as it gives one of an array?"""
    if type(part) is slice:
        bounds = part.start, part.stop, part.step
        return all(type(n) in (int, type(None)) for n in bounds) and (part.step or 1) > 0
    return type(part) in (int, type(None), type(Ellipsis))


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
        def method(self: StandingArray, *given: Any) -> Any:
            return getattr(self._forced(), name)(*map(_seen, given))

        return method

    def in_place(name: str) -> Callable[..., Any]:
        def method(self: StandingArray, other: Any) -> Any:
            self._value = getattr(self._forced(), name)(_seen(other))
            return self

        return method

    every = ("and", "lshift", "matmul", "or", "rshift", "xor")
    for name in (*_ARITHMETIC, *_COMPARED, *_SEEN.split()):
        setattr(StandingArray, f"__{name}__", seen(f"__{name}__"))
    for name in _ARITHMETIC:
        setattr(StandingArray, f"__r{name}__", seen(f"__r{name}__"))
        setattr(VaryingArray, f"__{name}__", arithmetic(name, reflected=False))
        setattr(VaryingArray, f"__r{name}__", arithmetic(name, reflected=True))
    for name in _COMPARED:
        setattr(VaryingArray, f"__{name}__", arithmetic(name, reflected=False))
    for name in (*_ARITHMETIC, *every):
        setattr(StandingArray, f"__i{name}__", in_place(f"__i{name}__"))


_install()
