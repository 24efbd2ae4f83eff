"""Which products of taps are computed with a lane of a vector for each output (`codegen.products.tap_outputs`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...codegen.products.tap_outputs import LEAST_LINE
from ...codegen.products.tap_outputs_blocks import STEPS, has_long_blocks
from ...codegen.products.vector_machine import Machine
from .strips import at_most

__all__ = ["has_outputs"]

#: Rows of a group, at least; and channels and taps where windows are neighbours: fewer are read in a moment.
LEAST_ROWS, LEAST_SUMMED = 12, 48
#: Where rows are one vector each number that is read is used once: worth it where much is left out.
SHORT_LINE = 8
#: Channels and taps, at most, where a block is a few neighbours, and results are not apart: each reads all of the
#: weight, and with more of them strips of positions are as fast or faster.
MOST_SUMMED = 400


def has_outputs(
    machine: Machine | None, rows: Any, channels: Any, given: Mapping[str, Any]
) -> bool:
    """Are there many rows of a group, and is something around what is seen, or windows and results apart?

    ``given`` are the attributes of a product, ``channels`` those of a group.

    >>> given = {"distances": ((0, 1, 2),), "stride": (1,), "spread": (1,), "counts": (9,), "around": True}
    >>> has_outputs(Machine(64, 8, 3), 32, 16, given), has_outputs(Machine(64, 8, 3), 8, 16, given)
    (True, False)
    """
    if machine is None or not at_most(LEAST_ROWS, rows):
        return False
    if len(given["distances"]) > 2 or given["stride"][-1] not in STEPS:
        return False
    taps = 1
    for distances in given["distances"]:
        taps *= len(distances)
    is_spread = any(s != 1 for s in given["spread"])
    apart = is_spread or any(s != 1 for s in given["stride"])
    if taps == 1 or not (apart or given["around"]):
        return False
    if not (apart or at_most(LEAST_SUMMED, channels * taps)):
        return False
    if not (has_long_blocks(machine) or is_spread or at_most(channels * taps, MOST_SUMMED)):
        return False
    is_long = not at_most(given["counts"][-1], SHORT_LINE)
    if not apart and at_most(rows, machine.vector // 4) and is_long:
        return False
    return at_most(LEAST_LINE, given["counts"][-1] // given["spread"][-1])
