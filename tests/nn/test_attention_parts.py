"""Steps of attention under the names that programs import: beside PyTorch, eagerly and compiled."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from tracejit.nn import functional as F

torch = pytest.importorskip("torch")


def _given(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("alike", ["self", "memory", "apart"])
@pytest.mark.parametrize("bias", [True, False])
def test_packed_projections_are_those_of_pytorch(alike, bias):
    arrays = [_given(5, 2, 4), _given(3, 2, 4), _given(3, 2, 4) + 1, _given(12, 4), _given(12)]

    def projected(package, make, project):
        q, k, v, w, b = (make(x.copy()).requires_grad_() for x in arrays)
        k = q if alike == "self" else k
        v = v if alike == "apart" else k
        found = project(q, k, v, w, b if bias else None)
        sum((x * x).sum() for x in found).backward()
        grads = [x.grad for x in (q, k, v, w, b if bias else w)]
        return [x.detach().numpy() for x in (*found, *grads)]

    expected = projected(torch, torch.from_numpy, torch.nn.functional._in_projection_packed)
    compiled = tj.compile(F._in_projection_packed)
    for project in (F._in_projection_packed, compiled, compiled):
        for found, other in zip(projected(tj, tj.from_numpy, project), expected, strict=True):
            np.testing.assert_allclose(found, other, rtol=1e-4, atol=1e-4)
    assert compiled.stats.compiled_calls == 1


def test_projections_by_weights_of_their_own():
    arrays = [_given(5, 4), _given(6, 3), _given(6, 2), _given(4, 4), _given(4, 3), _given(4, 2)]
    found = F._in_projection(*map(tj.from_numpy, arrays))
    expected = torch.nn.functional._in_projection(*map(torch.from_numpy, arrays))
    for mine, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=1e-5, atol=1e-5)
    with pytest.raises(AssertionError, match="weight of shape"):
        F._in_projection(*map(tj.from_numpy, arrays[:3] + arrays[:2:-1]))


def test_masks_of_bools_become_what_is_added_to_scores():
    mask = tj.tensor([[True, False], [False, False]])
    found = F._canonical_mask(mask, "mask", None, "other", tj.float64)
    assert found.dtype is tj.float64
    assert found.tolist() == [[float("-inf"), 0.0], [0.0, 0.0]]
    given = tj.ones(2)
    assert F._canonical_mask(given, "mask", tj.float32, "other", tj.float64) is given
    assert F._canonical_mask(None, "mask", None, "other", tj.float64) is None
    with pytest.warns(UserWarning, match="mismatched mask and other"):
        F._canonical_mask(mask, "mask", tj.float32, "other", tj.float32)
    with pytest.raises(AssertionError, match="only bool and floating types of mask"):
        F._canonical_mask(tj.ones(2, dtype=tj.int64), "mask", None, "other", tj.float32)
    with pytest.raises(RuntimeError, match="None or a tensor"):
        F._none_or_dtype(3)


def test_batches_of_one_value_per_channel_are_refused():
    assert F._verify_batch_size([1, 3, 2]) is None
    with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
        F._verify_batch_size([1, 3, 1])


def test_initialisers_under_their_inner_names():
    weight = tj.nn.Parameter(tj.empty(50))
    tj.nn.init._no_grad_trunc_normal_(weight, 0.0, 1.0, -0.5, 0.5)
    assert weight.grad_fn is None
    assert float(weight.detach().abs().max()) <= 0.5
    assert tj.nn.init._no_grad_fill_(weight, 2.0).tolist() == [2.0] * 50
