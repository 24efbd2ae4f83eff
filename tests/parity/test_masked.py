"""Reductions and normalisations under masks against PyTorch, eager and compiled, with gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parity_tools import close, same_error

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")
torch_masked = pytest.importorskip("torch.masked", reason="the oracle of these tests is PyTorch")

RNG = np.random.default_rng(5)
X = RNG.normal(size=(3, 4, 5))
FULL = RNG.random((3, 4, 5)) < 0.6
FULL[0, 1] = False  # nothing is kept there

CALLS = [
    *(f"m.{name}(x, 1, mask=k)" for name in ("sum", "prod", "amax", "amin", "mean", "logsumexp")),
    *(f"m.{name}(x, (0, 2), keepdim=True, mask=k)" for name in ("sum", "prod", "amax", "mean")),
    *(f"m.{name}(x, mask=k)" for name in ("sum", "prod", "amin", "mean", "var", "std")),
    *(f"m.{name}(x, 2, mask=k)" for name in ("cumsum", "cumprod", "softmax", "log_softmax")),
    *(f"m.{name}(x)" for name in ("sum", "prod", "amax", "mean", "std", "norm", "logsumexp")),
    "m.softmin(x, 0, mask=k)",
    "m.median(x, 1, mask=k)",
    "m.median(x, 2, keepdim=True)",
    "m.norm(x, 3.0, 1, mask=k)",
    "m.norm(x, -float('inf'), 1, mask=k)",
    "m.normalize(x, 2.0, 1, mask=k)",
    "m.var(x, 0, False, mask=k)",
    "m.var(x, 0, correction=2, mask=k)",
    "m.logaddexp(x, x * 2, input_mask=k)",
    "m.sum(x, 0, mask=k[0])",
    "m.mean(x, 2, dtype=t.float32, mask=k[:, :1])",
]


def run(t: Any, masked: Any, call: str, compiled: bool = False) -> list[Any]:
    """The result and the gradient of its finite part."""
    x, kept = t.tensor(X, requires_grad=True), t.tensor(FULL)

    def function(x: Any, k: Any) -> Any:
        return eval(call, {"t": t, "m": masked, "x": x, "k": k})

    if compiled:
        function = tj.compile(function)
        function(x, kept), function(x, kept)
    out = function(x, kept)
    (gradient,) = t.autograd.grad(t.where(t.isfinite(out), out, 0.0).sin().sum(), x)
    return [out, gradient]


@pytest.mark.parametrize("call", CALLS)
def test_floats(call: str) -> None:
    expected = run(torch, torch_masked, call)
    for compiled in (False, True):
        for ours, theirs in zip(run(tj, tj.masked, call, compiled), expected, strict=True):
            close(ours, theirs, 1e-5 if "float32" in call else 1e-9)


@pytest.mark.parametrize("kind", ["uint8", "int8", "int32", "int64", "bool"])
@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "argmax", "argmin", "var"])
def test_integers(name: str, kind: str) -> None:
    if kind == "bool" and name not in ("sum", "prod"):
        return
    numbers, kept = RNG.permutation(9)[:4].astype(kind), FULL[0, 0, :4]
    results = []
    for t, masked in ((tj, tj.masked), (torch, torch_masked)):
        x, k = t.tensor(numbers), t.tensor(kept)
        results.append(getattr(masked, name)(x, 0, mask=k))
    close(*results)


@pytest.mark.parametrize("call", ["m.mean(x.long())", "m.sum(x, 7)", "m.sum(x[0], mask=x > 0)"])
def test_refused(call: str) -> None:
    def attempt(t: Any, f: Any) -> Any:
        masked = tj.masked if t is tj else torch_masked
        return eval(call, {"m": masked, "x": t.tensor(X)})

    same_error(attempt)
