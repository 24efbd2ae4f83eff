"""Planning a graph for a device: the same fusion, buffers and order as on the host, with launches as steps.

A program gets four slots besides those of any program: the stream its kernels are queued in, the status word that a
kernel which refuses its input sets, cuBLAS's handle, and how float32 products compute.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ...codegen.cuda_kernel import write_device_kernel
from ...codegen.cuda_launch import Status
from ...codegen.kernel import kernel_name
from ...codegen.nest import index_source
from ...codegen.scalar import printable
from ...ir.graph import Graph, Value
from ...ir.loops import is_loop
from ...passes.groups import Call, Group, root
from ...types import Shape
from ..ahead import Ahead
from ..launcher import Step
from ..plan import Planner
from ..plan_assembly import Placed
from ..plan_loops import NotNativeError
from ..plan_records import may_lie_on_the_host
from ..views import Layouts
from . import kernels
from .gemm import TYPES, DeviceGemm, gemm_step
from .launches import launch_steps

#: The slots of a device, in order after those of buffers.
STREAM, STATUS, HANDLE, COMPUTE = range(4)
SLOTS = 4


class DevicePlanner(Planner):
    """Builds one plan for a device."""

    batch_levels = 1
    tiles = False

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
        kept = {
            new: old for new, old in overwrite.items() if not may_lie_on_the_host(graph.inputs[old])
        }
        super().__init__(graph, input_strides, kept, pack, packed_inputs)

    #: What a kernel here can compute: no elements of a tensor at positions that another one holds.
    is_fusible = staticmethod(printable)

    def placed(self, layouts: Layouts) -> Placed:
        """Moves are calls here, and every value has memory of its own."""
        return Placed(self.legal, layouts, {})

    @property
    def slot_base(self) -> dict[str, int]:
        """As on the host, with the slots of the device before host results and constants."""
        base = super().slot_base
        return {**base, "device": base["late"], "late": base["late"] + SLOTS}

    def special(self, number: int) -> tuple[int, int]:
        """A slot of the device as an argument."""
        return (self.slot_base["device"] + number, 0)

    def compiling(self) -> Ahead:
        """Kernels of a device are compiled one after the other."""
        return self.ahead

    def plan_group(self, group: Group) -> None:
        """The launches of a group; of the forms of each step one takes itself."""
        outputs = self.schedule.outputs[group]
        code = write_device_kernel(
            group, outputs, self.layouts, kernel_name(group), self.overwrites
        )
        for value in group.externals:
            if index_source(value) is None:
                self.require(root(value))
        for value in outputs:
            self.place(value)
        kernel = kernels.build(code, self.device)
        self.kernels.append(kernel)  # type: ignore[arg-type]
        temporary: dict[str, int] = {}

        def argument(parameter: Any) -> tuple[int, int]:
            if isinstance(parameter, Status):
                self.refuses = True
                return self.special(STATUS)
            return self.parameter(group, parameter, temporary)

        address = kernels.launch_address(self.device)
        for choices, handles in zip(code.steps, kernel.handles, strict=True):
            self.items += launch_steps(choices, handles, argument, self.special(STREAM), address)
        for key in temporary:
            self.arena.give((group, key))

    def plan_call(self, call: Call) -> None:
        """A library call; a loop is none here."""
        if is_loop(call.value):
            raise NotNativeError("on a device the rounds of a loop are queued one after the other")
        super().plan_call(call)

    def plan_scatter(self, value: Value) -> None:
        """A call of the op's own body."""
        self.plan_host(value)

    def plan_gemm(self, value: Value) -> Step | None:
        """A product as a step of cuBLAS when its operands lie as it can read them."""
        x, y = value.value_operands
        if value.type.dtype.short not in TYPES:
            return None
        left, right = self.matrix(x, value.type.shape[:-2]), self.matrix(y, value.type.shape[:-2])
        if left is None or right is None:
            return None
        (a, lda, trans_a, stride_a), (b, ldb, trans_b, stride_b) = left, right
        *batch, m, n = value.type.shape
        count = 1
        for extent in batch:
            count *= extent
        slot = self.place(value)
        step = gemm_step(
            DeviceGemm(
                value.type.dtype.short,
                a,
                b,
                self.argument(slot, 0),
                m,
                n,
                x.type.shape[-1],
                lda,
                ldb,
                trans_a,
                trans_b,
                count,
                stride_a,
                stride_b,
                self.special(HANDLE),
                self.special(STREAM),
                self.special(COMPUTE),
            )
        )
        if step is None:
            self.arena.give(value)
            del self.slots[value]
        return step
