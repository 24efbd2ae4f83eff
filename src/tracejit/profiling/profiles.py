"""``profile()`` and ``f.profile(...)``: run code with a stopwatch in every compiled program, and report."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..errors import CaptureError
from ..runtime.threads import get_num_threads
from .floor import Floor, machine
from .recorder import Recorder, Total

#: Seconds and calls that ``f.profile`` spends without and with the stopwatch.
_SECONDS, _MOST = 0.3, 50
_WARM_UP = 4
_active = threading.Lock()


@dataclass(frozen=True)
class KernelTime:
    """One kernel, matrix product, loop or library call of a profile; times in seconds, work of one run.

    ``each`` is the median of the runs. ``kind`` is "kernel", "product", "loop" or "library call";
    the first three are "device kernel" and so on where a GPU ran them, timed by events in its stream.
    Kernels that are alike and do as much work count together.
    """

    name: str
    kind: str
    runs: int
    total: float
    each: float
    least: float
    bytes: float
    flops: float
    threads: int
    double: bool


@dataclass(frozen=True)
class CallTime:
    """Calls of one compiled function, or of its backward pass, with everything around its kernels."""

    name: str
    kind: str
    calls: int
    total: float
    median: float


@dataclass(repr=False)
class Profile:
    """What was measured; ``str()`` is a report.

    ``kernels`` are sorted by total time. ``seconds`` is, after ``f.profile``, the median of a call without stopwatch.
    ``note`` says why there is nothing to see.
    """

    threads: int
    kernels: list[KernelTime] = field(default_factory=list)
    calls: list[CallTime] = field(default_factory=list)
    launches: int = 0
    allocations: int = 0
    allocated: int = 0
    seconds: float | None = None
    note: str = ""
    events: list[Any] = field(default_factory=list, repr=False)

    @property
    def floor(self) -> Floor:
        """What the machine can do with as many threads; measured at the first use."""
        return machine(self.threads)

    def distance(self, kernel: KernelTime) -> float | None:
        """How many times the least possible time a run takes; None where that is not known."""
        least = self.floor.seconds(kernel.bytes, kernel.flops, kernel.double)
        here = kernel.kind in ("kernel", "product", "loop")  # what runs on a GPU has other limits
        return kernel.each / least if least > 0 and here else None

    def __str__(self) -> str:
        from .report import text

        return text(self)

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Everything but the events, for JSON."""
        found = {**asdict(self), "floor": asdict(self.floor)}
        found.pop("events")
        for row, kernel in zip(found["kernels"], self.kernels, strict=True):
            row["distance"] = self.distance(kernel)
        return found

    def trace(self, path: str | os.PathLike[str]) -> None:
        """Write a trace file for Perfetto (https://ui.perfetto.dev) or chrome://tracing."""
        import json

        from .report import trace_events

        Path(path).write_text(json.dumps({"traceEvents": trace_events(self)}))

    def roofline(self, path: str | os.PathLike[str]) -> None:
        """Draw every kernel's rate over its operations per byte, under the limits of the machine (needs matplotlib)."""
        from .report import draw_roofline

        draw_roofline(self, Path(path))

    def _take(self, recorder: Recorder) -> None:
        """Read off what was measured."""
        found = [_kernel_time(total) for total in recorder.totals.values() if total.times]
        self.kernels = sorted(found, key=lambda k: -k.total)
        self.calls = [
            CallTime(name, kind, len(ns), sum(ns) / 1e9, _median(ns) / 1e9)
            for (name, kind), ns in recorder.calls.items()
        ]
        self.launches, self.events = recorder.launches, recorder.events
        self.allocations, self.allocated = recorder.allocations, recorder.allocated


def _median(times: Sequence[float]) -> float:
    import statistics

    return statistics.median(times)


def _kernel_time(total: Total) -> KernelTime:
    piece = total.piece
    return KernelTime(
        piece.name,
        piece.kind,
        len(total.times),
        sum(total.times) / 1e9,
        _median(total.times) / 1e9,
        min(total.times) / 1e9,
        piece.bytes,
        piece.flops,
        piece.threads,
        piece.double,
    )


@contextmanager
def profile() -> Iterator[Profile]:
    """Profile all compiled code that runs in the block, in every thread.

    Yields a :class:`Profile` that is filled when the block ends. Inside, every kernel is launched on its own, which
    costs about a microsecond each; outside nothing changes.

    Raises:
        CaptureError: another profile is running.

    >>> import tracejit as tj
    >>> f = tj.compile(lambda x: (x * 2).exp().sum())
    >>> x = tj.ones(1000)
    >>> _ = f(x), f(x)
    >>> with tj.profile() as p:
    ...     _ = f(x)
    >>> {k.name: (k.runs, k.bytes) for k in p.kernels}["k_mul_exp_sum"]
    (1, 4004.0)
    """
    if not _active.acquire(blocking=False):
        raise CaptureError(
            "a profile is already running", "End it before another is begun; one sees all code."
        )
    from ..jit import CompiledFunction
    from ..trace.backward.node import CompiledBackward

    result, recorder = Profile(get_num_threads()), Recorder()
    originals: list[tuple[Any, str, Any]] = [
        (CompiledFunction, "__call__", CompiledFunction.__call__),
        (CompiledBackward, "apply", CompiledBackward.apply),
        (CompiledBackward, "ends_in_leaves", CompiledBackward.ends_in_leaves),
    ]
    try:
        recorder.start()
        CompiledFunction.__call__ = recorder.span(  # type: ignore[method-assign]
            CompiledFunction.__call__, "call", lambda f: str(f.name)
        )
        CompiledBackward.ends_in_leaves = False  # all passes go the way that is timed
        CompiledBackward.apply = recorder.span(  # type: ignore[method-assign]
            CompiledBackward.apply, "backward", lambda node: str(node.site.function)
        )
        yield result
    finally:
        for owner, name, value in originals:
            setattr(owner, name, value)
        recorder.stop()
        result._take(recorder)
        _active.release()


def profile_calls(function: Any, args: Sequence[Any], kwargs: Any) -> Profile:
    """Call until compiled, time some calls as they are, then profile some."""
    for _ in range(_WARM_UP):
        before = function.stats.compiled_calls
        function(*args, **kwargs)
        function.wait()
        if function.stats.compiled_calls > before:
            break
    times = _timed(function, args, kwargs)
    with profile() as found:
        for _ in range(len(times)):
            function(*args, **kwargs)
    found.seconds = _median(times)
    if not found.kernels:
        reasons = function.reasons or ["nothing was computed"]
        found.note = f"{function.name} ran no compiled kernel: {'; '.join(reasons)}"
    return found


def _timed(call: Callable[..., Any], args: Sequence[Any], kwargs: Any) -> list[float]:
    times: list[float] = []
    end = time.perf_counter() + _SECONDS
    while not times or (time.perf_counter() < end and len(times) < _MOST):
        start = time.perf_counter()
        call(*args, **kwargs)
        times.append(time.perf_counter() - start)
    return times
