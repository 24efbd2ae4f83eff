"""``segment_reduce``: values, gradients and refusals beside PyTorch, eagerly and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parity_tools import close, torch

import tracejit as tj

NAN, INF = float("nan"), float("inf")
ROW = [2.0, 3.0, 3.0, 0.0, -1.5, 5.0]
TABLE = np.arange(24.0).reshape(2, 6, 2) / 7 - 1
CALLS: list[tuple[Any, dict[str, Any]]] = [
    (ROW, {"lengths": [2, 0, 4]}),
    (ROW, {"lengths": [3, 3]}),
    (ROW, {"offsets": [0, 2, 2, 6]}),
    (ROW, {"offsets": [1, 2, 5]}),
    (ROW, {"lengths": [1, 2], "unsafe": True}),
    ([NAN, 1.0, 2.0, INF, -INF, 1.0], {"lengths": [2, 1, 2, 1]}),
    (TABLE, {"lengths": [1, 1]}),
    (TABLE, {"lengths": [0, 2], "axis": -3}),
    (TABLE, {"lengths": [[2, 4], [6, 0]], "axis": 1}),
    (TABLE, {"offsets": [[0, 2, 6], [0, 6, 6]], "axis": 1}),
]


def results(of: Any, call: Any, data: Any) -> list[Any]:
    x = of.tensor(np.asarray(data), requires_grad=True)
    found = call(x)
    weights = of.arange(1.0, found.numel() + 1, dtype=of.float64).reshape(found.shape)
    (gradient,) = of.autograd.grad((found * weights).sum(), x)
    return [found, gradient]


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("initial", [None, 1, -2.5])
@pytest.mark.parametrize("call", range(len(CALLS)))
def test_values_and_gradients(reduce, initial, call) -> None:
    data, options = CALLS[call]
    arrays = {name: x for name, x in options.items() if isinstance(x, list)}
    rest = {name: x for name, x in options.items() if name not in arrays}

    def function(of: Any) -> Any:
        given = {name: of.tensor(x) for name, x in arrays.items()}
        return lambda x: of.segment_reduce(x, reduce, initial=initial, **given, **rest)

    expected = results(torch, function(torch), data)
    ours = function(tj)
    compiled = tj.compile(ours)
    special = not np.isfinite(np.asarray(data)).all()
    for f in (ours, compiled, compiled, compiled):
        found = results(tj, f, data)
        close(found[0], expected[0], 1e-12)
        if (
            not special
        ):  # where values are infinite, PyTorch's own gradients depend on how it divides
            close(found[1], expected[1], 1e-12)


@pytest.mark.parametrize(
    "args",
    [
        "x, 'sum'",
        "x, 'foo', lengths=n",
        "x, 'sum', lengths=-n",
        "x, 'sum', lengths=n, indices=n",
        "x, 'sum', lengths=n[:1]",
        "x.reshape(2, 3), 'sum', lengths=n, axis=1",
        "x, 'sum', lengths=n.float()",
        "x.long(), 'sum', lengths=n",
        "x[0], 'sum', lengths=n",
        "x, 'sum', lengths=n, axis=1",
    ],
)
def test_refusals(args) -> None:
    for of in (torch, tj):
        space = {"f": of.segment_reduce, "x": of.arange(6.0), "n": of.tensor([2, 4])}
        with pytest.raises((RuntimeError, NotImplementedError, IndexError)):
            eval(f"f({args})", space)
