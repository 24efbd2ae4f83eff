"""Simplification: identities that are exact for NaN, infinities, -0.0 and every dtype.

Before::

    graph f(x: f32[2, 3]) {
        %0: f32[3, 2] = permute(x, dims=(1, 0))
        %1: f32[3, 2] = mul(%0, 1.0)
        %2: f32[2, 3] = permute(%1, dims=(1, 0))
        %3: f32[2, 3] = neg(%2)
        %4: f32[2, 3] = add(x, %3)
        return %4
    }

After (and after :mod:`.dead_code`)::

    graph f(x: f32[2, 3]) {
        %0: f32[2, 3] = sub(x, x)
        return %0
    }

A rule is kept only if both sides give the same bits for every operand (NaN counts as one value). What looks like an
identity and is none: ``x + 0`` (turns -0.0 into 0.0; a product that underflows is -0.0), ``x - x`` and ``x * 0`` (NaN),
``-(a - b)`` (zeros), and ``not a < b`` (NaN). Rules for views are in :mod:`.views`, for pieces
put side by side in :mod:`..products.joins`.
"""

from __future__ import annotations

import math
from typing import Any

from ... import dtypes
from ...dtypes import DType
from ...ir.graph import Graph, Value
from ...ops.movement import slice_scatter
from ..products import joins
from ..rewrite import Operand, Rewriter, Rule, Rules
from .moves import MOVE_RULES, together
from .powers_of_two import POWER_RULES
from .scatters import PartByPart
from .views import VIEW_RULES


def simplify(graph: Graph) -> Graph:
    """``graph`` with exact identities applied until none is left, and equal computations made one.

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[2]) { %0: f32[2] = neg(x) %1: f32[2] = neg(%0) return %1 }")
    >>> print(simplify(graph).outputs[0].op.name)  # memory of its own, as before
    clone
    """
    changed = any(v.op is slice_scatter for v in graph.values)
    return (PartByPart if changed else Rewriter)(graph.name, RULES).run(graph)


def is_number(operand: Operand, number: float) -> bool:
    """Is ``operand`` this Python number, sign of zero included?"""
    if isinstance(operand, Value):
        return False
    return operand == number and math.copysign(1.0, operand) == math.copysign(1.0, number)


def made_by(operand: Operand, *names: str) -> Value | None:
    """``operand`` if it is a result of one of the ops ``names``."""
    if isinstance(operand, Value) and operand.op is not None and operand.op.name in names:
        return operand
    return None


def same(value: Value, operand: Operand) -> Value | None:
    """``operand`` as the replacement of ``value`` when it has its type (no conversion, no broadcast)."""
    return operand if isinstance(operand, Value) and operand.spec == value.spec else None


def _right_number(number: float) -> Rule:
    """``x op number`` is x; not of complex numbers, whose other part meets the number's, which is 0."""

    def rule(_: Rewriter, value: Value) -> Value | None:
        x, y = value.operands
        return same(value, x) if is_number(y, number) and not value.spec.dtype.is_complex else None

    return rule


def _left_number(number: float) -> Rule:
    """``number op x`` is x, but not of complex numbers."""

    def rule(_: Rewriter, value: Value) -> Value | None:
        x, y = value.operands
        return same(value, y) if is_number(x, number) and not value.spec.dtype.is_complex else None

    return rule


def _zero_of_integers(_: Rewriter, value: Value) -> Value | None:
    """``x + 0``, ``0 + x`` and ``x - 0`` of integers and bools, which have no -0.0."""
    x, y = value.operands
    if value.spec.dtype.is_differentiable:
        return None
    if not isinstance(y, Value) and y == 0:
        return same(value, x)
    adds = value.op is not None and value.op.name == "add"
    return same(value, y) if adds and not isinstance(x, Value) and x == 0 else None


def _involution(_: Rewriter, value: Value) -> Value | None:
    """``--x`` and ``~~x``."""
    assert value.op is not None
    inner = made_by(value.operands[0], value.op.name)
    return None if inner is None else same(value, inner.operands[0])


def _idempotent(_: Rewriter, value: Value) -> Value | None:
    """``abs(abs(x))``, ``relu(relu(x))``, ``floor(floor(x))``: the inner result is unchanged."""
    assert value.op is not None
    inner = made_by(value.operands[0], value.op.name)
    return None if inner is None else same(value, inner)


def _of_negated(rewriter: Rewriter, value: Value) -> Value | None:
    """``abs(-x)`` and ``(-x) * (-x)`` do not see the sign: it only flips a bit that they drop."""
    inner = made_by(value.operands[0], "neg")
    if inner is None or not value.spec.dtype.is_signed:
        return None
    assert value.op is not None
    return rewriter.write(value.op, inner.operands, value.line, **value.attributes)


def _equal_operands(_: Rewriter, value: Value) -> Value | None:
    """``maximum(x, x)``, ``x & x``, ``x | x``."""
    x, y = value.operands
    return same(value, x) if x is y else None


def _negated_term(rewriter: Rewriter, value: Value) -> Value | None:
    """``x + (-y)`` is ``x - y`` and the other way round: IEEE subtraction is addition of the negative."""
    x, y = value.operands
    inner = made_by(y, "neg")
    assert value.op is not None
    if inner is None or inner.spec.dtype is not value.spec.dtype:
        return None
    other = "sub" if value.op.name == "add" else "add"
    return _rewritten(rewriter, value, other, (x, inner.operands[0]))


def _negated_first_term(rewriter: Rewriter, value: Value) -> Value | None:
    """``(-x) + y`` is ``y - x``: addition commutes."""
    x, y = value.operands
    inner = made_by(x, "neg")
    if inner is None or inner.spec.dtype is not value.spec.dtype:
        return None
    return _rewritten(rewriter, value, "sub", (y, inner.operands[0]))


def _negated_factors(rewriter: Rewriter, value: Value) -> Value | None:
    """``(-x) * (-y)`` is ``x * y``; ``(-x) * c`` is ``x * (-c)``: signs of factors multiply exactly."""
    x, y = value.operands
    assert value.op is not None
    a, b = made_by(x, "neg"), made_by(y, "neg")
    common = value.spec.dtype
    if not common.is_floating_point:
        return None
    if a is not None and b is not None and a.spec.dtype is common and b.spec.dtype is common:
        return _rewritten(rewriter, value, value.op, (a.operands[0], b.operands[0]))
    if a is not None and a.spec.dtype is common and isinstance(y, float):
        return _rewritten(rewriter, value, value.op, (a.operands[0], -y))
    if b is not None and b.spec.dtype is common and isinstance(x, float):
        return _rewritten(rewriter, value, value.op, (-x, b.operands[0]))
    return None


def _negated_product(rewriter: Rewriter, value: Value) -> Value | None:
    """``-(x * c)`` is ``x * (-c)``, likewise for quotients."""
    x = value.operands[0]
    inner = made_by(x, "mul")
    if inner is None:
        inner = made_by(x, "div")
    if inner is None or not value.spec.dtype.is_floating_point:
        return None
    first, second = inner.operands
    assert inner.op is not None
    if isinstance(second, float):
        return _rewritten(rewriter, value, inner.op, (first, -second))
    if isinstance(first, float):
        return _rewritten(rewriter, value, inner.op, (-first, second))
    return None


def _selection(rewriter: Rewriter, value: Value) -> Value | None:
    """``where(c, x, x)``, a known condition, and ``where(not c, x, y)``."""
    condition, x, y = value.operands
    if x is y:
        return same(value, x)
    if isinstance(condition, bool):
        return same(value, x if condition else y)
    inner = made_by(condition, "logical_not")
    if inner is None:
        inner = made_by(condition, "bitwise_not")
    if inner is not None:
        source = inner.operands[0]
        if isinstance(source, Value) and source.spec.dtype is dtypes.bool_:
            return _rewritten(rewriter, value, "where", (source, y, x))
    return None


def _negated_equality(rewriter: Rewriter, value: Value) -> Value | None:
    """``not x == y`` is ``x != y`` (true for NaN on both sides); orderings have no such twin."""
    x = value.operands[0]
    for name, opposite in (("eq", "ne"), ("ne", "eq")):
        inner = made_by(x, name)
        if inner is not None:
            return _rewritten(rewriter, value, opposite, inner.operands)
    return None


def _power(rewriter: Rewriter, value: Value) -> Value | None:
    """``x**1`` is x; ``x**2`` is ``x * x``: the exponents whose power is correctly rounded in every library."""
    x, y = value.operands
    if isinstance(y, (Value, bool)) or not isinstance(x, Value) or x.spec != value.spec:
        return None
    if y == 1:
        return x
    return _rewritten(rewriter, value, "mul", (x, x)) if y == 2 else None


def _cast_chain(rewriter: Rewriter, value: Value) -> Value | None:
    """A cast to the same dtype, and a first cast that changes no value before a second one."""
    x = value.operands[0]
    target = value.attributes["dtype"]
    if (found := same(value, x)) is not None:
        return found
    inner = made_by(x, "cast")
    if inner is None or not isinstance(inner.operands[0], Value):
        return None
    source = inner.operands[0].spec.dtype
    out_of_range = source.is_floating_point and not target.is_floating_point
    if not keeps_values(source, inner.spec.dtype) or (out_of_range and target is not dtypes.bool_):
        return None
    return rewriter.write("cast", (inner.operands[0],), value.line, dtype=target)


def keeps_values(source: DType, target: DType) -> bool:
    """Is every value of ``source`` a value of ``target``?

    >>> from tracejit import float16, float32, int8, int32, bfloat16
    >>> keeps_values(float16, float32), keeps_values(int32, float32), keeps_values(bfloat16, float16)
    (True, False, False)
    """
    if source is target or source is dtypes.bool_:
        return True
    if target is dtypes.bool_:
        return False
    if source.is_floating_point:
        return target.is_floating_point and target.itemsize > source.itemsize
    if target.is_floating_point:
        digits = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}[target.short]
        return 8 * source.itemsize - int(source.is_signed) <= digits
    wider = target.itemsize > source.itemsize
    return wider and (target.is_signed or not source.is_signed)


def _rewritten(
    rewriter: Rewriter, value: Value, op: Any, operands: tuple[Operand, ...]
) -> Value | None:
    """The new form, unless a Python number now decides the type differently."""
    found = rewriter.write(op, operands, value.line)
    return found if found.spec == value.spec else None


_ARITHMETIC: Rules = {
    "add": (
        _right_number(-0.0),  # x + -0.0 is x, also for x = -0.0 and 0.0
        _left_number(-0.0),
        _zero_of_integers,
        _negated_term,
        _negated_first_term,
    ),
    "sub": (_right_number(0.0), _zero_of_integers, _negated_term),  # -0.0 - 0.0 is -0.0
    "mul": (_right_number(1.0), _left_number(1.0), _negated_factors),
    # not by numbers: a mean divides by an extent, and kernels must not depend on which one it is
    "div": (_negated_factors,),
    "neg": (_involution, _negated_product),
    "bitwise_not": (_involution, _negated_equality),
    "logical_not": (_involution, _negated_equality),
    "abs": (_idempotent, _of_negated),
    "square": (_of_negated,),
    "pow": (_power,),
    "cast": (_cast_chain,),
    "where": (_selection,),
    **dict.fromkeys(("maximum", "minimum"), (_equal_operands,)),
    **dict.fromkeys(("bitwise_and", "bitwise_or"), (_equal_operands,)),
    **dict.fromkeys(("logical_and", "logical_or"), (_equal_operands,)),
    **dict.fromkeys(("relu", "floor", "ceil", "trunc", "round_half_even", "sign"), (_idempotent,)),
}

RULES: Rules = together(_ARITHMETIC, POWER_RULES, VIEW_RULES, joins.RULES, MOVE_RULES)
