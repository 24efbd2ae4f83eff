"""Extremes of rows that need not look for nan, because a later sum of the row is nan if one of the elements is.

``softmax`` subtracts the largest element from all of them and divides by the sum of the exponentials. If an element is
nan the sum is, and so is all that is made of it, whatever the extreme was found to be: asking for nan once more for
every element, two instructions of three, tells nothing new.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from ...ir.graph import Value
from ...ops import elementwise as ew
from ...ops import transcendental as tr
from ...ops.random import RandomSource
from ...ops.table import Reduction
from ...passes.fusion.groups import FULL, ROW
from .. import scalar
from .cpu import Writer

#: Elementwise ops that give nan where any operand is nan.
_ARITHMETIC = (ew.add, ew.sub, ew.mul, ew.div, ew.neg, ew.square, ew.reciprocal, ew.abs)
_FUNCTIONS = (tr.exp, tr.exp2, tr.expm1, tr.log, tr.log2, tr.log1p, tr.sqrt, tr.rsqrt, tr.tanh)
_CARRIERS = frozenset((*_ARITHMETIC, *_FUNCTIONS, tr.sigmoid, ew.cast, ew.clone))


def told_extremes(writer: Writer) -> frozenset[Value]:
    """The largest or smallest elements of rows that may be found as if there were no nan.

    That holds for one that is not stored itself, if all that is stored and hangs on it is nan as soon as an element is.
    Not where numbers are drawn: such loops are left to LLVM's vectoriser, which knows nothing of these extremes.
    """
    values = writer.group.values
    if any(isinstance(x.op, RandomSource) for v in values for x in (v, *v.value_operands)):
        return frozenset()
    return frozenset(
        v for v in writer.group.values if _is_extreme(writer, v) and _is_told(writer, v)
    )


def watched_extremes(values: Sequence[Value]) -> dict[Value, Value]:
    """The extremes of floating-point numbers beside which the same numbers are added up, with that sum.

    It is nan if one of them is, and tells of it for nothing.
    """
    kinds = {v: v.op.combine for v in values if isinstance(v.op, Reduction)}
    sums = {v.value_operands[0]: v for v, kind in kinds.items() if kind == "sum"}
    found: dict[Value, Value] = {}
    for value, kind in kinds.items():
        source = value.value_operands[0]
        total = sums.get(source)
        if total is None or kind not in ("max", "min") or not source.spec.dtype.is_floating_point:
            continue
        if scalar.combine_of(value).dtype is scalar.combine_of(total).dtype:
            found[value] = total
    return found


def _is_extreme(writer: Writer, value: Value) -> bool:
    return (
        isinstance(value.op, Reduction)
        and value.op.combine in ("max", "min")
        and value.value_operands[0].spec.dtype.is_floating_point
        and writer.group.level[value] == ROW
        and value not in writer.nest.writes
    )


def _is_told(writer: Writer, extreme: Value) -> bool:
    """Is everything stored that hangs on an extreme nan in a row that has a nan?"""
    elements = _carrying(writer, {writer.origin(extreme.value_operands[0])})
    sums = {
        v
        for v in writer.group.values
        if _is_sum(v) and writer.group.level[v] == ROW and _source(writer, v) in elements
    }
    if not sums:
        return False
    told = _carrying(writer, sums, through_sums=True)
    for value in _hanging_on(writer, extreme):
        kept = value in writer.nest.writes or writer.group.level[value] not in (FULL, ROW)
        if kept and value not in told:
            return False
    return True


def _carrying(writer: Writer, values: Set[Value], through_sums: bool = False) -> set[Value]:
    """These, and all that is nan where one of them is."""
    found = set(values)
    for value in writer.group.values:
        carries = value.op in _CARRIERS and value.spec.dtype.is_floating_point
        reads = any(writer.origin(x) in found for x in value.value_operands)
        if reads and (carries or (through_sums and _is_sum(value))):
            found.add(value)
    return found


def _hanging_on(writer: Writer, extreme: Value) -> list[Value]:
    """All that is computed from an extreme."""
    found = {extreme}
    for value in writer.group.values:
        if any(writer.origin(x) in found for x in value.value_operands):
            found.add(value)
    return [v for v in writer.group.values if v in found]


def _is_sum(value: Value) -> bool:
    return isinstance(value.op, Reduction) and value.op.combine == "sum"


def _source(writer: Writer, value: Value) -> Value:
    return writer.origin(value.value_operands[0])
