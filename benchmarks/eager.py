"""What one eager operation on a small tensor costs, here or in PyTorch.

``python benchmarks/eager.py [--library torch] [--only PART] [--json FILE] [--with FILE]``. Every row is timed by the
CPU time of the thread, so that neighbours on the machine count for little: the best of several rounds, in microseconds.
The same code runs on either library; ``--with`` shows the rows of an earlier ``--json`` beside it, with the geometric
mean of the ratios.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from collections.abc import Callable, Sequence
from math import exp, log
from pathlib import Path
from typing import Any

Row = Callable[[], Any]
ROUNDS = 7


def operations(lib: Any) -> dict[str, Row]:
    """Operations without gradients, on a few elements."""
    f = lib.nn.functional
    x, y, v, w = (lib.randn(*shape) for shape in ((4, 8), (4, 8), (8,), (8, 8)))
    total, index, cell = lib.zeros(4, 8), lib.tensor([0, 2, 1]), lib.randn(())
    return {
        "neg": lambda: -x,
        "exp": lambda: x.exp(),
        "relu": lambda: lib.relu(x),
        "add": lambda: x + y,
        "add a row": lambda: x + v,
        "mul by a number": lambda: x * 2.0,
        "add_": lambda: total.add_(y),
        "zero_": lambda: total.zero_(),
        "sum": lambda: x.sum(),
        "mean of rows": lambda: x.mean(-1, keepdim=True),
        "max of rows": lambda: x.max(1),
        "softmax": lambda: x.softmax(-1),
        "matmul": lambda: x @ w,
        "linear": lambda: f.linear(x, w, v),
        "x[1]": lambda: x[1],
        "x[1:3]": lambda: x[1:3],
        "x[index]": lambda: x[index],
        "reshape": lambda: x.reshape(8, 4),
        "transpose": lambda: x.transpose(0, 1),
        "expand": lambda: v.expand(4, 8),
        "cat": lambda: lib.cat([x, y]),
        "where": lambda: lib.where(x > 0, x, y),
        "bool(cell > 0)": lambda: bool(cell > 0),
        "zeros": lambda: lib.zeros(4, 8),
        "tensor": lambda: lib.tensor([1.0, 2.0, 3.0]),
    }


def gradients(lib: Any) -> dict[str, Row]:
    """Forward and backward passes of a few operations, and steps of optimizers."""
    f, nn = lib.nn.functional, lib.nn
    x, y = lib.randn(4, 8, requires_grad=True), lib.randn(4, 8)
    classes = lib.tensor([1, 2, 3, 0])
    mlp = nn.Sequential(
        *(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))
    )
    params = [lib.randn(8, 8, requires_grad=True) for _ in range(10)]
    for p in params:
        p.grad = lib.randn(8, 8)
    sgd, adam = lib.optim.SGD(params, lr=1e-3), lib.optim.Adam(params, lr=1e-3)
    branch = lib.compile(_branch) if lib.__name__ == "tracejit" else _branch

    def fresh(loss: Row) -> Row:
        def step() -> None:
            x.grad = None
            loss().backward()

        return step

    def train() -> None:
        mlp.zero_grad()
        f.cross_entropy(mlp(y), classes).backward()

    return {
        "mul, recorded": lambda: x * 2.0,
        "sum, backward": fresh(lambda: x.sum()),
        "mean, backward": fresh(lambda: x.mean()),
        "product, sum, backward": fresh(lambda: (x * y).sum()),
        "squares, mean, backward": fresh(lambda: ((x - y) ** 2).mean()),
        "compiled branch, sum, backward": fresh(lambda: branch(x).sum()),
        "three layers": lambda: mlp(y),
        "three layers, loss, backward": train,
        "ten parameters, SGD": sgd.step,
        "ten parameters, Adam": adam.step,
    }


def _branch(x: Any) -> Any:
    return x * 2 if x.sum() > 0 else x - 2


def microseconds(row: Row, seconds: float = 0.015) -> float:
    """The CPU time of one call: the best round."""
    for _ in range(20):
        row()
    count = 1
    while (taken := _taken(row, count)) < seconds / 4:
        count *= 4
    count = max(1, int(count * seconds / taken))
    return min(_taken(row, count) / count for _ in range(ROUNDS)) * 1e6


def _taken(row: Row, count: int) -> float:
    start = time.thread_time()
    for _ in range(count):
        row()
    return time.thread_time() - start


def main(argv: Sequence[str] | None = None) -> int:
    """Time the rows and show them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", choices=("tracejit", "torch"), default="tracejit")
    parser.add_argument("--only", default="", help="rows whose names hold this")
    parser.add_argument("--seconds", type=float, default=0.015, help="length of a round")
    parser.add_argument("--json", type=Path, help="where to write the rows")
    parser.add_argument("--with", type=Path, dest="other", help="rows to show beside these")
    chosen = parser.parse_args(argv)
    lib = importlib.import_module(chosen.library)
    lib.manual_seed(0)
    if chosen.library == "torch":
        lib.set_num_threads(1)
    rows = {k: r for k, r in (operations(lib) | gradients(lib)).items() if chosen.only in k}
    other = json.loads(chosen.other.read_text()) if chosen.other else {}
    found = {}
    for name, row in rows.items():
        found[name] = round(microseconds(row, chosen.seconds), 2)
        beside = f"{other[name]:10.2f}{found[name] / other[name]:8.2f}x" if name in other else ""
        print(f"{name:32}{found[name]:10.2f}{beside}")
    ratios = [log(found[name] / other[name]) for name in found if name in other]
    if ratios:
        print(f"geometric mean of the ratios: {exp(sum(ratios) / len(ratios)):.2f}")
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
