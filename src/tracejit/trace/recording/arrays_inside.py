"""Tensors on the memory of arrays that a recorded run made with NumPy: constants, as long as nobody else has these.

``from_numpy(np.arange(n))`` is the same at every call that the recording serves, for what the code computes it from is
known. The array must be gone with the run, though, and have held the same values all the time: its other names may
write to the memory of the tensor.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir.graph import Value
from ...ops import elementwise
from ...tensor import Tensor
from ...tensor_core import Version
from ...tensor_make import written_down
from .kept_alive import KeptAlive

#: Why a tensor on the memory of an array cannot be followed.
SHOWN = "from_numpy() of an array that is known elsewhere, inside a compiled function"


class ArraysInside:
    """The part of a recorder that knows which memory of arrays its tensors show."""

    failure: str | None
    alive: KeptAlive
    roots: dict[int, Value]
    careful: Callable[[str], Any]
    emit: Callable[..., Value]
    not_in_rounds: Callable[[], None]
    show: Callable[[Tensor, Value], None]
    stop_trial: Callable[[str], None]
    unsupported: Callable[[str], None]
    value_of: Callable[[Tensor], Value]

    shown: tuple[_Shown, ...] = ()

    def array_shown(self, array: Any) -> Tensor | None:
        """A tensor on the memory of ``array``, if that is an array like those that runs make."""
        self.stop_trial("makes a tensor of an array")
        found = None
        if self.failure is None:
            with self.careful("from_numpy()"):
                found = self._array_shown(array)
        if found is None:
            self.unsupported(SHOWN)
        return found

    def _array_shown(self, array: Any) -> Tensor | None:
        owner = array if array.base is None else array.base
        plain = type(array) is np.ndarray and type(owner) is np.ndarray and owner.flags.owndata
        if not plain or not array.flags.writeable or not array.flags.c_contiguous:
            return None
        self.not_in_rounds()
        before = array.copy()
        value = self.emit(elementwise.clone, (self.value_of(written_down(before)),), {})
        shown = _Shown(array, before)
        tensor = Tensor._wrap(shown.numbers)
        shown.version = tensor._writes
        self.shown = (*self.shown, shown)
        self.roots[id(tensor)] = value
        self.alive.append(tensor)
        self.show(tensor, value)
        return tensor

    def check_arrays(self) -> None:
        """Refuse arrays that somebody still has now that the run is over, or that were written to."""
        if any(shown.changed() or shown.is_known() for shown in self.shown):
            self.unsupported(SHOWN)


class _Shown:
    """An array whose memory a tensor shows, and what it held then."""

    __slots__ = ("array", "before", "numbers", "version")

    def __init__(self, array: Any, before: Any) -> None:
        self.array, self.before = array, before
        # Views of the tensor refer to this one, and not to the array.
        memory = (ctypes.c_char * array.nbytes).from_buffer(array)
        self.numbers = np.ndarray(array.shape, array.dtype, memory)
        self.version: Version | None = None

    def changed(self) -> bool:
        """Was it written to, be it by way of the tensor?"""
        written = self.version is not None and self.version.value != 0
        return written or self.array.tobytes() != self.before.tobytes()

    def references(self) -> tuple[int, int]:
        """How many there are to the array, and to the one that it is a view of."""
        base = self.array.base
        return sys.getrefcount(self.array), 0 if base is None else sys.getrefcount(base)

    def is_known(self) -> bool:
        """Does anybody else refer to the array?"""
        alone = _alone().references()
        return any(now > known for now, known in zip(self.references(), alone, strict=True))


def _alone() -> _Shown:
    """What nobody else refers to: a view of an array."""
    return _Shown(np.zeros((2, 2)).reshape(4), None)
