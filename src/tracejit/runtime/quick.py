"""Programs that need no Python: one built-in reads addresses, takes memory, runs the table and makes the tensors.

It serves programs on the host whose steps are all native and whose results and temporaries are small: those of which
a call takes microseconds. Where anything is not as it expects (an argument that is no tensor, a profile that watches)
it calls the Python function of the program, and does what that does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..layout import MemoryLayout
from ..types import TensorType
from .allocator import _SMALL, _small
from .launcher import _Address
from .native.native import Native, native, set_context
from .program import Program

__all__ = ["LIST", "ONE", "TUPLE", "quick_run", "watch_programs"]

#: What the built-in returns: a tuple, the only result, a list.
TUPLE, ONE, LIST = range(3)
_TENSOR, _BLOCK, _BYTE, _ITSELF = range(4)
_READ, _READ_BLOCK, _UNREAD = range(3)
#: The words before the pairs of slots and values, as the native code counts them.
QUICK = (
    *("table", "first", "last", "n_arguments", "n_results", "fallback", "n_slots"),
    *("arena_bucket", "arena_slot", "how", "n_presets", "results"),
)
_HEADER = 16

#: Type, layout and kind of a result as `Results` has them.
Kind = tuple[TensorType, MemoryLayout, str]


def quick_run(
    program: Program,
    kinds: Sequence[Kind],
    how: int,
    wrap: Callable[[Sequence[Any]], list[Any]],
    byte: int = -1,
) -> Callable[..., Any] | None:
    """The built-in that runs ``program`` on tensors, or None where only Python can.

    It takes the arguments of ``program.run`` and returns a tensor per result, and the pack behind them if there is
    one: as a tuple, a list, or, for ``ONE``, the only result. Result number ``byte`` is returned as True or False.
    ``wrap`` makes tensors of the results of ``program.run``.

    >>> from tracejit import compile, ones
    >>> f = compile(lambda x: x + 1)
    >>> f(ones(2)), f(ones(2))
    (tensor([2., 2.]), tensor([2., 2.]))
    """
    module = native()
    if not module.knows_objects or not _is_quick(program, kinds):
        return None
    words = _Words(program, kinds, how, _slow(program, how, wrap, byte), byte)
    return module.bind(module.run_quick, words.address)


def watch_programs(watched: bool) -> None:
    """Have all programs run by their Python functions, which can be watched, or no longer.

    >>> watch_programs(False)
    """
    module: Native = native()
    set_context("watched", int(watched or not module.knows_objects))


def _is_quick(program: Program, kinds: Sequence[Kind]) -> bool:
    plan, names = program.plan, program.names
    if plan.device >= 0 or plan.refuses or plan.hosts:
        return False
    if any(how not in ("block", "itself") for *_, how in kinds):
        return False
    if any(slot.kind not in ("output", "input", "pack") for slot in plan.output_slots):
        return False
    sizes = [size for name, size in names.items() if name.startswith("size") or name in _SIZES]
    return all(0 <= size <= _SMALL for size in sizes)


_SIZES = ("arena_size", "pack_size")


def _slow(
    program: Program, how: int, wrap: Callable[[Sequence[Any]], list[Any]], byte: int
) -> Callable[..., Any]:
    """What the built-in does, in Python."""
    pack = program.plan.has_pack

    def run(*arguments: Any) -> Any:
        results = program.run(*arguments)
        found = wrap(results)
        if byte >= 0:
            found[byte] = bool(results[byte].array.item(0))
        if pack:
            found.append(results[-1])
        return found[0] if how == ONE else tuple(found) if how == TUPLE else found

    return run


class _Words:
    """The words that the built-in reads, and the objects they point to."""

    def __init__(
        self, program: Program, kinds: Sequence[Kind], how: int, slow: Any, byte: int
    ) -> None:
        self.kept: list[Any] = [program.table, slow, list(kinds), program.names]
        plan = program.plan
        self.first_output = plan.n_inputs
        self.outputs = plan.n_outputs
        self.names = program.names
        rows = self.results(program, kinds, byte)
        presets, inputs = self.presets(program), self.inputs(program)
        arena = self.bucket(self.names["arena_size"]) if plan.has_arena else 0
        table = program.table
        header = [table.address, 0, table.n_steps, len(inputs) // 2, len(rows) // 5, id(slow)]
        header += [self.n_slots(program), arena, self.first_output + self.outputs, how]
        header += [len(presets) // 2, self.array(rows).ctypes.data]
        assert len(header) == len(QUICK)
        words = self.array([*header, *[0] * (_HEADER - len(header)), *presets, *inputs])
        self.address = _Address(words.ctypes.data)
        self.address.words = words
        self.address.kept = self.kept

    def array(self, words: Sequence[int]) -> np.ndarray:
        found = np.array([*words, 0], dtype=np.int64)
        self.kept.append(found)
        return found

    def bucket(self, nbytes: int) -> int:
        """The allocator's list for blocks of this size."""
        return id(_small[(nbytes + 63) >> 6])

    def n_slots(self, program: Program) -> int:
        return max(self.first_output + self.outputs + 2 + len(program.plan.late), 1)

    def presets(self, program: Program) -> list[int]:
        """Every slot that no argument or result fills: zero, or the address of a constant."""
        found = dict.fromkeys(range(self.n_slots(program)), 0)
        late = self.first_output + self.outputs + 2
        for i, slot in enumerate(program.plan.late):
            if slot.kind == "constant":
                found[late + i] = self.names[f"c{slot.index}"]
        return [word for pair in found.items() for word in pair]

    def inputs(self, program: Program) -> list[int]:
        """What is read of each argument, and the slot it fills."""
        packed = program.plan.packed_inputs
        read = {line.split(" = ")[0] for line in program.source.splitlines()}
        every = "    p" in read
        found: list[int] = []
        for i in range(self.first_output):
            if i not in packed:
                found += [_READ if every or f"    p{i}" in read else _UNREAD, i]
        if packed:
            found += [_READ_BLOCK, self.first_output + self.outputs + 1]
        return found

    def results(self, program: Program, kinds: Sequence[Kind], byte: int) -> list[int]:
        """Kind, bucket, slot, type and layout of each result."""
        plan, names = program.plan, self.names
        given = [i for i in range(plan.n_inputs) if i not in plan.packed_inputs]
        slots = [slot for slot in plan.output_slots if slot.kind != "pack"]
        rows: list[int] = []
        for i, (slot, (kind, layout, _)) in enumerate(zip(slots, kinds, strict=True)):
            if slot.kind == "input":
                rows += [_ITSELF, 0, given.index(slot.index), 0, 0]
                continue
            bucket = self.bucket(names[f"size{slot.index}"])
            what = _BYTE if i == byte else _TENSOR
            rows += [what, bucket, self.first_output + slot.index, id(kind), id(layout)]
        if plan.has_pack:
            bucket = self.bucket(names["pack_size"])
            rows += [_BLOCK, bucket, self.first_output + self.outputs + 1, 0, 0]
        return rows
