"""Programs as tables, and running them in one native call.

A program is a sequence of steps; a step is a kernel, where its arguments come from, and how far its
parallel range reaches. `build_table` packs the steps into one array of 64-bit words that the native
launcher walks: arguments and extents are constants or refer to the *slots* of the call (addresses
of inputs and buffers, sizes), so a table is built once and run with any number of slot values, by
any number of threads at a time.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tracejit.extents import hint
from tracejit.runtime.native import context_address, native
from tracejit.runtime.native_ir import HEADER_WORDS, STEP_WORDS
from tracejit.runtime.threads import _start_pool, get_num_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "BLAS",
    "COARSE",
    "RELEASE_GIL",
    "SERIAL",
    "Step",
    "Table",
    "build_table",
    "failure",
    "pack_slots",
]

#: Step flag: let other Python threads run although the step is not spread over threads.
RELEASE_GIL = 1
#: Step flag: one chunk per thread instead of four (work that is dear to start, like a GEMM).
COARSE = 2
#: Step flag: the step calls BLAS, whose own threads are switched off meanwhile.
BLAS = 4
#: Grain of a step that always runs in one call on the calling thread.
SERIAL = 1 << 62


@dataclass(frozen=True, slots=True)
class Step:
    """One kernel call of a program.

    `args` are (slot, value) pairs: the value itself when slot is -1, else `slots[slot] + value`.
    `extent` is one such pair: the kernel is called over [0, extent), and not at all when that is
    empty. Ranges longer than `grain` are split over the threads, in multiples of `grain`.
    """

    fn_address: int
    args: Sequence[tuple[int, int]]
    extent: tuple[int, int]
    grain: int = SERIAL
    flags: int = 0


class _Address(int):
    """A table's address that keeps the table's words alive: what the built-ins hold on to."""

    words: np.ndarray


class Table:
    """A program ready to run.

    `run(first, last, slots)` runs steps first..last-1 with `slots` packed as bytes
    (`struct.pack("%dq" % n, ...)`), `run_slots(first, last, *slots)` takes the values themselves.
    Both are built-ins; they return 0, or for the first failing step `(step + 1) << 32 | code` (see
    `failure`), and raise TypeError or ValueError for arguments that do not fit the table. The GIL
    is released from the first step on that is longer than its grain.
    """

    __slots__ = ("address", "n_slots", "n_steps", "run", "run_slots")

    def __init__(self, words: np.ndarray) -> None:
        self.address = _Address(words.ctypes.data)
        self.address.words = words
        self.n_steps = int(words[0])
        self.n_slots = int(words[3])
        module = native()
        self.run: Callable[[int, int, bytes], int] = module.bind(module.run_bytes, self.address)
        self.run_slots: Callable[..., int] = module.bind(module.run_ints, self.address)

    def launch(self, first: int, last: int, slots: bytes) -> int:
        """The same as `run` through ctypes, the GIL released throughout."""
        if not 0 <= first <= last <= self.n_steps:
            raise ValueError("steps first..last are not in the program")
        if len(slots) < 8 * self.n_slots:
            raise ValueError("fewer slot values than the program refers to")
        function = native().launch
        code = function(self.address, first, last, slots)
        while code < 0:
            _start_pool()
            code = function(self.address, -code - 1, last, slots)
        return code


def build_table(steps: Sequence[Step]) -> Table:
    """Pack steps into a table.

    Raises ValueError for a null function, a grain below one or a slot below -1.

    >>> table = build_table([])
    >>> table.run(0, 0, b"")
    0
    """
    return make_table([signed(word) for word in table_words(steps)])


def make_table(words: Sequence[int]) -> Table:
    """The table with these words, as `table_words` lays them out."""
    get_num_threads()  # reads the environment the first time
    return Table(np.array(words, dtype=np.int64))


def table_words(steps: Sequence[Step]) -> list[int]:
    """The words of a table; symbolic sizes stay symbolic."""
    rows: list[int] = []
    pairs: list[int] = []
    first_pair = HEADER_WORDS + STEP_WORDS * len(steps)
    max_slot = -1
    for index, step in enumerate(steps):
        _check(index, step)
        rows += [step.fn_address, first_pair + len(pairs), len(step.args), *step.extent]
        rows += [step.grain, step.flags, 0]
        for slot, value in step.args:
            pairs += [slot, value]
            max_slot = max(max_slot, slot)
        max_slot = max(max_slot, step.extent[0])
    most = max((len(step.args) for step in steps), default=0)
    return [len(steps), max(most, 1), context_address, max_slot + 1, *rows, *pairs]


def failure(code: int) -> tuple[int, int]:
    """The step and the kernel's return code from a nonzero result of `run`.

    >>> failure((3 + 1) << 32 | 7)
    (3, 7)
    """
    return (code >> 32) - 1, code & 0xFFFFFFFF


def pack_slots(values: Sequence[int]) -> bytes:
    """Slot values as the bytes `Table.run` takes.

    >>> len(pack_slots([1, -2]))
    16
    """
    return struct.pack(f"{len(values)}q", *values)


def _check(index: int, step: Step) -> None:
    if step.fn_address == 0:
        raise ValueError(f"step {index} has no function")
    if hint(step.grain) < 1:
        raise ValueError(f"step {index}: the grain is at least 1, not {step.grain}")
    if min((slot for slot, _ in (*step.args, step.extent)), default=-1) < -1:
        raise ValueError(f"step {index} refers to a negative slot")


def signed(word: int) -> int:
    """A 64-bit pattern as a signed number: bits of f64 scalars and high addresses may come as unsigned.

    >>> signed((1 << 64) - 1)
    -1
    """
    return word - (1 << 64) if word >= 1 << 63 else word
