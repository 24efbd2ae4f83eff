"""Running whole graphs by their printed kernels: as machine code on the host, as text in the simulator, or as PTX.

All three take the same steps from the same schedule; library calls between kernels run their eager bodies. Memory
is a flat array per materialised value, so a kernel sees exactly what its pointers show.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import ptx_machine
import simulator
from numpy.lib.stride_tricks import as_strided
from ptx_text import parameter_types
from simulator_memory import COMMON, Memory

from kernel_tools import compiled
from tracejit.codegen.cpu.kernel import write_kernel
from tracejit.codegen.cpu.scatter import scatters, write_scatter
from tracejit.codegen.cuda.calls import device_writer
from tracejit.codegen.cuda.cubin import Resources, resources
from tracejit.codegen.cuda.kernel import write_device_kernel
from tracejit.codegen.cuda.launch import BLOCK, DeviceCode, Launch, Status
from tracejit.codegen.cuda.ptx import ptx
from tracejit.codegen.cuda.scatter import write_device_scatter
from tracejit.codegen.kernel import KernelCode, Number, Pointer, Scratch, kernel_name
from tracejit.ir.graph import Graph, Value
from tracejit.ops.table import Source
from tracejit.passes.fusion.fusion import fuse
from tracejit.passes.fusion.groups import Group, Schedule, root
from tracejit.runtime.assembly import assemble
from tracejit.runtime.plan.assembly import is_fusible, place_moves
from tracejit.runtime.plan.records import Products
from tracejit.runtime.plan.views import Layouts, legalize

Array = Any
Kernel = Group | Value  # what is printed: a group of the schedule, or a scatter
STORAGE = {"bool": np.uint8, "f16": np.uint16, "bf16": np.uint16}


@dataclass(frozen=True)
class Prepared:
    """A graph cut into kernels and calls, and where its values lie."""

    graph: Graph
    layouts: Layouts
    schedule: Schedule
    arrays: tuple[Array, ...]


def prepare(graph: Graph, arrays: Sequence[Array]) -> Prepared:
    """Cut a graph for inputs that lie like ``arrays``."""
    strides = [tuple(s // a.itemsize for s in a.strides) for a in arrays]
    legal, layouts = legalize(graph, strides)
    placed = place_moves(legal, layouts, Products(frozenset(("f32", "f64")), lambda: None))
    schedule = fuse(placed.graph, is_fusible, placed.before)
    return Prepared(placed.graph, placed.layouts, schedule, tuple(arrays))


def memory_of(array: Array, misaligned: int = 0) -> Memory:
    """A copy of the memory an array lies in, gaps and all."""
    low, high = np.lib.array_utils.byte_bounds(array)
    start = array.__array_interface__["data"][0]
    if not array.size:
        return Memory(np.zeros(0, array.dtype), 0, misaligned)
    span = (high - low) // array.itemsize
    flat = np.zeros(span, array.dtype)
    origin = (start - low) // array.itemsize
    as_strided(flat[origin:], array.shape, array.strides)[...] = array
    return Memory(flat, origin, misaligned)


class Run:
    """One execution of a prepared graph."""

    def __init__(self, prepared: Prepared, misaligned: bool = False) -> None:
        self.prepared = prepared
        self.memory: dict[Value, Memory] = {}
        for value, array in zip(prepared.graph.inputs, prepared.arrays, strict=True):
            itemsize = array.itemsize if misaligned else 0
            found = memory_of(array, itemsize)
            found.array = found.array.view(STORAGE.get(value.spec.dtype.short, found.array.dtype))
            self.memory[value] = found
        self.scratch: dict[str, Memory] = {}
        self.status = Memory(np.zeros(1, np.int32), kind=COMMON)

    def outputs(self) -> list[Array]:
        return [self.array(v) for v in self.prepared.graph.outputs]

    def array(self, value: Value) -> Array:
        """A value as a NumPy array."""
        layout = self.prepared.layouts(value)
        memory = self.materialised(layout.root)
        flat = memory.array.view(value.spec.dtype.np)
        start = memory.origin + layout.offset
        steps = tuple(s * flat.itemsize for s in layout.strides)
        return as_strided(flat[start:], value.spec.shape, steps)

    def materialised(self, value: Value) -> Memory:
        """The memory of a value; new memory holds nothing yet, a source is computed where a call reads it."""
        if value not in self.memory:
            dtype = STORAGE.get(value.spec.dtype.short, value.spec.dtype.np)
            if isinstance(value.op, Source) and not value.operands:
                found = np.ascontiguousarray(value.op.evaluate((), value.attributes))
                self.memory[value] = Memory(found.reshape(-1).view(dtype))
            else:
                array = np.zeros(value.spec.numel, dtype)
                array.view(np.uint8)[:] = 0xA5
                self.memory[value] = Memory(array, written=False)
        return self.memory[value]

    def parameter(self, parameter: Any, kind: str) -> Any:
        """What a kernel is given for a parameter."""
        if isinstance(parameter, Number):
            return number(parameter.bits, kind)
        if isinstance(parameter, Status):
            return self.status
        if isinstance(parameter, Pointer):
            itemsize = parameter.value.spec.dtype.itemsize
            return self.materialised(parameter.value).at(parameter.offset // itemsize)
        assert isinstance(parameter, Scratch)
        if parameter.key not in self.scratch:
            dtype = STORAGE.get(parameter.dtype.short, parameter.dtype.np)
            self.scratch[parameter.key] = Memory(np.zeros(parameter.count, dtype), written=False)
        return self.scratch[parameter.key]

    def execute(self, group: Callable[[Run, Kernel, Sequence[Value]], None]) -> list[Array]:
        """Every step in order, groups by ``group``; the outputs."""
        for step in self.prepared.schedule.steps:
            if isinstance(step, Group):
                self.scratch = {}
                group(self, step, self.prepared.schedule.outputs[step])
                continue
            value = step.value
            if is_printed(value):
                self.scratch = {}
                group(self, value, (value,))
                continue
            if value.op is assemble:
                continue  # its pieces lie there
            assert value.op is not None
            operands = [self.array(x) if isinstance(x, Value) else x for x in value.operands]
            found = np.ascontiguousarray(value.op.evaluate(operands, value.attributes))
            dtype = STORAGE.get(value.spec.dtype.short, found.dtype)
            self.memory[value] = Memory(found.reshape(-1).view(dtype))
        for value in self.prepared.graph.outputs:
            self.materialised(root(value))
        return self.outputs()


def number(bits: int, kind: str) -> Any:
    """A 64-bit pattern as the scalar a parameter declares."""
    if kind == "f32":
        return np.float32(struct.unpack("<f", struct.pack("<I", bits & 0xFFFFFFFF))[0])
    if kind == "f64":
        return np.float64(struct.unpack("<d", struct.pack("<q", bits))[0])
    if kind == "u32":
        return np.uint32(bits)
    return int(bits)


def device_code(prepared: Prepared, group: Kernel, outputs: Sequence[Value]) -> DeviceCode:
    """A group or a call printed for the device."""
    if isinstance(group, Value):
        write = device_writer(group) or write_device_scatter
        return write(group, prepared.layouts(group), prepared.layouts)
    return write_device_kernel(group, outputs, prepared.layouts, kernel_name(group), {})


def host_code(prepared: Prepared, group: Kernel, outputs: Sequence[Value]) -> KernelCode:
    """A group or a scatter printed for the host."""
    if isinstance(group, Value):
        return write_scatter(group, prepared.layouts(group), prepared.layouts)
    return write_kernel(group, outputs, prepared.layouts, kernel_name(group), {})


# --- three ways to run a group --------------------------------------------------------------------------------------


@cache
def _machine_code(source: str, name: str) -> Any:
    return compiled(source, name)


def on_host(run: Run, group: Kernel, outputs: Sequence[Value]) -> None:
    """The host's kernels as machine code; attention and convolutions by their bodies."""
    if isinstance(group, Value) and device_writer(group):
        assert group.op is not None
        found = group.op.evaluate([run.array(x) for x in group.value_operands], group.attributes)
        run.memory[group] = Memory(
            found.reshape(-1).view(STORAGE.get(group.spec.dtype.short, found.dtype))
        )
        return
    for function in host_code(run.prepared, group, outputs).functions:
        kinds = parameter_types(function.source)
        given = [run.parameter(p, k) for p, k in zip(function.parameters, kinds, strict=False)]
        arguments = [a.array[a.origin :] if isinstance(a, Memory) else a for a in given]
        code = _machine_code(function.source, function.name)(*arguments, 0, function.extent, 0)
        run.status.array[0] |= code
        for argument, parameter in zip(given, function.parameters, strict=True):
            if isinstance(argument, Memory) and not (
                isinstance(parameter, Pointer) and not parameter.written
            ):
                argument.known[:] = True


def fits(launch: Launch, arguments: Sequence[Any]) -> bool:
    """Are the addresses at hand aligned as a launch needs them?"""
    return all(arguments[a.position].address % a.multiple == 0 for a in launch.aligned)


def device_way(
    run_launch: Callable[[Launch, Sequence[Any]], None], seen: list[Launch] | None = None
) -> Callable[[Run, Kernel, Sequence[Value]], None]:
    """Run the device's kernels by ``run_launch``; ``seen`` collects what ran."""

    def run_group(run: Run, group: Kernel, outputs: Sequence[Value]) -> None:
        for step in device_code(run.prepared, group, outputs).steps:
            for launch in step:
                kinds = parameter_types(launch.source)
                arguments = [
                    run.parameter(p, k) for p, k in zip(launch.parameters, kinds, strict=True)
                ]
                if fits(launch, arguments):
                    break
            else:
                raise AssertionError("no launch fits")
            if seen is not None:
                seen.append(launch)
            if launch.grid:
                run_launch(launch, arguments)

    return run_group


def simulated(
    order: simulator.Order = simulator.forward,
) -> Callable[[Launch, Sequence[Any]], None]:
    """A launch as text in the simulator."""

    def run_launch(launch: Launch, arguments: Sequence[Any]) -> None:
        simulator.launch(launch.source, launch.name, launch.grid, BLOCK, arguments, order)

    return run_launch


def ptx_of(source: str, name: str, architecture: str) -> str:
    """The PTX of a kernel; comments, which name the values of one program, are no part of it."""
    return _ptx(re.sub(r" *# .*", "", source), name, architecture)


@cache
def _ptx(source: str, name: str, architecture: str) -> str:
    return ptx(source, name, architecture)


@cache
def takes(text: str, architecture: str) -> Resources:
    """What the machine code of PTX takes."""
    return resources(text, architecture)


def as_ptx(architecture: str) -> Callable[[Launch, Sequence[Any]], None]:
    """A launch as PTX."""

    def run_launch(launch: Launch, arguments: Sequence[Any]) -> None:
        text = ptx_of(launch.source, launch.name, architecture)
        ptx_machine.launch(text, launch.grid, BLOCK, *arguments)
        for argument, parameter in zip(arguments, launch.parameters, strict=True):
            if isinstance(argument, Memory) and not (
                isinstance(parameter, Pointer) and not parameter.written
            ):
                argument.known[:] = True

    return run_launch


def kernels_of(prepared: Prepared) -> list[Kernel]:
    """What of a graph is printed."""
    steps = prepared.schedule.steps
    calls = [s.value for s in steps if not isinstance(s, Group)]
    return [*prepared.schedule.groups, *(v for v in calls if is_printed(v))]


def is_printed(value: Value) -> bool:
    """Is a call a kernel of its own?"""
    return scatters(value) or device_writer(value) is not None


def bodies_of(prepared: Prepared) -> set[Any]:
    """The ops of a graph whose own bodies run, on a device and here."""
    calls = [s.value for s in prepared.schedule.steps if not isinstance(s, Group)]
    return {v.op for v in calls if v.op is not assemble and not is_printed(v)}


def launches(prepared: Prepared) -> Mapping[str, Launch]:
    """Every function printed for a graph, by its text."""
    return {
        launch.source: launch
        for group in kernels_of(prepared)
        for launch in device_code(
            prepared, group, prepared.schedule.outputs.get(group, ())
        ).launches
    }
