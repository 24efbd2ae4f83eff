"""Many threads on compiled functions: ``python -m tracejit.testing.threads --threads 16 --calls 1000``.

Threads call the same compiled functions with arguments of random shapes; every result and gradient is compared with the
plain function's. Then calls are interrupted, as ``interrupts`` says.
"""

from __future__ import annotations

import argparse
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .fuzz_programs import _package

SHAPES = tuple(itertools.product((1, 2, 3, 5, 8), (1, 3, 4, 7)))


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
    y = x.softmax(-1)
    return (y * w).sum(-1), x[0], y.mean()


def written(x: Any, w: Any) -> Any:
    """Writes in place on a copy, through views."""
    y = x.clone()
    y[0].mul_(2)
    y[:, -1] += w[:, 0]
    return y.cumsum(0)


def rolled(x: Any, w: Any) -> Any:
    """Rounds that become a loop."""
    y = x
    for _ in range(9):
        y = (y * w).tanh() + x
    return y


def raising(x: Any, w: Any) -> Any:
    """An error that is raised and caught."""
    try:
        if (x * w).sum() > 0:
            raise ValueError("positive")
        return x * 3
    except ValueError:
        return w * 2


FUNCTIONS: tuple[Callable[..., Any], ...] = (affine, branching, softmax, written, rolled, raising)


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


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    from .interrupts import interrupt_everywhere, interrupt_often

    parser = argparse.ArgumentParser(prog="python -m tracejit.testing.threads", description=__doc__)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--calls", type=int, default=1000, help="calls per thread")
    parser.add_argument("--interrupts", type=int, default=100, help="interrupts per function")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    compiled, wrong = call_in_threads(FUNCTIONS, chosen.threads, chosen.calls, chosen.seed)
    for f in compiled:
        print(f, *f.reasons, sep="\n    ")
    total = 0
    for function in FUNCTIONS if chosen.interrupts else ():
        hits, more = interrupt_often(function, chosen.interrupts, chosen.seed)
        total += hits
        wrong += more
        more = interrupt_everywhere(function, chosen.interrupts, chosen.seed)
        total += chosen.interrupts
        wrong += more
    print(f"seed {chosen.seed}: {total} interrupts, {len(wrong)} failures")
    for line in wrong[:20]:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
