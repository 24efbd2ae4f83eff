"""Executing the text of device kernels in Python: threads are generators that run in lock step.

A kernel is ordinary Python, but for the names of `codegen.cuda.primitives`. Barriers and shuffles become ``yield``,
so a block is a list of generators and a warp a slice of it. What a GPU would fault on, hang on or leave undefined
is an error that names the line: accesses out of bounds or misaligned, reads of what nobody wrote, values of another
type than the memory they go to, races between threads, barriers that not every thread reaches, shuffles without a
whole warp. The order in which warps run can be changed; results must not change with it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Sequence
from functools import cache
from typing import Any

import numpy as np
from simulator_memory import (
    Local,
    Memory,
    Pointer,
    Shared,
    SharedPointer,
    SimulatorError,
    load4,
    store4,
)
from simulator_scalars import PRIMITIVES, REDUCTIONS, Names

WARP = 32
TYPES = {
    "f32": np.float32,
    "f64": np.float64,
    **{
        f"{k}{b}": np.dtype(f"{n}{b}").type
        for k, n in (("i", "int"), ("u", "uint"))
        for b in (8, 16, 32, 64)
    },
}
NAMES = Names(PRIMITIVES)
NAMES |= {"load4": load4, "store4": store4, "__builtins__": {"range": range}}
NAMES |= {f"_reduce_{n}": function for n, function in REDUCTIONS.items()}
Order = Callable[[int], Sequence[int]]
Event = tuple[Any, ...]


class _Rewrite(ast.NodeTransformer):
    """Device names to what the generator of one thread can run."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in ("thread", "block", "blocks"):
            return ast.copy_location(ast.Name(f"_{name}", ast.Load()), node)
        if name in ("barrier", "shuffle_xor"):
            event = [ast.Constant(name), ast.Constant(node.lineno), *node.args]
            return ast.copy_location(ast.Yield(ast.Tuple(event, ast.Load())), node)
        if name == "threads" or name.startswith(("shared_", "local_")):
            kind, _, element = name.partition("_")
            arguments = [ast.Constant(element)] if element else []
            method = ast.Attribute(ast.Name("_hands", ast.Load()), kind, ast.Load())
            return ast.copy_location(ast.Call(method, [*arguments, *node.args], []), node)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Assign(
                targets=[ast.Name(id=target)],
                value=ast.Call(func=ast.Name() as function, args=[ast.Name(id=first), _]),
            ) if function.id in REDUCTIONS and first == target:
                function.id = f"_reduce_{function.id}"
            case ast.Assign(
                targets=[ast.Name(id=target)],
                value=ast.Call(func=ast.Attribute(attr="shared")) as call,
            ):
                call.args.append(ast.Constant(target))
        return node


@cache
def compile_kernel(source: str, name: str) -> Callable[..., Generator[Event, Any, int]]:
    """The generator function of one thread: ``(hands, thread, block, blocks, *parameters)``."""
    tree = ast.parse(source)
    (definition,) = (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name)
    _Rewrite().visit(definition)
    hidden = [ast.arg(n) for n in ("_hands", "_thread", "_block", "_blocks")]
    definition.args.args = [*hidden, *(ast.arg(a.arg) for a in definition.args.args)]
    definition.returns = None
    definition.body.insert(0, ast.parse("if False:\n    yield").body[0])
    exec(compile(ast.fix_missing_locations(tree), f"<device kernel {name}>", "exec"), NAMES)
    function: Callable[..., Generator[Event, Any, int]] = NAMES.pop(name)
    return function


class _Block:
    """The shared memory of one block, and its size."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.arrays: dict[str, Shared] = {}

    def barrier(self) -> None:
        for array in self.arrays.values():
            array.barrier()


class _Hands:
    """What one thread declares."""

    def __init__(self, block: _Block, thread: int) -> None:
        self.block, self.thread = block, thread

    def threads(self, count: int, together: int = 0) -> None:
        if count != self.block.size:
            raise SimulatorError(
                f"the kernel needs blocks of {count} threads, not {self.block.size}"
            )

    def shared(self, element: str, count: int, name: str) -> SharedPointer:
        array = self.block.arrays.setdefault(name, Shared(count, TYPES[element]))
        return SharedPointer(array, self.thread)

    def local(self, element: str, count: int) -> Local:
        return Local(count, TYPES[element])


def forward(count: int) -> Sequence[int]:
    return range(count)


def backward(count: int) -> Sequence[int]:
    return range(count - 1, -1, -1)


def shuffled(seed: int) -> Order:
    rng = np.random.default_rng(seed)
    return lambda count: rng.permutation(count).tolist()


def launch(
    source: str, name: str, grid: int, block: int, arguments: Sequence[Any], order: Order = forward
) -> None:
    """Run ``grid`` blocks of ``block`` threads; `Memory` arguments are pointers, others are passed as they are."""
    kernel = compile_kernel(source, name)
    for argument in arguments:
        if isinstance(argument, Memory):
            argument.start()
    with np.errstate(all="ignore"):
        for number in order(grid):
            _run_block(kernel, number, grid, block, arguments, order)


def _run_block(
    kernel: Callable[..., Generator[Event, Any, int]],
    number: int,
    grid: int,
    size: int,
    arguments: Sequence[Any],
    order: Order,
) -> None:
    shared = _Block(size)
    threads = []
    for thread in range(size):
        # Threads of different blocks are different owners of global memory.
        owner = number * size + thread
        given = [Pointer(a, owner) if isinstance(a, Memory) else a for a in arguments]
        threads.append(kernel(_Hands(shared, thread), thread, number, grid, *given))
    warps = [_Warp(threads[i : i + WARP], order) for i in range(0, size, WARP)]
    while True:
        for position in order(len(warps)):
            warps[position].run()
        states = {warp.state for warp in warps}
        if states == {"done"}:
            return
        if len(states) > 1:
            raise SimulatorError(f"warps of block {number} part: {sorted(map(str, states))}")
        shared.barrier()


class _Warp:
    """Threads that run in lock step; ``state`` is the barrier where they wait, or "done"."""

    def __init__(self, threads: Sequence[Generator[Event, Any, int]], order: Order) -> None:
        self.threads, self.order = threads, order
        self.answers: list[Any] = [None] * len(threads)
        self.state = ""

    def run(self) -> None:
        """Up to the next barrier or the end."""
        if self.state == "done":
            return
        while True:
            events: list[Event] = [()] * len(self.threads)
            for lane in self.order(len(self.threads)):
                try:
                    events[lane] = self.threads[lane].send(self.answers[lane])
                except StopIteration:
                    events[lane] = ("done", 0)
            self.answers = [None] * len(self.threads)
            places = {event[:2] for event in events}
            if len(places) > 1:
                raise SimulatorError(f"threads of a warp part: {sorted(map(str, places))}")
            kind, line = events[0][:2]
            if kind == "shuffle_xor":
                self._shuffle(events)
                continue
            self.state = "done" if kind == "done" else f"barrier in line {line}"
            return

    def _shuffle(self, events: Sequence[Event]) -> None:
        if len(events) != WARP:
            raise SimulatorError("a shuffle needs a whole warp")
        for lane, (_, line, value, mask) in enumerate(events):
            other = events[lane ^ mask][2]
            if type(other) is not type(value):
                raise SimulatorError(f"lanes exchange different types in line {line}")
            self.answers[lane] = other
