"""Programs as CUDA graphs: a queue of kernels that the driver was given once and starts as a whole.

A graph knows addresses, so it reads what lies where it lay when it was captured: inputs that move from call to call are
copied to a place of their own first, results are copied out. That pays where a program has many small kernels. Programs
that ask Python for something on the way, or wait for the device, are not captured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...cuda.arrays import DeviceBlock, empty_block, is_on_device, namespace
from ...generated import define
from ..plan import Plan
from ..plan_records import HostCall

#: Calls that run plainly first: addresses settle, libraries set up what they need.
WARM_UP = 3
#: Calls with other addresses of fixed inputs after which the graph is captured again.
PATIENCE = 8


def can_be_captured(plan: Plan) -> bool:
    """Is a plan nothing but work for the device?"""
    hosts = any(isinstance(item, HostCall) for item in plan.items)
    return not hosts and not plan.refuses and plan.launches > 1


class _Place:
    """Where an input lies for the graph."""

    __slots__ = ("_pointer", "array", "block", "ptr")

    def __init__(self, array: Any, block: Any = None) -> None:
        self.array, self.block = array, block
        self._pointer = self.ptr = int(array.data.ptr)


class CapturedProgram:
    """Runs a program as a graph once its addresses are known, plainly until then and whenever they do not fit."""

    def __init__(
        self, plan: Plan, source: str, names: dict[str, Any], plain: Callable[..., Any], index: int
    ) -> None:
        self.plan, self.source, self.names, self.plain, self.index = (
            plan,
            source,
            names,
            plain,
            index,
        )
        self.calls = self.misses = 0
        self.seen: list[set[int]] = []
        self.graph: Any = None
        self.places: list[_Place | None] = []
        self.fixed: list[int] = []
        self.results: tuple[Any, ...] = ()

    def __call__(self, *inputs: Any) -> Any:
        """The results of the program for these inputs."""
        if self.graph is None:
            self.note(inputs)
            if self.calls <= WARM_UP:
                return self.plain(*inputs)
            self.capture(inputs)
        elif any(
            place is None and _address(x) != known
            for x, place, known in zip(inputs, self.places, self.fixed, strict=True)
        ):
            self.misses += 1
            if self.misses > PATIENCE:
                self.forget()
            return self.plain(*inputs)
        for x, place in zip(inputs, self.places, strict=True):
            if place is not None:
                _copy_in(place, x)
        self.graph.launch(namespace().cuda.get_current_stream())
        return tuple(self.result(found, inputs) for found in self.results)

    def note(self, inputs: Sequence[Any]) -> None:
        """Remember where inputs lie."""
        self.calls += 1
        self.seen = self.seen or [set() for _ in inputs]
        for known, x in zip(self.seen, inputs, strict=True):
            known.add(_address(x))

    def forget(self) -> None:
        """Start again."""
        self.graph, self.results, self.places, self.fixed = None, (), [], []
        self.calls, self.misses, self.seen = 0, 0, []

    def capture(self, inputs: Sequence[Any]) -> None:
        """Give every input its place, run once to set up, and capture a second run in the same memory."""
        written = {slot.index for slot in self.plan.output_slots if slot.kind == "input"}
        self.places = [
            None
            if i in written or (len(known) == 1 and not _on_host(x))
            else _placed(x, self.index)
            for i, (known, x) in enumerate(zip(self.seen, inputs, strict=True))
        ]
        self.fixed = [_address(x) for x in inputs]
        given = [
            x if place is None else place for x, place in zip(inputs, self.places, strict=True)
        ]
        blocks: list[DeviceBlock] = []

        def keeping(nbytes: int) -> DeviceBlock:
            blocks.append(empty_block(nbytes, self.index))
            return blocks[-1]

        if not written:  # else the first run would do to the inputs what the graph is about to do
            self.run_with(keeping, given)
        taken = iter(blocks)
        stream = namespace().cuda.Stream(non_blocking=True)
        namespace().cuda.get_current_stream().synchronize()
        with stream:
            stream.begin_capture()
            try:
                found = self.run_with(keeping if written else lambda _: next(taken), given)
            finally:
                graph = stream.end_capture()
        self.results = tuple(
            next((i for i, x in enumerate(given) if x is result), result) for result in found
        )
        self.names["captured_memory"] = blocks  # the graph's, as long as it is used
        self.graph = graph

    def run_with(self, allocate: Callable[[int], Any], given: Sequence[Any]) -> Any:
        """The program with memory from ``allocate``."""
        names = {**self.names, "allocate": allocate}
        return define(self.source, f"program {self.plan.graph.name}", "run", names)(*given)

    def result(self, found: Any, inputs: Sequence[Any]) -> Any:
        """A result that later calls leave alone; a number stands for an input."""
        if isinstance(found, int):
            return inputs[found]
        copy = empty_block(found.array.nbytes, self.index)
        copy.memory.copy_from_device_async(found.memory, found.array.nbytes)
        return copy


def _on_host(x: Any) -> bool:
    return not is_on_device(x.array)


def _address(x: Any) -> int:
    """Where a tensor or a block lies; 0 on the host, whose numbers are copied at each call."""
    if _on_host(x):
        return 0
    return int(getattr(x, "ptr", 0) or x.array.data.ptr)


def _placed(x: Any, index: int) -> _Place:
    """Memory of the same layout as an input's."""
    array = x.array
    low = high = 0
    for n, step in zip(array.shape, array.strides, strict=True):
        low, high = low + min(0, (n - 1) * step), high + max(0, (n - 1) * step)
    block = empty_block(high - low + array.itemsize, index)
    return _Place(block.shaped(array.shape, array.dtype, -low, array.strides), block)


def _copy_in(place: _Place, x: Any) -> None:
    """The values of an input to its place."""
    array = x.array
    if not is_on_device(array):
        place.array.set(array)
    elif array.flags.c_contiguous:
        place.array.data.copy_from_device_async(array.data, array.nbytes)
    else:
        place.array[...] = array
