"""What the rows of a program's table are: kernels, matrix products and loops, with the work each does.

Bytes are the least that must move: every array that is read once, every array that is written once (of an array read
through several views no more than the whole). Operations are those on floats (`operations`), and two for each term of a
matrix product.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..codegen.kernel import Pointer
from ..ir.graph import Value
from ..passes.fusion.groups import root
from ..runtime.blas import is_gemm
from ..runtime.launcher import Loop, Step, rows
from ..runtime.machine_code.kernels import Kernel, original
from ..runtime.native.launcher_ir import HEADER_WORDS, STEP_WORDS
from ..runtime.plan.records import HostCall, NamedStep
from ..runtime.program import Program
from ..runtime.taps import TapStep
from ..runtime.threads import get_num_threads
from ..runtime.tiled.tiled_loops import TiledLoop
from ..runtime.tiled.tiles import TileStep
from .operations import operations_of


@dataclass(frozen=True)
class Piece:
    """Rows ``first`` to ``last - 1`` of a table; numbers are those of one run."""

    first: int
    last: int
    name: str
    kind: str
    bytes: float
    flops: float
    threads: int
    launches: int
    double: bool = False


@dataclass(frozen=True)
class Work:
    """What a step reads (by array: bytes through views, bytes of the whole), writes and computes.

    Sizes may be symbolic.
    """

    name: str
    kind: str
    reads: tuple[tuple[Any, Any], ...]
    written: tuple[Any, ...]
    operations: tuple[Any, ...]
    double: bool

    def numbers(self, bound: Any) -> tuple[float, float]:
        """Bytes and operations for the sizes of a program."""
        reads, written, operations = bound([self.reads, self.written, self.operations])
        moved = sum(min(seen, whole) for seen, whole in reads) + sum(written)
        return float(moved), float(sum(operations))


def pieces_of(program: Program) -> list[Piece]:
    """The kernels, products and loops of a program, in order of their rows."""
    plan = program.plan
    kernels = _functions(plan.kernels)
    found, row = [], 0
    for item in plan.items:
        if isinstance(item, HostCall):
            continue
        steps = item.steps if isinstance(item, Loop) else (item,)
        inner = item.body if isinstance(item, TiledLoop) else steps
        works = [_work(step, kernels, program) for step in inner]
        first_step = row + (1 if isinstance(item, Loop) else 0)
        threads = max((_threads(program, first_step + i) for i in range(len(steps))), default=1)
        rounds = 1  # of an open loop too: nobody knows how many there are
        if isinstance(item, TiledLoop):
            rounds = int(program.bound([item.rounds])[0])
        elif isinstance(item, Loop) and item.until is None:
            rounds = int(program.bound([item.count[1]])[0])
        totals = [work.numbers(program.bound) for work in works]
        found.append(
            Piece(
                row,
                row + rows(item),
                _loop_name(works) if isinstance(item, (Loop, TiledLoop)) else works[0].name,
                "loop" if isinstance(item, (Loop, TiledLoop)) else works[0].kind,
                rounds * sum(moved for moved, _ in totals),
                rounds * sum(flops for _, flops in totals),
                threads,
                len(steps) if isinstance(item, TiledLoop) else rounds * len(steps),
                any(work.double for work in works),
            )
        )
        row += rows(item)
    return found


def _loop_name(works: list[Work]) -> str:
    names = list(dict.fromkeys(work.name for work in works))
    shown = names if len(names) <= 3 else [*names[:2], f"{len(names) - 2} more"]
    return f"loop({', '.join(shown)})"


#: Dtypes of the operands of products.
_PRODUCTS = ("f32", "f64", "bf16")


def _functions(kernels: tuple[Kernel, ...]) -> Iterator[tuple[int, Kernel, int]]:
    """Addresses in the order of the steps that call them, with the kernel and which of its functions it is."""
    return iter([(a, kernel, i) for kernel in kernels for i, a in enumerate(kernel.addresses)])


def _work(step: Step, kernels: Iterator[tuple[int, Kernel, int]], program: Program) -> Work:
    if isinstance(step, TileStep):
        return _together(step, [_work(part, kernels, program) for part in step.parts])
    if any(is_gemm(step.fn_address, dtype) for dtype in _PRODUCTS):
        return _product(step, program)
    if isinstance(step, TapStep):
        own = _taps(step)
        joined = step.joined and _work(step.joined, kernels, program)
        return _joined(own, joined, step) if joined else own
    if isinstance(step, NamedStep):
        read, written = step.moved
        return Work(step.name, "kernel", ((read, read),), (written,), (), False)
    address = original(program.bound([step.fn_address])[0])
    found = next((k for k in kernels if k[0] == address), None)
    if found is None:
        return Work("native step", "kernel", (), (), (), False)
    _, kernel, number = found
    if number:  # it combines what the first function left
        return Work(kernel.code.functions[number].name, "kernel", (), (), (), False)
    reads: dict[Value, Any] = {}
    for value in _read_by(kernel):
        reads[root(value)] = reads.get(root(value), 0) + value.spec.nbytes
    outputs, group = kernel.code.outputs, kernel.code.group
    return Work(
        kernel.name,
        "kernel",
        tuple((seen, value.spec.nbytes) for value, seen in reads.items()),
        tuple(v.spec.nbytes for v in outputs),
        tuple(operations_of(v) for v in group.values) if group is not None else (),
        any(v.spec.dtype.short == "f64" for v in (*reads, *outputs)),
    )


def _together(step: TileStep, works: list[Work]) -> Work:
    """The work of steps that run on one tile after the other."""
    reads = tuple(read for work in works for read in work.reads)
    written = tuple(nbytes for work in works for nbytes in work.written)
    operations = tuple(count for work in works for count in work.operations)
    name = f"tiles({', '.join(dict.fromkeys(work.name for work in works))})"
    double = any(work.double for work in works)
    return Work(name, "tiles", reads, (*written, -step.spared), operations, double)


def _read_by(kernel: Kernel) -> list[Value]:
    """The values a kernel reads; of one that is no group of operations, those whose memory it is given."""
    if kernel.code.group is not None:
        return list(kernel.code.group.externals)
    given = [p for f in kernel.code.functions for p in f.parameters if isinstance(p, Pointer)]
    return list(dict.fromkeys(p.value for p in given if not p.written))


def _product(step: Step, program: Program) -> Work:
    """From the arguments of a matrix product: function, a, b, c, m, n, k, three strides, transpositions, columns."""
    words = [word for _, word in step.args]
    m, n, k, columns, extent = program.bound([*words[4:7], words[12], step.extent[1]])
    double = is_gemm(step.fn_address, "f64")
    size = 8 if double else 4
    given = 2 if is_gemm(step.fn_address, "bf16") else size
    other = m if columns else n  # the side of the result that is not divided
    batch = 1 if columns else extent // max(m, 1)
    reads = ((given * extent * k,) * 2, (given * batch * other * k,) * 2)
    return Work(
        "matmul", "product", reads, (size * extent * other,), (2 * extent * other * k,), double
    )


def _taps(step: TapStep) -> Work:
    """What a convolution over flat memory says of itself."""
    *read, written = step.moved
    reads = tuple((nbytes, nbytes) for nbytes in read)
    operations = (2 * math.prod(step.work),)
    return Work(step.name, "product", reads, (written,), operations, step.dtype == "f64")


def _joined(own: Work, kernel: Work, step: TapStep) -> Work:
    """The work of a convolution and of a kernel that runs on what it has just computed."""
    return Work(
        f"{own.name} {kernel.name}",
        own.kind,
        (*own.reads, *kernel.reads),
        (*own.written, *kernel.written, -2 * step.moved[2]),
        (*own.operations, *kernel.operations),
        own.double,
    )


def _threads(program: Program, row: int) -> int:
    """How many threads a step can use."""
    words = program.table.address.words
    start = HEADER_WORDS + STEP_WORDS * row
    extent, grain = int(words[start + 4]), int(words[start + 5])
    return 1 if extent <= grain else max(1, min(get_num_threads(), -(-extent // grain)))
