"""From a graph to a program: legal views, fusion, kernels, buffers with reuse, and the table the launcher walks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..codegen.cpu import KernelCode, Number, Pointer, Scratch, write_kernel
from ..codegen.nest import Layout, index_source
from ..codegen.scalar import printable
from ..ir.builder import Builder
from ..ir.graph import Graph, Guard, Value
from ..ops import elementwise
from ..ops.table import Contraction, Op
from ..passes.fusion import Call, Group, Schedule, fuse, is_view, root
from ..types import Shape, TensorType
from . import kernels
from .blas import Gemm, gemm_step
from .launcher import Step
from .threads import get_num_threads

ALIGN = 64


@dataclass(frozen=True)
class Slot:
    """Where a materialised value lives at run time."""

    kind: str  # "input", "output", "arena", "host", "constant"
    index: int
    offset: int = 0


@dataclass(frozen=True)
class HostCall:
    """A step that runs an op's own body on arrays."""

    op: Op
    operands: tuple[Any, ...]  # Operand views (Slot, TensorType, offset, strides) or Python numbers
    attributes: dict[str, Any]
    index: int


@dataclass(frozen=True)
class HostOperand:
    """An array argument of a host call."""

    slot: Slot
    type: TensorType
    offset: int
    strides: Shape


@dataclass(frozen=True)
class Plan:
    """Everything a program needs: native steps with slots, host calls between them, buffers."""

    graph: Graph
    schedule: Schedule
    kernels: tuple[kernels.Kernel, ...]
    items: tuple[Step | HostCall, ...]
    inputs: tuple[Value, ...]
    output_slots: tuple[Slot, ...]
    output_types: tuple[TensorType, ...]
    arena_bytes: int
    unshared_bytes: int
    hosts: int
    constants: tuple[np.ndarray, ...]

    @property
    def launches(self) -> int:
        """Native steps per call."""
        return sum(isinstance(i, Step) for i in self.items)


def strided_view(op: Op, attributes: dict[str, Any], operand: Layout, type: TensorType) -> Layout | None:
    """What a view op does to a layout: its body applied to an array of that layout; None when it would copy."""
    span = 1 + sum(abs(s) * max(e - 1, 0) for s, e in zip(operand.strides, type.shape, strict=True))
    lowest = -sum(min(s, 0) * max(e - 1, 0) for s, e in zip(operand.strides, type.shape, strict=True))
    memory = np.empty(span, np.uint8)
    base = as_strided(memory[lowest:] if lowest else memory, type.shape, operand.strides)
    result = op.body(base, **attributes)
    if result.size and not np.shares_memory(result, memory):
        return None
    start = result.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
    offset = start - lowest if result.size else 0
    return Layout(operand.root, operand.offset + offset, tuple(result.strides))


def contiguous(value: Value) -> Layout:
    """Row-major layout of a value of its own."""
    return Layout(value, 0, value.type.contiguous_strides())


class Layouts:
    """The layout of every value of a graph, given those of its inputs."""

    def __init__(self, inputs: dict[Value, Shape]) -> None:
        self.found: dict[Value, Layout | None] = {v: Layout(v, 0, s) for v, s in inputs.items()}

    def find(self, value: Value) -> Layout | None:
        """The layout; None for a view whose body would copy."""
        chain = []
        while value not in self.found and value.op is not None and is_view(value):
            chain.append(value)
            value = value.value_operands[0]
        layout = self.found.setdefault(value, contiguous(value))
        for view in reversed(chain):
            assert view.op is not None
            if layout is not None:
                layout = strided_view(view.op, dict(view.attributes), layout, view.value_operands[0].type)
            self.found[view] = layout
        return layout

    def __call__(self, value: Value) -> Layout:
        layout = self.find(value)
        assert layout is not None, f"no layout for {value}"
        return layout


def legalize(graph: Graph, input_strides: Sequence[Shape]) -> tuple[Graph, Layouts]:
    """Insert copies where a reshape cannot be a view; drop guards, which a plan does not run."""
    builder = Builder(graph.name)
    mapping: dict[Value, Value] = {}
    strides: dict[Value, Shape] = {}
    for value, found in zip(graph.inputs, input_strides, strict=True):
        mapping[value] = builder.input(value.name, value.type)
        strides[mapping[value]] = found
    layouts = Layouts(strides)
    for statement in graph.body:
        if isinstance(statement, Guard):
            continue
        new = builder.copy(statement, mapping)
        if is_view(new) and layouts.find(new) is None:
            source = builder.emit(elementwise.clone, (new.operands[0],), {}, new.line)
            assert new.op is not None
            new = builder.emit(new.op, (source,), new.attributes, new.line)
        mapping[statement] = new
    legal = builder.finish([_own_memory(builder, mapping[v]) for v in graph.outputs])
    live = _live(legal)
    return Graph(legal.name, legal.inputs, tuple(v for v in legal.values if v in live), legal.outputs), layouts


def _own_memory(builder: Builder, value: Value) -> Value:
    """An output must be computed, not shown: copy inputs and views."""
    if value.op is None or is_view(value):
        return builder.emit(elementwise.clone, (value,), {}, value.line)
    return value


def _live(graph: Graph) -> set[Value]:
    seen: set[Value] = set()
    stack = list(graph.outputs)
    while stack:
        value = stack.pop()
        if value not in seen:
            seen.add(value)
            stack.extend(value.value_operands)
    return seen


def kernel_name(group: Group) -> str:
    """A name that tells what is inside: ``k_mul_add_sum``."""
    names = list(dict.fromkeys(v.op.name for v in group.values if v.op is not None))
    listed = names if len(names) <= 5 else [*names[:2], f"{len(names) - 4}_more", *names[-2:]]
    return "k_" + "_".join(listed)


class Planner:
    """Builds one plan."""

    def __init__(
        self, graph: Graph, input_strides: Sequence[Shape], overwrite: Mapping[int, int]
    ) -> None:
        self.graph, self.layouts = legalize(graph, input_strides)
        self.schedule = fuse(self.graph, printable)
        self.slots: dict[Value, Slot] = {v: Slot("input", i) for i, v in enumerate(self.graph.inputs)}
        self.overwrites = overwrites(self.schedule, self.layouts, overwrite)
        self.output_roots = {v: i for i, v in enumerate(dict.fromkeys(self.graph.outputs))}
        self.items: list[Step | HostCall] = []
        self.kernels: list[kernels.Kernel] = []
        self.constants: list[np.ndarray] = []
        self.hosts = 0
        self.arena = Arena()
        self.last_use = self.lifetimes()

    # --- slots ---------------------------------------------------------------------------------------------------

    @property
    def slot_base(self) -> dict[str, int]:
        """First launcher slot of each kind: inputs, outputs, arena, host results."""
        inputs, outputs = len(self.graph.inputs), len(self.output_roots)
        return {"input": 0, "output": inputs, "arena": inputs + outputs, "host": inputs + outputs + 1}

    def argument(self, slot: Slot, offset: int) -> tuple[int, int]:
        """A launcher argument for an address."""
        if slot.kind == "constant":
            return (-1, self.constants[slot.index].ctypes.data + offset)
        return (self.slot_base[slot.kind] + slot.index, slot.offset + offset)

    def lifetimes(self) -> dict[Value, int]:
        """The last step that reads each materialised value."""
        last: dict[Value, int] = {}
        for number, step in enumerate(self.schedule.steps):
            reads = step.externals if isinstance(step, Group) else step.value.value_operands
            for value in reads:
                last[root(value)] = number
        return last

    def place(self, value: Value) -> Slot:
        """Give a materialised value its memory."""
        if value in self.overwrites:
            slot = self.slots[self.overwrites[value]]
        elif value in self.output_roots:
            slot = Slot("output", self.output_roots[value])
        else:
            slot = Slot("arena", 0, self.arena.take(value.type.nbytes, value))
        self.slots[value] = slot
        return slot

    # --- steps ---------------------------------------------------------------------------------------------------

    def run(self) -> Plan:
        for number, step in enumerate(self.schedule.steps):
            if isinstance(step, Group):
                self.plan_group(step)
            else:
                self.plan_call(step)
            for value in [v for v in self.arena.owners if self.last_use.get(v, -1) <= number]:
                self.arena.give(value)
        for value in self.output_roots:
            if value not in self.slots:  # a constant or a view that nothing computed
                self.plan_host(value)
        unshared = sum(v.type.nbytes for v, s in self.slots.items() if s.kind == "arena")
        return Plan(
            self.graph,
            self.schedule,
            tuple(self.kernels),
            tuple(self.items),
            self.graph.inputs,
            tuple(self.slots[v] for v in self.graph.outputs),
            tuple(v.type for v in self.graph.outputs),
            self.arena.high,
            unshared,
            self.hosts,
            tuple(self.constants),
        )

    def plan_group(self, group: Group) -> None:
        outputs = self.schedule.outputs[group]
        code = write_kernel(group, outputs, self.layouts, kernel_name(group), self.overwrites)
        for value in group.externals:
            if index_source(value) is None:
                self.require(root(value))
        for value in outputs:
            self.place(value)
        kernel = kernels.build(code)
        self.kernels.append(kernel)
        temporary: dict[str, int] = {}
        for function, address in zip(code.functions, kernel.addresses, strict=True):
            arguments = [self.parameter(group, p, temporary) for p in function.parameters]
            self.items.append(Step(address, arguments, (-1, function.extent), max(1, function.grain)))
        for key in temporary:
            self.arena.give((group, key))

    def parameter(
        self, group: Group, parameter: Pointer | Number | Scratch, temporary: dict[str, int]
    ) -> tuple[int, int]:
        if isinstance(parameter, Number):
            return (-1, parameter.bits)
        if isinstance(parameter, Pointer):
            return self.argument(self.slots[parameter.value], parameter.offset)
        if parameter.key not in temporary:
            count = parameter.count * (get_num_threads() if parameter.per_worker else 1)
            nbytes = count * parameter.dtype.itemsize
            temporary[parameter.key] = self.arena.take(nbytes, (group, parameter.key))
        return self.argument(Slot("arena", 0, temporary[parameter.key]), 0)

    def require(self, value: Value) -> None:
        """Materialise a source that a call or an odd view reads."""
        if value in self.slots:
            return
        assert value.op is not None and not value.operands, f"{value} was not computed"
        self.constants.append(np.ascontiguousarray(value.op.evaluate((), value.attributes)))
        self.slots[value] = Slot("constant", len(self.constants) - 1)

    def plan_call(self, call: Call) -> None:
        value = call.value
        for operand in value.value_operands:
            self.require(root(operand))
        step = self.plan_gemm(value) if isinstance(value.op, Contraction) and value.op.name == "matmul" else None
        if step is not None:
            self.items.append(step)
        else:
            self.plan_host(value)

    def plan_host(self, value: Value) -> None:
        """Run the op's own body on arrays at this point of the program."""
        operands = [self.host_operand(x) if isinstance(x, Value) else x for x in value.operands]
        assert value.op is not None
        self.items.append(HostCall(value.op, tuple(operands), dict(value.attributes), self.hosts))
        self.slots[value] = Slot("host", self.hosts)
        self.hosts += 1

    def host_operand(self, value: Value) -> HostOperand:
        layout = self.layouts(value)
        return HostOperand(self.slots[layout.root], value.type, layout.offset, layout.strides)

    # --- matrix products -------------------------------------------------------------------------------------------

    def plan_gemm(self, value: Value) -> Step | None:
        """A product as a BLAS step when its operands lie as BLAS can read them."""
        x, y = value.value_operands
        dtype = value.type.dtype
        if dtype.short not in ("f32", "f64"):
            return None
        left, right = self.matrix(x, value.type.shape[:-2]), self.matrix(y, value.type.shape[:-2])
        if left is None or right is None:
            return None
        (a, lda, trans_a, stride_a), (b, ldb, trans_b, stride_b) = left, right
        *batch, m, n = value.type.shape
        count = int(np.prod(batch, dtype=np.int64)) if batch else 1
        slot = self.place(value)
        step = gemm_step(
            Gemm(
                dtype.short, a, b, self.argument(slot, 0), m, n, x.type.shape[-1], lda, ldb, max(n, 1),
                trans_a, trans_b, count, stride_a, stride_b, m * n,
            )
        )
        if step is None:
            self.arena.give(value)
            del self.slots[value]
        return step

    def matrix(self, value: Value, batch: Shape) -> tuple[tuple[int, int], int, bool, int] | None:
        """Address, leading dimension, transposition and batch stride of an operand, None when BLAS cannot read it."""
        layout = self.layouts(value)
        shape, strides = value.type.shape, layout.strides
        rows, columns = shape[-2], shape[-1]
        stride = _batch_stride(shape[:-2], strides[:-2], batch)
        if stride is None:
            return None
        address = self.argument(self.slots[layout.root], layout.offset * value.type.dtype.itemsize)
        row, column = strides[-2], strides[-1]
        if (column == 1 or columns <= 1) and (row >= max(columns, 1) or rows <= 1):
            return address, max(row if rows > 1 else columns, columns, 1), False, stride
        if (row == 1 or rows <= 1) and (column >= max(rows, 1) or columns <= 1):
            return address, max(column if columns > 1 else rows, rows, 1), True, stride
        return None


def _batch_stride(own: Shape, strides: Shape, batch: Shape) -> int | None:
    """One stride that walks all batch dimensions in order, None when there is none."""
    full = [0] * (len(batch) - len(own)) + [0 if e == 1 else s for e, s in zip(own, strides, strict=True)]
    relevant = [(e, s) for e, s in zip(batch, full, strict=True) if e != 1]
    if not relevant:
        return 0
    for (_, outer), (extent, inner) in zip(relevant, relevant[1:], strict=False):
        if outer != inner * extent:
            return None
    return relevant[-1][1]


def overwrites(
    schedule: Schedule, layouts: Layouts, wanted: Mapping[int, int]
) -> dict[Value, Value]:
    """Outputs that can be written over an input: a pointwise kernel computes them, and is the only and last reader."""
    graph = schedule.graph
    readers: dict[Value, list[Group | Call]] = {}
    for step in schedule.steps:
        reads = step.externals if isinstance(step, Group) else step.value.value_operands
        for value in reads:
            readers.setdefault(root(value), []).append(step)
    found: dict[Value, Value] = {}
    for position, source in wanted.items():
        value, target = graph.outputs[position], graph.inputs[source]
        maker = next((g for g in schedule.groups if value in g.dims), None)
        if maker is None or value in found or target in set(found.values()):
            continue
        if _same_points(maker, value, target, layouts) and all(r is maker for r in readers.get(target, ())):
            found[value] = target
            layouts.found[value] = layouts(target)
    return found


def _same_points(group: Group, value: Value, target: Value, layouts: Layouts) -> bool:
    """Does the group read ``target`` only at the point where it writes ``value``?"""
    if group.reduced or value.type != target.type:
        return False
    shown = [x for x in group.externals if root(x) is target]
    strides = layouts(target).strides
    dense = strides == target.type.contiguous_strides()
    return dense and all(x is target and group.externals[x] == group.dims[value] for x in shown)


class Arena:
    """First-fit placement of temporaries in one block, with reuse after their last reader."""

    def __init__(self) -> None:
        self.high = 0
        self.owners: dict[Any, tuple[int, int]] = {}

    def take(self, nbytes: int, owner: Any) -> int:
        """Offset of ``nbytes`` that no living owner uses."""
        size = -(-max(nbytes, 1) // ALIGN) * ALIGN
        offset = 0
        for start, length in sorted(self.owners.values()):
            if offset + size <= start:
                break
            offset = max(offset, start + length)
        self.owners[owner] = (offset, size)
        self.high = max(self.high, offset + size)
        return offset

    def give(self, owner: Any) -> None:
        """The owner's memory may be reused from the next step on."""
        self.owners.pop(owner, None)


def make_plan(
    graph: Graph, input_strides: Sequence[Shape], overwrite: Mapping[int, int] | None = None
) -> Plan:
    """Plan ``graph`` for inputs with these strides (in elements).

    ``overwrite`` maps output positions to input positions whose memory may take the result; ``Plan.output_slots`` tells
    where that was legal (the slot is then the input's).
    """
    return Planner(graph, input_strides, overwrite or {}).run()


PlanFactory = Callable[[Graph, Sequence[Shape]], Plan]
__all__ = ["KernelCode", "Plan", "make_plan"]
