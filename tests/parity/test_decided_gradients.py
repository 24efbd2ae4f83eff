"""Gradients that the input decided about can be differentiated again, as in PyTorch: there is no slope."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")

CALLS = [
    "f.max_pool1d(x, 2, return_indices=True)[0]",
    "f.max_pool2d(x, 2, return_indices=True)[0]",
    "f.max_pool3d(x[None], 2, return_indices=True)[0]",
    "f.adaptive_max_pool1d(x, 3, return_indices=True)[0]",
    "f.adaptive_max_pool2d(x, (1, 3), return_indices=True)[0]",
    "f.fractional_max_pool2d(x, 2, output_size=(2, 3), _random_samples=draws)",
    "f.batch_norm(x, zeros, zeros + 1)",
    "f.instance_norm(x, zeros, zeros + 1, use_input_stats=False)",
    "f.pad(x, (1, 2), mode='reflect')",
    "f.pad(x, (0, 1), mode='replicate')",
    "f.pad(x, (-1, 0), mode='reflect')",
    "f.grid_sample(x[None], grid, align_corners=False)",
    "f.grid_sample(x[None], grid, mode='nearest', align_corners=True)",
    "t.stft(x[0], 4, hop_length=2, window=zeros[:1].expand(4) + 1, return_complex=True).real",
]


def derivatives(t: Any, call: str, times: int) -> list[Any]:
    def function(x: Any) -> Any:
        names = {"zeros": t.zeros(4, dtype=t.float64), "draws": t.full((1, 4, 2), 0.3).double()}
        names["grid"] = t.linspace(-1.2, 1.1, 12, dtype=t.float64).reshape(1, 2, 3, 2)
        return eval(call, {"t": t, "f": t.nn.functional, "x": x, **names})

    run = tj.compile(function) if times > 1 else function
    for _ in range(times):
        x = t.tensor(np.sin(np.arange(1.0, 97.0)).reshape(4, 4, 6), requires_grad=True)
        found = run(x)
        (slope,) = t.autograd.grad(found.sum(), x, create_graph=True)
        assert slope.requires_grad
        (curvature,) = t.autograd.grad(slope.sum(), x, allow_unused=True)  # PyTorch may have None
    curved = curvature is not None and curvature.numpy().any()
    return [found.detach().numpy(), slope.detach().numpy(), np.array(curved)]


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("call", CALLS)
def test_gradients_have_gradients(call: str, times: int) -> None:
    expected = derivatives(torch, call, 1)
    assert not expected[-1].any()
    for ours, theirs in zip(derivatives(tj, call, times), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
