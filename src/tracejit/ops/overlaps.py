"""Memory that is read and written by one in-place operation, and views that may not be written to at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..cuda.arrays import byte_bounds, repeated_dims
from ..modes import MODES


def refuse_overlap(target: Any, operands: Iterable[Any]) -> None:
    """Refuse to write to ``target`` what is computed from operands that lie in a part of its memory.

    What lies in the very same elements may be read, and nobody looks where elements have gaps between them. Raises
    ``RuntimeError``.

    >>> import tracejit as tj
    >>> x = tj.arange(4.0)
    >>> x[1:].add_(x[:-1])
    Traceback (most recent call last):
    RuntimeError: unsupported operation: some elements of the input tensor and the written-to tensor refer to ...
    """
    for operand in operands:
        if operand is target or getattr(operand, "_writes", None) is not target._writes:
            continue
        if _partly(target.array, operand.array):
            raise RuntimeError(_SHARED)


def is_own(target: Any, operands: Iterable[Any]) -> bool:
    """Does one of these lie in the memory of ``target``? No size is asked for.

    >>> import tracejit as tj
    >>> x = tj.arange(4.0)
    >>> is_own(x, [x[2:]]), is_own(x, [x + 1, 2.0])
    (True, False)
    """
    return any(getattr(operand, "_writes", None) is target._writes for operand in operands)


def refuse_own(target: Any, operands: Iterable[Any]) -> None:
    """Refuse to write at positions of ``target`` what lies in its memory, in the very same elements too.

    As in :func:`refuse_overlap`, nobody looks where elements have gaps between them. Raises ``RuntimeError``.

    >>> import tracejit as tj
    >>> x = tj.arange(4.0)
    >>> x[[0, 1]] = x[2:]
    Traceback (most recent call last):
    RuntimeError: unsupported operation: some elements of the input tensor and the written-to tensor refer to ...
    """
    for operand in operands:
        if getattr(operand, "_writes", None) is not target._writes:
            continue
        if operand is target or _partly(target.array, operand.array, or_all=True):
            raise RuntimeError(_SHARED)


_SHARED = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
    "location. Please clone() the tensor before performing the operation."
)


def refuse_repeated(target: Any) -> None:
    """Refuse to write to ``target`` where an element of it stands for several.

    Raises ``RuntimeError``.

    >>> import tracejit as tj
    >>> refuse_repeated(tj.zeros(1).expand(2))
    Traceback (most recent call last):
    RuntimeError: unsupported operation: more than one element of the written-to tensor refers to a single ...
    """
    # Views step by zero where they repeat, whatever the sizes: only what repeats is asked how often.
    if repeated_dims(target._steps_in_memory(), target.shape) and target.numel():
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory "
            "location. Please clone() the tensor before performing the operation."
        )


def refuse_shared(target: Any, operands: Iterable[Any]) -> None:
    """Refuse to write to ``target`` where an operand lies in its memory, be it in the very same elements.

    Raises ``RuntimeError``, also where an element of ``target`` stands for several.

    >>> import tracejit as tj
    >>> x = tj.arange(4.0)
    >>> tj.take(x, tj.tensor([3, 2, 1, 0]), out=x)
    Traceback (most recent call last):
    RuntimeError: unsupported operation: some elements of the input tensor and the written-to tensor refer to ...
    """
    refuse_repeated(target)
    for operand in operands:
        if operand._writes is target._writes and operand.numel() and target.numel():
            (low, high), (start, end) = byte_bounds(target.array), byte_bounds(operand.array)
            if low < end and start < high:
                raise RuntimeError(_SHARED)


def _partly(one: Any, other: Any, or_all: bool = False) -> bool:
    """Do two arrays without gaps share some of their elements, or all in another order (with ``or_all``, in any)?"""
    first, second = byte_bounds(one), byte_bounds(other)
    for (low, high), array in ((first, one), (second, other)):
        if not array.size or high - low != array.size * array.itemsize:
            return False
    if first == second:
        return or_all or _steps(one) != _steps(other)
    return first[0] < second[1] and second[0] < first[1]


def _steps(array: Any) -> list[tuple[int, int]]:
    return [(n, step) for n, step in zip(array.shape, array.strides, strict=True) if n > 1]


def are_pieces(views: Sequence[Any], name: str) -> None:
    """Note that these views came from one function: autograd cannot follow writes to one of several."""
    for number, view in enumerate(views) if MODES.grad else ():
        if getattr(view, "_base", None) is not None:  # no value of a graph
            view._piece = f"Output {number} of {name}"
