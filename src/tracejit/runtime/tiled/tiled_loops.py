"""Loops whose rounds are all done on one tile of the elements, then on the next.

Where the body of a loop is made of pointwise kernels, an element of a round depends on the same element of the round
before and on nothing else that the loop writes. So no thread has to wait for the others between rounds, and what is
carried stays in the cache: such a loop is a single step, whose function calls the kernels for all rounds of a tile.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ...codegen.kernel import KernelCode, Pointer, Scratch
from ...extents import hint
from ...ir.graph import Value
from ...passes.fusion.groups import root
from ...sizes import call
from ..assembled import assembled, process_triple
from ..launcher import Step
from ..machine_code.kernels import Kernel
from ..machine_code.loader import load_object
from ..machine_code.promised import located
from .tiled_loops_ir import tiled_loop_text

__all__ = ["TiledLoop", "goes_by_elements", "tiled_loop"]

#: Bytes that a tile reads and writes in a round, which nearest caches hold, and the elements of the smallest one.
TILE_BYTES, LEAST = 24 << 10, 256
_LOOPS = re.compile(r"\bfor (\w+) in range\(([^)]*)\):")
_PLACES = re.compile(r"\b(\w+)\[([^\]]*)\]")


@dataclass(frozen=True, slots=True)
class TiledLoop(Step):
    """A loop as one step: ``rounds`` times what the steps of its ``body`` do."""

    body: tuple[Step, ...] = ()
    rounds: Any = 0


def goes_by_elements(code: KernelCode, carried: Set[Value], targets: Set[Value]) -> bool:
    """Does a kernel read of what the loop writes, and write, only the element that it is called for?

    That are the ``carried`` values and what takes their place, ``targets``. It may write these alone: temporary memory
    may be that of another value, element by element or not.

    >>> from tracejit.ir import parse
    >>> from tracejit.runtime.plan.plan import make_plan
    >>> plan = make_plan(parse("graph f(x: f32[8]) { %0: f32[8] = exp(x) return %0 }"), [(1,)])
    >>> code, x = plan.kernels[0].code, set(plan.graph.inputs)
    >>> goes_by_elements(code, x, set(plan.graph.outputs)), goes_by_elements(code, x, set())
    (True, False)
    """
    if len(code.functions) != 1 or code.group is None or code.group.reduced:
        return False
    function, met = code.functions[0], carried | targets
    text = function.statements
    loops = _LOOPS.findall(text)
    if len(loops) != 1 or loops[0][1] != "lo, hi":
        return False
    own = set()
    for name, p in function.named_parameters.items():
        if isinstance(p, Scratch) or (
            isinstance(p, Pointer) and p.written and p.value not in targets
        ):
            return False
        if isinstance(p, Pointer) and (p.value in met or root(p.value) in met):
            own.add(name)
            if p.offset:
                return False
    return all(at == loops[0][0] for name, at in _PLACES.findall(text) if name in own)


def tiled_loop(kernels: Sequence[Kernel], steps: Sequence[Step], rounds: Any) -> TiledLoop | None:
    """The step that does ``rounds`` of ``steps``, one of each kernel, with the increments of their arguments.

    None where they have not the same extent; where they have, the plan is for sizes with which that is so.

    >>> from tracejit.ir import parse
    >>> from tracejit.runtime.plan.plan import make_plan
    >>> plan = make_plan(parse("graph f(x: f32[8]) { %0: f32[8] = exp(x) return %0 }"), [(1,)])
    >>> step = Step(1, [(0, 0), (1, 0)], (-1, 8), 1024, 0, [(64, 0), (0, 32)])
    >>> tiled_loop(plan.kernels, [step], 30).args[7:]
    [(0, 0), (-1, 64), (-1, 0), (1, 0), (-1, 0), (-1, 32)]
    """
    extent = steps[0].extent
    if any(not _same(step.extent, extent) for step in steps):
        return None
    pointers = [
        p for k in kernels for p in k.code.functions[0].parameters if isinstance(p, Pointer)
    ]
    nbytes = sum(p.value.spec.dtype.itemsize for p in pointers)
    size = max(LEAST, TILE_BYTES // max(nbytes, 1) // LEAST * LEAST)
    words: list[tuple[int, Any]] = []
    for kernel, step in zip(kernels, steps, strict=True):
        # What is written stays in the caches for the next round: never the form that writes past them.
        words += [(-1, kernel.promised[0]), (-1, 1), (-1, len(step.args))]
        for argument, (each, odd) in zip(step.args, step.increments, strict=True):
            words += [argument, (-1, each), (-1, odd)]
    most = max(len(step.args) for step in steps)
    header = [(-1, rounds), (-1, size), (-1, most), (-1, len(steps))]
    (grain,) = call(_grain, rounds, *[step.grain for step in steps])
    flags, here = steps[0].flags, tiled_loop_function()
    return TiledLoop(here, [*header, *words], extent, grain, flags, (), tuple(steps), rounds)


def _same(one: tuple[int, Any], other: tuple[int, Any]) -> bool:
    """Are two extents the same? What differs at the moment is not decided to differ always."""
    if one[0] >= 0 or other[0] >= 0 or hint(one[1]) != hint(other[1]):
        return False
    return bool(one[1] == other[1])


def _grain(rounds: int, *grains: int) -> tuple[int]:
    """The elements worth the attention of a second thread: the fewer, the more is done for each."""
    together = 1 / sum(1 / grain for grain in grains)
    return (max(LEAST, int(together) // max(rounds, 1)),)


@lru_cache(maxsize=1)
def tiled_loop_function() -> int:
    """The address of the function that all such steps share.

    >>> tiled_loop_function() == tiled_loop_function()
    True
    """
    triple = process_triple()
    code = assembled(tiled_loop_text(triple), triple)
    return located(load_object(code, "tracejit_tiled_loop"), "tiled_loop")
