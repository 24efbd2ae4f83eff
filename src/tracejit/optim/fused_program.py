"""The step of an optimizer as one program: its rule written down for all parameters, fused and planned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import dtypes
from ..ir.builder import Builder
from ..ir.graph import Value
from ..layout import MemoryLayout
from ..ops.elementwise import cast
from ..passes.pipeline import run_passes
from ..runtime.plan.plan import make_plan
from ..runtime.program import Program
from ..types import TensorType

_SCALAR = TensorType((), dtypes.float64)


def step_program(
    rule: Callable[..., Any],
    layouts: Sequence[MemoryLayout],
    sizes: Sequence[int],
    rows: list[tuple[float, ...]],
    owners: tuple[int, ...],
    flags: dict[str, Any],
    varying: tuple[tuple[int, int], ...],
) -> tuple[Program, tuple[bool, ...]]:
    """The rule written down for every parameter, which has so many states, as one program.

    Also which results lie where the parameters and states do. ``varying`` are scalars that are inputs, in that order.
    """
    builder = Builder("optimizer_step")
    inputs = [builder.input(f"t{i}", layout.spec) for i, layout in enumerate(layouts)]
    scalars = {at: builder.input(f"h{at[0]}_{at[1]}", _SCALAR) for at in varying}
    outputs: list[Value] = []
    overwrite: dict[int, int] = {}
    first = 0
    with builder.writing():
        for owner, size in zip(owners, sizes, strict=True):
            own = inputs[first : first + size + 2]
            h = tuple(scalars.get((owner, j), x) for j, x in enumerate(rows[owner]))
            for position, new in enumerate(_new_values(rule, own, h, flags)):
                overwrite[len(outputs)] = first + position
                outputs.append(new)
            first += size + 2
    graph = run_passes(builder.finish(outputs), device=layouts[0].device)
    strides = [layout.strides for layout in layouts] + [()] * len(scalars)
    plan = make_plan(graph, strides, overwrite, device=layouts[0].device)
    in_place = tuple(slot.kind == "input" for slot in plan.output_slots)
    return Program(plan), in_place


def _new_values(
    rule: Callable[..., Any], own: Sequence[Value], h: tuple[Any, ...], flags: dict[str, Any]
) -> list[Value]:
    """New parameter and state values; half precision is updated in float32 and rounded once."""
    wide = [cast(x, dtype=dtypes.float32) if x.dtype.itemsize == 2 else x for x in own]
    new_p, new_state = rule(wide[0], wide[-1], tuple(wide[1:-1]), h, **flags)
    return [
        new if new.dtype is old.dtype else cast(new, dtype=old.dtype)
        for new, old in zip((new_p, *new_state), own, strict=False)
    ]
