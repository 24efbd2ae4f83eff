"""Arrays among the arguments of a call: compared by what they hold, or told apart by their layout like tensors.

What a function does with an array is not seen. Where its code says that it only makes tensors of it, what the array
holds does not matter: a tensor on the memory of the array is an argument of the recording in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import dtypes
from ...modes import MODES
from ...tensor import Tensor
from .uses import Place, arrays_made_tensors

#: Kinds of calls that are remembered.
MAX_KINDS = 256


@dataclass(frozen=True, slots=True)
class ArrayForm:
    """What stands in the structure of a call for an array of which it makes tensors; its ``shape`` where it is read."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...] | None

    def __repr__(self) -> str:
        return f"an array of {self.dtype}"


class ArgumentArray:
    """An array among the arguments of a call, and a tensor on its memory, which is the argument of the recording."""

    __slots__ = ("array", "shape_is_read", "shown", "tensor")

    def __init__(self, array: Any) -> None:
        self.array, self.shape_is_read = array, False
        self.tensor = Tensor._wrap(array.view())
        self.tensor._inference = MODES.inference
        self.shown = False  # did the run that is recorded get the tensor?

    @property
    def form(self) -> ArrayForm:
        """What tells it from others, beside the layout of the tensor."""
        return ArrayForm(self.array.dtype, self.array.shape if self.shape_is_read else None)

    def next_tensor(self) -> Tensor:
        """What ``from_numpy`` gives in a run that is recorded: every time another tensor on the memory."""
        again, self.shown = self.shown, True
        return self.tensor.data if again else self.tensor


class ArrayUses:
    """Which arrays among the arguments of one function are as good as tensors, by the kinds of its arguments."""

    def __init__(self) -> None:
        self.known: dict[Any, dict[Place, bool]] = {}  # and whether their shapes are read

    def taken(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The arguments of a call, with :class:`ArgumentArray` in the place of such arrays."""
        places = self.known.get(_kinds(args, kwargs)) if self.known else None
        if not places:
            return args, kwargs
        positional, named = list(args), dict(kwargs)
        made: dict[int, ArgumentArray] = {}  # one for each array, however often it is given
        for place, shape_is_read in places.items():
            holder: Any = named if isinstance(place, str) else positional
            array = holder[place]
            if _is_ordinary(array):
                holder[place] = made.setdefault(id(array), ArgumentArray(array))
                holder[place].shape_is_read |= shape_is_read
        return tuple(positional), named

    def learn(self, function: Callable[..., Any], args: Any, kwargs: Any) -> bool:
        """A call is about to be recorded; True when other arrays among its arguments are as good as tensors now.

        An array that was not, once, stays what it holds: the code that says so may come and go.
        """
        args, kwargs = given_arrays(args, kwargs)
        if not any(type(x) is np.ndarray for x in (*args, *kwargs.values())):
            return False
        kinds = _kinds(args, kwargs)
        found = arrays_made_tensors(function, args, kwargs)
        before = self.known.get(kinds)
        if before is not None:
            found = {place: read for place, read in before.items() if found.get(place) is read}
        elif len(self.known) >= MAX_KINDS:
            self.known.pop(next(iter(self.known)))
        self.known[kinds] = found
        return found != (before or {})


def given_arrays(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
    """The arguments of a call as the user gave them.

    >>> given_arrays((ArgumentArray(np.ones(2)), 3), {})
    ((array([1., 1.]), 3), {})
    """
    if not any(type(x) is ArgumentArray for x in (*args, *kwargs.values())):
        return args, kwargs
    return tuple(map(_given, args)), {name: _given(x) for name, x in kwargs.items()}


def argument_arrays(args: Any, kwargs: Any) -> list[ArgumentArray]:
    """The arrays that recordings take for tensors."""
    return [x for x in (*args, *kwargs.values()) if type(x) is ArgumentArray]


def _given(value: Any) -> Any:
    return value.array if type(value) is ArgumentArray else value


def _kinds(args: Any, kwargs: Any) -> Any:
    return tuple(map(type, args)), tuple([(name, type(x)) for name, x in kwargs.items()])


def _is_ordinary(array: Any) -> bool:
    """Does ``from_numpy`` give a tensor on the memory of this array, without a word?"""
    plain = type(array) is np.ndarray and array.dtype.isnative and array.flags.writeable
    if not plain or any(n < 0 or n % array.itemsize for n in array.strides):
        return False
    try:
        return bool(dtypes.from_numpy(array.dtype).np.char == array.dtype.char)
    except TypeError:  # nothing that tensors hold
        return False
