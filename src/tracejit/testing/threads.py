"""Many threads and interrupts on compiled functions: ``python -m tracejit.testing.threads --threads 16 --calls 1000``.

Threads call the same compiled functions with arguments of random shapes; every result and gradient is compared with the
plain function's. Interrupts are raised at random moments of recording, compiling and replaying; afterwards the function
must still give the same results and run compiled again.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import itertools
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .fuzz_programs import _functional, _package

FEW = ((2, 3), (5, 4))
SHAPES = tuple(itertools.product((1, 2, 3, 5, 8), (1, 3, 4, 7)))


class Interrupted(BaseException):
    """What is raised in the place of ``KeyboardInterrupt``."""


def affine(x: Any, w: Any) -> Any:
    """Straight code with a product."""
    return (x @ w.transpose(0, 1)).tanh() * 2 + x.sum()


def branching(x: Any, w: Any) -> Any:
    """Branches and a loop on values."""
    y = x * w
    if y.sum() > 0:
        y = y.exp() * 0.01
    elif y[0, 0] > -0.5:
        return y - x
    for _ in range(4):
        if y.abs().sum() < 1:
            break
        y = y * 0.5
    return y + w


def softmax(x: Any, w: Any) -> Any:
    """Reductions, and a view of an argument among the results."""
    y = _functional().softmax(x, -1)
    return (y * w).sum(-1), x[0], y.mean()


def written(x: Any, w: Any) -> Any:
    """Writes in place on a copy, through views."""
    y = x.clone()
    y[0].mul_(2)
    y[:, -1] += w[:, 0]
    return y.cumsum(0)


FUNCTIONS: tuple[Callable[..., Any], ...] = (affine, branching, softmax, written)


def arguments(rng: np.random.Generator, shapes: Sequence[Any] = SHAPES) -> list[Any]:
    """Two leaves of one random shape."""
    shape = shapes[int(rng.integers(len(shapes)))]
    grads = rng.random(2) < 0.7
    tj = _package()
    return [
        tj.from_numpy(rng.standard_normal(shape).astype(np.float32)).requires_grad_(bool(g))
        for g in grads
    ]


def outcome(function: Callable[..., Any], given: Sequence[Any]) -> list[Any]:
    """Results and gradients as arrays."""
    tj = _package()
    for leaf in given:
        leaf.grad = None
    found = function(*given)
    results = list(found) if isinstance(found, tuple) else [found]
    tracked = [r for r in results if r.requires_grad]
    if tracked:
        tj.autograd.backward(tracked, [tj.ones_like(r) for r in tracked])
    arrays = [r.detach().numpy().copy() for r in results]
    return arrays + [None if t.grad is None else t.grad.numpy().copy() for t in given]


def agree(expected: Sequence[Any], found: Sequence[Any]) -> bool:
    """Do two outcomes agree?"""
    for a, b in zip(expected, found, strict=True):
        if (a is None) != (b is None):
            return False
        if a is not None and not np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True):
            return False
    return True


def call_in_threads(
    functions: Sequence[Callable[..., Any]], threads: int, calls: int, seed: int
) -> tuple[list[Any], list[str]]:
    """Compile ``functions``, call them from many threads; the compiled functions, and what went wrong."""
    tj = _package()
    compiled = [tj.compile(f) for f in functions]
    wrong: list[str] = []
    start = threading.Barrier(threads)

    def work(number: int) -> None:
        rng = np.random.default_rng([seed, number])
        start.wait()
        for step in range(calls):
            which = int(rng.integers(len(functions)))
            given = arguments(rng)
            try:
                expected = outcome(functions[which], given)
                if not agree(expected, outcome(compiled[which], given)):
                    wrong.append(f"{functions[which].__name__}: other values at call {step}")
            except Exception as error:  # noqa: BLE001
                wrong.append(f"{functions[which].__name__}: {type(error).__name__}: {error}")

    workers = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return compiled, wrong


# --- interrupts -----------------------------------------------------------------------------------------------------


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


def interrupted_at(run: Callable[[], Any], number: int) -> int:
    """Run something and raise :class:`Interrupted` as its ``number``-th Python function is entered; how many were.

    Where the other way strikes is up to chance; this one can be repeated.
    """
    entered = 0

    def trace(frame: Any, event: str, argument: Any) -> None:
        nonlocal entered
        del frame, argument
        if event == "call":
            entered += 1
            if entered == number:
                sys.settrace(None)
                raise Interrupted

    before = sys.gettrace()
    try:
        with contextlib.suppress(Interrupted):
            sys.settrace(trace)
            run()
    finally:
        sys.settrace(before)
    return entered


def story(compiled: Any, seed: int) -> Callable[[], None]:
    """Calls that record, compile, replay and go backward."""

    def run() -> None:
        rng = np.random.default_rng(seed)
        for _ in range(3):
            given = arguments(rng, FEW)
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
    rng = np.random.default_rng(seed)
    before = compiled.stats.compiled_calls
    for _ in range(3):
        given = arguments(rng, FEW)
        for _ in range(3):
            try:
                if not agree(outcome(function, given), outcome(compiled, given)):
                    return "other values"
            except Exception as error:  # noqa: BLE001
                return f"{type(error).__name__}: {error}"
    if compiled.stats.compiled_calls == before:
        return f"it does not run compiled any more: {compiled.explain()}"
    return ""


def interrupt_often(function: Callable[..., Any], times: int, seed: int) -> tuple[int, list[str]]:
    """Interrupt ``times`` runs at random moments; how many were hit, and what was wrong afterwards."""
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


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tracejit.testing.threads", description=__doc__)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--calls", type=int, default=1000, help="calls per thread")
    parser.add_argument("--interrupts", type=int, default=200, help="interrupts per function")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    compiled, wrong = call_in_threads(FUNCTIONS, chosen.threads, chosen.calls, chosen.seed)
    for f in compiled:
        print(f)
    total = 0
    for function in FUNCTIONS if chosen.interrupts else ():
        hits, more = interrupt_often(function, chosen.interrupts, chosen.seed)
        total += hits
        wrong += more
    print(f"seed {chosen.seed}: {total} interrupts hit, {len(wrong)} failures")
    for line in wrong[:20]:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
