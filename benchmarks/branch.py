"""What a branch on a tensor costs: ``python benchmarks/branch.py``.

The function returns ``x * 2`` where ``x.sum() > 0`` and else ``x - 2``; ``x`` has three elements.

tracejit eager and compiled, PyTorch eager and JAX jit with ``lax.cond``, each on both sides of the branch, without
gradients and, but for JAX, forward and backward. Implementations take turns in one process; printed is the median of
the rounds. PyTorch and JAX are left out where they are not installed.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import tracejit as tj
from tracejit.cli import output

Call = Callable[[], Any]
#: The implementation, what is called and on which side.
Key = tuple[str, str, str]
SIDES = {"x * 2": (1.0, 2.0, 3.0), "x - 2": (-1.0, -2.0, -3.0)}


def branch(x: Any) -> Any:
    """The function."""
    if x.sum() > 0:
        return x * 2
    return x - 2


def like_pytorch(torch: Any, function: Callable[[Any], Any], name: str) -> dict[Key, Call]:
    """Calls for PyTorch and what has its interface."""
    found: dict[Key, Call] = {}
    for side, values in SIDES.items():
        x, leaf = torch.tensor(values), torch.tensor(values, requires_grad=True)

        def forward(x: Any = x) -> Any:
            with torch.no_grad():
                return function(x)

        def both(leaf: Any = leaf) -> Any:
            leaf.grad = None
            function(leaf).sum().backward()
            return leaf.grad

        found[name, "without gradients", side] = forward
        found[name, "forward and backward", side] = both
    return found


def like_jax(jax: Any) -> dict[Key, Call]:
    """Calls for JAX, whose branches are functions."""

    def function(x: Any) -> Any:
        return jax.lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 2, x)

    compiled, found = jax.jit(function), {}
    for side, values in SIDES.items():
        x = jax.numpy.array(values)
        found["JAX jit", "without gradients", side] = lambda x=x: compiled(x).block_until_ready()
    return found


def calls() -> dict[Key, Call]:
    """Everything to be timed, what is not installed left out."""
    found = like_pytorch(tj, branch, "tracejit eager")
    found |= like_pytorch(tj, tj.compile(branch), "tracejit compiled")
    for name, module, made in (
        ("PyTorch eager", "torch", lambda torch: like_pytorch(torch, branch, "PyTorch eager")),
        ("JAX jit", "jax", like_jax),
    ):
        try:
            found |= made(importlib.import_module(module))
        except ImportError:
            print(f"{name}: {module} is not installed")
    return found


def medians(timed: dict[Key, Call], rounds: int, repeats: int) -> dict[Key, float]:
    """Seconds a call, after as many calls that are not timed."""
    taken: dict[Key, list[float]] = {key: [] for key in timed}
    for number in range(rounds + 1):
        for key, call in timed.items():
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            if number:
                taken[key].append((time.perf_counter() - start) / repeats)
    return {key: statistics.median(times) for key, times in taken.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--repeats", type=int, default=2000)
    options = parser.parse_args(arguments)
    found = medians(calls(), options.rounds, options.repeats)
    rows = [
        (name, what, *(output.duration(found[name, what, side]) for side in SIDES))
        for name, what in dict.fromkeys((name, what) for name, what, _ in found)
    ]
    output.table("a call on three elements", ("implementation", "what", *SIDES), rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
