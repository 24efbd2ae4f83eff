"""Attention with functions for scores and masks, and pooling at random places, against PyTorch; eager and compiled."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from parity_tools import close, compare, same_error

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")
importlib.import_module("torch.nn.attention.flex_attention")
importlib.import_module("tracejit.nn.attention.flex_attention")
pytestmark = pytest.mark.filterwarnings("ignore")

RNG = np.random.default_rng(5)
Q, K, V = (
    RNG.normal(size=(2, 4, 5, 8)),
    RNG.normal(size=(2, 2, 7, 8)),
    RNG.normal(size=(2, 2, 7, 3)),
)
ALL, BIAS = RNG.normal(size=(2, 4, 7, 8)), RNG.normal(size=(4, 15))
WORDS = np.array([0, 0, 1, 1, 1, 2, 2])

CHANGES = {
    "none": "None",
    "slopes": "lambda s, b, h, i, j: s + (j - i) * 2.0 ** (-(h + 1))",
    "capped": "lambda s, b, h, i, j: 2 * t.tanh(s / 2)",
    "biased": "lambda s, b, h, i, j: s + bias[h, i - j + 7]",
    "causal": "lambda s, b, h, i, j: t.where(i >= j, s, -float('inf'))",
}
MASKS = {
    "none": "None",
    "causal": "lambda b, h, i, j: i >= j",
    "window": "fx.and_masks(lambda b, h, i, j: i >= j, lambda b, h, i, j: i - j <= 2)",
    "words": "fx.or_masks(lambda b, h, i, j: words[i] == words[j], lambda b, h, i, j: (b == 1) & (j == 0))",
    "nothing for the first": "lambda b, h, i, j: i > j",
}


def attend(t: Any, q: Any, k: Any, v: Any, bias: Any, change: str, mask: str) -> Any:
    fx = t.nn.attention.flex_attention
    words = t.tensor(WORDS)
    known = {"t": t, "fx": fx, "bias": bias, "words": words}
    rule = eval(mask, known)
    block = None
    if rule is not None:
        block = fx.create_block_mask(rule, 2, None, q.shape[2], k.shape[2], device="cpu")
    found, more = fx.flex_attention(
        q,
        k,
        v,
        score_mod=eval(change, known),
        block_mask=block,
        enable_gqa=True,
        return_aux=fx.AuxRequest(lse=True),
    )
    return [found, more.lse.nan_to_num(neginf=-9.0)]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("mask", MASKS)
def test_attention(change: str, mask: str) -> None:
    arrays = [Q, K, V, BIAS]
    ask = CHANGES[change], MASKS[mask]
    compare(
        lambda t, f, q, k, v, bias: attend(t, q, k, v, bias, *ask),
        arrays,
        gradients=False,  # PyTorch has none on the CPU
        tolerance=1e-8,
    )
    plain = [tj.tensor(a, requires_grad=True) for a in arrays]
    fast = [tj.tensor(a, requires_grad=True) for a in arrays]
    compiled = tj.compile(lambda *tensors: attend(tj, *tensors, *ask))
    compiled(*fast)
    results, expected = compiled(*fast), attend(tj, *plain, *ask)
    sum(x.sum() for x in results).backward()
    sum(x.sum() for x in expected).backward()
    for a, b in zip([*results, *fast[:3]], [*expected, *plain[:3]], strict=True):
        a, b = (x.grad if x.is_leaf and x.requires_grad else x.detach() for x in (a, b))
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-9)


def test_sizes_that_do_not_fit() -> None:
    fx, x = tj.nn.attention.flex_attention, tj.ones(1, 2, 3, 4)
    with pytest.raises(ValueError, match="4D"):
        fx.flex_attention(x[0], x[0], x[0])
    with pytest.raises(ValueError, match="block_mask was created for"):
        fx.flex_attention(x, x, x, block_mask=fx.create_block_mask(fx.noop_mask, 1, 1, 8, 8))


def test_largest_scores() -> None:
    fx, x = tj.nn.attention.flex_attention, tj.tensor(ALL)
    more = fx.flex_attention(x, x, x, return_aux=fx.AuxRequest(max_scores=True))[1]
    np.testing.assert_allclose(more.max_scores, (ALL @ np.swapaxes(ALL, 2, 3)).max(-1) / 8**0.5)
    assert more.lse is None


def test_masks() -> None:
    found = []
    for t in (tj, torch):
        fx = t.nn.attention.flex_attention
        rule = fx.and_masks(lambda b, h, i, j: i >= j, lambda b, h, i, j: i - j < 20)
        mask = fx.create_block_mask(rule, 1, 2, 100, 120, device="cpu", BLOCK_SIZE=16)
        dense = mask.to_dense()
        found.append(
            (mask.shape, mask.seq_lengths, dense.tolist(), round(mask.sparsity(), 6), dense.dtype)
        )
        found[-1] += (fx.create_mask(rule, 1, 1, 5, 4, device="cpu").tolist(),)
        found[-1] += (fx.noop_mask(*map(t.tensor, range(4))).item(),)
    assert found[0][:4] == found[1][:4]
    assert found[0][5:] == found[1][5:]


POOLED = [
    "f.fractional_max_pool2d(x, 2, output_size=(3, 4), return_indices=True, _random_samples=r[:, :, :2])",
    "f.fractional_max_pool2d_with_indices(x, 2, output_size=(3, 4), _random_samples=r[:, :, :2])",
    "f.fractional_max_pool2d(x, (3, 2), output_ratio=(0.5, 0.7), return_indices=True, _random_samples=r[:, :, :2])",
    "f.fractional_max_pool2d(x[0], 2, output_size=1, return_indices=True, _random_samples=r[:1, :, :2])",
    "f.fractional_max_pool3d(t.stack([x, x * x], 2).repeat(1, 1, 2, 1, 1), (1, 2, 3), output_size=(3, 4, 2), "
    "return_indices=True, _random_samples=r)",
]


@pytest.mark.parametrize("code", POOLED)
def test_fractional_pooling(code: str) -> None:
    noise = np.random.default_rng(8).uniform(size=(2, 3, 3))
    image = np.random.default_rng(7).normal(size=(2, 3, 8, 9))
    image[0, 0, 3, 3] = np.nan

    def pooled(t: Any, f: Any, x: Any, r: Any) -> Any:
        return eval(code, {"t": t, "f": f, "x": x, "r": r.detach()})

    compare(pooled, [image, noise], second=False)
    compiled = tj.compile(lambda x, r: pooled(tj, tj.nn.functional, x, r))
    x, r = tj.tensor(image), tj.tensor(noise)
    compiled(x, r)
    for ours, theirs in zip(
        compiled(x, r),
        pooled(torch, torch.nn.functional, torch.tensor(image), torch.tensor(noise)),
        strict=True,
    ):
        close(ours, theirs)


def test_windows_of_fractional_pooling_are_drawn() -> None:
    layer = tj.nn.FractionalMaxPool2d(3, output_ratio=0.5, return_indices=True)
    x = tj.rand(2, 3, 16, 16)
    places = {tuple(layer(x)[1].flatten().tolist()) for _ in range(4)}
    assert len(places) == 4


@pytest.mark.parametrize(
    "code",
    [
        "t.nn.FractionalMaxPool2d(2)",
        "t.nn.FractionalMaxPool2d(2, output_size=2, output_ratio=0.5)",
        "t.nn.FractionalMaxPool3d(2, output_ratio=1.5)",
        "f.fractional_max_pool2d(t.ones(1, 1, 4, 4), 2)",
        "f.fractional_max_pool2d(t.ones(1, 1, 4, 4), 3, output_size=4)",
    ],
)
def test_errors(code: str) -> None:
    same_error(lambda t, f: eval(code, {"t": t, "f": f}))
