"""A plan made callable: one generated straight-line Python function per plan.

The function takes tensors, allocates the output blocks and the arena, runs the native steps in one call (one call per
stretch between host calls) and returns a block, or for host results an array, per output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..generated import define
from ..ops.table import Op
from .allocator import allocate
from .launcher import Step, Table, build_table
from .plan import HostCall, HostOperand, Plan, Slot


class KernelFailure(Exception):
    """A kernel refused its input (an index out of range, ...): the eager function will say why."""


def _fail(code: int) -> None:
    raise KernelFailure(f"step {(code >> 32) - 1} returned {code & 0xFFFFFFFF}")


def address_of(array: Any) -> int:
    """Address of an array's first element."""
    return int(array.__array_interface__["data"][0])


def pointer_of(tensor: Any) -> int:
    """Address of a tensor's first element, remembered by the tensor."""
    pointer = tensor._pointer = address_of(tensor.array)
    return pointer


class Program:
    """Runs a plan.

    ``run(*tensors)`` returns one block or array per graph output; ``source`` is the text of that function.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.table: Table = build_table([i for i in plan.items if isinstance(i, Step)])
        self.source = ""
        self.run: Callable[..., Any] = self._generate()

    def _generate(self) -> Callable[..., Any]:
        writer = _RunWriter(self.plan)
        self.source = writer.text()
        names: dict[str, Any] = {
            "run_slots": self.table.run_slots,
            "allocate": allocate,
            "pointer_of": pointer_of,
            "address_of": address_of,
            "fail": _fail,
            **writer.names,
        }
        run: Callable[..., Any] = define(
            self.source, f"program {self.plan.graph.name}", "run", names
        )
        return run


class _RunWriter:
    """Writes the Python function of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.names: dict[str, Any] = {}
        self.lines: list[str] = []

    def text(self) -> str:
        plan = self.plan
        names = [f"t{i}" for i in range(len(plan.inputs)) if i not in plan.packed_inputs]
        names += ["pack"] if plan.packed_inputs else []
        self.lines = [f"def run({', '.join(names)}):"]
        used = self.used_inputs()
        for i in range(len(plan.inputs)):
            if i in used:
                self.add(f"p{i} = t{i}._pointer or pointer_of(t{i})")
        sizes = self.output_sizes()
        for i, nbytes in enumerate(sizes):
            if nbytes is not None:
                self.add(f"b{i} = allocate({self.size(f'size{i}', nbytes)})")
        if plan.arena_bytes:
            self.add(f"arena = allocate({self.size('arena_size', plan.arena_bytes)})")
        if plan.pack_bytes:
            self.add(f"pack = allocate({self.size('pack_size', plan.pack_bytes)})")
        self.steps(used, sizes)
        results = [self.result(slot) for slot in plan.output_slots if slot.kind != "pack"]
        results += ["pack"] if plan.pack_bytes else []
        self.add(f"return ({', '.join(results)}{',' if len(results) == 1 else ''})")
        return "\n".join(self.lines) + "\n"

    def add(self, line: str) -> None:
        self.lines.append("    " + line)

    def size(self, name: str, nbytes: int) -> str:
        """A size by name, so that plans for other extents have the same text."""
        self.names[name] = nbytes
        return name

    def used_inputs(self) -> set[int]:
        """Inputs whose address some native step needs."""
        used: set[int] = set()
        for item in self.plan.items:
            if isinstance(item, Step):
                used.update(slot for slot, _ in item.args if 0 <= slot < len(self.plan.inputs))
        return used

    def output_sizes(self) -> list[int | None]:
        """Bytes of every distinct output block; None for host results."""
        sizes: dict[int, int] = {}
        for slot, kind in zip(self.plan.output_slots, self.plan.output_types, strict=True):
            if slot.kind == "output":
                sizes[slot.index] = kind.nbytes
        count = len(dict.fromkeys(self.plan.graph.outputs))
        return [sizes.get(i) for i in range(count)]

    def slots(self, used: set[int], sizes: Sequence[int | None], ready: int) -> str:
        """The slot values of a launch: inputs, outputs, arena, host results so far."""
        parts = [f"p{i}" if i in used else "0" for i in range(len(self.plan.inputs))]
        parts += ["0" if n is None else f"b{i}.ptr" for i, n in enumerate(sizes)]
        parts.append("arena.ptr" if self.plan.arena_bytes else "0")
        parts.append("pack.ptr" if self.plan.pack_bytes or self.plan.packed_inputs else "0")
        parts += [f"q{h}" if h < ready else "0" for h in range(self.plan.hosts)]
        return ", ".join(parts)

    def steps(self, used: set[int], sizes: Sequence[int | None]) -> None:
        first = native = ready = 0
        for item in self.plan.items:
            if isinstance(item, Step):
                native += 1
                continue
            if native > first:
                self.launch(first, native, self.slots(used, sizes, ready))
                first = native
            self.host(item)
            ready = item.index + 1
        if native > first:
            self.launch(first, native, self.slots(used, sizes, ready))

    def launch(self, first: int, last: int, slots: str) -> None:
        self.add(f"code = run_slots({first}, {last}, {slots})")
        self.add("if code: fail(code)")

    def host(self, call: HostCall) -> None:
        """One op body on arrays."""
        arguments = []
        for i, operand in enumerate(call.operands):
            if not isinstance(operand, HostOperand):
                arguments.append(
                    repr(operand) if isinstance(operand, (bool, int)) else f"float('{operand!r}')"
                )
                continue
            name = f"view{call.index}_{i}"
            self.names[name] = _viewer(self.plan, operand)
            arguments.append(f"{name}({self.storage(operand.slot)})")
        self.names[f"call{call.index}"] = _caller(call.op, call.attributes)
        self.add(
            f"h{call.index} = call{call.index}(({', '.join(arguments)}{',' if arguments else ''}))"
        )
        self.add(f"q{call.index} = address_of(h{call.index})")

    def storage(self, slot: Slot) -> str:
        if slot.kind == "input":
            return f"t{slot.index}.array"
        if slot.kind == "output":
            return f"b{slot.index}.array"
        if slot.kind == "host":
            return f"h{slot.index}"
        return f"{slot.kind}.array" if slot.kind in ("arena", "pack") else "None"

    def result(self, slot: Slot) -> str:
        return (
            f"b{slot.index}"
            if slot.kind == "output"
            else f"h{slot.index}"
            if slot.kind == "host"
            else f"t{slot.index}"
        )


def _caller(op: Op, attributes: dict[str, Any]) -> Callable[[Any], Any]:
    def call(operands: Any) -> Any:
        return np.ascontiguousarray(op.evaluate(operands, attributes)).reshape(
            op.infer([_type(x) for x in operands], attributes).shape
        )

    return call


def _type(x: Any) -> Any:
    from ..dtypes import from_numpy
    from ..types import TensorType

    return TensorType(x.shape, from_numpy(x.dtype)) if isinstance(x, np.ndarray) else x


def _viewer(plan: Plan, operand: HostOperand) -> Callable[[Any], Any]:
    """A function from the storage array to the operand's array."""
    kind, dtype = operand.type, operand.type.dtype.np
    strides = tuple(s * dtype.itemsize for s in operand.strides)
    start = operand.slot.offset + operand.offset * dtype.itemsize
    if operand.slot.kind == "constant":
        constant = plan.constants[operand.slot.index]
        return lambda _: _shifted(constant, kind.shape, dtype, start, strides)
    if operand.slot.kind in ("output", "arena", "pack"):
        return lambda memory: np.ndarray(kind.shape, dtype, memory, start, strides)
    return lambda array: _shifted(array, kind.shape, dtype, start, strides)


def _shifted(array: Any, shape: Any, dtype: Any, start: int, strides: Any) -> Any:
    """``array``'s memory seen with another offset (from its first element), shape and strides."""
    if start == 0 and array.shape == shape and array.strides == strides:
        return array
    if not array.size:
        return np.empty(shape, dtype)
    holder = np.lib.stride_tricks.as_strided(array, shape, strides)
    if start == 0:
        return holder
    interface = dict(holder.__array_interface__)
    interface["data"] = (interface["data"][0] + start, interface["data"][1])
    interface["strides"] = strides
    return np.asarray(_Interface(interface, array)).view(dtype)


class _Interface:
    """Memory of ``owner`` described by an array interface."""

    def __init__(self, interface: dict[str, Any], owner: Any) -> None:
        self.__array_interface__ = interface
        self.owner = owner
