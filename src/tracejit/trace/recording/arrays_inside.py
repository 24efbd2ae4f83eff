"""Tensors on the memory of arrays that a recorded run made with NumPy: constants, as long as nobody else has these.

``from_numpy(np.arange(n))`` is the same at every call that the recording serves, for what the code computes it from is
known. The array must be gone with the run, though, and have held the same values all the time: its other names may
write to the memory of the tensor. So it is with arrays of the Python state (tables that an object keeps), which calls
compare by what they hold; a result may not show their memory. An array among the arguments that nothing else is made
of (`arrays`) is an argument.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, MappingProxyType
from typing import Any
from weakref import ref

import numpy as np

from ...aligned import has_memory
from ...autograd.grad_mode import no_grad
from ...cuda.arrays import is_on_device
from ...dtypes import DType
from ...ir.graph import Value
from ...modes import MODES
from ...ops import elementwise
from ...tensor import Tensor
from ...tensor_core import Version
from ...tensor_make import written_down
from ...varying_arrays import TensorArray, VaryingArray
from ..arrays.arguments import ArgumentArray, argument_arrays
from ..arrays.unread import given_arguments
from ..state.checks import Check, Contents
from .kept_alive import KeptAlive
from .recording import OutputRecipe

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
    state_checks: Sequence[Check]

    external: dict[int, tuple[Tensor, Value]]
    written: dict[int, Tensor]
    all_written: Callable[[], None]
    codes: Sequence[CodeType]
    escape: Callable[[Tensor, str], None]
    handed_out: list[ref[Any]]
    takes_true_arrays: Callable[[], bool]

    hands_out_arrays = True  # has no code asked for true ones?

    shown: tuple[_Shown, ...] = ()
    #: Arrays among the arguments, by identity, and what they held.
    given: Mapping[int, tuple[ArgumentArray, bytes]] = MappingProxyType({})
    apart = (
        False  # do tensors on the memory of these belong to inference mode, unlike the arguments?
    )

    def arrays_given(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The arguments as the user gave them; noted are arrays among them of which the run only makes tensors."""
        found = argument_arrays(args, kwargs)
        if found:
            self.given = {id(x.array): (x, x.array.tobytes()) for x in found}
        return given_arguments(args, kwargs)

    def array_copied(self, array: Any, wanted: DType | None) -> Tensor | None:
        """A tensor with a copy of ``array``, in the ``wanted`` dtype, if that is one among the arguments."""
        if type(array) is VaryingArray:
            return array.told(wanted)  # type: ignore[no-any-return]
        found = None if self.failure is not None else self.given.get(id(array))
        if found is None:
            return None
        self.stop_trial("makes a tensor of an array")
        with no_grad():
            copied: Tensor = elementwise.clone(found[0].tensor.detach())
            return copied if wanted is None else elementwise.cast(copied, dtype=wanted)

    def array_shown(self, array: Any) -> Tensor | None:
        """A tensor on the memory of ``array``, if that is among the arguments or like those that runs make."""
        self.stop_trial("makes a tensor of an array")
        if type(array) is VaryingArray:
            return array.shown()  # type: ignore[no-any-return]
        if self.failure is None and id(array) in self.given:
            self.not_in_rounds()
            given = self.given[id(array)][0]
            self.apart |= given.tensor._inference is not MODES.inference
            return given.tensor.data if self.apart else given.next_tensor()
        found = None
        if self.failure is None:
            with self.careful("from_numpy()"):
                found = self._array_shown(array)
        if found is None:
            self.unsupported(SHOWN)
        return found

    def _array_shown(self, array: Any) -> Tensor | None:
        owner = array.base if type(array.base) is np.ndarray else array
        plain = type(array) is np.ndarray and has_memory(owner)
        if not plain or not array.flags.writeable or not array.flags.c_contiguous:
            return None
        self.not_in_rounds()
        before = array.copy()
        value = self.emit(elementwise.clone, (self.value_of(written_down(before)),), {})
        tables = [c.holder for c in self.state_checks if type(c) is Contents]
        guarded = any(x is array or x is array.base for x in tables)
        shown = _Shown(array, before, value if guarded else None)
        tensor = Tensor._wrap(shown.numbers)
        shown.version = tensor._writes
        self.shown = (*self.shown, shown)
        self.roots[id(tensor)] = value
        self.alive.append(tensor)
        self.show(tensor, value)
        return tensor

    def array_of(self, tensor: Tensor) -> TensorArray | None:
        """What the user's code gets for the array on the memory of a tensor; None if it gets that array.

        As a part of the result it is made of the tensor at every call. Any other use of it escapes the recording.
        """
        self.stop_trial("calls numpy()")
        asks = not self.hands_out_arrays or any("type" in code.co_names for code in self.codes)
        if (
            self.failure is not None
            or asks
            or is_on_device(tensor.array)
            or self.takes_true_arrays()
        ):
            self.escape(tensor, "numpy()")
            return None
        self.not_in_rounds()
        self.all_written()
        made = TensorArray(tensor.array.view(), tensor, self)
        self.handed_out.append(ref(made))
        return made

    def check_arrays(self, recipes: Sequence[OutputRecipe]) -> None:
        """Refuse arrays that somebody still has now that the run is over, or that were written to.

        Those among the arguments may be written to by way of tensors.
        """
        results = {r.value for r in recipes}
        for shown in self.shown:
            gone = not shown.is_known() if shown.guarded is None else shown.guarded not in results
            if shown.changed() or not gone:
                self.unsupported(SHOWN)
        for given, before in self.given.values():
            if id(given.tensor) not in self.written and given.array.tobytes() != before:
                self.unsupported("an array among the arguments is written to")
            _, value = self.external[id(given.tensor)]
            if self.apart and any(r.kind == "input" and r.value is value for r in recipes):
                self.unsupported("a tensor of inference mode on the memory of an array is a result")
        for made in [r() for r in self.handed_out]:
            if type(made) is TensorArray and not made._is_returned:
                self.escape(made._number, "numpy()")


class _Shown:
    """An array whose memory a tensor shows, and what it held then."""

    __slots__ = ("array", "before", "guarded", "numbers", "version")

    def __init__(self, array: Any, before: Any, guarded: Value | None = None) -> None:
        self.array, self.before = array, before
        self.guarded = guarded  # the value of the tensor, if calls compare the array
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
