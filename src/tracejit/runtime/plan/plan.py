"""From a graph to a program: legal views, fusion, kernels, buffers with reuse, and the table the launcher walks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...codegen.cpu.alone import Writer, writer_of
from ...codegen.cpu.kernel import write_kernel
from ...codegen.cpu.scatter import scatters, write_scatter
from ...codegen.equal_groups import EqualGroups
from ...codegen.kernel import KernelCode, Number, Pointer, Scratch
from ...codegen.nest import Layout, index_source
from ...ir.graph import Graph, Value
from ...ir.loops import is_loop, part, split_operands
from ...passes.fusion.fusion import fuse
from ...passes.fusion.groups import Call, Group, Schedule, root
from ...passes.fusion.late_readers import compute_late, traffic
from ...passes.gradient.recompute import Order, recompute
from ...sizes import largest
from ...types import Shape
from ..ahead import Ahead
from ..assembly import Placed, assemble
from ..blas import find_blas
from ..launcher import COARSE, Loop, Step, for_workers
from ..machine_code import kernels
from ..streaming import function_address
from ..tiled.tile_runs import TileRun, find_tile_runs, read_by
from ..tiled.tiles import FIRST_WINDOW
from .arena import Arena, aligned
from .assembly import is_fusible, place_moves
from .joined import join, plan_joined, written_over
from .loops import as_it_is, carried_values, parts_of, plan_loop
from .modules import missing_modules
from .overwrite import overwrites
from .products import plan_product
from .records import Constant, HostCall, HostOperand, Plan, Products, Slot
from .taps import is_taps, plan_taps
from .tiles import plan_run
from .vector_calls import is_vector_call, plan_vector_call
from .views import PRODUCTS, Layouts, legalize, matrix_layout

if TYPE_CHECKING:
    from .body import BodyPlanner


class Planner:
    """Builds one plan."""

    device = -1
    #: May steps run together, tile by tile; can kernels reduce columns beside rows?
    tiles = across = True
    seen_by_host = staticmethod(as_it_is)  # the end of an open loop, as the launcher can look at it
    may_refuse = False  # may the program find that it cannot serve a call?
    held: list[Any] | None = None  # owners of memory to be given back after a run of steps

    def __init__(
        self,
        graph: Graph,
        input_strides: Sequence[Shape],
        overwrite: Mapping[int, int],
        pack: Collection[int],
        packed_inputs: Mapping[int, int],
    ) -> None:
        known = self.products
        self.legal, layouts = legalize(graph, input_strides, known.levels, known.dtypes)
        placed, self.schedule = self.fused(layouts)
        self.graph, self.layouts = placed.graph, placed.layouts
        self.runs: tuple[TileRun, ...] = ()
        if self.tiles:
            self.schedule, self.runs = find_tile_runs(self.schedule, self.layouts, placed)
        self.joined = join(self, placed)
        self.windows: dict[Value, Slot] = {}
        self.slots: dict[Value, Slot] = {
            v: Slot("pack", 0, packed_inputs[i]) if i in packed_inputs else Slot("input", i)
            for i, v in enumerate(self.graph.inputs)
        }
        self.packed_inputs = frozenset(packed_inputs)
        shown = {v for i, v in enumerate(self.graph.outputs) if i not in pack}
        self.packed = {self.graph.outputs[i] for i in pack} - shown
        self.pack_bytes = 0
        self.overwrites = overwrites(self.schedule, self.layouts, overwrite, self.runs)
        self.output_roots = {v: i for i, v in enumerate(dict.fromkeys(self.graph.outputs))}
        self.items: list[Step | Loop | HostCall] = []
        self.kernels: list[kernels.Kernel] = []
        self.constants: list[Constant] = []
        self.late: list[Slot] = []  # host results and constants, in order of their launcher slots
        self.arena = Arena()
        self.hosts, self.refuses = 0, False
        self.codes: dict[Group, KernelCode] = {}
        self.ahead = Ahead({})
        self.parts = parts_of(self.graph)
        self.doubled = set(carried_values(self.graph))
        written_over(self)
        self.last_use = self.lifetimes()

    products = Products(PRODUCTS, find_blas)

    def fused(self, layouts: Layouts) -> tuple[Placed, Schedule]:
        """The legal graph with memory for what is moved, and its kernels, which read and write as little as can be."""
        self.legal, after = recompute(self.legal)
        found = self.placed(self.legal, layouts, after)
        late = compute_late(self.legal, found[1], after)
        if late is not None:
            other = self.placed(late[0], layouts, late[1])
            if traffic(other[1]) < traffic(found[1]):
                self.legal, found = late[0], other
        return found

    def placed(self, legal: Graph, layouts: Layouts, after: Order) -> tuple[Placed, Schedule]:
        """The same for a legal graph as it is; ``after`` says what must be complete before some values."""
        placed = place_moves(legal, layouts, self.products, after)
        return placed, fuse(placed.graph, is_fusible, placed.waits, self.across)

    def body(self, *given: Any) -> BodyPlanner:
        """What plans the body of a loop into this program; ``given`` as `BodyPlanner` takes it."""
        from .body import BodyPlanner

        return BodyPlanner(self, *given)

    @property
    def slot_base(self) -> dict[str, int]:
        """First launcher slot of each kind: inputs, outputs, arena, pack, then host results and constants."""
        inputs, outputs = len(self.graph.inputs), len(self.output_roots)
        first = inputs + outputs
        rest = {"arena": first, "pack": first + 1, "late": first + 2, "window": FIRST_WINDOW}
        return {"input": 0, "output": inputs, **rest}

    def argument(self, slot: Slot, offset: int) -> tuple[int, int]:
        """A launcher argument for an address."""
        if slot.kind in ("host", "constant"):
            late = self.late.index(Slot(slot.kind, slot.index))
            return (self.slot_base["late"] + late, slot.offset + offset)
        return (self.slot_base[slot.kind] + slot.index, slot.offset + offset)

    def lifetimes(self) -> dict[Value, int]:
        """The last step that reads each block of memory, by the value it was made for."""
        last: dict[Value, int] = {}
        for number, step in enumerate(self.schedule.steps):
            for value in read_by(step):
                last[self.layouts(value).root] = number
        for loop, parts in self.parts.items():  # what was carried last lies where the first was
            for index, value in enumerate(split_operands(loop)[0]):
                if index in parts:
                    last[value] = max(last[value], last.get(parts[index], -1))
        return last

    def place(self, value: Value) -> Slot:
        """Give a materialised value its memory, or its place in that of another."""
        layout = self.layouts(value)
        if layout.root is value:
            self.slots[value] = self.memory(value)
        else:
            if layout.root not in self.slots:
                self.place(layout.root)
            self.slots[value] = self.address(layout, value.spec.dtype.itemsize)
        return self.slots[value]

    def memory(self, value: Value) -> Slot:
        """New memory."""
        if value in self.windows:
            return self.windows[value]
        if value in self.packed:
            slot = Slot("pack", 0, self.pack_bytes)
            self.pack_bytes += aligned(value.spec.nbytes)
            return slot
        if value in self.output_roots:
            return Slot("output", self.output_roots[value])
        nbytes = value.spec.nbytes
        nbytes = 2 * aligned(nbytes) if value in self.doubled else nbytes
        return Slot("arena", 0, self.arena.take(nbytes, value))

    def run(self) -> Plan:
        runs = {run.first: run for run in self.runs}
        done = 0
        with self.compiling():
            while done < len(self.schedule.steps):
                step = self.schedule.steps[done]
                if done in runs:
                    plan_run(self, runs[done])
                    done = runs[done].last
                elif step in self.joined:
                    done += plan_joined(self, step)
                else:
                    self.plan_step(step)
                    done += 1
                for value in [v for v in self.arena.owners if self.last_use.get(v, -1) < done]:
                    self.arena.give(value)
        for value in self.output_roots:
            if value not in self.slots or self.slots[value].kind == "constant":
                self.plan_host(value)  # a source: every call returns memory of its own
        return Plan(
            self.legal,
            self.graph,
            self.schedule,
            tuple(self.kernels),
            tuple(self.items),
            self.graph.inputs,
            tuple(self.slots[v] for v in self.graph.outputs),
            tuple(v.spec for v in self.graph.outputs),
            self.packed_inputs,
            self.pack_bytes,
            self.arena.finish(),
            self.hosts,
            tuple(self.constants),
            tuple(self.late),
            self.device,
            self.refuses,
        )

    def compiling(self) -> Ahead:
        """Print the kernels of all groups, and have those that are new compiled while their steps are planned."""
        equal = EqualGroups(write_kernel, self.layouts, self.overwrites)
        for step in self.schedule.groups:
            self.codes[step] = equal.write(step, self.schedule.outputs[step])
        self.ahead = kernels.compiling(self.codes.values(), missing_modules(self.schedule))
        return self.ahead

    def plan_step(self, step: Group | Call) -> None:
        """Append what a step of the schedule needs."""
        if isinstance(step, Group):
            self.plan_group(step)
        else:
            self.plan_call(step)

    def plan_group(self, group: Group) -> None:
        code = self.codes.pop(group)
        for value in group.externals:
            if index_source(value) is None:
                self.require(root(value))
        for value in self.schedule.outputs[group]:
            self.place(value)
        self.add_kernel(group, code)

    def add_kernel(self, owner: Group | Value, code: KernelCode, flags: int = 0) -> None:
        """The steps of a kernel."""
        kernel = kernels.build(code, self.ahead)
        self.kernels.append(kernel)
        temporary: dict[str, int] = {}
        for function, address in zip(code.functions, kernel.promised, strict=True):
            given = [self.parameter(owner, p, temporary) for p in function.parameters]
            grain = largest(1, function.grain)
            here = function_address(code, address, self.slots) if self.held is None else address
            most = for_workers(self.arena.workers) if function.is_per_worker else 0
            self.items.append(Step(here, given, (-1, function.extent), grain, flags | most))
        for key in temporary:
            self.release((owner, key))

    def release(self, owner: Any) -> None:
        """Memory of an owner is free from the next step on, or behind the run of steps that is being planned."""
        if self.held is None:
            self.arena.give(owner)
        else:
            self.held.append(owner)

    def parameter(
        self, group: Group | Value, parameter: Pointer | Number | Scratch, temporary: dict[str, int]
    ) -> tuple[int, int]:
        if isinstance(parameter, Number):
            return (-1, parameter.bits)
        if isinstance(parameter, Pointer):
            self.require(parameter.value)
            return self.argument(self.slots[parameter.value], parameter.offset)
        if parameter.key not in temporary:
            count = parameter.count * (self.arena.workers if parameter.per_worker else 1)
            nbytes = count * parameter.dtype.itemsize
            temporary[parameter.key] = self.arena.take(nbytes, (group, parameter.key))
        return self.argument(Slot("arena", 0, temporary[parameter.key]), 0)

    def require(self, value: Value) -> None:
        """Materialise a source that a call or an odd view reads."""
        if value in self.slots:
            return
        assert value.op is not None, f"{value} was not computed"
        assert not value.operands, f"{value} was not computed"
        self.slots[value] = Slot("constant", len(self.constants))
        self.constants.append(Constant(value.op, dict(value.attributes)))
        self.late.append(self.slots[value])

    def plan_call(self, call: Call) -> None:
        value = call.value
        if value.op is part:
            return  # placed with its loop
        if value.op is assemble:
            if value not in self.slots:  # there were no pieces to be written
                self.place(value)
            return
        for operand in value.value_operands:
            self.require(root(operand))
        product = value.op is not None and value.op.name == "matmul"
        step = self.plan_gemm(value) if product else None
        if is_loop(value):
            self.items.append(plan_loop(self, value, self.parts.get(value, {})))
        elif step is not None:
            self.items.append(step)
        elif is_taps(value):
            plan_taps(self, value)
        elif self.may_refuse and is_vector_call(value):
            plan_vector_call(self, value)
        elif scatters(value):
            self.plan_scatter(value)
        elif (write := writer_of(value)) is not None:
            self.plan_alone(value, write)
        else:
            self.plan_host(value)

    def plan_scatter(self, value: Value) -> None:
        """Write new values into what lies where the result does."""
        if value not in self.slots:  # in memory that its base was not the first in
            self.place(value)
        self.add_kernel(value, write_scatter(value, self.layouts(value), self.layouts), COARSE)

    def plan_alone(self, value: Value, write: Writer) -> None:
        """Compute a value by a kernel of its own."""
        self.place(value)
        self.add_kernel(value, write(value, self.layouts(value), self.layouts))

    def plan_host(self, value: Value) -> None:
        """Run the op's own body on arrays at this point of the program."""
        operands = [self.host_operand(x) if isinstance(x, Value) else x for x in value.operands]
        assert value.op is not None
        self.items.append(HostCall(value.op, tuple(operands), dict(value.attributes), self.hosts))
        self.slots[value] = Slot("host", self.hosts)
        self.late.append(self.slots[value])
        self.hosts += 1

    def host_operand(self, value: Value) -> HostOperand:
        layout = self.layouts(value)
        return HostOperand(self.slots[layout.root], value.spec, layout.offset, layout.strides)

    def address(self, layout: Layout, itemsize: int) -> Slot:
        """Where a view starts."""
        return self.slots[layout.root].moved(layout.offset * itemsize)

    def plan_gemm(self, value: Value) -> Step | None:
        """A product as a step of its own when its operands lie as BLAS can read them."""
        return plan_product(self, value)

    def where(self, value: Value) -> tuple[int, int]:
        """The address of an operand."""
        layout = self.layouts(value)
        return self.argument(self.slots[layout.root], layout.offset * value.spec.dtype.itemsize)

    def matrix(self, value: Value, batch: Shape) -> tuple[tuple[int, int], int, bool, Any] | None:
        """Address, leading dimension, transposition and batch stride of an operand, None when BLAS cannot read it."""
        layout, levels = self.layouts(value), self.products.levels
        found = matrix_layout(value.spec.shape, layout.strides, batch, levels)
        if found is None:
            return None
        return self.where(value), *found


def make_plan(
    graph: Graph,
    input_strides: Sequence[Shape],
    overwrite: Mapping[int, int] | None = None,
    pack: Collection[int] = (),
    packed_inputs: Mapping[int, int] | None = None,
    device: int = -1,
    may_refuse: bool = False,
) -> Plan:
    """Plan ``graph`` for inputs with these strides (in elements), on the host or the GPU of number ``device``.

    ``overwrite`` maps output positions to input positions whose memory may take the result; ``Plan.output_slots`` tells
    where that was legal (the slot is then the input's). Outputs at positions ``pack`` share one block, the *pack*;
    ``packed_inputs`` are inputs that lie in such a block, at these offsets in bytes. With ``may_refuse``, steps may end
    the program where they cannot serve what they are given.

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[8]) { %0: f32[8] = exp(x) %1: f32[8] = add(%0, x) return %1 }")
    >>> [code.name for code in make_plan(graph, [(1,)]).kernels]
    ['k_exp_add']
    """
    if device >= 0:
        from ..cuda.plan import DevicePlanner

        given = (overwrite or {}, pack, packed_inputs or {}, device)
        return DevicePlanner(graph, input_strides, *given).run()
    planner = Planner(graph, input_strides, overwrite or {}, pack, packed_inputs or {})
    planner.may_refuse = may_refuse
    return planner.run()


__all__ = ["KernelCode", "Plan", "make_plan"]
