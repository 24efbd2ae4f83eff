"""One program for the step of all parameters: the update rule written down once, fused, and run in place.

The rule is the same text eager execution runs. Scalars that change from step to step (a step size with bias correction)
are inputs of the program; the others are constants of it. Nothing is re-ordered, so the numbers are the eager ones.

Where it is asked for, the second step of a kind makes the program. Where nothing is said it is made behind the steps,
once these have taken about as long as that takes, and serves those that follow.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ..cuda.arrays import MODULES, is_writeable, shaped, write_into
from ..layout import MemoryLayout, layout_of
from ..runtime.behind import Abandoned, worker
from ..runtime.callbacks import pointer_of
from ..tensor import Tensor

if TYPE_CHECKING:
    from ..runtime.program import Program

log = logging.getLogger("tracejit")

#: Programs remembered per process; a training run needs one per parameter group.
MAX_PROGRAMS = 64
#: Seconds of steps after which a program is worth being made: that takes 15 to 170 milliseconds.
WORTH = 0.03


class FusedUpdate:
    """The step of one group of parameters: its program, and which scalars it takes as inputs.

    ``owners`` maps every parameter to the row of scalars it uses (parameters that started together share one).
    """

    # Written out: every process that makes an optimizer would wait for a dataclass to be put together.
    def __init__(
        self,
        rows: list[tuple[float, ...]],
        owners: tuple[int, ...],
        varying: tuple[tuple[int, int], ...] = (),
        program: Program | None = None,
        in_place: tuple[bool, ...] = (),
        buffer: Any = None,
        inputs: tuple[Tensor, ...] = (),
    ) -> None:
        self.rows, self.owners, self.varying = rows, owners, varying
        self.program, self.in_place, self.buffer, self.inputs = program, in_place, buffer, inputs
        self.spent = 0.0  # seconds that steps have taken without the program
        self.asked = False  # is it being made, or has that failed?
        self.places: tuple[int, ...] = ()  # where what is written lies, when last looked at ...
        self.apart = False  # ... and whether all of it could be written, each in its own memory


_updates: dict[Any, FusedUpdate] = {}
#: What is noted of steps that cannot be one program.
_NOTHING = FusedUpdate([], ())


def update_fused(
    rule: Callable[..., Any],
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    states: Sequence[tuple[Tensor, ...]],
    hyper: Sequence[tuple[float, ...]],
    flags: dict[str, Any],
    at_once: bool = True,
) -> FusedUpdate | None:
    """Run the step as one program, if there is one or it is to be made ``at_once``; then None.

    Otherwise what is noted of steps of this kind, the first of which only notes the scalars.
    """
    tensors = [t for p, g, state in zip(params, grads, states, strict=True) for t in (p, *state, g)]
    layouts = tuple([t._layout or layout_of(t) for t in tensors])
    for layout in layouts:
        if not (layout.is_contiguous and layout.aligned):
            return _NOTHING
    devices = {layout.device for layout in layouts} if MODULES else {-1}
    if not layouts or len(devices) > 1 or not (at_once or devices == {-1}):
        return _NOTHING
    rows: dict[tuple[float, ...], int] = {}
    owners = tuple([rows.setdefault(h, len(rows)) for h in hyper])
    key = (rule, tuple(flags.items()), owners, layouts)
    found = _updates.get(key)
    if found is None:
        for written in (*params, *(t for state in states for t in state)):
            if not is_writeable(written.array):
                return _NOTHING  # the plain update says why this cannot be
        while len(_updates) >= MAX_PROGRAMS:
            _updates.pop(next(iter(_updates)))
        _updates[key] = FusedUpdate(list(rows), owners)
        return _updates[key]
    varying = _varying(found, list(rows))
    if found.program is None or len(varying) > len(found.varying):
        sizes = [len(state) for state in states]
        build = partial(_build, rule, layouts, sizes, list(rows), owners, flags, varying)
        if not at_once:
            _build_behind(key, found, build)
            return found
        found = _updates[key] = build()
    if not at_once and not _lie_apart(found, params, states):
        return found
    _run(found, tensors, states, list(rows))
    return None


def _build_behind(key: Any, found: FusedUpdate, build: Callable[[], FusedUpdate]) -> None:
    """Have the program made by the thread behind the steps, once they have taken long enough."""
    if found.asked or found.spent < WORTH:
        return
    found.asked = True

    def job() -> None:
        try:
            made = build()
        except Abandoned:
            raise
        except Exception:  # steps go on without it
            log.exception("the program of an optimizer's step could not be made")
            return
        made.spent = found.spent
        if _updates.get(key) is found:
            _updates[key] = made

    worker().submit(job)


def _lie_apart(
    found: FusedUpdate, params: Sequence[Tensor], states: Sequence[tuple[Tensor, ...]]
) -> bool:
    """Can all that is written be written, and lies each in memory of its own?

    One parameter may show a part of another. Steps one after the other then change it twice.
    """
    written = [t for p, state in zip(params, states, strict=True) for t in (p, *state)]
    places = tuple([t._pointer or pointer_of(t) for t in written])
    if places != found.places:
        sizes = [t.spec.nbytes for t in written]
        ends = sorted((at, at + n) for at, n in zip(places, sizes, strict=True) if n)
        found.apart = all(a[1] <= b[0] for a, b in pairwise(ends))
        found.apart = found.apart and all(is_writeable(t.array) for t in written)
        found.places = places
    return found.apart


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
    sizes: Sequence[int],
    rows: list[tuple[float, ...]],
    owners: tuple[int, ...],
    flags: dict[str, Any],
    varying: tuple[tuple[int, int], ...],
) -> FusedUpdate:
    """The step of parameters that have so many states each as one program."""
    # It imports the compiler, which no step without a program is to wait for.
    from .fused_program import step_program

    program, in_place = step_program(rule, layouts, sizes, rows, owners, flags, varying)
    buffer = np.zeros(len(varying))
    cells = tuple(Tensor._wrap(buffer[i : i + 1].reshape(())) for i in range(len(varying)))
    return FusedUpdate(rows, owners, varying, program, in_place, buffer, cells)


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
