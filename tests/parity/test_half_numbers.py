"""Half precision beside Python numbers, as PyTorch computes it: bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")

NUMBERS = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
CASES = [
    "x * 1.3333",
    "1001 * x",
    "x / 3.3",
    "x + 1.3333",
    "0.1 - x",
    "x * t.tensor(1.3333)",
    "x.clone().mul_(0.9)",
    "t.add(x, x.flip(0), alpha=0.37)",
    "x.clone().sub_(x.flip(0), alpha=0.1)",
    "f.leaky_relu(x, 0.03)",
    "f.elu(x, 1.3)",
    "f.softplus(x, 1.3)",
    "t.addcmul(x, x, x, value=0.3)",
    "x.abs() ** 1.7",
    "t.lerp(x, x.flip(0), x.roll(1))",
    "x > 0.3333",
]

SUMS = [
    "t.addmm(y, y, y.T, beta=0.6, alpha=0.2)",
    "t.addmm(y[0], y, y)",
    "t.addmv(x[:20], y, y[0])",
    "t.addmv(x[:20], y, y[0], beta=0.6, alpha=0.2)",
    "t.addr(y, y[0], y[1])",
    "t.addr(y, y[0], y[1], beta=0.6, alpha=0.2)",
    "t.addr(y, y[0], y[1], beta=0, alpha=0.3)",
    "t.addbmm(y, z, z, beta=0.6, alpha=0.2)",
    "t.baddbmm(z, z, z, beta=2, alpha=3)",
    "f.conv1d(z, y[:, :, None], y[0])",
    "f.conv2d(z[:, None], y[:4, None, :3, None], y[0, :4], stride=2)",
    "f.linear(y, y, y[0])",
    "f.linear(z, y, y[0])",
    "f.linear(y[0], y, y[0])",
]


def test_transposed_convolutions_are_rounded_once() -> None:
    def run(t: Any) -> Any:
        x = (t.tensor(NUMBERS) * 4).round().to(t.bfloat16)[:400].reshape(1, 20, 20) + 8
        return t.nn.functional.conv_transpose1d(x, x[0, :, :, None], x[0, 0]).float().numpy()

    assert np.array_equal(run(torch), run(tj))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("case", SUMS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_sums_with_products_are_rounded_alike(case: str, dtype: str, compiled: bool) -> None:
    """Products of such numbers are exact, and so are their sums, but for the last rounding."""

    def run(t: Any) -> Any:
        x = (t.tensor(NUMBERS) * 4).round().to(getattr(t, dtype))
        x = x * 0.25 + 8

        def f(x: Any) -> Any:
            y, z = x[:400].reshape(20, 20), x[:800].reshape(2, 20, 20)
            return eval(case, {"t": t, "f": t.nn.functional, "x": x, "y": y, "z": z})

        f = tj.compile(f) if compiled and t is tj else f
        return [f(x).float().numpy() for _ in range(2)][1]

    assert np.array_equal(run(torch), run(tj))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_same_bits(case: str, dtype: str) -> None:
    def run(t: Any) -> Any:
        x = t.tensor(NUMBERS).to(getattr(t, dtype))
        return eval(case, {"t": t, "f": t.nn.functional, "x": x}).float().numpy()

    expected, found = run(torch), run(tj)
    differing = int(np.count_nonzero(expected != found))
    assert differing <= 2, f"{differing} of 1000 differ"  # libraries' exponentials


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("length", [6, 200])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_large_scores_of_attention(dtype: str, length: int, compiled: bool, causal: bool) -> None:
    """Scores are not rounded: results and gradients are about as far from the exact ones as PyTorch's are."""
    rng = np.random.default_rng(1)
    given = [rng.standard_normal((2, 2, length, 8)).astype(np.float32) * 6 for _ in range(3)]
    seed = rng.standard_normal((2, 2, length, 8)).astype(np.float32)

    def run(t: Any, kind: str, compiled: bool = False) -> list[Any]:
        xs = [t.tensor(x).to(getattr(t, dtype)).to(getattr(t, kind)) for x in given]
        leaves = [x.requires_grad_() for x in xs]
        attention = t.nn.functional.scaled_dot_product_attention
        function = tj.compile(attention) if compiled else attention
        for _ in range(1 + compiled):
            out = function(*leaves, is_causal=causal)
            gradients = t.autograd.grad(out, leaves, t.tensor(seed).to(out.dtype))
        return [x.detach().double().numpy() for x in (out, *gradients)]

    exact, theirs = run(torch, "float64"), run(torch, dtype)
    for found, other, wanted in zip(run(tj, dtype, compiled), theirs, exact, strict=True):
        off, allowed = np.abs(found - wanted).max(), np.abs(other - wanted).max()
        assert off <= 3 * allowed + np.abs(wanted).max() * 2e-3
