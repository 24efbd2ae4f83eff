"""Numbers that may differ from call to call: what user code holds in their place while it is recorded.

Such a number computes as its current value does, and tells the recorder what was computed from it. Where Python needs
the value itself (an index, a hash, text) or a decision (a comparison), the recorder hears of that too. It is no
subclass of ``float`` or ``int``: code in C would read the value of one without asking. ``isinstance`` sees the class of
the value. Out of its recording, and in other threads, it is nothing but its value.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .modes import MODES
from .numpy_numbers import FUNCTIONS, NAMES, NUMBERS, PREDICATES
from .standing import Standing, plain

__all__ = [
    "MATH",
    "MATH_FUNCTIONS",
    "OPERATIONS",
    "VaryingFloat",
    "VaryingInt",
    "VaryingNumber",
    "derived",
    "is_varying",
    "plain",
]

_EXACT = NUMBERS | {bool}

#: What can be computed from numbers, by name: the same functions compute it again at every call.
OPERATIONS: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(operator, name)
        for name in ("add", "sub", "mul", "truediv", "floordiv", "mod")
    },
    **{name: getattr(operator, name) for name in ("pow", "neg", "pos", "abs", "invert")},
    **{name: getattr(operator, name) for name in ("lshift", "rshift", "and_", "or_", "xor")},
    **{name: getattr(operator, name) for name in ("lt", "le", "eq", "ne", "gt", "ge")},
    **{f.__name__: f for f in (bool, float, int, format, round, math.floor, math.ceil, math.trunc)},
    **FUNCTIONS,
}


class VaryingNumber(Standing):
    """A number and where it came from."""

    __slots__ = ()

    def _forced(self) -> Any:
        """The value, for Python to see."""
        if self._live():
            with self._owner.careful("a number"):
                self._owner.number_forced(self._number, self._value)
        return self._value

    # --- what it looks like --------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if not hasattr(type(self._value), name):
            kind = type(self._value).__name__
            raise AttributeError(f"{kind!r} object has no attribute {name!r}")
        return getattr(self._forced(), name)

    def _shown(self) -> bool:
        """Has somebody in C who asks for the value only text to print in mind?"""
        return self._live() and self._owner.is_only_printed(self)

    def __repr__(self) -> str:
        return repr(self._value if self._shown() else self._forced())

    def __str__(self) -> str:
        return str(self._value if self._shown() else self._forced())

    def __format__(self, spec: str) -> str:
        if self._live():
            owner = self._owner
            shown = owner.text_to_print(self, spec) or owner.text_to_log(self, spec)
            if shown is not None:
                return str(shown)
        return str(_seen("format", self, spec))

    def __hash__(self) -> int:
        return hash(self._forced())

    def __reduce_ex__(self, protocol: Any) -> Any:
        value = self._forced()
        return type(value), (value,)

    # --- decisions -------------------------------------------------------------------------------------------------

    def __bool__(self) -> bool:
        return bool(_seen("bool", self))

    def __eq__(self, other: object) -> Any:
        return _compare("eq", self, other)

    def __ne__(self, other: object) -> Any:
        return _compare("ne", self, other)

    def __lt__(self, other: Any) -> Any:
        return _compare("lt", self, other)

    def __le__(self, other: Any) -> Any:
        return _compare("le", self, other)

    def __gt__(self, other: Any) -> Any:
        return _compare("gt", self, other)

    def __ge__(self, other: Any) -> Any:
        return _compare("ge", self, other)

    # --- values that Python asks for ---------------------------------------------------------------------------------

    def __float__(self) -> float:
        if self._shown():
            return float(self._value)
        return float(_seen("float", self) if type(self) is VaryingInt else self._forced())

    def __int__(self) -> int:
        if self._shown():
            return int(self._value)
        return int(_seen("int", self) if type(self) is VaryingFloat else self._forced())

    def __complex__(self) -> complex:
        return complex(self._forced())

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self._forced(), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """A function of numbers is followed; to any other NumPy shows the values."""
        if any(hasattr(type(x), "takes_varying_numbers") for x in inputs):
            return NotImplemented
        name = NAMES.get(ufunc) if method == "__call__" and not kwargs else None
        if name is not None and all(type(x) in _EXACT or is_varying(x) for x in inputs):
            return (_seen if name in PREDICATES else derived)(name, *inputs)
        return getattr(ufunc, method)(*map(_concrete, inputs), **kwargs)

    # --- arithmetic ------------------------------------------------------------------------------------------------

    def __neg__(self) -> Any:
        return derived("neg", self)

    def __pos__(self) -> Any:
        return derived("pos", self)

    def __abs__(self) -> Any:
        return derived("abs", self)

    def __round__(self, ndigits: Any = None) -> Any:
        if ndigits is None:
            return derived("round", self)
        if type(ndigits) in _EXACT or is_varying(ndigits):
            return derived("round", self, ndigits)
        return round(self._forced(), ndigits)

    def __floor__(self) -> Any:
        return derived("floor", self)

    def __ceil__(self) -> Any:
        return derived("ceil", self)

    def __trunc__(self) -> Any:
        return derived("trunc", self)

    def __divmod__(self, other: Any) -> Any:
        return _divided(self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return _divided(other, self)

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        if modulus is not None:
            return pow(self._forced(), _concrete(other), _concrete(modulus))
        return _binary("pow", self, other, other)

    def __rpow__(self, other: Any, modulus: Any = None) -> Any:
        if modulus is not None:
            return pow(_concrete(other), self._forced(), _concrete(modulus))
        return _binary("pow", other, self, other)


class VaryingFloat(VaryingNumber):
    """A float that may differ from call to call."""

    __slots__ = ()


class VaryingInt(VaryingNumber):
    """An int that may differ from call to call."""

    __slots__ = ()

    def __index__(self) -> int:
        return int(self._value if self._shown() else self._forced())

    def __invert__(self) -> Any:
        return derived("invert", self)


# Python's own errors name the class of what they refuse.
VaryingFloat.__name__, VaryingInt.__name__ = "float", "int"


def is_varying(value: Any) -> bool:
    """Is this one of the numbers here?

    >>> is_varying(VaryingInt(1, None, None)), is_varying(1)
    (True, False)
    """
    return issubclass(type(value), VaryingNumber)


def as_number(value: Any) -> float:
    """A number or one-element tensor as a float; one that varies from call to call as it is."""
    return value if type(value) is float or is_varying(value) else float(value)


def number_of(value: Any) -> Any:
    """What functions of numbers compute with: the number in a tensor, or that a size is."""
    kind = type(value)
    if hasattr(kind, "takes_varying_numbers"):
        return value.item() if value.numel() == 1 else float(value)  # which says what is wrong
    return value.as_number() if hasattr(kind, "as_number") else value


def _concrete(value: Any) -> Any:
    return value._forced() if is_varying(value) else value


def _owner_of(operands: tuple[Any, ...]) -> Any:
    """The recorder that wants to know what is computed from these; None when there is none, or they are foreign."""
    recorder = MODES.recorder
    if recorder is None or recorder.failure is not None:
        return None
    for x in operands:
        if is_varying(x) and x._owner is recorder:
            return recorder
    return None


def derived(name: str, *operands: Any) -> Any:
    """The result of an operation as one more varying number.

    >>> derived("add", VaryingInt(1, None, None), 2)
    3
    """
    owner, values = _owner_of(operands), [*map(plain, operands)]
    if owner is None:
        return OPERATIONS[name](*values)
    try:
        result = OPERATIONS[name](*values)
    except Exception:
        for x in operands:  # other values need not raise
            _concrete(x)
        raise
    kind = type(result)
    if kind not in NUMBERS:
        for x in operands:
            _concrete(x)
        return result
    try:
        return owner.number_derived(name, operands, result)
    except Exception as error:  # noqa: BLE001  (recording must never break the run it listens to)
        owner.unsupported(f"a number could not be recorded ({type(error).__name__}: {error})")
        return result


def _seen(name: str, *operands: Any) -> Any:
    """The result of an operation for Python to see."""
    owner, values = _owner_of(operands), [*map(plain, operands)]
    if owner is None:
        return OPERATIONS[name](*values)
    try:
        result = OPERATIONS[name](*values)
    except Exception:
        for x in operands:
            _concrete(x)
        raise
    with owner.careful("a number"):
        owner.number_seen(name, operands, result)
    return result


def _binary(name: str, a: Any, b: Any, other: Any) -> Any:
    """An operator between a varying number and ``other``, in this order."""
    if hasattr(type(other), "as_number"):  # a size that is about to be one
        number = other.as_number()
        a, b, other = (number if a is other else a), (number if b is other else b), number
    if type(other) in _EXACT or is_varying(other):
        return derived(name, a, b)
    if hasattr(type(other), "takes_varying_numbers"):
        return NotImplemented
    return OPERATIONS[name](_concrete(a), _concrete(b))


def _compare(name: str, number: VaryingNumber, other: Any) -> Any:
    if hasattr(type(other), "as_number"):
        other = other.as_number()
    if type(other) in _EXACT or is_varying(other):
        return _seen(name, number, other)
    if other is None or isinstance(other, (str, bytes, tuple, list, dict, set)):
        return NotImplemented
    if hasattr(type(other), "takes_varying_numbers"):
        return NotImplemented
    return OPERATIONS[name](number._forced(), other)


def _divided(a: Any, b: Any) -> Any:
    for x in (a, b):
        if type(x) not in _EXACT and not is_varying(x):
            return divmod(_concrete(a), _concrete(b))
    if plain(b) == 0:  # an error in words of its own
        return divmod(_concrete(a), _concrete(b))
    return derived("floordiv", a, b), derived("mod", a, b)


def _install() -> None:
    """The operators and their reflections."""

    def both(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
        return (
            lambda self, other: _binary(name, self, other, other),
            lambda self, other: _binary(name, other, self, other),
        )

    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod"):
        forward, reflected = both(name)
        setattr(VaryingNumber, f"__{name}__", forward)
        setattr(VaryingNumber, f"__r{name}__", reflected)
    for name in ("lshift", "rshift", "and_", "or_", "xor"):
        forward, reflected = both(name)
        bare = name.rstrip("_")
        setattr(VaryingInt, f"__{bare}__", forward)
        setattr(VaryingInt, f"__r{bare}__", reflected)


_install()


# --- the module math ----------------------------------------------------------------------------------------------

_REAL = (
    "acos acosh asin asinh atan atan2 atanh cbrt copysign cos cosh degrees erf erfc exp exp2 expm1 fabs fmod gamma "
    "hypot lgamma log log10 log1p log2 pow radians remainder sin sinh sqrt tan tanh"
)
_PREDICATES = "isfinite isinf isnan"
if hasattr(math, "fma"):  # from Python 3.13 on
    _REAL += " fma"


_FOLLOWED: dict[str, Any] = {}


def _math_function(name: str, result: Callable[..., Any]) -> Callable[..., Any]:
    """``math.name`` for numbers that vary; on all others it is the original."""
    original = OPERATIONS[f"math.{name}"] = _FOLLOWED[name] = getattr(math, name)

    def function(*operands: Any) -> Any:
        taken = [*map(number_of, operands)]
        if any(map(is_varying, taken)) and all(type(x) in _EXACT or is_varying(x) for x in taken):
            return result(f"math.{name}", *taken)
        return original(*map(_concrete, taken))

    function.__name__ = name
    return function


_BY_NAME = {name: _math_function(name, derived) for name in _REAL.split()}
_BY_NAME |= {name: _math_function(name, _seen) for name in _PREDICATES.split()}
#: What stands for functions of ``math`` while numbers that vary are followed.
MATH_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    getattr(math, name): function for name, function in _BY_NAME.items()
}


def follow(original: Callable[..., Any], function: Callable[..., Any]) -> None:
    """From here on ``function`` stands for one of the functions of ``math``, too."""
    _FOLLOWED[original.__name__] = original
    _BY_NAME[original.__name__] = MATH_FUNCTIONS[original] = function


class _Math:
    """Stands for the module ``math``, with what programs have put there in place of its functions."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(math, name)
        return _BY_NAME.get(name, found) if found is _FOLLOWED.get(name) else found


MATH = _Math()
