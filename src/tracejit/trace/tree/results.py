"""What programs of segments return, as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...cuda.arrays import is_on_device, shaped
from ...layout import MemoryLayout, contiguous_layout
from ...runtime.program import Program
from ...runtime.quick import ONE, TUPLE, quick_run
from ...tensor import Tensor
from ...types import TensorType


class Results:
    """Turns what a program returns into tensors; which results are blocks is known beforehand."""

    def __init__(self, program: Program) -> None:
        seen: set[tuple[str, int]] = set()
        self.kinds: list[tuple[TensorType, MemoryLayout, str]] = []
        for kind, slot in zip(program.types, program.plan.output_slots, strict=True):
            if slot.kind == "pack":
                continue
            place = (slot.kind, slot.index)
            how = "copy" if place in seen else _HOW.get(slot.kind, "array")
            seen.add(place)
            self.kinds.append((kind, contiguous_layout(kind, program.plan.device), how))

    def wrap(self, results: Sequence[Any]) -> list[Tensor]:
        """A tensor per result, the pack left out."""
        make = Tensor._of_block
        return [
            make(result, kind, layout) if how == "block" else wrap_result(result, kind, how)
            for result, (kind, layout, how) in zip(results, self.kinds, strict=False)
        ]

    def quick(self, program: Program, byte: int = -1, how: int | None = None) -> Any:
        """The built-in that runs ``program`` and makes these tensors, None where Python has to.

        A single result is returned as it is, several in a tuple, unless ``how`` asks for something else.
        """
        if how is None:
            how = ONE if len(self.kinds) + program.plan.has_pack == 1 else TUPLE
        return quick_run(program, self.kinds, how, self.wrap, byte)


#: What a program returns for an output that lies in a slot of this kind; else it is an array.
_HOW = {"output": "block", "input": "itself"}


def wrap_result(result: Any, kind: TensorType, how: str) -> Tensor:
    """A tensor on an array, or (equal outputs were computed once) on a copy of one or of a block.

    An output written over an input is that input ``itself``.
    """
    if how == "itself":
        found: Tensor = result
        return found
    if how == "array":
        return Tensor._wrap(result)
    if isinstance(result, np.ndarray) or is_on_device(result):
        return Tensor._wrap(result.copy())
    return Tensor._wrap(shaped(result, kind).copy())
