"""Stacks: tensors whose first dimension is the round of a loop."""

from __future__ import annotations

from typing import Any

from ...ir.builder import Builder
from ...ir.graph import Value
from ...ops.movement import expand, squeeze
from ...ops.movement import slice as slice_op
from ...ops.source import full
from ...types import TensorType
from ..rewrite import root


def flipped(builder: Builder, stack: Value) -> Value:
    """The rounds of a stack the other way round: a view.

    >>> from tracejit import float32
    >>> builder = Builder("f")
    >>> x = builder.input("x", TensorType((5, 2), float32))
    >>> y = flipped(builder, x)
    >>> y.attributes["steps"], flipped(builder, y) is x
    ((-1, 1), True)
    """
    if is_flipped(stack):
        return stack.value_operands[0]
    return builder.emit(slice_op, (stack,), _flip(stack.spec), builder.line)


def _flip(kind: TensorType) -> dict[str, Any]:
    count, *rest = kind.shape
    starts = (count - 1, *[0] * len(rest))
    return {"starts": starts, "counts": kind.shape, "steps": (-1, *[1] * len(rest))}


def is_flipped(stack: Value) -> bool:
    """Is this a view of another stack that runs from its last round to its first?"""
    if stack.op is not slice_op:
        return False
    kind = stack.value_operands[0].spec
    return stack.spec == kind and dict(stack.attributes) == _flip(kind)


def same_every_round(builder: Builder, stack: Value) -> Value | None:
    """What every round of a stack is, before it was expanded, if it was expanded along the rounds."""
    while is_flipped(stack):
        stack = stack.value_operands[0]
    if stack.op is not expand:
        return None
    x = stack.value_operands[0]
    if x.spec.ndim < stack.spec.ndim:
        return x
    if type(x.spec.shape[0]) is not int or x.spec.shape[0] != 1:
        return None
    return builder.emit(squeeze, (x,), {"dims": (0,)}, stack.line)


def uniform(value: Value) -> Any:
    """The number that every element of a constant is, None for other values."""
    source = root(value)
    return source.attributes["value"] if source.op is full else None


def constant_like(builder: Builder, number: Any, kind: TensorType) -> Value:
    """A constant of a type."""
    attributes = {"shape": kind.shape, "value": number, "dtype": kind.dtype}
    return builder.emit(full, (), attributes, builder.line)


def zeros(builder: Builder, kind: TensorType) -> Value:
    """Zeros that take no memory."""
    zero = constant_like(builder, 0.0, TensorType((), kind.dtype))
    if not kind.shape:
        return zero
    return builder.emit(expand, (zero,), {"shape": kind.shape}, builder.line)
