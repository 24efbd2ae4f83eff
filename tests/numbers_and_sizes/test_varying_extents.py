"""Extents of the arguments that vary: from the third signature on one recording serves them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
import tracejit.nn.functional as F
from tracejit import nn

LENGTHS = (3, 4, 5, 6, 9, 7, 12, 5, 13)
#: Two signatures are recorded as they are, the third one for all others.
RECORDED = 3


def rows(*shape: int) -> Any:
    """Random numbers, always the same for a shape."""
    return tj.tensor(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32))


def image_net() -> Any:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 4, 3, stride=2, padding=1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 2),
    )


def u_net() -> Any:
    up = nn.Upsample(scale_factor=2)
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.MaxPool2d(2), up, nn.Conv2d(4, 3, 1))


def encoder() -> Any:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
    return nn.TransformerEncoder(layer, 2)


def translator() -> Any:
    model = nn.Transformer(16, 2, 1, 1, 32, batch_first=True, dropout=0.0)

    def run(source: Any, target: Any) -> Any:
        mask = model.generate_square_subsequent_mask(target.shape[1])
        return model(source, target, tgt_mask=mask)

    return run


def rotary(x: Any) -> Any:
    *_, steps, width = x.shape
    angles = tj.outer(tj.arange(steps), 1 / (100 ** (tj.arange(0, width, 2) / width)))
    even, odd = x[..., ::2], x[..., 1::2]
    parts = even * angles.cos() - odd * angles.sin(), even * angles.sin() + odd * angles.cos()
    return tj.stack(parts, -1).flatten(-2)


def causal(x: Any) -> Any:
    steps, width = x.shape[1:]
    mask = tj.tril(tj.ones(steps, steps)).bool()
    scores = (x @ x.transpose(1, 2)) / width**0.5
    return scores.masked_fill(~mask, float("-inf")).softmax(-1) @ x


def split_heads(x: Any) -> Any:
    batch, steps, width = x.shape
    y = x.view(batch, steps, 2, width // 2).transpose(1, 2)
    return (y * 2).transpose(1, 2).contiguous().view(batch, steps, width)


PROGRAMS: dict[str, tuple[Callable[[], Any], Callable[[int], tuple[Any, ...]]]] = {
    "images in batches": (image_net, lambda n: (rows(n, 3, 16, 16),)),
    "images of two sizes": (image_net, lambda n: (rows(2, 3, 16 + 4 * n, 24 + 2 * n),)),
    "doubled": (u_net, lambda n: (rows(2, 3, 16 + 2 * n, 32 + 2 * n),)),
    "sequences": (encoder, lambda n: (rows(2, n, 16),)),
    "two sequences": (translator, lambda n: (rows(2, n, 16), rows(2, n + 2, 16))),
    "positions": (lambda: rotary, lambda n: (rows(2, 2, n, 8),)),
    "causal": (lambda: causal, lambda n: (rows(2, n, 8),)),
    "heads": (lambda: split_heads, lambda n: (rows(2, n, 8),)),
    "rows without mean": (lambda: lambda x: (x - x.mean(0)) / x.std(0), lambda n: (rows(n, 10),)),
    "nearest": (
        lambda: lambda x, y: tj.cdist(x, y).min(1).values,
        lambda n: (rows(n, 4), rows(7, 4)),
    ),
    "joined": (lambda: lambda x, y: tj.cat([x, y], 0) * 2, lambda n: (rows(n, 10), rows(3, 10))),
    "halves": (lambda: lambda x: x.chunk(2, 0)[0] * x.chunk(2, 0)[1], lambda n: (rows(2 * n, 5),)),
    "running": (lambda: lambda x: x.cumsum(0), lambda n: (rows(n, 10),)),
    "sorted": (lambda: lambda x: x.sort(0).values, lambda n: (rows(n, 10),)),
    "masked": (lambda: lambda x: x[x > 0].sum(), lambda n: (rows(n, 5),)),
    "products": (lambda: lambda x, y: x @ y, lambda n: (rows(4, n, 5), rows(4, 5, n))),
    "across": (lambda: lambda x: (x * 2).sum(1), lambda n: (rows(8, n).T,)),
    "losses": (lambda: lambda x: F.log_softmax(x, -1).mean(), lambda n: (rows(n, 10),)),
}


def first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.sampled(16)
@pytest.mark.parametrize("name", PROGRAMS)
def test_three_recordings_serve_all_extents(name: str) -> None:
    make, inputs = PROGRAMS[name]
    tj.manual_seed(0)
    function = make()
    f = tj.compile(lambda *xs: first(function(*xs)))
    for n in LENGTHS:
        mine, theirs = (
            [
                x.clone().requires_grad_() if x.is_contiguous() else x.requires_grad_()
                for x in inputs(n)
            ]
            for _ in range(2)
        )
        found, expected = f(*mine), f.function(*theirs)
        np.testing.assert_allclose(found.detach(), expected.detach(), rtol=1e-4, atol=1e-5)
        weights = rows(*expected.shape) if expected.ndim else tj.tensor(1.0)
        (found * weights).sum().backward()
        (expected * weights).sum().backward()
        for x, y in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(x.grad, y.grad, rtol=1e-3, atol=1e-4)
    assert f.stats.recordings == RECORDED, f.explain()
    assert f.stats.compiled_calls == len(LENGTHS) - RECORDED
