"""Value conversions between scalar types, as C on this kind of machine performs them.

A float that does not fit the integer type has no meaning in C; here it means what x86's conversion instructions give
and what NumPy's casts therefore show: the smallest integer for i32/i64, and for narrower types the low bits of that.
The result is frozen, so that no later pass may treat an unrepresentable value as several values at once.
"""

from __future__ import annotations

from collections.abc import Callable

from tracejit.codegen.lower.types import B1, I64, SCALARS, Scalar, Value

Emit = Callable[[str], str]
#: A float (its reference and type) as a signed integer of 32 or 64 bits; the reference of the result.
Truncate = Callable[[Emit, str, Scalar, Scalar], str]


def truncated(emit: Emit, ref: str, source: Scalar, target: Scalar) -> str:
    """The host's own conversion of a float to i32 or i64."""
    return emit(f"freeze {target.llvm} {_cast(emit, 'fptosi', ref, source.llvm, target.llvm)}")


def convert(
    emit: Emit, value: Value, source: Scalar, target: Scalar, truncate: Truncate = truncated
) -> Value:
    """Convert `value` of type `source` to `target`; `emit` appends one instruction and names its result."""
    if source is target:
        return Value(value.ref, target)
    if target is B1:
        return _to_bool(emit, value, source)
    if source.is_float:
        if target.is_float:
            op = "fpext" if target.bits > source.bits else "fptrunc"
            return Value(_cast(emit, op, value.ref, source.llvm, target.llvm), target)
        return _float_to_int(emit, value, source, target, truncate)
    if target.is_float:
        op = "sitofp" if source.is_signed else "uitofp"
        return Value(_cast(emit, op, value.ref, source.llvm, target.llvm), target)
    return _int_to_int(emit, value, source, target)


def _cast(emit: Emit, op: str, ref: str, source: str, target: str) -> str:
    return emit(f"{op} {source} {ref} to {target}")


def _to_bool(emit: Emit, value: Value, source: Scalar) -> Value:
    # `une` is true for nan, as in C, Python and NumPy.
    if source.is_float:
        return Value(emit(f"fcmp une {source.llvm} {value.ref}, 0.0"), B1)
    return Value(emit(f"icmp ne {source.llvm} {value.ref}, 0"), B1)


def _int_to_int(emit: Emit, value: Value, source: Scalar, target: Scalar) -> Value:
    if source.bits == target.bits:
        return Value(value.ref, target)
    if source.bits > target.bits:
        return Value(_cast(emit, "trunc", value.ref, source.llvm, target.llvm), target)
    op = "sext" if source.is_signed else "zext"
    return Value(_cast(emit, op, value.ref, source.llvm, target.llvm), target)


def _float_to_int(
    emit: Emit, value: Value, source: Scalar, target: Scalar, truncate: Truncate
) -> Value:
    if target.name == "u64":
        return Value(_float_to_u64(emit, value.ref, source, truncate), target)
    # u32 goes through i64, so that negative values wrap; narrower types through i32.
    via = target if target.is_signed and target.bits >= 32 else SCALARS["i32"]
    if target.name == "u32":
        via = I64
    return _int_to_int(emit, Value(truncate(emit, value.ref, source, via), via), via, target)


def _float_to_u64(emit: Emit, ref: str, source: Scalar, truncate: Truncate) -> str:
    two_63 = "0x43E0000000000000"
    low = truncate(emit, ref, source, I64)
    moved = emit(f"fsub {source.llvm} {ref}, {two_63}")
    high = truncate(emit, moved, source, I64)
    flipped = emit(f"xor i64 {high}, -9223372036854775808")
    small = emit(f"fcmp olt {source.llvm} {ref}, {two_63}")
    return emit(f"select i1 {small}, i64 {low}, i64 {flipped}")
