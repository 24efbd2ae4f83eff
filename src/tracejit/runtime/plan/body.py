"""Planning the body of a loop into the program of the graph around it."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.graph import Graph, Value
from ...ops.elementwise import clone
from ...passes.fusion.fusion import fuse
from ...types import Shape
from ..launcher import Step
from .assembly import is_fusible, place_moves
from .loops import NotNativeError
from .plan import Planner
from .records import Slot
from .views import legalize


class BodyPlanner(Planner):
    """Plans the body of a loop into the program of the graph around it."""

    def __init__(
        self,
        parent: Planner,
        graph: Graph,
        strides: Sequence[Shape],
        slots: Sequence[Slot],
        targets: Sequence[Slot],
        carried: int,
    ) -> None:
        self.parent = parent
        self.may_refuse = parent.may_refuse
        legal, layouts = legalize(graph, strides, self.products.levels, self.products.dtypes)
        legal = distinct_outputs(legal)
        inside = dict(zip(legal.outputs[:carried], legal.inputs, strict=False))
        placed = place_moves(legal, layouts, self.products, None, inside if self.tiles else {})
        self.graph, self.layouts = placed.graph, placed.layouts
        self.schedule = fuse(self.graph, is_fusible, placed.before, self.across)
        pairs = zip(self.graph.outputs[:carried], self.graph.inputs, strict=False)
        #: The numbers of carried values that rounds change where they lie.
        self.in_place = [n for n, (new, old) in enumerate(pairs) if self.layouts(new).root is old]
        self.slots = dict(zip(self.graph.inputs, slots, strict=True))
        self.targets = dict(zip(self.graph.outputs, targets, strict=True))
        self.overwrites = {}
        self.items = []
        self.codes = {}
        self.kernels, self.constants = parent.kernels, parent.constants
        self.late, self.arena = parent.late, parent.arena
        self.parts = {}
        self.windows = {}
        self.last_use = self.lifetimes()

    def stay(self, number: int, slot: Slot) -> None:
        """The carried value of this number lies there in every round."""
        self.slots[self.graph.inputs[number]] = self.targets[self.graph.outputs[number]] = slot

    @property
    def slot_base(self) -> dict[str, int]:
        """Those of the program around."""
        return self.parent.slot_base

    def memory(self, value: Value) -> Slot:
        """What the body returns has its place already."""
        slot = self.targets.get(value)
        return slot or Slot("arena", 0, self.arena.take(value.spec.nbytes, value))

    def run_body(self) -> list[Step]:
        """The steps of one round; temporaries are free again after each."""
        with self.compiling():
            for number, step in enumerate(self.schedule.steps):
                self.plan_step(step)
                for value in [v for v in self.arena.owners if self.last_use.get(v) == number]:
                    self.arena.give(value)
        for value in self.schedule.graph.values:
            self.arena.give(value)
        for value in self.targets:
            if value not in self.slots:
                raise NotNativeError(f"{value} is a constant")
        return [item for item in self.items if isinstance(item, Step)]

    def plan_host(self, value: Value) -> None:
        """A library call has no place in a native loop."""
        raise NotNativeError(f"{value} is a library call")


def distinct_outputs(graph: Graph) -> Graph:
    """``graph`` with a value of its own for each output, for each has memory of its own."""
    body, outputs = list(graph.body), list(graph.outputs)
    seen: set[Value] = set()
    for number, value in enumerate(graph.outputs):
        if value in seen:
            outputs[number] = Value(value.spec, clone, (value,), {}, line=value.line)
            body.append(outputs[number])
        seen.add(value)
    return Graph(graph.name, graph.inputs, tuple(body), tuple(outputs))
