"""Programs as CUDA graphs: a queue of kernels that the driver was given once and starts as a whole.

A graph knows addresses, so it reads what lies where it lay when it was captured: inputs that move from call to call are
copied to a place of their own first, results are copied out. That pays where a program has many small kernels. Where a
program waits to see whether a kernel refused its input, one graph ends; what is written over inputs is another.
Programs that ask Python for something on the way, or the device for a truth, are not captured.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Sequence
from functools import cache, partial
from threading import Lock
from typing import Any

from ...cuda.arrays import DeviceBlock, empty_block, is_on_device, namespace, told
from ...errors import OutOfMemoryError
from ...generated import define
from ..launcher import Loop
from ..plan.plan import Plan
from ..plan.records import HostCall
from .gemm import WORKSPACE
from .status import WORDS
from .worth import BUDGET, bytes_of

#: Calls that run plainly first: addresses settle, libraries set up what they need.
WARM_UP = 3
#: Calls with other addresses of fixed inputs after which the graph is captured again, and how often that may happen.
PATIENCE, CAPTURES = 8, 8


def can_be_captured(plan: Plan) -> bool:
    """Is a plan nothing but work for the device, whose truths nobody reads on the way?"""
    asks = any(
        isinstance(item, HostCall) or (isinstance(item, Loop) and item.until is not None)
        for item in plan.items
    )
    return not asks and plan.launches > 1


class _Place:
    """Where an input lies for the graph."""

    __slots__ = ("_pointer", "array", "block", "ptr")

    def __init__(self, array: Any, block: Any = None) -> None:
        self.array, self.block = array, block
        self._pointer = self.ptr = int(array.data.ptr)


class CapturedProgram:
    """Runs a program as a graph once its addresses are known, plainly until then and whenever they do not fit.

    A graph that nobody ``asked`` for keeps memory within a budget only.
    """

    def __init__(self, program: Any, index: int, asked: bool) -> None:
        self.plan, self.source, self.names = program.plan, program.source, program.names
        self.plain: Callable[..., Any] = program.run
        self.index = index
        self.nbytes = 0 if asked else bytes_of(program)
        self.launcher = self.names["run_slots"]
        self.calls = self.misses = self.captures = 0
        #: Inputs that were elsewhere when a graph was to run.
        self.moving: set[int] = set()
        self.seen: list[set[int]] = []
        self.graphs: list[Any] = []
        self.word: Any = WORDS.take() if self.plan.refuses else None
        self.places: list[_Place | None] = []
        self.fixed: list[int] = []
        self.results: tuple[Any, ...] = ()
        self.stream: Any = None
        self.refused = False
        self.given_back: Callable[[], Any] | None = None
        self.lock = Lock()

    def __call__(self, *inputs: Any) -> Any:
        """The results of the program for these inputs."""
        if self.refused or self.names["run_slots"] is not self.launcher:  # a profile watches steps
            return self.plain(*inputs)
        with (
            self.lock
        ):  # a graph has one memory: one thread at a time fills it in, starts it and copies out
            return self.run(inputs)

    def run(self, inputs: tuple[Any, ...]) -> Any:
        """As a graph where there is one and it fits."""
        if not self.graphs:
            self.note(inputs)
            if self.calls <= WARM_UP or not self.captured(inputs):
                return self.plain(*inputs)
        elif moved := self.moved(inputs):
            self.moving |= moved
            self.misses += 1
            if self.misses > PATIENCE:
                self.forget()
            return self.plain(*inputs)
        stream = namespace().cuda.get_current_stream()
        if self.stream is not None and self.stream.ptr != stream.ptr:
            self.stream.synchronize()  # in which the last run may not be over
        self.stream = stream
        self.copy_in(inputs)
        if self.word is not None:
            WORDS.clear(self.word)
        self.graphs[0].launch(stream)
        if self.word is not None and WORDS.is_set(self.word):
            self.names["refuse"](1)
        for graph in self.graphs[1:]:
            graph.launch(stream)
        return tuple(self.result(found, inputs) for found in self.results)

    def moved(self, inputs: Sequence[Any]) -> set[int]:
        """Inputs that lie elsewhere than the graph reads them."""
        known = enumerate(zip(inputs, self.places, self.fixed, strict=True))
        return {i for i, (x, place, at) in known if place is None and _address(x) != at}

    def copy_in(self, inputs: Sequence[Any]) -> None:
        """Inputs to where the graph reads them."""
        for x, place in zip(inputs, self.places, strict=True):
            if place is not None:
                _copy_in(place, x)

    def note(self, inputs: Sequence[Any]) -> None:
        """Remember where inputs lie."""
        self.calls += 1
        self.seen = self.seen or [set() for _ in inputs]
        for known, x in zip(self.seen, inputs, strict=True):
            known.add(_address(x))

    def forget(self) -> None:
        """Start again."""
        self.graphs, self.results, self.places, self.fixed = [], (), [], []
        self.calls, self.misses, self.seen = 0, 0, []
        self.names.pop("captured_memory", None)
        if self.given_back is not None:
            self.given_back()

    def captured(self, inputs: Sequence[Any]) -> bool:
        """Capture; False, with a warning, where the driver or a library refuses: the program is queued from then on."""
        self.captures += 1
        if self.captures > CAPTURES or (self.nbytes and not BUDGET.take(self.nbytes)):
            self.refused = True
            return False
        if self.nbytes:
            self.given_back = weakref.finalize(self, BUDGET.give, self.nbytes)
        try:
            self.capture(inputs)
        except OutOfMemoryError:
            raise
        except RuntimeError as error:
            warnings.warn(
                f"{self.plan.graph.name} does not run as a CUDA graph: {told(error)}",
                RuntimeWarning,
                stacklevel=2,
            )
            self.forget()
            self.refused = True
            return False
        return True

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

        outside = namespace().cuda.get_current_stream()

        def made(nbytes: int) -> DeviceBlock:
            with outside:  # whose memory it is when the graph is gone
                return empty_block(nbytes, self.index)

        def keeping(nbytes: int) -> DeviceBlock:
            blocks.append(made(nbytes))
            return blocks[-1]

        workspace = cache(partial(made, WORKSPACE))

        if not written:  # else the first run would do to the inputs what the graph is about to do
            self.copy_in(inputs)
            self.run_with(keeping, workspace, given, WORDS.is_set)
        taken, graphs = iter(blocks), []
        stream = namespace().cuda.Stream(non_blocking=True)

        def parted(_: Any) -> bool:
            """Where the program waits for the word: another graph begins."""
            graphs.append(stream.end_capture())
            stream.begin_capture()
            return False

        outside.synchronize()
        with stream:
            stream.begin_capture()
            try:
                memory = keeping if written else lambda _: next(taken)
                found = self.run_with(memory, workspace, given, parted)
            finally:
                graphs.append(stream.end_capture())
        self.results = tuple(
            next((i for i, x in enumerate(given) if x is result), result) for result in found
        )
        self.names["captured_memory"] = blocks, workspace  # the graph's, as long as it is used
        ends = self.plan.refuses and self.plan.checked == len(self.plan.items)
        self.graphs = graphs[:1] if ends else graphs  # nothing comes after that check

    def run_with(
        self,
        allocate: Callable[[int], Any],
        workspace: Callable[[], Any],
        given: Sequence[Any],
        refused: Callable[[Any], bool],
    ) -> Any:
        """The program with memory from ``allocate``, and cuBLAS with the graph's own, which ends with no thread."""
        names = {**self.names, "allocate": allocate, "workspace": lambda: workspace().ptr}
        if self.word is not None:
            WORDS.clear(self.word)
            names |= {"take_word": lambda: self.word, "refused": refused}
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
