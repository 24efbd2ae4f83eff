"""Constant folding: computations on constants become constants, and constants become plain numbers.

Before::

    graph f(x: f32[4, 2]) {
        %0: f32[2] = full(shape=(2,), value=1.0, dtype=f32)
        %1: f32[2] = mul(%0, 3.0)
        %2: f32[4, 2] = mul(x, %1)
        return %2
    }

After (and after :mod:`.dead_code`)::

    graph f(x: f32[4, 2]) {
        %0: f32[4, 2] = mul(x, 3.0)
        return %0
    }

Only uniform constants are folded, into ``full``: no array is ever stored in a graph. Numbers are computed by the ops'
own bodies on one element, so they have the bits that eager execution gives.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...extents import is_symbolic
from ...ir.graph import Graph, Value
from ...ops.conversions import convert_scalar
from ...ops.shapes import numel
from ...ops.source import full
from ...ops.table import Elementwise, Reduction, operand_info
from ...types import Scalar, TensorType
from ..rewrite import Operand, Rewriter, Rules, is_view


def fold(graph: Graph) -> Graph:
    """``graph`` with computations on uniform constants done now.

    >>> from tracejit.ir import parse
    >>> graph = parse('''graph f() {
    ...     %0: f32[3] = full(shape=(3,), value=2.0, dtype=f32)
    ...     %1: f32[3] = mul(%0, %0)
    ...     return %1
    ... }''')
    >>> fold(graph).outputs[0].attributes["value"]
    4.0
    """
    return Rewriter(graph.name, RULES).run(graph)


def constant(operand: Operand) -> Scalar | None:
    """The one number ``operand`` consists of, None when there is no such."""
    if not isinstance(operand, Value):
        return None if is_symbolic(operand) else operand
    if operand.op is not full or operand.spec.dtype.is_complex:
        return None
    value = operand.attributes["value"]
    return None if is_symbolic(value) else as_number(_element(operand.spec, value))


def as_number(array: Any) -> Scalar:
    """The element of a one-element array as a Python number."""
    kind = array.dtype.kind
    found: Scalar = array.reshape(()).item() if kind in "biuf" else float(array.reshape(()))
    return found


def _element(kind: TensorType, value: Scalar) -> Any:
    """An array of one element and the rank of ``kind``."""
    return np.broadcast_to(convert_scalar(value, kind.dtype), (1,) * kind.ndim)


def _full(rewriter: Rewriter, value: Value, number: Scalar) -> Value:
    return rewriter.builder.emit(
        full,
        (),
        {"shape": value.spec.shape, "value": number, "dtype": value.spec.dtype},
        value.line,
    )


def _elementwise(rewriter: Rewriter, value: Value) -> Value | None:
    """An elementwise op of constants only; a complex result is none, for numbers in graphs are real."""
    assert value.op is not None
    if value.spec.dtype.is_complex:
        return None
    numbers = [constant(x) for x in value.operands]
    if None in numbers:
        return None
    arrays = [
        _element(x.spec, n) if isinstance(x, Value) else x  # type: ignore[arg-type]
        for x, n in zip(value.operands, numbers, strict=True)
    ]
    try:
        found = value.op.evaluate(arrays, value.attributes)
    except (RuntimeError, ZeroDivisionError):
        return None  # the op refuses these numbers: let it do so when the program runs
    return _full(rewriter, value, as_number(found))


def _plain_number(rewriter: Rewriter, value: Value) -> Value | None:
    """A constant beside a tensor becomes a Python number where neither type nor shape depends on it."""
    assert value.op is not None
    if len(value.value_operands) < 2:  # nothing would be left
        return None
    for position, operand in enumerate(value.operands):
        number = constant(operand) if isinstance(operand, Value) else None
        if number is None:
            continue
        operands = (*value.operands[:position], number, *value.operands[position + 1 :])
        if _same_types(value, operands):
            return rewriter.write(value.op, operands, value.line, **value.attributes)
    return None


def _same_types(value: Value, operands: tuple[Operand, ...]) -> bool:
    """Would ``value`` have the same type, computed in the same dtypes?"""
    op = value.op
    assert isinstance(op, Elementwise)
    before = tuple(map(_info, value.operands))
    after = tuple(map(_info, operands))
    kinds = [x.spec if isinstance(x, Value) else x for x in operands]
    return (
        op.types(before, value.attributes) == op.types(after, value.attributes)
        and op.infer(kinds, value.attributes) == value.spec
    )


def _info(operand: Operand) -> Any:
    return operand_info(operand.spec if isinstance(operand, Value) else operand)


def _view(rewriter: Rewriter, value: Value) -> Value | None:
    """A view of a constant is a constant of another shape."""
    if not is_view(value):
        return None
    number = constant(value.operands[0])
    return None if number is None else _full(rewriter, value, number)


def _reduction(rewriter: Rewriter, value: Value) -> Value | None:
    """A reduction of a constant, where no rounding depends on the order of summation."""
    assert isinstance(value.op, Reduction)
    x = value.value_operands[0]
    number = constant(x)
    if number is None or x.spec.numel == 0:
        return None
    count = numel([x.spec.shape[d] for d in value.attributes["dims"]])
    if value.op.combine in ("max", "min"):
        return _full(rewriter, value, number)
    if value.op.combine in ("any", "all"):
        return _full(rewriter, value, bool(number))
    if (
        value.op.combine == "sum"
        and not is_symbolic(count)
        and _sums_exactly(number, count, x.spec)
    ):
        total = number * count + (0.0 if isinstance(number, float) else 0)
        return _full(rewriter, value, total)
    return None


def _sums_exactly(number: Scalar, count: int, kind: TensorType) -> bool:
    """Integers wrap, so any order gives the same; floats need every partial sum to be exact."""
    if not isinstance(number, float):
        return abs(int(number) * count) < 2**63
    if number != number or abs(number) == math.inf:
        return False
    digits = {2: 24, 4: 24, 8: 53}[kind.dtype.itemsize]
    exact = number == 0 or abs(math.frexp(number)[0]) == 0.5
    largest = {"f16": 2.0**15, "bf16": 2.0**120, "f32": 2.0**120, "f64": 2.0**1000}
    bounded = abs(number) * count < largest[kind.dtype.short]
    return exact and bounded and count <= 2**digits and abs(number) in (0.0, *_ORDINARY)


#: Magnitudes far from the subnormal range, where powers of two add up exactly.
_ORDINARY = tuple(2.0**k for k in range(-12, 13))

RULES: Rules = {
    "elementwise": (_elementwise, _plain_number),
    "movement": (_view,),
    "reduction": (_reduction,),
}
