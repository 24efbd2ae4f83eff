"""Types, values and literals of the kernel language as the lowering sees them.

A `Value` is an SSA reference (or a literal) of LLVM text together with its kernel-language type. The `index` mark says
that an i64 came only from loop counters, extents and bare literals: such arithmetic cannot overflow by construction, so
it may carry `nsw`, which is what lets LLVM's vectoriser see through addresses. Data never carries it: what is loaded,
what a function of numbers is given, and what `int64(...)` makes of a counter.
"""

from __future__ import annotations

import ast
import math
import struct
from dataclasses import dataclass
from typing import NoReturn

from tracejit.errors import TracejitError


@dataclass(frozen=True, slots=True)
class Scalar:
    """One scalar type: its name, its LLVM spelling, its kind and its width in bits."""

    name: str
    llvm: str
    kind: str
    bits: int

    @property
    def is_float(self) -> bool:
        """Whether this is f32 or f64."""
        return self.kind == "float"

    @property
    def is_signed(self) -> bool:
        """Whether this is a signed integer."""
        return self.kind == "signed"

    @property
    def is_int(self) -> bool:
        """Whether this is an integer; b1 is not."""
        return self.kind in ("signed", "unsigned")


@dataclass(frozen=True, slots=True)
class Pointer:
    """A pointer parameter to elements of one scalar type.

    Behind what a loop writes of ``padded`` memory there is room for a whole vector, whose contents mean nothing.
    What is written of ``streamed`` memory will not be read soon, and need not be brought into the caches.
    """

    element: Scalar
    kind: str = ""

    @property
    def name(self) -> str:
        """How kernel text spells the type."""
        return f"{self.kind} {self.element.name}*".lstrip()

    @property
    def llvm(self) -> str:
        """How LLVM spells the type."""
        return "ptr"


Type = Scalar | Pointer

#: What kernel text may say of memory.
_KINDS = ("padded", "streamed")

SCALARS: dict[str, Scalar] = {
    scalar.name: scalar
    for scalar in (
        Scalar("f32", "float", "float", 32),
        Scalar("f64", "double", "float", 64),
        *(Scalar(f"i{bits}", f"i{bits}", "signed", bits) for bits in (8, 16, 32, 64)),
        *(Scalar(f"u{bits}", f"i{bits}", "unsigned", bits) for bits in (8, 16, 32, 64)),
        Scalar("b1", "i1", "bool", 1),
    )
}
F32, F64, I32, I64, B1 = (SCALARS[name] for name in ("f32", "f64", "i32", "i64", "b1"))
U16, U32, U64 = (SCALARS[name] for name in ("u16", "u32", "u64"))

CAST_NAMES: dict[str, Scalar] = {
    "float32": F32,
    "float64": F64,
    "bool_": B1,
    **{f"int{bits}": SCALARS[f"i{bits}"] for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": SCALARS[f"u{bits}"] for bits in (8, 16, 32, 64)},
}


@dataclass(frozen=True, slots=True)
class Value:
    """A typed SSA reference or literal; `index` marks overflow-free address arithmetic."""

    ref: str
    type: Type
    index: bool = False


@dataclass(frozen=True, slots=True)
class LoweredFunction:
    """LLVM text of one function and everything the module must add for it."""

    name: str
    parameters: tuple[Type, ...]
    result: Scalar
    text: str
    declarations: tuple[str, ...]
    calls: tuple[str, ...]
    tables: tuple[str, ...]
    weight: int


class LoweringError(TracejitError, RuntimeError):
    """Kernel text outside the kernel language; the message names the line of the kernel source."""


def fail(node: ast.AST, message: str) -> NoReturn:
    """Raise a `LoweringError` that quotes the offending kernel line."""
    line = getattr(node, "lineno", 0)
    text = ast.unparse(node)
    raise LoweringError(
        f"kernel source line {line}: {message}\n    {text.splitlines()[0] if text else ''}"
    )


def parse_type(annotation: ast.expr | None, where: ast.AST) -> Type:
    """The type written by an annotation: a name (`f32`) or a string (`"f32*"`, `"padded f32*"`, `"streamed f32*"`)."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        name = annotation.value
    elif isinstance(annotation, ast.Name):
        name = annotation.id
    else:
        fail(where, "every parameter and the result need a type annotation")
    pointer = name.endswith("*")
    kind, _, element = name.removesuffix("*").rpartition(" ")
    scalar = SCALARS.get(element) if kind in ("", *_KINDS) and (pointer or not kind) else None
    if scalar is None:
        fail(
            where, f"unknown type {name!r}; the types are {', '.join(SCALARS)} and pointers to them"
        )
    return Pointer(scalar, kind) if pointer else scalar


def scalar_type(value: Value, node: ast.AST) -> Scalar:
    """The value's type, which must not be a pointer."""
    if isinstance(value.type, Pointer):
        fail(node, "a pointer can only be indexed")
    return value.type


def literal_number(node: ast.expr) -> int | float | None:
    """The number a literal spells (`0.5`, `-3`, `inf`, `-inf`, `nan`), or None for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        return node.value
    if isinstance(node, ast.Name) and node.id in ("inf", "nan"):
        return math.inf if node.id == "inf" else math.nan
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = literal_number(node.operand)
        return None if inner is None else -inner
    return None


def constant(number: int | float, scalar: Scalar, node: ast.AST) -> Value:
    """A literal of the given type; integers out of the type's range are an error."""
    if scalar.is_float:
        return Value(_float_literal(float(number), scalar), scalar)
    if scalar is B1:
        return Value("true" if number else "false", B1)
    if number != int(number):
        fail(node, f"{number} is not a value of {scalar.name}")
    low = -(1 << (scalar.bits - 1)) if scalar.is_signed else 0
    if not low <= number < low + (1 << scalar.bits):
        fail(node, f"{number} does not fit in {scalar.name}")
    return Value(str(int(number)), scalar)


def _float_literal(number: float, scalar: Scalar) -> str:
    if math.isnan(number):
        return "0x7FF8000000000000"
    if scalar is F32:
        try:
            number = struct.unpack("<f", struct.pack("<f", number))[0]
        except OverflowError:
            number = math.copysign(math.inf, number)
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
