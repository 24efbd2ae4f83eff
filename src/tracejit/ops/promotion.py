"""Promotion rules of elementwise ops: operand infos -> dtypes to compute in, and the result's dtype."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import dtypes
from ..dtypes import DType
from ..errors import DtypeError
from .table import OperandInfo


class UnsupportedDtypeError(DtypeError, NotImplementedError):
    """An op that has no meaning for an element type."""


Infos = tuple[OperandInfo, ...]
Promoted = tuple[tuple[DType, ...], DType]


def same(op: Any, infos: Infos, attributes: Mapping[str, Any]) -> Promoted:
    """Compute and return the promoted dtype."""
    common = dtypes.result_type_of(infos)
    return (common,) * len(infos), common


def numeric(op: Any, infos: Infos, attributes: Mapping[str, Any]) -> Promoted:
    """Like :func:`same`, and refuses bool."""
    common = dtypes.result_type_of(infos)
    if common is dtypes.bool_:
        raise UnsupportedDtypeError(
            f'"{op.name}" not implemented for {common.title!r}', "Convert with .to(dtype) first."
        )
    return (common,) * len(infos), common


def to_float(op: Any, infos: Infos, attributes: Mapping[str, Any]) -> Promoted:
    """Integers and bools become the default float dtype."""
    common = dtypes.result_type_of(infos)
    if not common.is_floating_point:
        common = dtypes.get_default_dtype()
    return (common,) * len(infos), common


def floats_only(op: Any, infos: Infos, attributes: Mapping[str, Any]) -> Promoted:
    """Floating point operands only."""
    common = dtypes.result_type_of(infos)
    if not common.is_floating_point:
        raise UnsupportedDtypeError(f'"{op.name}" not implemented for {common.title!r}')
    return (common,) * len(infos), common


def compare(op: Any, infos: Infos, attributes: Mapping[str, Any]) -> Promoted:
    """Compare in the promoted dtype, return bool."""
    common = dtypes.result_type_of(infos)
    return (common,) * len(infos), dtypes.bool_


def logical(op: Any, infos: Infos, attributes: Mapping[str, Any]) -> Promoted:
    """Each operand as bool, result bool."""
    return (dtypes.bool_,) * len(infos), dtypes.bool_


def bitwise(op: Any, infos: Infos, attributes: Mapping[str, Any]) -> Promoted:
    """Bools and integers only."""
    common = dtypes.result_type_of(infos)
    if common.is_floating_point:
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
