"""Tile steps: several kernels and products that run on one tile of a common range after the other.

A program runs each step over its whole range before the next begins. Where several steps walk the same leading
dimensions (see `tile_runs`), one *tile step* runs all of them on a few *units* at a time: what one part writes the next
one finds in the cache, and what nobody else reads lies in memory that each worker has for itself. The parts are
ordinary kernels; an address in a worker's own memory is moved back by the units before the tile, so that a part finds
its unit there by its usual number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ...sizes import call, largest, smallest
from ..assembled import assembled, process_triple
from ..launcher import BLAS, RELEASE_GIL, SERIAL, Step, for_workers
from ..machine_code.loader import load_object
from ..machine_code.promised import located
from .tiles_ir import tiles_module_text

__all__ = ["TileStep", "Window", "tile_step", "tiles_function", "units_per_tile"]

#: Bytes of its own that a worker fills before it begins to read them again.
TILE_BYTES = 1 << 17
#: Slots from here on are windows: memory of a worker's own.
FIRST_WINDOW = 1 << 20


@dataclass(frozen=True)
class Window:
    """Memory of each worker's own: where that of the first is, bytes from worker to worker and from unit to unit."""

    slot: int
    offset: Any
    per_worker: Any
    per_unit: Any


@dataclass(frozen=True, slots=True)
class TileStep(Step):
    """A step made of others; ``spared`` are the bytes that need not go through memory."""

    parts: tuple[Step, ...] = ()
    spared: Any = 0


def tile_step(
    parts: Sequence[Step],
    units: Any,
    size: Any,
    windows: Mapping[int, Window],
    workers: int,
    spared: Any,
) -> TileStep:
    """One step for ``parts``, each over its share of ``units``, ``size`` of them at a time.

    Arguments of the parts in slots of ``windows`` are addresses in the own memory of one of so many ``workers``.

    >>> part = Step(1, [(FIRST_WINDOW, 8), (0, 16)], (-1, 12), 6)
    >>> step = tile_step([part], 4, 2, {FIRST_WINDOW: Window(3, 64, 1024, 100)}, 2, 0)
    >>> step.args[6:], step.extent, step.grain
    ([(3, 72), (-1, 100), (-1, 1024), (0, 16), (-1, 0), (-1, 0)], (-1, 4), 2)
    """
    words: list[tuple[int, Any]] = []
    grain: Any = SERIAL
    flags = 0
    for part in parts:
        each = part.extent[1] // largest(units, 1)
        grain = smallest(grain, -(-part.grain // largest(each, 1)))
        flags |= part.flags & (RELEASE_GIL | BLAS)
        words += [(-1, part.fn_address), (-1, each), (-1, len(part.args))]
        for slot, value in part.args:
            window = windows.get(slot)
            if window is None:
                words += [(slot, value), (-1, 0), (-1, 0)]
                continue
            words += [(window.slot, window.offset + value)]
            words += [(-1, window.per_unit), (-1, window.per_worker)]
    header = [(-1, len(parts)), (-1, size), (-1, max(len(part.args) for part in parts))]
    return TileStep(
        tiles_function(),
        [*header, *words],
        (-1, units),
        grain,
        flags | for_workers(workers),
        (),
        tuple(parts),
        spared,
    )


def units_per_tile(nbytes: Any) -> Any:
    """How many units a tile has when one fills so many bytes.

    >>> units_per_tile(1 << 20), units_per_tile(TILE_BYTES // 4)
    (1, 4)
    """
    (count,) = call(_units_per_tile, nbytes)
    return count


def _units_per_tile(nbytes: int) -> tuple[int]:
    return (max(1, min(TILE_BYTES // max(nbytes, 1), 64)),)


@lru_cache(maxsize=1)
def tiles_function() -> int:
    """The address of the function that all tile steps share."""
    triple = process_triple()
    code = assembled(tiles_module_text(triple), triple)
    return located(load_object(code, "tracejit_tiles"), "tiles")
