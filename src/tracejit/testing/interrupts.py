"""Interrupts at any moment of recording, compiling and replaying, after which a compiled function must be as before.

Where ``KeyboardInterrupt`` can strike is known: CPython looks for signals when a Python function is entered, after a
call, and when a loop goes back. ``interrupted_at`` raises at one of these moments, so that a run can be repeated; how
often each line is met is counted first. ``interrupted`` strikes from another thread, at a random time.
"""

from __future__ import annotations

import contextlib
import ctypes
import dis
import gc
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from types import CodeType
from typing import Any

import numpy as np

from .fuzz_programs import _package
from .threads import agree, arguments, outcome

SHAPES = ((2, 3), (5, 4))
#: Instructions after which CPython looks for signals.
_BREAKS = {
    dis.opmap[name]
    for name in ("CALL", "CALL_KW", "CALL_FUNCTION_EX", "JUMP_BACKWARD")
    if name in dis.opmap
}

#: A place in the code and how often it was reached.
Moment = tuple[str, str, int, int]


class Interrupted(BaseException):
    """What is raised in the place of ``KeyboardInterrupt``."""


@contextlib.contextmanager
def _without_debris() -> Iterator[None]:
    """What an interrupt left half made dies here, and its finalizers may complain."""
    before = sys.unraisablehook
    try:
        sys.unraisablehook = lambda found: None
        yield
        gc.collect()
    finally:
        sys.unraisablehook = before


@_without_debris()
def interrupted(run: Callable[[], Any], delay: float) -> bool:
    """Run something and raise :class:`Interrupted` in it after ``delay`` seconds; was it ended by that?"""
    target = threading.get_ident()
    go, done = threading.Event(), threading.Event()

    def strike() -> None:
        go.wait()
        if not done.wait(delay):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(target), ctypes.py_object(Interrupted)
            )

    striker = threading.Thread(target=strike, daemon=True)
    striker.start()
    try:
        go.set()
        run()
        done.set()
        striker.join()
        for _ in range(100):  # what was sent late arrives here
            pass
    except Interrupted:
        return not done.is_set()
    return False


class _Tracer:
    """Follows the moments of a run in files whose names contain one of ``parts``."""

    def __init__(self, parts: Sequence[str], stop: Moment | None) -> None:
        self.parts = parts
        self.stop = stop
        self.seen: Counter[tuple[str, str, int]] = Counter()
        self.last: dict[Any, int] = {}

    def __call__(self, frame: Any, event: str, argument: Any) -> Any:
        del argument
        code = frame.f_code
        if not any(part in code.co_filename for part in self.parts):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "call" or (event == "opcode" and self._after_break(frame)):
            place = code.co_filename, code.co_qualname, frame.f_lasti
            self.seen[place] += 1
            if self.stop is not None and (*place, self.seen[place]) == self.stop:
                sys.settrace(None)
                raise Interrupted
        elif event == "return":
            self.last.pop(frame, None)
        return self

    def _after_break(self, frame: Any) -> bool:
        code, here = frame.f_code, frame.f_lasti
        before = self.last.get(frame)
        self.last[frame] = here
        if before is None or code.co_code[before] not in _BREAKS:
            return False
        return _handler(code, before) == _handler(code, here)  # else it would be raised too late


@cache
def _handlers(code: CodeType) -> list[Any]:
    parse = getattr(dis, "_parse_exception_table", None)
    return [] if parse is None else list(parse(code))


def _handler(code: CodeType, offset: int) -> list[int]:
    """Where an exception raised at an instruction goes to within its function."""
    return [e.target for e in _handlers(code) if e.start <= offset < e.end]


def moments(run: Callable[[], Any], parts: Sequence[str] = ("tracejit",)) -> list[Moment]:
    """Where a run can be interrupted: at each place the first, the second and the last time."""
    tracer = _traced(run, parts, None)
    return [
        (*place, number)
        for place, count in tracer.seen.items()
        for number in sorted({1, min(2, count), count})
    ]


def interrupted_at(
    run: Callable[[], Any], moment: Moment, parts: Sequence[str] = ("tracejit",)
) -> None:
    """Run something until ``moment``, and raise :class:`Interrupted` there."""
    _traced(run, parts, moment)


@_without_debris()
def _traced(run: Callable[[], Any], parts: Sequence[str], stop: Moment | None) -> _Tracer:
    tracer = _Tracer(parts, stop)
    before = sys.gettrace()
    try:
        with contextlib.suppress(Interrupted):
            sys.settrace(tracer)
            run()
    finally:
        sys.settrace(before)
    return tracer


def story(compiled: Any, seed: int) -> Callable[[], None]:
    """Calls that record, compile, replay and go backward."""

    def run() -> None:
        rng = np.random.default_rng(seed)
        for _ in range(3):
            given = arguments(rng, SHAPES)
            for _ in range(3):
                outcome(compiled, given)

    return run


def check_after(function: Callable[..., Any], compiled: Any, seed: int) -> str:
    """What is wrong with a compiled function after an interrupt, or an empty string."""
    from ..modes import MODES

    if MODES.recorder is not None or MODES.builder is not None or not MODES.grad:
        return "a mode is left on"
    if sys.getprofile() is not None:
        return "the profile hook is left on"
    return _check_calls(function, compiled, seed) or _check_elsewhere(compiled)


def _check_calls(function: Callable[..., Any], compiled: Any, seed: int) -> str:
    rng = np.random.default_rng(seed)
    before = compiled.stats.compiled_calls
    for _ in range(3):
        given = arguments(rng, SHAPES)
        for _ in range(3):
            try:
                if not agree(outcome(function, given), outcome(compiled, given)):
                    return "other values"
            except Exception as error:  # noqa: BLE001
                return f"{type(error).__name__}: {error}"
    if compiled.stats.compiled_calls == before:
        return f"it does not run compiled any more: {compiled.explain()}"
    return ""


def _check_elsewhere(compiled: Any, patience: float = 30.0) -> str:
    """Another thread must find all locks free: it records a new signature and runs it."""
    before = compiled.stats.recordings
    tj = _package()

    def work() -> None:
        for _ in range(3):
            compiled(tj.ones(2, 9), tj.ones(2, 9))

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(patience)
    if worker.is_alive():
        return "another thread waits for a lock"
    return "" if compiled.stats.recordings > before else "another thread cannot record"


def interrupt_often(function: Callable[..., Any], times: int, seed: int) -> tuple[int, list[str]]:
    """Interrupt ``times`` runs at random times; how many were hit, and what was wrong afterwards."""
    rng = np.random.default_rng(seed)
    tj = _package()
    for _ in range(3):  # the first finds no kernels yet
        begin = time.perf_counter()
        story(tj.compile(function), seed)()
    length = time.perf_counter() - begin
    hits, wrong = 0, []
    for number in range(times):
        compiled = tj.compile(function)
        hits += interrupted(story(compiled, seed + number), float(rng.uniform(0, length)))
        trouble = check_after(function, compiled, seed + number)
        if trouble:
            wrong.append(f"{function.__name__}, interrupt {number}: {trouble}")
    return hits, wrong


def interrupt_everywhere(
    function: Callable[..., Any],
    times: int,
    seed: int,
    parts: Sequence[str] = ("tracejit",),
    begin: Callable[[], Any] = lambda: None,
) -> list[str]:
    """Interrupt ``times`` runs, each at another moment; what was wrong. ``begin`` is called before each run."""
    tj = _package()
    story(tj.compile(function), seed)()
    begin()
    found = moments(story(tj.compile(function), seed), parts)
    rng = np.random.default_rng(seed)
    wrong = []
    for i in rng.permutation(len(found))[:times]:
        begin()
        compiled = tj.compile(function)
        interrupted_at(story(compiled, seed), found[i], parts)
        trouble = check_after(function, compiled, seed)
        if trouble:
            wrong.append(f"{function.__name__}, interrupted at {found[i]}: {trouble}")
    return wrong
