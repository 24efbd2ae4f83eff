"""Device kernel text to LLVM text for NVIDIA GPUs: the host's lowering, and the names of `primitives`.

Statements, expressions and the functions of `scalar_math` are lowered by the very code that serves the CPU, so both
mean the same. What differs: a kernel is an entry point without a result, arrays of a block or a thread can be
declared, loops over literal ranges are marked to be unrolled, and an instruction that the device has in another
form takes that form.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tracejit.codegen.cuda.functions import source_of
from tracejit.codegen.cuda.primitives import (
    CONVERSIONS,
    CUDA_PRIMITIVES,
    EFFECTS,
    LOCAL,
    SHARED,
    WARP,
    cuda_truncate,
)
from tracejit.codegen.lower.function import FunctionLowering
from tracejit.codegen.lower.lower import kernel_definition, module_text
from tracejit.codegen.lower.module import Library
from tracejit.codegen.lower.types import (
    I32,
    LoweredFunction,
    Pointer,
    Scalar,
    Value,
    fail,
    literal_number,
)

__all__ = ["LARGEST_BLOCK", "cuda_llvm_ir"]

LARGEST_BLOCK = 1024
#: Rounds of a loop that go together, and the most that one may compute for that.
TOGETHER, SHORT_BODY = 4, 64
#: Instructions of the host that are none here, replaced by functions with the same result bit for bit.
_LACKING = ("ldexp.f32.i32", "ldexp.f64.i32")


class DeviceFunctionLowering(FunctionLowering):
    """Lowers a scalar function for the device."""

    primitives = CUDA_PRIMITIVES
    truncate = staticmethod(cuda_truncate)

    def lower(self, symbol: str, attributes: str, noalias: bool) -> LoweredFunction:
        """As the host's; conversions from floats are calls of intrinsics, which must be declared."""
        for declaration in CONVERSIONS:
            self.declare(declaration)
        return super().lower(symbol, attributes, noalias)


LIBRARY = Library(DeviceFunctionLowering, source_of)


class KernelLowering(DeviceFunctionLowering):
    """Lowers a kernel: a function with a block size, arrays, barriers and vector accesses."""

    def __init__(self, node: ast.FunctionDef) -> None:
        super().__init__(node, LIBRARY)
        self.block_threads = self.blocks_together = 0
        self.shared: list[str] = []

    def statement(self, node: ast.stmt) -> None:
        """Lower one statement."""
        match node:
            case ast.Expr(value=ast.Call(func=ast.Name(id="threads"), args=[size, *blocks])):
                self._threads(node, size, blocks)
            case ast.Expr(value=ast.Call(func=ast.Name(id=name)) as call) if name in EFFECTS:
                values = [self.expression(argument) for argument in call.args]
                EFFECTS[name](self, values, call)
            case ast.Assign(
                targets=[ast.Name(id=target)], value=ast.Call(func=ast.Name(id=name)) as call
            ) if name in SHARED or name in LOCAL:
                self._array(node, target, name, call)
            case _:
                super().statement(node)

    def _threads(self, node: ast.stmt, size: ast.expr, blocks: Sequence[ast.expr]) -> None:
        count = literal_number(size)
        if not isinstance(count, int) or count % WARP or not 0 < count <= LARGEST_BLOCK:
            fail(node, f"a block has a multiple of {WARP} threads, at most {LARGEST_BLOCK}")
        self.block_threads = count
        found = [literal_number(number) for number in blocks]
        if len(found) > 1 or not all(isinstance(n, int) and n > 0 for n in found):
            fail(node, "how many blocks a multiprocessor runs at a time is one literal number")
        self.blocks_together = int(found[0] or 0) if found else 0

    def _array(self, node: ast.Assign, target: str, name: str, call: ast.Call) -> None:
        size = literal_number(call.args[0]) if len(call.args) == 1 else None
        if not isinstance(size, int) or size < 1:
            fail(node, "the size of an array is a literal")
        if target in self.in_slots or target in self.values:
            fail(node, f"array {target!r} is assigned once")
        element: Scalar = SHARED[name] if name in SHARED else LOCAL[name]
        type_ = f"[{size} x {element.llvm}]"
        if name in LOCAL:
            ref = f"%{target}.local"
            self.slot_lines.append(f"  {ref} = alloca {type_}, align 16")
        else:
            symbol = f"@{self.node.name}_{target}"
            self.shared.append(f"{symbol} = internal addrspace(3) global {type_} poison, align 16")
            ref = self.emit(f"addrspacecast ptr addrspace(3) {symbol} to ptr")
        self.values[target] = Value(ref, Pointer(element))

    def _accumulated(self, node: ast.AugAssign, old: Value, value: Value, free: bool) -> Value:
        # The host re-associates sums to vectorise them. Here threads share the work, in the order the text says.
        return self.binary(node.op, old, value, node)

    def _loop_hints(
        self, node: ast.For, start: Value, stop: Value, weight: int, polynomials: int
    ) -> str:
        # Loops of literal length index arrays of the thread, which are registers once every index is known. Of others
        # several rounds go together where a round is short and the step is known, however dear it is to count them:
        # what they read is asked for before the first is needed. Long ones do not get better by being copied.
        literal = not start.ref.startswith("%") and not stop.ref.startswith("%")
        inner = [c for s in node.body for c in ast.walk(s) if isinstance(c, (ast.For, ast.While))]
        if not literal and self.weight - weight <= SHORT_BODY and _can_be_copied(node, inner):
            hint = f'"llvm.loop.unroll.count", i32 {TOGETHER}'
        elif literal or inner:
            hint = f'"llvm.loop.unroll.{"full" if literal else "disable"}"'
        else:
            return ""
        number = len(self.metadata)
        self.metadata.append(f"!{number} = distinct !{{!{number}, !{number + 1}}}")
        self.metadata.append(f"!{number + 1} = !{{!{hint}}}")
        return f", !llvm.loop !{number}"


def _can_be_copied(node: ast.For, inner: Sequence[ast.AST]) -> bool:
    """Has a loop a literal step, and no loops inside but such that are over before it is copied?"""
    assert isinstance(node.iter, ast.Call)
    steps = len(node.iter.args) < 3 or isinstance(literal_number(node.iter.args[2]), int)
    return steps and all(_is_unrolled(loop) for loop in inner)


def _is_unrolled(loop: ast.AST) -> bool:
    """Is this a loop of literal length without another inside?"""
    match loop:
        case ast.For(iter=ast.Call(args=[length]), body=body):
            nested = [c for s in body for c in ast.walk(s) if isinstance(c, (ast.For, ast.While))]
            return isinstance(literal_number(length), int) and not nested
    return False


def cuda_llvm_ir(source: str, entry: str) -> str:
    """The LLVM module text of device kernel `entry` in `source`, for any NVIDIA GPU.

    Raises `LoweringError`, naming the line of `source`, for text outside the kernel language.

    >>> text = cuda_llvm_ir('''
    ... def fill(out: "f32*", n: "i64") -> "i32":
    ...     threads(128)
    ...     for i in range(block() * 128 + thread(), n, blocks() * 128):
    ...         out[i] = float32(1.5)
    ...     return 0
    ... ''', "fill")
    >>> "define ptx_kernel void @fill(ptr noalias %out, i64 %n)" in text
    True
    """
    node = kernel_definition(source, entry)
    lowering = KernelLowering(node)
    body = lowering.lower(f"{entry}.body", "alwaysinline nounwind", noalias=True)
    if body.result is not I32:
        fail(node, 'a kernel returns "i32"')
    if not lowering.block_threads:
        fail(node, "a device kernel says how many threads a block has: threads(256)")
    text = module_text(node, body, LIBRARY, _LACKING, _entry(node, body, lowering))
    return "\n".join([*lowering.shared, text])


def _entry(node: ast.FunctionDef, body: LoweredFunction, lowering: KernelLowering) -> str:
    names = [argument.arg for argument in node.args.args]
    typed = list(zip(names, body.parameters, strict=True))
    parameters = ", ".join(
        f"{type_.llvm}{' noalias' if isinstance(type_, Pointer) else ''} %{name}"
        for name, type_ in typed
    )
    operands = ", ".join(f"{type_.llvm} %{name}" for name, type_ in typed)
    blocks = lowering.blocks_together
    together = f', !"minctasm", i32 {blocks}' if blocks else ""
    return "\n".join(
        [
            f"define ptx_kernel void @{node.name}({parameters}) nounwind {{",
            f"  %code = call i32 @{node.name}.body({operands})",
            "  ret void",
            "}",
            "!nvvm.annotations = !{!1000000}",
            f'!1000000 = !{{ptr @{node.name}, !"reqntidx", i32 {lowering.block_threads}{together}}}\n',
        ]
    )
