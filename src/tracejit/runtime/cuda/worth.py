"""Which programs become CUDA graphs unasked: those of many small launches, with few results and little memory.

A graph spares what it costs to queue its launches one by one. It costs a look at every input, copies of results, and
memory that stays its own from call to call.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from ..launcher import Loop, Step, is_other_form

#: Microseconds of the host, on an H100: a kernel and a product that are queued, more than in a graph; starting a graph;
#: an input that is looked at; a result that is copied out.
KERNEL, PRODUCT, START, INPUT, RESULT = 3.5, 10.0, 12.0, 1.0, 6.0
#: Launches of the longest graph: each takes memory of the driver.
MOST_LAUNCHES = 2000
#: Bytes that one graph may keep, and all together.
MOST_BYTES, ALL_BYTES = 64 << 20, 512 << 20


class Budget:
    """The memory that graphs nobody asked for keep."""

    def __init__(self) -> None:
        self.held = 0
        self._lock = threading.Lock()

    def take(self, nbytes: int) -> bool:
        """May a graph keep so many bytes more?

        >>> Budget().take(1 << 20), Budget().take(1 << 30)
        (True, False)
        """
        with self._lock:
            if nbytes > MOST_BYTES or self.held + nbytes > ALL_BYTES:
                return False
            self.held += nbytes
            return True

    def give(self, nbytes: int) -> None:
        """A graph is gone."""
        with self._lock:
            self.held -= nbytes


BUDGET = Budget()


def bytes_of(program: Any) -> int:
    """What a graph of a program keeps at most: results, temporaries, copies of inputs."""
    own = sum(
        value
        for name, value in program.names.items()
        if name in ("arena_size", "pack_size") or (name[:4] == "size" and name[4:].isdigit())
    )
    return int(own) + sum(int(program.bound([x.spec.nbytes])[0]) for x in program.plan.inputs)


def is_worth_a_graph(program: Any) -> bool:
    """Does a graph spare more than it costs?"""
    spared, launches = 0.0, 0
    for steps, rounds in _queued(program):
        for step in steps:
            is_product = step.args[0][0] >= 0  # one begins with cuBLAS's handle
            launches += rounds
            spared += rounds * (PRODUCT if is_product else KERNEL)
    plan = program.plan
    copied = sum(
        slot.kind != "input" for slot in plan.output_slots
    )  # not what lies where an input did
    cost = START + INPUT * len(plan.inputs) + RESULT * copied
    return spared > cost and launches <= MOST_LAUNCHES


def _queued(program: Any) -> Iterator[tuple[list[Step], int]]:
    """Steps that launch something, and how often they run."""
    for item in program.plan.items:
        if isinstance(item, Loop):
            (rounds,) = program.bound([item.count[1]])
            yield [s for s in item.steps if not is_other_form(s)], max(int(rounds), 0)
            yield list(item.after), 1
        elif isinstance(item, Step) and not is_other_form(item):
            yield [item], 1
