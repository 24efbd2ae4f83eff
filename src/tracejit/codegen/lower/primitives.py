"""The few `scalar_math` names that are instructions rather than functions of the kernel language.

Each entry of `PRIMITIVES` turns typed operands into one or a few LLVM instructions. The NumPy meaning of the same names
is in `scalar_math.primitives`; tests compare the two bit for bit.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Protocol

from tracejit.codegen.lower.squares import turn
from tracejit.codegen.lower.types import (
    B1,
    F32,
    F64,
    I32,
    I64,
    U32,
    U64,
    Pointer,
    Scalar,
    Type,
    Value,
    fail,
)


class Emitter(Protocol):
    """What a primitive needs of the function being lowered."""

    lines: list[str]

    def emit(self, instruction: str) -> str:
        """Append an instruction and return the name of its result."""

    def declare(self, declaration: str) -> None:
        """Note an external declaration."""

    def need_table(self, name: str) -> None:
        """Note a constant table."""


Primitive = Callable[[Emitter, Sequence[Value], ast.AST], Value]


def expect(node: ast.AST, name: str, values: Sequence[Value], types: Sequence[Type]) -> None:
    """Check the operand types of a call."""
    found = [value.type.name for value in values]
    wanted = [type_.name for type_ in types]
    if found != wanted:
        fail(node, f"{name} takes ({', '.join(wanted)}) and was given ({', '.join(found)})")


def _intrinsic(name: str, intrinsic: str, scalar: Scalar, arity: int, flags: str = "") -> Primitive:
    llvm = scalar.llvm
    symbol = f"@llvm.{intrinsic}.{scalar.name}"
    declaration = f"declare {llvm} {symbol}({', '.join([llvm] * arity)})"

    def emit(out: Emitter, values: Sequence[Value], node: ast.AST) -> Value:
        expect(node, name, values, [scalar] * arity)
        out.declare(declaration)
        operands = ", ".join(f"{llvm} {value.ref}" for value in values)
        return Value(out.emit(f"call {flags}{llvm} {symbol}({operands})"), scalar)

    return emit


def _ldexp(name: str, scalar: Scalar) -> Primitive:
    llvm = scalar.llvm
    symbol = f"@llvm.ldexp.{scalar.name}.i32"

    def emit(out: Emitter, values: Sequence[Value], node: ast.AST) -> Value:
        expect(node, name, values, [scalar, I32])
        out.declare(f"declare {llvm} {symbol}({llvm}, i32)")
        x, n = values
        return Value(out.emit(f"call {llvm} {symbol}({llvm} {x.ref}, i32 {n.ref})"), scalar)

    return emit


def _cast(name: str, op: str, source: Scalar, target: Scalar) -> Primitive:
    def emit(out: Emitter, values: Sequence[Value], node: ast.AST) -> Value:
        expect(node, name, values, [source])
        return Value(out.emit(f"{op} {source.llvm} {values[0].ref} to {target.llvm}"), target)

    return emit


def _select(out: Emitter, values: Sequence[Value], node: ast.AST) -> Value:
    if len(values) != 3 or values[0].type is not B1 or values[1].type is not values[2].type:
        fail(node, "select takes (b1, T, T)")
    condition, yes, no = values
    llvm = yes.type.llvm
    ref = out.emit(f"select i1 {condition.ref}, {llvm} {yes.ref}, {llvm} {no.ref}")
    return Value(ref, yes.type, yes.index and no.index)


def _two_over_pi_word(out: Emitter, values: Sequence[Value], node: ast.AST) -> Value:
    expect(node, "two_over_pi_word", values, [I64])
    out.need_table("two_over_pi")
    address = out.emit(f"getelementptr inbounds i64, ptr @two_over_pi, i64 {values[0].ref}")
    return Value(out.emit(f"load i64, ptr {address}"), U64)


def _ask_for(out: Emitter, values: Sequence[Value], node: ast.AST) -> Value:
    found = [v.type for v in values]
    if len(found) != 2 or not isinstance(found[0], Pointer) or found[1] != I64:
        fail(node, "ask_for takes (T*, i64)")
    pointer, at = values
    out.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    # There may be no element: that is no reason to say that there was one.
    address = out.emit(f"getelementptr {found[0].element.llvm}, ptr {pointer.ref}, i64 {at.ref}")
    out.lines.append(f"  call void @llvm.prefetch.p0(ptr {address}, i32 0, i32 3, i32 1)")
    return Value("0", I64, index=True)


def _settled(name: str, scalar: Scalar) -> Primitive:
    def emit(out: Emitter, values: Sequence[Value], node: ast.AST) -> Value:
        expect(node, name, values, [scalar])
        return Value(out.emit(f"freeze {scalar.llvm} {values[0].ref}"), scalar)

    return emit


def _c_fmod_f64(out: Emitter, values: Sequence[Value], node: ast.AST) -> Value:
    expect(node, "c_fmod_f64", values, [F64, F64])
    x, y = values
    return Value(out.emit(f"frem double {x.ref}, {y.ref}"), F64)


def _float_primitives(scalar: Scalar, integer: Scalar) -> dict[str, Primitive]:
    names = {"sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc"}
    names |= {"round": "rint", "fabs": "fabs"}
    suffix = scalar.name
    table = {f"{n}_{suffix}": _intrinsic(f"{n}_{suffix}", i, scalar, 1) for n, i in names.items()}
    table[f"copysign_{suffix}"] = _intrinsic(f"copysign_{suffix}", "copysign", scalar, 2)
    table[f"fma_{suffix}"] = _intrinsic(f"fma_{suffix}", "fma", scalar, 3)
    table[f"ldexp_{suffix}"] = _ldexp(f"ldexp_{suffix}", scalar)
    table[f"bits_{suffix}"] = _cast(f"bits_{suffix}", "bitcast", scalar, integer)
    return table


PRIMITIVES: dict[str, Primitive] = {
    "select": _select,
    **_float_primitives(F32, U32),
    **_float_primitives(F64, U64),
    "f32_from_bits": _cast("f32_from_bits", "bitcast", U32, F32),
    "f64_from_bits": _cast("f64_from_bits", "bitcast", U64, F64),
    "c_fmod_f64": _c_fmod_f64,
    "two_over_pi_word": _two_over_pi_word,
    "turn_8": turn(8),
    "turn_16": turn(16),
    "ask_for": _ask_for,
    "settled_f32": _settled("settled_f32", F32),
    "settled_f64": _settled("settled_f64", F64),
}

# What a target may lack, as a function of the kernel language with the same result bit for bit. (`fma_f64` has none:
# there LLVM calls the C library's, which every process has.)
SUBSTITUTES: dict[str, str] = {
    "fma.f32": "unfused_fma_f32",
    "ldexp.f32.i32": "scale_f32",
    "ldexp.f64.i32": "scale_f64",
}

# `m = maximum_f32(m, v)` is a running maximum. LLVM vectorises it only as its own intrinsic; the two agree but for
# which of two equal zeros is kept, and the order of a reduction is free anyway. That it is free saves half of the
# instructions on x86.
REDUCTIONS: dict[str, Primitive] = {
    f"{name}_{scalar.name}": _intrinsic(f"{name}_{scalar.name}", intrinsic, scalar, 2, flags)
    for name, intrinsic, flags in (
        ("maximum", "maximum", "nsz "),
        ("minimum", "minimum", "nsz "),
        ("larger", "maxnum", "nnan nsz "),
        ("smaller", "minnum", "nnan nsz "),
    )
    for scalar in (F32, F64)
}
