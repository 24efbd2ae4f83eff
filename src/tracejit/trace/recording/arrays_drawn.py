"""Arrays that ``numpy.random`` draws in a recorded run: every call draws its own, which are inputs of the program.

What stands for such an array says what it becomes (`varying_arrays`): a tensor, an index, or an array computed from it
and from numbers. It has the shape that it has in the recorded run; what decides the shape is a constant of the path.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from operator import index, itemgetter
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import ref

import numpy as np

from ... import dtypes
from ...autograd.grad_mode import no_grad
from ...dtypes import DType
from ...ir.graph import Value
from ...ops import elementwise
from ...tensor import Tensor
from ...varying import is_varying, plain
from ...varying_arrays import VaryingArray
from ..numbers.numbers import Number, outcome_key
from ..state.checks import Check
from ..state.purity import words
from ..state.reads import is_library_module
from .inputs import Signature

_NUMBERS = frozenset({int, float})
#: Names of what reads or changes memory, and takes nothing that has none.
_BUFFERS = words("bytearray bytes frombuffer hashlib memoryview send shuffle write zlib")
#: The names of parameters that bound a range of whole numbers.
_BOUNDS = frozenset({"low", "high", "a"})
#: How many positional parameters come before the size, of methods that draw from a range of whole numbers.
_RANGES = {"randint": 2, "integers": 2, "choice": 1}


class ArraysDrawn:
    """The part of a recorder that follows arrays which are drawn."""

    drawn: dict[Number, float]
    handed_out: list[ref[Any]]
    roots: dict[int, Value]
    signature: Signature
    _operands: Callable[[Sequence[Any]], tuple[Any, ...]]
    _step: Callable[[Number], None]
    emit: Callable[..., Value]
    number_called: Callable[..., Number]
    alive: Any
    show: Callable[[Tensor, Value], None]
    unsupported: Callable[[str], None]
    varying: Callable[[Number, Any], Any]
    codes: Sequence[CodeType]
    state_checks: Sequence[Check]

    arrays_told = False  # are there tensors of drawn arrays, which lie on the host?
    wants_arrays: bool | None = None  # what `takes_true_arrays` has found out

    def kinds_drawn(self, given: Sequence[Any], named: Mapping[str, Any]) -> frozenset[type]:
        """Of what a method of a generator may give, with these arguments, calls can draw their own."""
        numbers = frozenset() if named else _NUMBERS
        if not all(_is_constant(plain(x)) for x in (*given, *named.values())):
            return numbers
        return numbers if self.takes_true_arrays() else numbers | {np.ndarray}

    def takes_true_arrays(self) -> bool:
        """May some of the code take nothing but true arrays?"""
        if self.wants_arrays is None:
            foreign = any(is_foreign(getattr(c, "expected", None)) for c in self.state_checks)
            buffers = any(not _BUFFERS.isdisjoint(code.co_names) for code in self.codes)
            self.wants_arrays = foreign or buffers
        return self.wants_arrays

    def array_drawn(
        self, method: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any], array: Any
    ) -> Any:
        """What the user's code gets for an ``array`` that a method of a generator drew from what it was given."""
        names, values = (*range(len(given)), *named), (*given, *named.values())
        told = [_told(method.__name__, i, x) for i, x in zip(names, values, strict=True)]
        generator = method.__self__  # type: ignore[attr-defined]
        key = ("drawn", id(generator), method.__name__, len(self.drawn), tuple(named))
        draw = _Draw(method, len(given), tuple(named))
        made = self._array(draw, key, told, f"{method.__name__}()", array)
        self.drawn[made._number] = math.inf
        self.signature.numbers.generators[id(generator)] = generator
        return made

    def array_derived(
        self, function: Callable[..., Any], key: Any, operands: Sequence[Any], array: Any
    ) -> Any:
        """What the user's code gets for an array that is computed from drawn ones and from numbers."""
        return self._array(function, key, operands, "drawn", array)

    def _array(
        self,
        function: Callable[..., Any],
        key: Any,
        operands: Sequence[Any],
        label: str,
        array: Any,
    ) -> Any:
        known = self._operands(operands)
        parts = [x if isinstance(x, Number) else _key(x) for x in known]
        number = self.signature.numbers.call(function, known, (key, *parts), label, np.ndarray)
        self._step(number)
        return self.varying(number, array)

    def item_drawn(self, array: VaryingArray, at: int, value: Any) -> Any:
        """What the user's code gets for an element of a drawn vector."""
        return self.varying(
            self.number_called(itemgetter(at), [array], ("item", at), "drawn"), value
        )

    def array_told(self, array: VaryingArray, wanted: DType | None) -> Tensor:
        """A tensor of a drawn array, in the ``wanted`` dtype; on its memory, if something is to lie there."""
        value = plain(array)
        (number,) = self._operands([array])
        self.arrays_told = True
        dtype = dtypes.from_numpy(value.dtype)
        cell = self.signature.cell(number, dtype, value.shape)
        made = Tensor._wrap(value.view() if array._shown else np.array(value, order="C"))
        self.roots[id(made)] = root = self.emit(elementwise.clone, (cell,), {})
        self.alive.append(made)
        self.show(made, root)
        if wanted is None or wanted is dtype:
            return made
        with no_grad():
            cast: Tensor = elementwise.cast(made, dtype=wanted)
            return cast

    def check_drawn(self) -> None:
        """Refuse arrays that somebody still has now that the run is over: of the call's own, a call tells nobody."""
        if any(type(r()) is VaryingArray for r in self.handed_out):
            self.unsupported("an array that numpy.random draws is kept or returned")


class _Draw:
    """A method of a generator, with the names of what it is given."""

    def __init__(self, method: Callable[..., Any], count: int, names: tuple[str, ...]) -> None:
        self.method, self.count, self.names = method, count, names

    def __call__(self, *given: Any) -> Any:
        """The array for this call."""
        named = dict(zip(self.names, given[self.count :], strict=True))
        return self.method(*given[: self.count], **named)


def is_foreign(value: Any) -> bool:
    """Is this compiled code, of Numba or of others, that may take nothing but true arrays?

    >>> import math
    >>> is_foreign(math.sqrt), is_foreign(np.sqrt), is_foreign(is_foreign)
    (False, False, False)
    """
    kind = type(value)
    if kind is ModuleType:
        file = vars(value).get("__file__") or ".py"
        return not file.endswith(".py") and not _converts(value.__name__)
    if kind is BuiltinFunctionType:
        return not _converts(value.__module__ or type(value.__self__).__module__)
    if kind in _CALLED_IN_PYTHON or _converts(str(kind.__module__)):
        return False
    call = next((vars(c)["__call__"] for c in kind.__mro__ if "__call__" in vars(c)), None)
    return call is not None and not isinstance(call, FunctionType)


def _converts(name: str) -> bool:
    """Does a module belong to this package, the standard library, or a library that asks for arrays as NumPy does?"""
    return is_library_module(sys.modules.get(name), name) and not name.startswith("numba")


#: Classes whose objects Python calls by running their code, which is known; classes are made, not called.
_CALLED_IN_PYTHON = frozenset({FunctionType, MethodType, type})


def _told(method: str, name: int | str, value: Any) -> Any:
    """What a method is given; whole numbers that may decide the shape are constants."""
    if isinstance(value, (list, tuple)):
        return tuple(map(plain, value))  # NumPy has asked for their values
    if isinstance(value, (int, np.integer)) and type(value) not in (int, bool):
        bound = name in _BOUNDS or (type(name) is int and name < _RANGES.get(method, 0))
        return value if bound and is_varying(value) else index(value)
    return value


def _is_constant(value: Any) -> bool:
    """Is this, given to a method of a generator, the same in every call, or a number that varies?"""
    if isinstance(value, (list, tuple)):
        return all(isinstance(plain(n), int) for n in value)
    return isinstance(value, (int, float, np.integer, type, type(None)))


def _key(value: Any) -> Any:
    return value if isinstance(value, (tuple, type)) else outcome_key(value)
