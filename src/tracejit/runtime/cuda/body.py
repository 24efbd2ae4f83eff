"""Planning the body of a loop for a device: launches whose arguments move on from round to round.

Native code queues every round; the device works through them in order, without a word from Python in between.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...codegen.cuda.calls import device_writer
from ...ir.graph import Graph, Value
from ...types import Shape
from ..launcher import Step
from ..plan.body import BodyPlanner
from ..plan.records import Slot
from .plan import DevicePlanner


class DeviceBodyPlanner(BodyPlanner, DevicePlanner):
    """Plans the body of a loop into the program of the graph around it."""

    def __init__(
        self,
        parent: DevicePlanner,
        graph: Graph,
        strides: Sequence[Shape],
        slots: Sequence[Slot],
        targets: Sequence[Slot],
        carried: int,
    ) -> None:
        self.device, self.around, self.ahead = parent.device, parent, parent.ahead
        self.statuses = self.refusing = 0
        BodyPlanner.__init__(self, parent, graph, strides, slots, targets, carried)

    def plan_host(self, value: Value) -> None:
        """Kernels of their own; other library calls have no place in a native loop."""
        if device_writer(value) is None:
            BodyPlanner.plan_host(self, value)
        else:
            DevicePlanner.plan_host(self, value)

    def run_body(self) -> list[Step]:
        """The steps of one round; temporaries are free again after each."""
        steps = super().run_body()
        self.around.statuses += self.statuses
        return steps
