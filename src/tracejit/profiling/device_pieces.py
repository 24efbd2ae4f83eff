"""What the rows of a device program's table are, with the work each does, and how long the device takes for them.

The forms of one step, of which one launches itself, are one piece. Times are those between two events in the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..codegen.kernel import Pointer
from ..ir.graph import Value
from ..passes.fusion.groups import root
from ..runtime.cuda.waiting import is_read
from ..runtime.launcher import Loop, Step, rows
from ..runtime.plan.records import HostCall
from ..runtime.program import Program
from .operations import operations_of
from .pieces import Piece, Work

#: cuBLAS's number for float64 elements (see `runtime.cuda.gemm`).
_DOUBLE = 1


def device_pieces(program: Program) -> list[Piece]:
    """The kernels, products and loops of a program on a device, in order of their rows.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     f = tj.compile(lambda x: (x * 2).exp())
    ...     x = tj.ones(8, device="cuda")
    ...     _ = f(x), f(x)
    ...     assert [k.kind for k in f.profile(x).kernels] == ["device kernel"]
    """
    launches = _launches(program)
    found: list[Piece] = []
    row, last = 0, None
    for item in program.plan.items:
        if isinstance(item, HostCall):
            last = None
            continue
        steps = (*item.steps, *item.after) if isinstance(item, Loop) else (item,)
        works = _works(steps, launches, program)
        key = works[0][0] if not isinstance(item, Loop) else None
        if key is not None and key == last:  # another form of the step before
            before = found.pop()
            found.append(_moved(before, row + 1))
        else:
            found.append(_piece(item, row, [work for _, work in works], program))
        row, last = row + rows(item), key
    return found


def _moved(piece: Piece, last: int) -> Piece:
    return replace(piece, last=last)


def _piece(item: Step | Loop, row: int, works: Sequence[Work], program: Program) -> Piece:
    """A step, or all rounds of a loop."""
    is_loop = isinstance(item, Loop)
    rounds = 1  # of an open loop too: nobody knows how many there are
    if isinstance(item, Loop) and item.until is None:
        rounds = int(program.bound([item.count[1]])[0])
    numbers = [work.numbers(program.bound) for work in works]
    names = list(dict.fromkeys(work.name for work in works))
    return Piece(
        row,
        row + rows(item),
        f"loop({', '.join(names[:3])})" if is_loop else names[0],
        "device loop" if is_loop else works[0].kind,
        rounds * sum(moved for moved, _ in numbers),
        rounds * sum(flops for _, flops in numbers),
        1,
        rounds * len(works),
        any(work.double for work in works),
    )


def _launches(program: Program) -> Iterator[tuple[Any, int]]:
    """The kernel and the number of its step for every launch, in the order of the table."""
    return iter(
        [
            (kernel, number)
            for kernel in program.plan.kernels
            for number, step in enumerate(kernel.code.steps)  # type: ignore[attr-defined]
            for _ in step
        ]
    )


def _works(
    steps: Sequence[Step], launches: Iterator[tuple[Any, int]], program: Program
) -> list[tuple[Any, Work]]:
    """What each step does; forms of one step have one key, and only the first of them has work."""
    found: list[tuple[Any, Work]] = []
    for step in steps:
        if is_read(step):
            continue
        if step.args[0][0] >= 0:  # cuBLAS's handle
            found.append((None, _product(step, program)))
            continue
        kernel, number = next(launches)
        key = (id(kernel), number)
        again = bool(found) and found[-1][0] == key
        found.append((key, _work(kernel, number, again)))
    return found


def _work(kernel: Any, number: int, again: bool) -> Work:
    code = kernel.code
    name = code.steps[number][0].name
    if number or again:  # it combines what was left, or is another form
        return Work(name, "device kernel", (), (), (), False)
    reads: dict[Value, Any] = {}
    for value in _read_by(code):
        reads[root(value)] = reads.get(root(value), 0) + value.spec.nbytes
    return Work(
        name,
        "device kernel",
        tuple((seen, value.spec.nbytes) for value, seen in reads.items()),
        tuple(v.spec.nbytes for v in code.outputs),
        tuple(map(operations_of, code.group.values)) if code.group is not None else (),
        any(v.spec.dtype.short == "f64" for v in (*reads, *code.outputs)),
    )


def _read_by(code: Any) -> list[Value]:
    """The values a kernel reads."""
    if code.group is not None:
        return list(code.group.externals)
    given = [p for launch in code.launches for p in launch.parameters if isinstance(p, Pointer)]
    return list(dict.fromkeys(p.value for p in given if not p.written))


def _product(step: Step, program: Program) -> Work:
    """From the words of a product: n, m, k, the count of the batch, and the type of elements."""
    words = [word for _, word in step.args]
    n, m, k, count, kind = program.bound([*words[4:7], words[16], words[17]])
    size = 8 if kind == _DOUBLE else 4 if kind == 0 else 2
    reads = ((size * count * m * k,) * 2, (size * count * k * n,) * 2)
    written = (size * count * m * n,)
    return Work(
        "matmul", "device product", reads, written, (2 * count * m * n * k,), kind == _DOUBLE
    )


def timed(
    pieces: Sequence[tuple[Piece, Any]],
    run: Callable[[Piece], int],
    note: Callable[[Any, int], None],
) -> int:
    """Queue pieces one after the other with an event between, wait, and ``note`` the nanoseconds of each.

    The result is the code of the first piece that could not be queued, else 0. Raises `DeviceError` without a GPU.

    >>> import tracejit as tj
    >>> tj.cuda.is_available() or timed([], lambda piece: 0, print)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    tracejit.errors.NoDeviceError: ...
    """
    from ..cuda.streams import Event

    marks = [Event(enable_timing=True)]
    marks[0].record()
    for piece, _ in pieces:
        code = run(piece)
        if code:
            return code
        marks.append(Event(enable_timing=True))
        marks[-1].record()
    marks[-1].synchronize()
    for (_, total), start, end in zip(pieces, marks, marks[1:], strict=False):
        note(total, round(1e6 * start.elapsed_time(end)))
    return 0
