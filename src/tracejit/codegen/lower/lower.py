"""Kernel source text to an LLVM module: the fast road from the readable kernel to machine code.

Numba's front end needs 110-170 ms for a kernel; the kernel language is small enough to be typed and printed as LLVM
text in about a millisecond. The module holds the kernel's body, the `scalar_math` functions it uses (`alwaysinline`),
and one exported function with the entry ABI `i32 NAME(i64* args, i64 lo, i64 hi, i64 worker)`, which unpacks the
argument block.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tracejit.codegen.lower.expr import POLYNOMIAL
from tracejit.codegen.lower.function import FunctionLowering, Widening
from tracejit.codegen.lower.instructions import NotWidened
from tracejit.codegen.lower.module import LIBRARY, Library
from tracejit.codegen.lower.primitives import SUBSTITUTES
from tracejit.codegen.lower.row_folds import NotTogether
from tracejit.codegen.lower.types import (
    I32,
    I64,
    LoweredFunction,
    LoweringError,
    Pointer,
    Type,
    fail,
)
from tracejit.generated import parse
from tracejit.scalar_math import library as scalar_math

__all__ = ["LoweredKernel", "LoweringError", "lower", "lower_kernel"]

_RANGE = ("lo", "hi", "worker")

# Instructions of a kernel whose constants fit in registers.
_SHORT = 120
# Lines of a module on which LLVM works for more than a few milliseconds.
_LONG = 400


@dataclass(frozen=True, slots=True)
class LoweredKernel:
    """LLVM module text; is the kernel short and evaluates elementary functions; are its loops vector code already."""

    text: str
    short_mathematics: bool
    widened: bool

    @property
    def is_long(self) -> bool:
        """Is it so long that first calls are not to wait for all that makes code better?"""
        return self.text.count("\n") >= _LONG


def lower(
    source: str,
    entry: str,
    *,
    noalias: bool = True,
    vector_bits: int = 0,
    lacking: Iterable[str] = (),
) -> str:
    """The LLVM module text of kernel `entry` in `source`.

    `noalias` promises LLVM that no two pointer parameters overlap. `vector_bits` (0 for LLVM's own choice) is the
    preferred vector width; it is a function attribute, so other LLVM users in the process are not touched. `lacking`
    names the entries of `SUBSTITUTES` that are no instructions of the target, and are replaced. Raises
    `LoweringError`, naming the line of `source`, for text outside the kernel language.

    >>> text = lower('''
    ... def fill(out: "f32*", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    ...     for i in range(lo, hi):
    ...         out[i] = float32(1.5)
    ...     return 0
    ... ''', "fill")
    >>> "define i32 @fill(ptr %args, i64 %lo, i64 %hi, i64 %worker)" in text
    True
    """
    return lower_kernel(
        source, entry, noalias=noalias, vector_bits=vector_bits, lacking=lacking
    ).text


def lower_kernel(
    source: str,
    entry: str,
    *,
    noalias: bool,
    vector_bits: int,
    lacking: Iterable[str],
    widen: int = 0,
) -> LoweredKernel:
    """As `lower`, with what the text alone does not tell.

    `widen` (0 for none) is the width of the vectors that innermost loops are printed for, if all of them can be.

    >>> kernel = lower_kernel('''
    ... def exponential(x: "f32*", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    ...     for i in range(lo, hi):
    ...         x[i] = exp_f32(x[i])
    ...     return 0
    ... ''', "exponential", noalias=True, vector_bits=0, lacking=())
    >>> kernel.short_mathematics
    True
    """
    node = kernel_definition(source, entry)
    width = f'"prefer-vector-width"="{vector_bits}" ' if vector_bits else ""
    attributes, lacking = f"noinline nounwind {width}", tuple(lacking)
    body = None
    if noalias and widen:
        body = _vector_code(node, f"{entry}.body", attributes, (widen, lacking), vector_bits)
    is_widened = body is not None
    body = body or FunctionLowering(node, LIBRARY).lower(f"{entry}.body", attributes, noalias)
    _check_signature(node, body)
    heaviest = max(
        (function.weight for function in LIBRARY.closure(body.calls).values()), default=0
    )
    names = [argument.arg for argument in node.args.args]
    text = module_text(node, body, LIBRARY, lacking, _entry(node.name, names, body.parameters))
    return LoweredKernel(text, heaviest >= POLYNOMIAL and body.weight <= _SHORT, is_widened)


def _vector_code(
    node: ast.FunctionDef, name: str, attributes: str, widening: Widening, vector_bits: int
) -> LoweredFunction | None:
    """A kernel all of whose innermost loops are vector code; None where they are not all of that kind."""
    apart = set[ast.For]()
    while True:
        lowering = FunctionLowering(node, LIBRARY, widening, apart)
        lowering.scales = vector_bits == 512 and "ldexp.f32.i32" not in widening[1]
        try:
            return lowering.lower(name, attributes, noalias=True)
        except NotTogether as error:
            apart.add(error.loop)
        except NotWidened:
            return None


def module_text(
    node: ast.FunctionDef,
    body: LoweredFunction,
    library: Library,
    lacking: Iterable[str],
    entry: str,
) -> str:
    """A module of `body`, all it calls from `library`, and the text of the exported `entry`.

    `lacking` names the entries of `SUBSTITUTES` that are no instructions of the target, and are replaced.
    """
    functions = library.closure(body.calls)
    replaced = _replacements(node, [body, *functions.values()], library, lacking)
    functions = functions | library.closure(replaced.values())
    parts = [body, *functions.values()]
    # Vector code has the instructions of what it calls in it, which may need the same declarations and tables.
    called = library.closure(name for name in body.calls if f"@tj.{name}(" in body.text)
    called = called | library.closure(replaced.values())
    declarations = dict.fromkeys(line for part in parts for line in part.declarations)
    tables = dict.fromkeys(name for part in parts for name in part.tables)
    text = "\n".join(
        [
            *(line for line in declarations if not any(f"@{r}(" in line for r in replaced)),
            *(_table(name, scalar_math.TABLES[name]) for name in tables),
            *(function.text for function in called.values()),
            body.text,
            entry,
        ]
    )
    for intrinsic, function in replaced.items():
        text = text.replace(f"@{intrinsic}(", f"@tj.{function}(")
    return text


def _replacements(
    node: ast.AST, parts: Iterable[LoweredFunction], library: Library, lacking: Iterable[str]
) -> dict[str, str]:
    """The intrinsics that `parts` use and the target lacks, with the functions to call for them."""
    declared = "\n".join(line for part in parts for line in part.declarations)
    found = {f"llvm.{name}": SUBSTITUTES[name] for name in lacking}
    found = {name: function for name, function in found.items() if f"@{name}(" in declared}
    for function in found.values():
        library.function(function, node)
    return found


def kernel_definition(source: str, entry: str) -> ast.FunctionDef:
    """The definition of `entry` in `source`."""
    try:
        module = parse(source)
    except SyntaxError as error:
        raise LoweringError(f"kernel source line {error.lineno}: {error.msg}") from error
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and node.name == entry:
            return node
    raise LoweringError(f"the kernel source defines no function {entry!r}")


def _check_signature(node: ast.FunctionDef, body: LoweredFunction) -> None:
    names = tuple(argument.arg for argument in node.args.args[-3:])
    if names != _RANGE or body.parameters[-3:] != (I64, I64, I64):
        fail(node, 'a kernel ends with parameters lo: "i64", hi: "i64", worker: "i64"')
    if body.result is not I32:
        fail(node, 'a kernel returns "i32"')


def _table(name: str, words: Iterable[int]) -> str:
    values = [f"i64 {word - (1 << 64) if word >= 1 << 63 else word}" for word in words]
    return f"@{name} = internal constant [{len(values)} x i64] [{', '.join(values)}], align 64"


def _entry(entry: str, names: Sequence[str], types: Sequence[Type]) -> str:
    lines, operands = [], []
    for position, (name, type_) in enumerate(zip(names[:-3], types[:-3], strict=True)):
        lines.append(f"  %{name}.at = getelementptr inbounds i64, ptr %args, i64 {position}")
        lines.extend(_unpack(name, type_))
        operands.append(f"{type_.llvm} %{name}")
    operands += [f"i64 %{name}" for name in _RANGE]
    return "\n".join(
        [
            f"define i32 @{entry}(ptr %args, i64 %lo, i64 %hi, i64 %worker) nounwind {{",
            *lines,
            f"  %code = tail call i32 @{entry}.body({', '.join(operands)})",
            "  ret i32 %code",
            "}\n",
        ]
    )


def _unpack(name: str, type_: Type) -> list[str]:
    """Instructions that read one argument word; scalars sit in the low bits of the word."""
    if isinstance(type_, Pointer) or type_.llvm in ("i64", "double"):
        return [f"  %{name} = load {type_.llvm}, ptr %{name}.at"]
    word = f"  %{name}.word = load i64, ptr %{name}.at"
    integer = f"i{type_.bits}"
    if type_.is_float:
        bits = f"  %{name}.bits = trunc i64 %{name}.word to {integer}"
        return [word, bits, f"  %{name} = bitcast {integer} %{name}.bits to {type_.llvm}"]
    return [word, f"  %{name} = trunc i64 %{name}.word to {integer}"]
