"""Programs as tables, and running them in one native call.

A program is a sequence of steps and loops; a step is a kernel, where its arguments come from, and how
far its parallel range reaches, a loop is steps to be repeated, whose arguments may move on from
iteration to iteration. `build_table` packs them into one array of 64-bit words that the native
launcher walks: arguments, extents and counts are constants or refer to the *slots* of the call
(addresses of inputs and buffers, sizes), so a table is built once and run with any number of slot
values, by any number of threads at a time.

A program's parts are numbered by the *rows* of its table: a step is one row, a loop is one row and
then those of its steps.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tracejit.extents import hint
from tracejit.runtime.native.launcher_ir import HEADER_WORDS, STEP_WORDS
from tracejit.runtime.native.native import context_address, improve_when_idle, native
from tracejit.runtime.threads import _start_pool, get_num_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = [
    "BLAS",
    "COARSE",
    "RELEASE_GIL",
    "SERIAL",
    "Loop",
    "Step",
    "Table",
    "Until",
    "build_table",
    "failure",
    "for_workers",
    "is_other_form",
    "make_table",
    "pack_slots",
    "rows",
    "signed",
    "table_words",
]

#: Flag of steps and loops: let other Python threads run although nothing else says that it is long.
RELEASE_GIL = 1
#: Step flag: one chunk per thread instead of four (work that is dear to start, like a GEMM).
COARSE = 2
#: Step flag: the step calls BLAS, whose own threads are switched off meanwhile.
BLAS = 4
#: Flag of open loops that end with a true value.
_UNTIL_TRUE = 8
#: The bit of a step's flags from which on there is how many workers may take part, 0 for all.
_WORKERS = 8
#: Grain of a step that always runs in one call on the calling thread.
SERIAL = 1 << 62


@dataclass(frozen=True, slots=True)
class Step:
    """One kernel call of a program.

    `args` are (slot, value) pairs: the value itself when slot is -1, else `slots[slot] + value`.
    `extent` is one such pair: the kernel is called over [0, extent), and not at all when that is
    empty. Ranges longer than `grain` are split over the threads, in multiples of `grain`.

    `increments` is empty or has a pair (per_iteration, alternating) for each of `args`: in iteration
    i of a loop, counted from 0, the argument is `i * per_iteration + (i & 1) * alternating` more
    than `args` say; in what comes after a loop, i is the number of iterations there were. Outside
    loops they mean nothing.
    """

    fn_address: int
    args: Sequence[tuple[int, int]]
    extent: tuple[int, int]
    grain: int = SERIAL
    flags: int = 0
    increments: Sequence[tuple[int, int]] = ()


def for_workers(count: int) -> int:
    """The flags of a step that has memory for so many workers only, each with its own part.

    More take no part in it: there may be more threads when it runs than when it was planned.

    >>> COARSE + for_workers(3)
    770
    """
    return count << _WORKERS


def is_other_form(item: object) -> bool:
    """Does a step of a device's program launch only where the one before it did not (`runtime.cuda.launches`)?

    >>> launch = [(-1, 99), (-1, 128), (0, 0), (-1, 0), (-1, 1), (-1, 0)]
    >>> is_other_form(Step(1, launch, (-1, 4))), is_other_form(Step(1, [*launch[:5], (-1, 1)], (-1, 4)))
    (True, False)
    """
    if not isinstance(item, Step) or item.args[0][0] >= 0:  # a product begins with cuBLAS's handle
        return False
    return len(item.args) > 5 and item.args[5] == (-1, 0)


@dataclass(frozen=True, slots=True)
class Until:
    """When an open loop ends: as soon as the byte at `word` is `value` (as a truth value).

    `word` is a (slot, value) pair as in `Step`, the address in the first iteration; `increments` is
    what it gains, as for the arguments of steps.
    """

    word: tuple[int, int]
    increments: tuple[int, int]
    value: bool


@dataclass(frozen=True, slots=True)
class Loop:
    """Steps that run in order, `count` times.

    `count` is a (slot, value) pair as in `Step`; zero or less runs nothing. The only flag is
    `RELEASE_GIL`. Loops do not nest. With `until`, the loop is left after the first iteration in
    which that came true. The steps `after` run once at the end, each on the calling thread.
    """

    count: tuple[int, int]
    steps: tuple[Step, ...]
    flags: int = 0
    until: Until | None = None
    after: tuple[Step, ...] = ()


class _Address(int):
    """An address of words that keeps them, and what they point to, alive: what the built-ins hold on to."""

    words: np.ndarray
    kept: object


class Table:
    """A program ready to run.

    `run(first, last, slots)` runs rows first..last-1 with `slots` packed as bytes
    (`struct.pack("%dq" % n, ...)`), `run_slots(first, last, *slots)` takes the values themselves.
    `n_steps` is the number of rows (see `rows`), and both `first` and `last` stand before a step or
    a loop or after the last one: what a range that cuts a loop runs is not defined.
    Both are built-ins; they return 0, or for the first failing step `(row + 1) << 32 | code` (see
    `failure`), whatever the iteration, and raise TypeError or ValueError for arguments that do not
    fit the table.

    The GIL is released from the first step on that is longer than its grain, and from the start of a
    loop on with such a step, if the iterations are counted together, or with more than 1024 kernel
    calls.
    """

    __slots__ = ("address", "n_slots", "n_steps", "run", "run_slots")

    def __init__(self, words: np.ndarray) -> None:
        self.address = _Address(words.ctypes.data)
        self.address.words = words
        self.n_steps = int(words[0])
        self.n_slots = int(words[3])
        module = native()
        improve_when_idle()
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


def build_table(items: Sequence[Step | Loop]) -> Table:
    """Pack steps and loops into a table.

    Raises ValueError for a null function, a grain below one, a slot below -1, increments for some
    arguments only, or a loop within a loop.

    >>> table = build_table([])
    >>> table.run(0, 0, b"")
    0
    """
    return make_table([signed(word) for word in table_words(items)])


def make_table(words: Sequence[int] | np.ndarray) -> Table:
    """The table with these words, as `table_words` lays them out.

    >>> make_table(table_words([])).n_steps
    0
    """
    get_num_threads()  # reads the environment the first time
    return Table(np.array(words, dtype=np.int64))


def rows(item: Step | Loop) -> int:
    """How many rows of a table a step or a loop takes.

    >>> step = Step(1, (), (-1, 0))
    >>> rows(step), rows(Loop((-1, 10), (step, step)))
    (1, 3)
    """
    return 1 + len(item.steps) + len(item.after) if isinstance(item, Loop) else 1


def table_words(items: Sequence[Step | Loop]) -> list[int]:
    """The words of a table; symbolic sizes stay symbolic.

    >>> words = table_words([Loop((-1, 10), (Step(1, [(3, 0)], (-1, 1)),))])
    >>> words[0], words[1], words[3]
    (2, 1, 4)
    """
    first_pair = HEADER_WORDS + STEP_WORDS * sum(map(rows, items))
    table: list[int] = []
    pairs: list[int] = []
    max_slot, most_args = -1, 1
    for index, (item, looping) in enumerate(_in_rows(items)):
        if isinstance(item, Loop):
            _check_loop(index, item)
            first, flags = 0, item.flags
            if item.until is not None:
                first = first_pair + len(pairs)
                pairs += [*item.until.word, *item.until.increments]
                flags |= _UNTIL_TRUE if item.until.value else 0
                max_slot = max(max_slot, item.until.word[0])
            table += [0, first, len(item.steps), *item.count, len(item.after), flags, 0]
            max_slot = max(max_slot, item.count[0])
            continue
        _check(index, item)
        first_arg = first_pair + len(pairs)
        increments = item.increments if looping else ()
        pairs += [word for pair in (*item.args, *increments) for word in pair]
        first_increment = first_arg + 2 * len(item.args) if increments else 0
        table += [item.fn_address, first_arg, len(item.args), *item.extent]
        table += [item.grain, item.flags, first_increment]
        max_slot = max(max_slot, item.extent[0], *(slot for slot, _ in item.args))
        most_args = max(most_args, len(item.args))
    return [len(table) // STEP_WORDS, most_args, context_address, max_slot + 1, *table, *pairs]


def _in_rows(items: Sequence[Step | Loop]) -> Iterator[tuple[Step | Loop, bool]]:
    """What stands in each row, and whether it belongs to a loop."""
    for item in items:
        yield item, False
        if isinstance(item, Loop):
            yield from ((step, True) for step in (*item.steps, *item.after))


def failure(code: int) -> tuple[int, int]:
    """The step's row and the kernel's return code from a nonzero result of `run`.

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
    if hint(step.fn_address) == 0:
        raise ValueError(f"step {index} has no function")
    if hint(step.grain) < 1:
        raise ValueError(f"step {index}: the grain is at least 1, not {step.grain}")
    if min((slot for slot, _ in (*step.args, step.extent)), default=-1) < -1:
        raise ValueError(f"step {index} refers to a negative slot")
    if len(step.increments) not in (0, len(step.args)):
        raise ValueError(
            f"step {index} has {len(step.args)} arguments and {len(step.increments)} increments"
        )


def _check_loop(index: int, loop: Loop) -> None:
    if any(isinstance(step, Loop) for step in (*loop.steps, *loop.after)):
        raise ValueError(f"loop {index} has a loop within: loops do not nest")
    if any(step.grain < SERIAL for step in loop.after):
        raise ValueError(f"loop {index}: what comes after it runs on the calling thread")
    if loop.count[0] < -1 or (loop.until is not None and loop.until.word[0] < -1):
        raise ValueError(f"loop {index} refers to a negative slot")


def signed(word: int) -> int:
    """A 64-bit pattern as a signed number: bits of f64 scalars and high addresses may come as unsigned.

    >>> signed((1 << 64) - 1)
    -1
    """
    return word - (1 << 64) if word >= 1 << 63 else word
