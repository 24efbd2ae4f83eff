"""What device kernels may say beyond the kernel language: the one list of these names, with their LLVM meaning.

===============================  =======================================================================================
``threads(256)``                 the number of threads of a block, a literal; the first statement of every kernel. A
                                 second literal is how many blocks a multiprocessor shall run at a time: it bounds
                                 the registers of a thread
``thread()``, ``block()``        which thread of its block and which block of the grid this is, as i64
``blocks()``                     how many blocks the grid has, as i64
``barrier()``                    every thread of the block arrives before one goes on; memory is seen by all of them
``shuffle_xor(value, lanes)``    the value that the thread with index ``thread() ^ lanes`` of the same warp passes
``x = shared_f32(8)``            memory of the block, also for every other scalar type but ``b1``; the size is a literal
``x = local_f32(4)``             memory of the thread: registers, as long as only loops of literal length index it
``load4(x, i, part, j)``         ``part[j : j + 4] = x[i : i + 4]`` in 16-byte accesses, or one access of 4 or 8 bytes
``store4(x, i, part, j)``        ``x[i : i + 4] = part[j : j + 4]``, likewise
===============================  =======================================================================================

``load4`` and ``store4`` need an address that is a multiple of the access (`vector_alignment`). A loop over a
literal range is unrolled. All threads of a block reach the same barriers, all threads of a warp the same shuffles.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Protocol

from tracejit.codegen.lower.primitives import PRIMITIVES, Emitter, Primitive, expect
from tracejit.codegen.lower.types import B1, I64, SCALARS, Pointer, Scalar, Value, fail

#: Threads that run in lock step.
WARP = 32
#: Elements of a vector access, and the widest access in bytes.
WIDTH, WIDEST = 4, 16

_POSITIONS = {"thread": "tid.x", "block": "ctaid.x", "blocks": "nctaid.x"}
SHARED = {f"shared_{name}": scalar for name, scalar in SCALARS.items() if scalar is not B1}
LOCAL = {f"local_{name}": scalar for name, scalar in SCALARS.items() if scalar is not B1}


class Statements(Protocol):
    """What a primitive without a result needs of the function being lowered."""

    lines: list[str]

    def emit(self, instruction: str) -> str:
        """Append an instruction and return the name of its result."""

    def declare(self, declaration: str) -> None:
        """Note an external declaration."""


Effect = Callable[[Statements, Sequence[Value], ast.AST], None]


def vector_alignment(itemsize: int) -> int:
    """What the address of a vector access of elements of `itemsize` bytes must be a multiple of.

    >>> [vector_alignment(size) for size in (1, 2, 4, 8)]
    [4, 8, 16, 16]
    """
    return min(WIDTH * itemsize, WIDEST)


def _position(name: str) -> Primitive:
    symbol = f"@llvm.nvvm.read.ptx.sreg.{_POSITIONS[name]}"

    def emit(out: Emitter, values: Sequence[Value], node: ast.AST) -> Value:
        expect(node, name, values, [])
        out.declare(f"declare i32 {symbol}()")
        narrow = out.emit(f"call i32 {symbol}()")
        return Value(out.emit(f"zext i32 {narrow} to i64"), I64, index=True)

    return emit


def _shuffle_xor(out: Emitter, values: Sequence[Value], node: ast.AST) -> Value:
    if len(values) != 2 or isinstance(values[0].type, Pointer) or values[1].type is not I64:
        fail(node, "shuffle_xor takes (T, i64)")
    scalar = values[0].type
    lanes = out.emit(f"trunc i64 {values[1].ref} to i32")
    words = [_exchange(out, word, lanes) for word in _words(out, values[0].ref, scalar)]
    return Value(_from_words(out, words, scalar), scalar)


def _exchange(out: Emitter, word: str, lanes: str) -> str:
    out.declare("declare i32 @llvm.nvvm.shfl.sync.bfly.i32(i32, i32, i32, i32)")
    operands = f"i32 -1, i32 {word}, i32 {lanes}, i32 {WARP - 1}"
    return out.emit(f"call i32 @llvm.nvvm.shfl.sync.bfly.i32({operands})")


def _words(out: Emitter, ref: str, scalar: Scalar) -> list[str]:
    """A scalar as one or two words of 32 bits."""
    bits = f"i{scalar.bits}"
    if scalar.is_float:
        ref = out.emit(f"bitcast {scalar.llvm} {ref} to {bits}")
    if scalar.bits < 32:
        return [out.emit(f"zext {bits} {ref} to i32")]
    if scalar.bits == 32:
        return [ref]
    upper = out.emit(f"lshr i64 {ref}, 32")
    return [out.emit(f"trunc i64 {word} to i32") for word in (ref, upper)]


def _from_words(out: Emitter, words: Sequence[str], scalar: Scalar) -> str:
    bits = f"i{scalar.bits}"
    ref = words[0]
    if scalar.bits < 32:
        return out.emit(f"trunc i32 {ref} to {bits}")
    if scalar.bits == 64:
        low, high = (out.emit(f"zext i32 {word} to i64") for word in words)
        shifted = out.emit(f"shl i64 {high}, 32")
        ref = out.emit(f"or i64 {shifted}, {low}")
    return out.emit(f"bitcast {bits} {ref} to {scalar.llvm}") if scalar.is_float else ref


def _barrier(out: Statements, values: Sequence[Value], node: ast.AST) -> None:
    expect(node, "barrier", values, [])
    out.declare("declare void @llvm.nvvm.barrier0()")
    out.lines.append("  call void @llvm.nvvm.barrier0()")


def _vector(name: str, load: bool) -> Effect:
    def emit(out: Statements, values: Sequence[Value], node: ast.AST) -> None:
        if len(values) != 4 or not isinstance(values[0].type, Pointer):
            fail(node, f"{name} takes (T*, i64, T*, i64)")
        expect(node, name, values, [values[0].type, I64, values[0].type, I64])
        element = values[0].type.element
        places = [_place(out, values[0], values[1]), _place(out, values[2], values[3])]
        source, target = places if load else reversed(places)
        size = element.bits // 8
        alignment = vector_alignment(size)
        count = alignment // size
        for start in range(0, WIDTH, count):
            step = f"getelementptr inbounds {element.llvm}, ptr"
            at = out.emit(f"{step} {source}, i64 {start}")
            to = out.emit(f"{step} {target}, i64 {start}")
            type_ = f"<{count} x {element.llvm}>"
            part = out.emit(f"load {type_}, ptr {at}, align {alignment}")
            out.lines.append(f"  store {type_} {part}, ptr {to}, align {alignment}")

    return emit


def _place(out: Statements, pointer: Value, index: Value) -> str:
    assert isinstance(pointer.type, Pointer)
    llvm = pointer.type.element.llvm
    return out.emit(f"getelementptr inbounds {llvm}, ptr {pointer.ref}, i64 {index.ref}")


def cuda_truncate(emit: Callable[[str], str], ref: str, source: Scalar, target: Scalar) -> str:
    """A float as i32 or i64 with the kernel language's meaning: what does not fit is the smallest integer.

    The instruction saturates and gives zero for nan, so only what is not below the upper limit differs.
    """
    name = {
        ("f32", "i32"): "f2i",
        ("f32", "i64"): "f2ll",
        ("f64", "i32"): "d2i",
        ("f64", "i64"): "d2ll",
    }[source.name, target.name]
    whole = emit(f"call {target.llvm} @llvm.nvvm.{name}.rz({source.llvm} {ref})")
    limit = "0x41E0000000000000" if target.bits == 32 else "0x43E0000000000000"
    fits = emit(f"fcmp olt {source.llvm} {ref}, {limit}")
    smallest = -(1 << (target.bits - 1))
    return emit(f"select i1 {fits}, {target.llvm} {whole}, {target.llvm} {smallest}")


CONVERSIONS = (
    "declare i32 @llvm.nvvm.f2i.rz(float)",
    "declare i64 @llvm.nvvm.f2ll.rz(float)",
    "declare i32 @llvm.nvvm.d2i.rz(double)",
    "declare i64 @llvm.nvvm.d2ll.rz(double)",
)

#: Calls with a result. Remainders of floats are functions here (see `functions`).
CUDA_PRIMITIVES: dict[str, Primitive] = {
    **{name: emit for name, emit in PRIMITIVES.items() if not name.startswith("c_fmod_")},
    **{name: _position(name) for name in _POSITIONS},
    "shuffle_xor": _shuffle_xor,
}
#: Calls that are statements.
EFFECTS: dict[str, Effect] = {
    "barrier": _barrier,
    "load4": _vector("load4", load=True),
    "store4": _vector("store4", load=False),
}
