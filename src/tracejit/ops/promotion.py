"""Promotion rules of elementwise ops: operand infos -> dtypes to compute in, and the result's dtype.

A rule refuses complex numbers unless its name says that it takes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import wraps
from typing import Any

from .. import dtypes
from ..dtypes import DType
from ..errors import DtypeError
from .kinds import PromotionRule
from .table import OperandInfo


class UnsupportedDtypeError(DtypeError, NotImplementedError):
    """An op that has no meaning for an element type."""


Infos = tuple[OperandInfo, ...]
Promoted = tuple[tuple[DType, ...], DType]


def real(rule: PromotionRule) -> PromotionRule:
    """The rule for ops without a meaning for complex numbers."""

    @wraps(rule)
    def checked(op: Any, infos: Infos, attributes: Mapping[str, Any]) -> Promoted:
        for dtype, _ in infos:
            if dtype.is_complex:
                raise UnsupportedDtypeError(f'"{op.name}" not implemented for {dtype.title!r}')
        found: Promoted = rule(op, infos, attributes)
        return found

    return checked


def same_or_complex(op: Any, infos: Infos, attributes: Mapping[str, Any]) -> Promoted:
    """Compute and return the promoted dtype."""
    common = dtypes.result_type_of(infos)
    return (common,) * len(infos), common


def numeric_or_complex(op: Any, infos: Infos, attributes: Mapping[str, Any]) -> Promoted:
    """Like :func:`same_or_complex`, and refuses bool."""
    common = dtypes.result_type_of(infos)
    if common is dtypes.bool_:
        raise UnsupportedDtypeError(
            f'"{op.name}" not implemented for {common.title!r}', "Convert with .to(dtype) first."
        )
    return (common,) * len(infos), common


def negated(op: Any, infos: Infos, attributes: Mapping[str, Any]) -> Promoted:
    """Like :func:`same_or_complex`, and says what negates bools."""
    if dtypes.result_type_of(infos) is dtypes.bool_:
        raise DtypeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use "
            "the `~` or `logical_not()` operator instead."
        )
    return numeric_or_complex(op, infos, attributes)


def to_float_or_complex(op: Any, infos: Infos, attributes: Mapping[str, Any]) -> Promoted:
    """Integers and bools become the default float dtype."""
    common = dtypes.result_type_of(infos)
    if not common.is_differentiable:
        common = dtypes.get_default_dtype()
    return (common,) * len(infos), common


def with_wide_numbers(rule: PromotionRule) -> PromotionRule:
    """The rule for factors: beside half precision, numbers and 0-d tensors of other dtypes are not rounded to it.

    ``x * 0.1`` of a bfloat16 tensor is rounded once. With 0.1 rounded first, all of it would be 0.1 % too large.
    """

    @wraps(rule)
    def widened(op: Any, infos: Infos, attributes: Mapping[str, Any]) -> Promoted:
        compute, result = rule(op, infos, attributes)
        if not result.is_half:
            return compute, result
        beside = (rank == 0 or (rank == 1 and dtype is not result) for dtype, rank in infos)
        pairs = zip(beside, compute, strict=True)
        return tuple(dtypes.float32 if wide else own for wide, own in pairs), result

    return widened


def floats_only(op: Any, infos: Infos, attributes: Mapping[str, Any]) -> Promoted:
    """Floating point operands only."""
    common = dtypes.result_type_of(infos)
    if not common.is_floating_point:
        raise UnsupportedDtypeError(f'"{op.name}" not implemented for {common.title!r}')
    return (common,) * len(infos), common


def compare_or_complex(op: Any, infos: Infos, attributes: Mapping[str, Any]) -> Promoted:
    """Compare in the promoted dtype, return bool."""
    common = dtypes.result_type_of(infos)
    return (common,) * len(infos), dtypes.bool_


def logical(op: Any, infos: Infos, attributes: Mapping[str, Any]) -> Promoted:
    """Each operand as bool, result bool."""
    return (dtypes.bool_,) * len(infos), dtypes.bool_


def bitwise(op: Any, infos: Infos, attributes: Mapping[str, Any]) -> Promoted:
    """Bools and integers only."""
    common = dtypes.result_type_of(infos)
    if common.is_differentiable:
        raise UnsupportedDtypeError(f'"{op.name}" not implemented for {common.title!r}')
    return (common,) * len(infos), common


def select(op: Any, infos: Infos, attributes: Mapping[str, Any]) -> Promoted:
    """``where``: a bool condition, then promoted values."""
    if infos[0][0] is not dtypes.bool_:
        raise DtypeError(
            f"where expected condition to be a boolean tensor, but got {infos[0][0].name}"
        )
    common = dtypes.result_type_of(infos[1:])
    return (dtypes.bool_, common, common), common


def cast(op: Any, infos: Infos, attributes: Mapping[str, Any]) -> Promoted:
    """The dtype attribute; the operand stays as it is."""
    return (infos[0][0],), attributes["dtype"]


def shift(op: Any, infos: Infos, attributes: Mapping[str, Any]) -> Promoted:
    """Integers only."""
    common = dtypes.result_type_of(infos)
    if common.category != "int":
        raise UnsupportedDtypeError(f'"{op.name}" not implemented for {common.title!r}')
    return (common,) * len(infos), common


def modulus(op: Any, infos: Infos, attributes: Mapping[str, Any]) -> Promoted:
    """Complex numbers give the dtype of their parts."""
    common = dtypes.result_type_of(infos)
    return (common,) * len(infos), common.to_real()


same = real(same_or_complex)
numeric = real(numeric_or_complex)
to_float = real(to_float_or_complex)
compare = real(compare_or_complex)
factors = with_wide_numbers(same_or_complex)
quotients = with_wide_numbers(to_float_or_complex)
whole_quotients = with_wide_numbers(numeric)
cut_quotients = with_wide_numbers(floats_only)
