"""One program for the step of all parameters: the update rule written down once, fused, and run in place.

The rule is the same text eager execution runs. Scalars that change from step to step (a step size with bias correction)
are inputs of the program; the others are constants of it. Nothing is re-ordered, so the numbers are the eager ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import dtypes
from ..cuda.arrays import MODULES, is_writeable, shaped, write_into
from ..ir.builder import Builder
from ..ir.graph import Value
from ..layout import MemoryLayout, layout_of
from ..ops.elementwise import cast
from ..passes.pipeline import run_passes
from ..runtime.plan import make_plan
from ..runtime.program import Program
from ..tensor import Tensor
from ..types import TensorType

#: Programs remembered per process; a training run needs one per parameter group.
MAX_PROGRAMS = 64
_SCALAR = TensorType((), dtypes.float64)


@dataclass(eq=False)
class FusedUpdate:
    """The step of one group of parameters: its program, and which scalars it takes as inputs.

    ``owners`` maps every parameter to the row of scalars it uses (parameters that started together share one).
    """

    rows: list[tuple[float, ...]]
    owners: tuple[int, ...]
    varying: tuple[tuple[int, int], ...] = ()
    program: Program | None = None
    in_place: tuple[bool, ...] = ()
    buffer: Any = None
    inputs: tuple[Tensor, ...] = ()


_updates: dict[Any, FusedUpdate] = {}


def update_fused(
    rule: Callable[..., Any],
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    states: Sequence[tuple[Tensor, ...]],
    hyper: Sequence[tuple[float, ...]],
    flags: dict[str, Any],
) -> bool:
    """Run the step as one program; False at the first call of a kind, which only notes the scalars."""
    tensors = [t for p, g, state in zip(params, grads, states, strict=True) for t in (p, *state, g)]
    layouts = tuple([t._layout or layout_of(t) for t in tensors])
    for layout in layouts:
        if not (layout.is_contiguous and layout.aligned):
            return False
    if MODULES and len({layout.device for layout in layouts}) > 1:
        return False
    rows: dict[tuple[float, ...], int] = {}
    owners = tuple([rows.setdefault(h, len(rows)) for h in hyper])
    key = (rule, tuple(flags.items()), owners, layouts)
    found = _updates.get(key)
    if found is None:
        for written in (*params, *(t for state in states for t in state)):
            if not is_writeable(written.array):
                return False  # the plain update says why this cannot be
        while len(_updates) >= MAX_PROGRAMS:
            _updates.pop(next(iter(_updates)))
        _updates[key] = FusedUpdate(list(rows), owners)
        return False
    varying = _varying(found, list(rows))
    if found.program is None or len(varying) > len(found.varying):
        found = _updates[key] = _build(rule, layouts, states, list(rows), owners, flags, varying)
    _run(found, tensors, states, list(rows))
    return True


def _varying(known: FusedUpdate, rows: Sequence[tuple[float, ...]]) -> tuple[tuple[int, int], ...]:
    """The scalars that are inputs of the program, or must become so because they changed."""
    found = set(known.varying)
    for i, (old, new) in enumerate(zip(known.rows, rows, strict=True)):
        if old != new:
            found.update((i, j) for j, (a, b) in enumerate(zip(old, new, strict=True)) if a != b)
    return tuple(sorted(found))


def _build(
    rule: Callable[..., Any],
    layouts: Sequence[MemoryLayout],
    states: Sequence[tuple[Tensor, ...]],
    rows: list[tuple[float, ...]],
    owners: tuple[int, ...],
    flags: dict[str, Any],
    varying: tuple[tuple[int, int], ...],
) -> FusedUpdate:
    """Write the rule down for every parameter and plan it as one program."""
    builder = Builder("optimizer_step")
    inputs = [builder.input(f"t{i}", layout.spec) for i, layout in enumerate(layouts)]
    scalars = {at: builder.input(f"h{at[0]}_{at[1]}", _SCALAR) for at in varying}
    outputs: list[Value] = []
    overwrite: dict[int, int] = {}
    first = 0
    with builder.writing():
        for owner, state in zip(owners, states, strict=True):
            own = inputs[first : first + len(state) + 2]
            h = tuple(scalars.get((owner, j), x) for j, x in enumerate(rows[owner]))
            for position, new in enumerate(_new_values(rule, own, h, flags)):
                overwrite[len(outputs)] = first + position
                outputs.append(new)
            first += len(state) + 2
    graph = run_passes(builder.finish(outputs), device=layouts[0].device)
    strides = [layout.strides for layout in layouts] + [()] * len(scalars)
    plan = make_plan(graph, strides, overwrite, device=layouts[0].device)
    in_place = tuple(slot.kind == "input" for slot in plan.output_slots)
    buffer = np.zeros(len(varying))
    cells = tuple(Tensor._wrap(buffer[i : i + 1].reshape(())) for i in range(len(varying)))
    return FusedUpdate(rows, owners, varying, Program(plan), in_place, buffer, cells)


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


def _run(
    found: FusedUpdate,
    tensors: Sequence[Tensor],
    states: Sequence[tuple[Tensor, ...]],
    rows: Sequence[tuple[float, ...]],
) -> None:
    """Run the program and count the writes."""
    assert found.program is not None
    for cell, (i, j) in enumerate(found.varying):
        found.buffer[cell] = rows[i][j]
    results = found.program.run(*tensors, *found.inputs)
    first = 0
    number = 0
    for state in states:
        for target in tensors[first : first + len(state) + 1]:
            if not found.in_place[number]:
                result = results[number]
                array = shaped(result, target.spec) if hasattr(result, "ptr") else result
                write_into(target.array, array)
            target._writes.value += 1
            number += 1
        first += len(state) + 2
