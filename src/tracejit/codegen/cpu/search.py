"""Printing the search for the places of numbers in sorted rows as a CPU kernel of its own, for a call of its op."""

from __future__ import annotations

from ...dtypes import DType
from .. import scalar
from ..kernel import Function, Number, Text

__all__ = ["write_search"]

_ARRAYS = ("sequence", "values", "out", "ends")
_NUMBERS = ("length", "stride", "each", "total", "steps", "apart")
_GRAIN = 1


def write_search(dtype: DType, right: bool) -> Function:
    """Places of ``values`` in a ``sequence``, before equal elements unless ``right``; the extent is that of the tasks.

    A task searches ``each`` values, the last one what is left of the ``total``, in the ``length`` elements ``stride``
    times its number from the first. Half of what is left of each goes in each of the ``steps``, without a branch, and
    the same elements are looked at as in PyTorch: what is found in elements that are not sorted is the same, too.
    ``ends`` holds ``each`` numbers for every worker, or for every task where ``apart`` is one instead of zero.

    >>> from tracejit.dtypes import float32
    >>> "there > values[i]" in write_search(float32, True).source
    True
    """
    text = Text()
    kind = scalar.storage_type(dtype)
    for number, name in enumerate(_ARRAYS):
        text.parameter(name, f"{kind}*" if number < 2 else "i64*", Number(number))
    for number, name in enumerate(_NUMBERS, len(_ARRAYS)):
        text.parameter(name, "i64", Number(number))
    text.add(1, "for task in range(lo, hi):")
    text.add(2, "begin = task * each")
    text.add(2, "stop = minimum_i64(begin + each, total)")
    text.add(2, "own = (worker + apart * (task - worker)) * each - begin")
    text.add(2, "for i in range(begin, stop):")
    text.add(3, "out[i] = 0")
    text.add(3, "ends[own + i] = length")
    text.add(2, "for _ in range(steps):")
    text.add(3, "for i in range(begin, stop):")
    text.add(4, "low = out[i]")
    text.add(4, "high = ends[own + i]")
    text.add(4, "middle = low + ((high - low) >> 1)")
    text.add(4, "there = sequence[task * stride + minimum_i64(middle, length - 1)]")
    text.add(4, f"behind = there {'>' if right else '>='} values[i]")
    text.add(4, "left = low < high")
    text.add(4, "out[i] = select(left & (not behind), middle + 1, low)")
    text.add(4, "ends[own + i] = select(left & behind, middle, high)")
    name = f"k_search_{kind}_{'right' if right else 'left'}"
    source = text.source(name, "places in sorted rows")
    return Function(name, source, tuple(text.parameters.values()), len(_ARRAYS), _GRAIN)
