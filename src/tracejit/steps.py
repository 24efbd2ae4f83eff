"""Eager composite functions by the steps they are known to take.

What a function such as ``layer_norm`` does between its ops (checks, dimensions counted from the front, promoted types)
takes longer than the ops on a small tensor, and comes out the same for all tensors of the same types. So the third call
with such operands runs what the second one ran: the same functions of NumPy on the same arrays, and the same nodes on
the tape, written down as a plain function (`tracejit.steps_text`). Where anybody listens (a recorder, a builder, a
dispatcher that is not the usual one) and where not all is on the host, the function runs as it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import EllipsisType, FunctionType
from typing import Any

import numpy as np

from . import dtypes
from .cuda.arrays import MODULES
from .dispatch import apply
from .modes import MODES
from .ops import op as op_module
from .ops.composed import run_composed
from .ops.op import Op
from .ops.remembered import set_memory
from .steps_text import NOT_FOLLOWED, Note, written
from .tensor import Tensor

__all__ = ["Noting", "run", "usual"]

#: The most kinds of calls of a function that are remembered.
MOST = 512
#: How many calls of a kind run as they are written, before one is noted.
SEEN = 2
#: What a kind of call leads to that always runs as it is written.
_NEVER = -1
#: Where slices that say all about themselves may begin and end.
_PLACES = frozenset({int, type(None)})
#: Arguments besides tensors that say all about themselves.
_VALUES = frozenset({bool, int, float, complex, str, type(None), EllipsisType, dtypes.DType})


class Noting:
    """Stands in the door as a builder does, lets ops run, and notes them."""

    def __init__(self) -> None:
        self.notes: list[Note] = []

    def emit(self, op: Op, operands: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """Run an op, and note it."""
        MODES.builder = None
        try:
            out = apply(op, operands, attributes)
        finally:
            MODES.builder = self
        self.notes.append(Note(op, operands, attributes, out))
        return out

    def call(self, target: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The result of a function, whose ops are noted."""
        MODES.builder = self
        try:
            return target(*args, **kwargs)
        finally:
            MODES.builder = None


def usual() -> bool:
    """Does nobody listen to ops, and do all run on the host?

    >>> usual()
    True
    """
    modes = MODES
    return (
        modes.recorder is None
        and modes.builder is None
        and modes.unusual is None
        and not modes.inference
        and modes.anomaly is None
        and op_module._apply is apply
        and not MODULES
    )


def _described(args: Sequence[Any], key: list[Any], tensors: list[Tensor]) -> bool:
    """Add what a call's steps follow from to ``key``, and its operands to ``tensors``; False where more counts."""
    for x in args:
        if isinstance(x, Tensor):
            array, base, tracked = x._array, x._base, x._requires_grad
            if type(array) is not np.ndarray:
                return False
            if base is not None and (x._piece is not None or base._requires_grad is not tracked):
                return False
            if array.size == 1 and tensors:  # an option may be told by a tensor, and read
                return False
            tensors.append(x)
            key += (array.shape, array.strides, array.dtype, tracked)
        elif isinstance(x, (list, tuple)):
            key += (type(x), len(x))
            if not _described(x, key, tensors):
                return False
        elif type(x) is slice:
            key.append(slice)
            places = x.start, x.stop, x.step
            if not _PLACES.issuperset(map(type, places)):
                return False
            key += places
        elif type(x) in _VALUES:  # numbers that are equal may not be the same: 0.0 and -0.0
            key += (type(x), x or repr(x))
        else:
            return False
    return True


def _key(args: Any, kwargs: Any, tensors: list[Tensor]) -> Any:
    """What the steps of a call follow from; None where that is not known. Its operands are added to ``tensors``."""
    key: list[Any] = [MODES.grad, dtypes.get_default_dtype()]
    if not _described(args, key, tensors):
        return None
    if kwargs:
        key += kwargs
        if not _described(tuple(kwargs.values()), key, tensors):
            return None
    if len(tensors) > 1:
        places = [id(x) for x in tensors]
        if len(set(places)) < len(places):  # one tensor twice
            key += map(places.index, places)
    return tuple(key)


#: What is known of the calls of each function; not part of it, for it is no state that compiled code depends on.
_known: dict[Callable[..., Any], dict[Any, Any]] = {}


def run(target: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """What ``target`` gives, by the steps it is known to take.

    >>> import tracejit as tj
    >>> [run(tj.neg, (tj.tensor([1.0 * i]),), {}).item() for i in range(1, 5)]
    [-1.0, -2.0, -3.0, -4.0]
    """
    known = _known.get(target)
    if known is None:
        known = _known[target] = {}
    tensors: list[Tensor] = []
    kind = _key(args, kwargs, tensors) if usual() else None
    found = _NEVER if kind is None else known.get(kind, 0)
    if type(found) is FunctionType:
        result = found(*tensors)
        return target(*args, **kwargs) if result is NOT_FOLLOWED else result
    if found == _NEVER:
        return run_composed(target, args, kwargs)
    if found < SEEN:
        if len(known) >= MOST:
            known.clear()
        known[kind] = found + 1
        return target(*args, **kwargs)
    noting, versions = Noting(), [x._writes.value for x in tensors]
    result = noting.call(target, args, kwargs)
    same = versions == [x._writes.value for x in tensors]
    steps = written(target.__name__, noting.notes, tensors, result) if same else None
    known[kind] = steps or _NEVER
    return result


set_memory(run)
