"""Numbers that Python reads from a device before the next program runs: after one wait instead of one for each."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...cuda.arrays import MODULES, is_on_device, namespace, told
from ...ir.graph import Value
from ..numbers.numbers import NumberGuard
from ..tree.segments import Runner

#: Bytes for one number in memory of the host that the device writes to: the widest are complex.
_PLACE = 16


def asked_next(runner: Runner) -> Iterator[Value]:
    """The tensors whose numbers are read between a segment's program and any other."""
    guard = runner.segment.guard
    if guard is not None and not isinstance(guard, NumberGuard):
        yield guard.value
    for child in runner.children.values():
        yield from asked_first(child)


def asked_first(runner: Runner) -> Iterator[Value]:
    """The tensors whose numbers are read before any program from a segment on."""
    yield from (number.at for number in runner.segment.numbers if number.name == "item")
    if runner.idle:
        yield from asked_next(runner)


def waits(root: Runner) -> int:
    """How often the calls of a tree wait for a device, all paths together."""
    found, known = 0, set(asked_first(root))
    found += bool(known)
    pending = [(root, known)]
    for runner, seen in pending:
        asked = set() if runner.idle else set(asked_next(runner)) - seen
        found += bool(asked) + (not runner.idle and runner.program.plan.refuses)
        pending += [(child, seen | asked) for child in runner.children.values()]
    return found


def together(*arrays: Any) -> list[Any]:
    """One-element arrays of a device as arrays of the host, after one wait; others as they are.

    >>> together(np.ones(()))
    [array(1.)]
    """
    if not MODULES or not any(map(is_on_device, arrays)):
        return list(arrays)
    module = namespace()
    memory = module.cuda.alloc_pinned_memory(_PLACE * len(arrays))
    stream = module.cuda.get_current_stream()
    there = [(i, x) for i, x in enumerate(arrays) if is_on_device(x)]
    found = list(arrays)
    try:
        for i, x in there:
            x.data.copy_to_host_async(memory.ptr + _PLACE * i, x.itemsize, stream)
        stream.synchronize()
    except RuntimeError as error:
        raise told(error) from None
    for i, x in there:
        number = ctypes.string_at(memory.ptr + _PLACE * i, x.itemsize)
        found[i] = np.ndarray((), x.dtype, number)
    return found
