"""Planning a run of steps that go through a batch of matrices together, as one tile step."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ...ops.shapes import numel
from ...passes.fusion.groups import root
from ...types import Shape
from ..launcher import Step
from ..tiled.tile_runs import TileRun, read_by, stored_by
from ..tiled.tiles import FIRST_WINDOW, Window, tile_step, units_per_tile
from .arena import Arena, aligned
from .records import Slot

if TYPE_CHECKING:
    from ...ir.graph import Value
    from .plan import Planner


def plan_run(planner: Planner, run: TileRun) -> None:
    """Append the tile step of ``run``; its values get their memory."""
    size, offsets, per_worker = _place_inside(planner, run)
    workers = planner.arena.workers
    base = planner.arena.take(workers * per_worker, run)
    arena = planner.slot_base["arena"]
    windows: dict[int, Window] = {}
    for number, (value, offset) in enumerate(offsets.items()):
        each = unit_bytes(value, run.units)
        windows[FIRST_WINDOW + number] = Window(arena, base + offset, per_worker, each)
        planner.windows[value] = Slot("window", number)
    around, planner.items, planner.held = planner.items, [], []
    for step in planner.schedule.steps[run.first : run.last]:
        planner.plan_step(step)
    parts = [item for item in planner.items if isinstance(item, Step)]
    assert len(parts) == run.last - run.first, "a step of a run is more than one native step"
    planner.items, held, planner.held = around, planner.held, None
    spared = _spared(planner, run)
    planner.items.append(tile_step(parts, numel(run.units), size, windows, workers, spared))
    for owner in (*held, run):
        planner.arena.give(owner)


def unit_bytes(value: Value, units: Shape) -> Any:
    """Bytes of what belongs to one unit."""
    return numel(value.spec.shape[len(units) :]) * value.spec.dtype.itemsize


def _place_inside(planner: Planner, run: TileRun) -> tuple[Any, dict[Value, Any], Any]:
    """Units per tile, where each inner value lies in a worker's own memory, and how much that is."""
    largest_step = sum(unit_bytes(v, run.units) for v in run.inside)
    size = units_per_tile(largest_step)
    steps = planner.schedule.steps[run.first : run.last]
    inside = set(run.inside)
    last = {root(x): i for i, step in enumerate(steps) for x in read_by(step) if root(x) in inside}
    own = Arena()
    offsets: dict[Value, Any] = {}
    for number, step in enumerate(steps):
        for value in stored_by(planner.schedule, step):
            if value in inside:
                offsets[value] = own.take(aligned(size * unit_bytes(value, run.units)), value)
        for value in [v for v in own.owners if last[v] == number]:
            own.give(value)
    return size, offsets, own.finish()


def _spared(planner: Planner, run: TileRun) -> Any:
    """Bytes that the steps would move if each were done for all units before the next."""
    steps = planner.schedule.steps[run.first : run.last]
    reads = Counter(v for step in steps for v in dict.fromkeys(map(root, read_by(step))))
    return sum(v.spec.nbytes * (1 + reads[v]) for v in run.inside)
