"""``x[index]`` and ``x[index] = value`` where nothing but the memory is concerned: no gradients, nobody who listens.

What is indexed by integers, slices and ``...`` is NumPy's view. All else, every error among it, is up to the
published functions, which know what PyTorch does.
"""

from __future__ import annotations

from types import EllipsisType
from typing import Any

import numpy as np

from .cuda.arrays import address_of
from .modes import MODES
from .ops.slabs import POOLED, computed_into
from .ops.table import METHODS
from .tensor_core import PartSteps, TensorCore

#: What shows a part of a tensor, and no copy.
_BASIC = frozenset({int, slice, EllipsisType})  # not None, where NumPy has strides of its own
#: Where slices may begin and end.
_PLACES = frozenset({int, type(None)})
#: Numbers that are written as they are, by the code of the dtype: others may be errors, or become infinite.
_BOUNDS: dict[type, dict[str, float]] = {
    float: {"f": 1e30, "d": 1e300},
    int: {**dict.fromkeys("fdl", 1 << 63), "i": 1 << 31},
}


#: Tensors of the package's own classes: their operations are nobody else's business.
PLAIN: set[type] = set()


class PartMethods(TensorCore):
    """Reading and writing parts."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        """The elements at ``index``: a view for integers, slices, None and ``...``, else a copy.

        Raises ``IndexError`` for indices out of range, too many indices, and indices of other types.

        >>> import tracejit as tj
        >>> x = tj.arange(6).reshape(2, 3)
        >>> x[0, 1:], x[:, [2, 0]]
        (tensor([1, 2]), tensor([[2, 0],
                [5, 3]]))
        """
        found = self._mere_part(index)
        return METHODS["__getitem__"](self, index) if found is None else found

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write ``value``, broadcast and cast, to the elements at ``index``.

        Raises ``IndexError`` as reading does, ``RuntimeError`` when the value does not broadcast.

        >>> import tracejit as tj
        >>> x = tj.zeros(2, 2)
        >>> x[0] = tj.tensor([1.0, 2.0])
        >>> x[1, 0] = -1
        >>> x
        tensor([[ 1.,  2.],
                [-1.,  0.]])
        """
        part = self._part(index)
        if part is None or not self._write_part(part, value):
            METHODS["__setitem__"](self, index, value)

    def _mere_part(self, index: Any) -> Any:
        """A view by integers and slices; None where more than memory is concerned, and for what is no such index."""
        part = self._part(index)
        if part is None:
            return None
        found = self._wrap(part)
        found._shows(self, PartSteps(self._steps, self._array.shape, index))
        return found

    def _part(self, index: Any) -> Any:
        """NumPy's view of a part; None where that does not say it all."""
        if not self._is_mere_memory():
            return None
        array: Any = self._array
        items = index if type(index) is tuple else (index,)
        if not _BASIC.issuperset(map(type, items)):
            return None
        if not all(_is_plain(item) for item in items if type(item) is slice):
            return None
        try:
            part = array[index]
            if type(part) is not np.ndarray:  # NumPy's number, if there is no dimension left
                part = array[(*items, ...)]
        except (IndexError, TypeError, ValueError):  # which has another text
            return None
        return part

    def _is_mere_memory(self) -> bool:
        """Is this a NumPy array and nothing more to anybody, at present?"""
        base, modes = self._base, MODES
        return (
            type(self._array) is np.ndarray
            and modes.recorder is None
            and modes.builder is None
            and not self._requires_grad
            and (base is None or not base._requires_grad)
        )

    def _write_part(self, part: Any, value: Any) -> bool:
        """Write ``value`` to a part of the memory; False where more than memory is concerned."""
        if (self._inference and not MODES.inference) or not part.flags.writeable:
            return False
        found = self._mere_operand(part, value)
        if found is None:
            return False
        if type(found) is np.ndarray and part.size >= POOLED and part.dtype.char in _BOUNDS[int]:
            computed_into(part, np.positive, found)
        else:
            part[...] = found
        self._writes.value += 1
        return True

    def _compute_into(self, run: np.ufunc, whole: bool, value: Any) -> bool:
        """Write ``run(self, value)`` to the memory; False where more than memory, or another dtype, is concerned.

        Integers are written to by what has whole results alone. Without histories nobody looks whether gradients are
        wanted.
        """
        if MODES.recorder is not None or MODES.builder is not None:
            return False
        array = self.array  # also of a block, which has none yet
        mere = self._is_mere_memory() if MODES.grad else type(self._array) is np.ndarray
        if not mere or (self._inference and not MODES.inference):
            return False
        if array.dtype.char not in _BOUNDS[int if whole else float] or not array.flags.writeable:
            return False
        found = self._mere_operand(array, value)
        if found is None or not _lies_once(array):
            return False
        computed_into(array, run, array, found)
        self._writes.value += 1
        return True

    def _mere_operand(self, part: Any, value: Any) -> Any:
        """A number or an array of the dtype of a part of the memory; None for what is to be converted or looked at."""
        kind = type(value)
        if kind is float or kind is int:
            bound = _BOUNDS[kind].get(part.dtype.char)
            return None if bound is None or not -bound < value < bound else value
        if kind is not type(self) and not (kind in PLAIN and type(self) in PLAIN):
            return None
        source: Any = value.array
        if not value._is_mere_memory() or source.dtype is not part.dtype:
            return None
        if source.shape != part.shape and source.ndim:
            return None
        if value._writes is self._writes:
            same = source.strides == part.strides and source.shape == part.shape
            if not same or address_of(source) != address_of(part):
                return None
        return source


def _lies_once(array: np.ndarray) -> bool:
    """Has every element a place of its own, as far as steps tell?

    >>> x = np.zeros((4, 6))
    >>> windows = np.lib.stride_tricks.sliding_window_view(x[0], 3)
    >>> _lies_once(x[:, ::2]), _lies_once(x.T), _lies_once(np.broadcast_to(x[0], (2, 6))), _lies_once(windows)
    (True, True, False, False)
    """
    reach = array.itemsize
    if array.flags.forc:
        return True
    for step, n in sorted(zip(map(abs, array.strides), array.shape, strict=True)):
        if n > 1 and step < reach:
            return False
        reach = max(reach, step * n)
    return True


def _is_plain(item: slice) -> bool:
    """Is a slice made of numbers that stay as they are, with a step that goes forward?"""
    step = item.step
    forward = step is None or (type(step) is int and step > 0)
    return forward and type(item.start) in _PLACES and type(item.stop) in _PLACES
