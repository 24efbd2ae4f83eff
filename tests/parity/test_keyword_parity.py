"""Results in given tensors, and old orders of arguments, beside PyTorch."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from parity_tools import close, torch

import tracejit as tj

CALLS = [
    "t.add(x, y, out=o)",
    "t.mean(x, axis=0, out=o)",
    "t.clamp(x, min=0, out=o)",
    "t.mm(x, y.T, out=o)",
    "t.permute(input=x, dims=(1, 0))",
    "t.stack([x, y], axis=1, out=o)",
    "t.cumsum(x, axis=1, out=o)",
    "t.where(x > 0, x, y, out=o) if hasattr(t, 'classes') else t.where(x > 0, x, y)",
    "t.arange(4, out=o)",
    *(
        f"t.nn.functional.{name}(x, out=o)"
        for name in ("gelu", "hardshrink", "logsigmoid", "normalize", "softplus", "softshrink")
    ),
    "t.nn.functional.avg_pool2d(x[None], 2, out=o)",
    "t.nn.functional.avg_pool3d(x[None, None], (1, 2, 2), out=o)",
    "t.full((2, 2), 3.0, out=o)",
    "x.add(2, y)",
    "x.addcmul(2, y, y)",
    "t.topk(x, 2, out=(o, o.long()))[0]",
]


@pytest.mark.parametrize("call", CALLS)
def test_calls(call: str) -> None:
    x, y = np.linspace(-2, 2, 12).reshape(3, 4), np.cos(np.arange(12.0)).reshape(3, 4)
    found: list[Any] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for t in (tj, torch):
            names = {"t": t, "x": t.tensor(x), "y": t.tensor(y), "o": t.zeros(0, dtype=t.float64)}
            found.append(eval(call, names))
    close(*found)
