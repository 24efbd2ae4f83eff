"""Causal attention of many queries goes block by block: what is later than a block is left out of its products."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.ops.functions.attention import BLOCK

attend = tj.nn.functional.scaled_dot_product_attention
#: Lengths of queries and keys: one block, two, more, uneven ones, fewer and more keys than queries.
LENGTHS = [(64, 64), (2 * BLOCK, 2 * BLOCK), (391, 391), (800, 800), (300, 77), (250, 400)]


def masked(q: tj.Tensor, k: tj.Tensor, v: tj.Tensor) -> tj.Tensor:
    """All scores, and those of later keys masked."""
    rows, columns = q.shape[-2], k.shape[-2]
    visible = tj.ones(rows, columns, dtype=tj.bool).tril()
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return scores.masked_fill(~visible, -math.inf).softmax(-1) @ v


def causal(q: tj.Tensor, k: tj.Tensor, v: tj.Tensor) -> tj.Tensor:
    return attend(q, k, v, is_causal=True)


def drawn(
    rows: int, columns: int, dtype: tj.dtype = tj.float64, wanted: bool = False
) -> list[tj.Tensor]:
    shapes = (2, 3, rows, 8), (2, 3, columns, 8), (2, 3, columns, 5)
    return [tj.randn(*shape, dtype=dtype, requires_grad=wanted) for shape in shapes]


def with_gradients(function: Any) -> Any:
    def run(q: tj.Tensor, k: tj.Tensor, v: tj.Tensor) -> Any:
        y = function(q, k, v)
        return y, *tj.autograd.grad((y * y.cos()).sum(), (q, k, v))

    return run


@pytest.mark.sampled(16)
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("compiled", [False, True])
def test_as_if_masked(lengths: tuple[int, int], compiled: bool):
    function = with_gradients(causal)
    if compiled:
        function = tj.compile(function, strict=True)
    for _ in range(2):
        inputs = drawn(*lengths, wanted=True)
        for have, want in zip(function(*inputs), with_gradients(masked)(*inputs), strict=True):
            np.testing.assert_allclose(have.detach().numpy(), want.detach().numpy(), 1e-10, 1e-12)


@pytest.mark.parametrize("dtype", [tj.float32, tj.bfloat16, tj.float16])
def test_other_dtypes(dtype: tj.dtype):
    q, k, v = drawn(400, 400, dtype)
    want = masked(*(x.double() for x in (q, k, v))).numpy()
    rounding = 1e-5 if dtype is tj.float32 else 3e-2
    for function in (causal, tj.compile(causal, strict=True)):
        for _ in range(2):
            found = function(q, k, v)
            assert found.dtype is dtype
            np.testing.assert_allclose(found.double().numpy(), want, rounding, rounding)


def test_what_is_later_has_no_influence():
    q, k, v = drawn(500, 500)
    before = causal(q, k, v)[..., :BLOCK, :]
    k[..., 300:, :] = math.inf
    v[..., 300:, :] = math.nan
    after = tj.compile(causal, strict=True)
    for _ in range(2):
        np.testing.assert_array_equal(after(q, k, v)[..., :BLOCK, :].isnan().any().item(), False)
        np.testing.assert_allclose(after(q, k, v)[..., :BLOCK, :].numpy(), before.numpy(), 1e-10)


def test_lengths_alike_share_kernels():
    compiled = tj.compile(with_gradients(causal), strict=True)
    made: list[set[str]] = []
    for length in (256, 320, 224):
        for _ in range(2):
            compiled(*(tj.randn(2, 3, length, 32, requires_grad=True) for _ in range(3)))
        made.append({re.sub("#.*", "", kernel.source) for kernel in compiled.kernels})
    assert made[0]
    assert made[2] == made[1] == made[0]


def test_heads_of_another_width_are_the_error_of_all_scores():
    q, k, v = tj.randn(2, 300, 8), tj.randn(2, 300, 7), tj.randn(2, 300, 7)
    with pytest.raises(RuntimeError, match="300"):
        attend(q, k, v, is_causal=True)


def test_heads_that_are_shared_and_broadcast():
    q, k, v = tj.randn(2, 4, 300, 8), tj.randn(2, 2, 300, 8), tj.randn(2, 2, 300, 8)
    found = attend(q, k, v, is_causal=True, enable_gqa=True)
    want = masked(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))
    np.testing.assert_allclose(found.numpy(), want.numpy(), 1e-4, 1e-5)
    one = attend(q, k[:, :1], v[:, :1], is_causal=True)
    np.testing.assert_allclose(one.numpy(), masked(q, k[:, :1], v[:, :1]).numpy(), 1e-4, 1e-5)
