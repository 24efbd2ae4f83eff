"""Taking times inside programs: while a profile runs, the launches of every program go through a stopwatch.

The generated function of a program finds its launcher by name in a namespace of its own. A profile puts another
function there, which runs the rows piece by piece between two readings of the clock, and puts the launcher back at the
end. Programs that are not profiled know nothing of it.
"""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..runtime import program as programs
from ..runtime.program import Program
from ..runtime.quick import watch_programs
from .pieces import Piece, pieces_of

clock = time.perf_counter_ns
#: Events kept for a trace file; later ones only count.
MAX_EVENTS = 200_000
#: Empty launches that show what reading the clock around a launch costs.
_CALIBRATION = 7


@dataclass(eq=False)
class Total:
    """What was measured of one piece or library call; nanoseconds."""

    piece: Piece
    times: array[int] = field(default_factory=lambda: array("q"))


@dataclass
class Recorder:
    """Everything a profile measured."""

    totals: dict[Any, Total] = field(default_factory=dict)
    calls: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    events: list[tuple[str, str, int, int, int, Any]] = field(default_factory=list)
    dropped: int = 0
    allocations: int = 0
    allocated: int = 0
    launches: int = 0
    _patched: list[tuple[dict[str, Any], dict[str, Any]]] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)
    _lock: Any = field(default_factory=threading.Lock)

    # --- programs -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Watch all programs there are, and those that will be made."""
        programs.watchers.append(self.watch)
        watch_programs(True)
        for program in programs.alive():
            self.watch(program)

    def stop(self) -> None:
        """Give every program its launcher back."""
        programs.watchers.remove(self.watch)
        watch_programs(False)
        with self._lock:
            for names, originals in self._patched:
                names.update(originals)
            self._patched.clear()

    def watch(self, program: Program) -> None:
        """Put the stopwatch into a program: the clock of this machine, or on a GPU events in its stream."""
        names = program.names
        with self._lock:
            if id(names) in self._seen:
                return
            self._seen.add(id(names))
            originals = {
                name: value
                for name, value in names.items()
                if name in ("run_slots", "allocate")
                or (name.startswith("call") and name[4:].isdigit())
            }
            self._patched.append((names, originals))
        for name, value in originals.items():
            if name == "run_slots":
                names[name] = self.launcher(program, value)
            elif name == "allocate":
                names[name] = self.allocator(value)
            else:
                names[name] = self.library_call(program, name, value)

    def launcher(self, program: Program, run: Callable[..., int]) -> Callable[..., int]:
        """A launcher that runs piece by piece."""
        if program.plan.device >= 0:
            return self.device_launcher(program, run)
        pieces = pieces_of(program)
        stretches: dict[tuple[int, int], list[tuple[Piece, Total]]] = {}
        overhead: list[int] = []

        def timed(first: int, last: int, *slots: int) -> int:
            found = stretches.get((first, last))
            if found is None:
                found = stretches[first, last] = self.stretch(pieces, first, last)
            if not overhead:
                overhead.append(_overhead(run, slots))
            for piece, total in found:
                start = clock()
                code = run(piece.first, piece.last, *slots)
                self.note(total, start, max(0, clock() - start - overhead[0]))
                self.launches += piece.launches
                if code:
                    return code
            return 0

        return timed

    def device_launcher(self, program: Program, run: Callable[..., int]) -> Callable[..., int]:
        """A launcher that queues piece by piece, with events in between, and waits for the last."""
        from .device_pieces import device_pieces, timed

        pieces = device_pieces(program)

        def run_timed(first: int, last: int, *slots: int) -> int:
            found = self.stretch(pieces, first, last)
            self.launches += sum(piece.launches for piece, _ in found)
            return timed(
                found,
                lambda piece: run(piece.first, piece.last, *slots),
                lambda total, spent: self.note(total, clock() - spent, spent),
            )

        return run_timed

    def stretch(self, pieces: list[Piece], first: int, last: int) -> list[tuple[Piece, Total]]:
        """The pieces of some rows, with the totals they count in."""
        found = [p for p in pieces if first <= p.first < last]
        return [(p, self.total((p.name, p.kind, p.bytes, p.flops), p)) for p in found]

    def total(self, key: Any, piece: Piece) -> Total:
        """The total that equal pieces share."""
        with self._lock:
            return self.totals.setdefault(key, Total(piece))

    def allocator(self, allocate: Callable[[int], Any]) -> Callable[[int], Any]:
        """An allocator that counts."""

        def counted(nbytes: int) -> Any:
            self.allocations += 1
            self.allocated += nbytes
            return allocate(nbytes)

        return counted

    def library_call(
        self, program: Program, name: str, call: Callable[..., Any]
    ) -> Callable[..., Any]:
        """An op's own body, timed."""
        label = program.host_name(int(name[4:]))

        def timed(*memory: Any) -> Any:
            start = clock()
            result = call(*memory)
            spent = clock() - start
            moved = sum(getattr(x, "nbytes", 0) for x in (*memory, result))
            piece = Piece(0, 0, label, "library call", float(moved), 0.0, 1, 1)
            self.note(self.total((label, "library call", moved), piece), start, spent)
            return result

        return timed

    # --- notes -------------------------------------------------------------------------------------------------

    def note(self, total: Total, start: int, spent: int) -> None:
        """One run of a piece."""
        piece = total.piece
        total.times.append(spent)
        self.event(piece.name, piece.kind, start, spent, piece)

    def event(self, name: str, kind: str, start: int, spent: int, piece: Any = None) -> None:
        """A line of the trace."""
        if len(self.events) < MAX_EVENTS:
            self.events.append((name, kind, start, spent, threading.get_ident(), piece))
        else:
            self.dropped += 1

    def span(self, function: Callable[..., Any], kind: str, name_of: Callable[[Any], str]) -> Any:
        """A method that counts and times its calls."""

        def timed(this: Any, *args: Any, **kwargs: Any) -> Any:
            start = clock()
            try:
                return function(this, *args, **kwargs)
            finally:
                spent, name = clock() - start, name_of(this)
                self.calls.setdefault((name, kind), []).append(spent)
                self.event(name, kind, start, spent)

        return timed


def _overhead(run: Callable[..., int], slots: tuple[int, ...]) -> int:
    """Nanoseconds that a launch of nothing takes between two readings of the clock."""
    least = 1 << 62
    for _ in range(_CALIBRATION):
        start = clock()
        run(0, 0, *slots)
        least = min(least, clock() - start)
    return least
