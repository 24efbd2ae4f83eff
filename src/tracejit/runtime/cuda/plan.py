"""Planning a graph for a device: the same fusion, buffers and order as on the host, with launches as steps.

A program gets five slots besides those of any program: the stream its kernels are queued in, the status word that a
kernel which refuses its input sets, cuBLAS's handle, how float32 products compute, and memory for cuBLAS.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...codegen.cuda.calls import device_writer
from ...codegen.cuda.kernel import write_device_kernel
from ...codegen.cuda.launch import DeviceCode, Status
from ...codegen.cuda.scatter import write_device_scatter
from ...codegen.kernel import KernelCode, kernel_name
from ...codegen.nest import index_source
from ...ir.graph import Graph, Value
from ...passes.fusion.groups import Call, Group, Schedule, root
from ...types import Shape
from ..ahead import Ahead
from ..assembly import Placed
from ..launcher import Step, Until
from ..plan.body import BodyPlanner
from ..plan.plan import Plan, Planner
from ..plan.products import result_layout
from ..plan.records import Products, may_lie_on_the_host
from ..plan.views import Layouts
from . import gemm, kernels
from .gemm import TYPES, DeviceGemm, gemm_step
from .launches import launch_steps
from .waiting import PLACE, read_step

#: The slots of a device, in order after those of buffers.
STREAM, STATUS, HANDLE, COMPUTE, WORKSPACE = range(5)
SLOTS = 5


class DevicePlanner(Planner):
    """Builds one plan for a device."""

    tiles = False
    across = False

    def __init__(
        self,
        graph: Graph,
        input_strides: Sequence[Shape],
        overwrite: Mapping[int, int],
        pack: Collection[int],
        packed_inputs: Mapping[int, int],
        device: int,
    ) -> None:
        self.device = device
        self.statuses = 0  # parameters that are the status word
        self.refusing = 0  # items up to the last of them
        kept = {
            new: old for new, old in overwrite.items() if not may_lie_on_the_host(graph.inputs[old])
        }
        super().__init__(graph, input_strides, kept, pack, packed_inputs)

    products = Products(frozenset(TYPES), lambda: gemm.cublas(), levels=1)

    def fused(self, layouts: Layouts) -> tuple[Placed, Schedule]:
        """The legal graph with memory for what is moved, and its kernels."""
        return self.placed(self.legal, layouts, {})

    def body(self, *given: Any) -> BodyPlanner:
        """What plans the body of a loop into this program: its rounds are queued by native code."""
        from .body import DeviceBodyPlanner

        return DeviceBodyPlanner(self, *given)

    def seen_by_host(self, until: Until) -> tuple[Until, list[Step]]:
        """The byte of the device is copied behind the status word, which the call then has to wait for."""
        self.statuses += 1
        place = self.special(STATUS)[0], PLACE
        step = read_step(
            until.word,
            until.increments,
            place,
            self.special(STREAM),
            kernels.driver_address("cuMemcpyDtoHAsync_v2", self.device),
            kernels.driver_address("cuStreamSynchronize", self.device),
        )
        return Until(place, (0, 0), until.value), [step]

    @property
    def slot_base(self) -> dict[str, int]:
        """As on the host, with the slots of the device before host results and constants."""
        base = super().slot_base
        return {**base, "device": base["late"], "late": base["late"] + SLOTS}

    def special(self, number: int) -> tuple[int, int]:
        """A slot of the device as an argument."""
        return (self.slot_base["device"] + number, 0)

    def run(self) -> Plan:
        """The plan; what writes over an input comes after the check that everything was accepted."""
        found = super().run()
        writes = any(slot.kind == "input" for slot in found.output_slots)
        return replace(found, checked=self.refusing if writes else len(found.items))

    def plan_call(self, call: Call) -> None:
        """A library call, a loop or a scatter."""
        before = self.statuses
        super().plan_call(call)
        self.note_status(before)

    def note_status(self, before: int) -> None:
        """Remember the last item that may refuse its input."""
        if self.statuses > before:
            self.refuses, self.refusing = True, len(self.items)

    def compiling(self) -> Ahead:
        """Kernels of a device are compiled one after the other."""
        return self.ahead

    def plan_group(self, group: Group) -> None:
        """The launches of a group; of the forms of each step one takes itself."""
        before = self.statuses
        outputs = self.schedule.outputs[group]
        code = write_device_kernel(
            group, outputs, self.layouts, kernel_name(group), self.overwrites
        )
        for value in group.externals:
            if index_source(value) is None:
                self.require(root(value))
        for value in outputs:
            self.place(value)
        self.add_launches(group, code)
        self.note_status(before)

    def add_launches(self, owner: Group | Value, code: DeviceCode) -> None:
        """The steps of a kernel."""
        kernel = kernels.build(code, self.device)
        self.kernels.append(kernel)  # type: ignore[arg-type]
        temporary: dict[str, int] = {}

        def argument(parameter: Any) -> tuple[int, int]:
            if isinstance(parameter, Status):
                self.statuses += 1
                return self.special(STATUS)
            return self.parameter(owner, parameter, temporary)

        address = kernels.driver_address("cuLaunchKernel", self.device)
        for choices, handles in zip(code.steps, kernel.handles, strict=True):
            self.items += launch_steps(choices, handles, argument, self.special(STREAM), address)
        for key in temporary:
            self.arena.give((owner, key))

    def plan_host(self, value: Value) -> None:
        """A kernel of its own, or the op's own body."""
        write = device_writer(value)
        if write is None:
            super().plan_host(value)
            return
        self.place(value)
        self.add_launches(value, write(value, self.layouts(value), self.layouts))

    def plan_scatter(self, value: Value) -> None:
        """Write new values into what lies where the result does."""
        if value not in self.slots:  # in memory that its base was not the first in
            self.place(value)
        self.add_launches(value, write_device_scatter(value, self.layouts(value), self.layouts))

    def plan_whole(self, value: Value, write: Callable[..., KernelCode]) -> None:
        """CuPy computes on a device what has a kernel of its own on the host."""
        self.plan_host(value)

    def plan_gemm(self, value: Value) -> Step | None:
        """A product as a step of cuBLAS when its operands lie as it can read them."""
        x, y = value.value_operands
        if value.spec.dtype.short not in TYPES:
            return None
        left, right = self.matrix(x, value.spec.shape[:-2]), self.matrix(y, value.spec.shape[:-2])
        if left is None or right is None:
            return None
        (a, lda, trans_a, stride_a), (b, ldb, trans_b, stride_b) = left, right
        *batch, m, n = value.spec.shape
        count = 1
        for extent in batch:
            count *= extent
        slot = self.place(value)
        row, _, stride = result_layout(self, value)
        step = gemm_step(
            DeviceGemm(
                value.spec.dtype.short,
                a,
                b,
                self.argument(slot, 0),
                m,
                n,
                x.spec.shape[-1],
                lda,
                ldb,
                row,
                trans_a,
                trans_b,
                count,
                stride_a,
                stride_b,
                stride,
                self.special(HANDLE),
                self.special(STREAM),
                self.special(COMPUTE),
                self.special(WORKSPACE),
            )
        )
        if step is None:
            self.arena.give(value)
            del self.slots[value]
        return step
