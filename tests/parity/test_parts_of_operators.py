"""Operators that PyTorch's functions are made of: gradients by name, and forms that programs call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parity_tools import close, torch

import tracejit as tj

CALLS = {
    "gelu": "a.gelu_backward(g, x, approximate='tanh')",
    "silu": "a.silu_backward(g, x)",
    "threshold": "a.threshold_backward(g, x, 0.1)",
    "tanh": "a.tanh_backward(g, x.tanh())",
    "sigmoid": "a.sigmoid_backward(g, x.sigmoid())",
    "dropout": "a.native_dropout_backward(g, x > 0, 2.0)",
    "norm": "a.native_layer_norm_backward(g, x, [6], x.mean(-1, True), (x.var(-1, correction=0, keepdim=True) + 1e-5)"
    " ** -0.5, x[0, 0], g[0, 0], [True, True, False])[1]",
    "norm of the input": "a.native_layer_norm_backward(g, x, [6], x.mean(-1, True), (x.var(-1, correction=0, "
    "keepdim=True) + 1e-5) ** -0.5, None, None, [True, False, False])[0]",
    "rows": "a.embedding_dense_backward(g[0], t.tensor([1, 3, 1, 0]), 5, 3, False)",
    "pooled": "a.max_pool2d_with_indices_backward(g[:, :2, :3], x, [2, 2], [2, 2], [0, 0], [1, 1], False, "
    "f.max_pool2d(x, 2, return_indices=True)[1])",
    "losses": "a.nll_loss_forward(x[0], t.tensor([1, 5, 2, 2]), None, 1, 2)[0]",
    "weights": "a.nll_loss_forward(x[0], t.tensor([1, 5, 2, 2]), x[0, 0], 2, -100)[1]",
    "of losses": "a.nll_loss_backward(g[0, 0, 0], x[0], t.tensor([1, 5, 2, 2]), None, 1, 2, t.tensor(2.0).double())",
    "log of sigmoid": "a.log_sigmoid_forward(x)[0]",
    "bilinear": "a.upsample_bilinear2d(x[None], [6, 9], True)",
    "twice": "a.upsample_bilinear2d.vec(x[None], None, False, [2.0, 1.5])",
    "nearest": "a.upsample_nearest2d.vec(x[None], None, [2.0, 2.0])",
    "columns": "a.im2col(x[None], [2, 2], [1, 1], [1, 0], [1, 2])",
    "an image": "a.col2im(x.reshape(1, 8, 6)[:, :, :6], [3, 4], [2, 2], [1, 1], [0, 0], [1, 1])",
    "reflected": "a.reflection_pad2d(x, [1, 2, 0, 1])",
    "replicated": "a.replication_pad1d(x, [1, 2])",
    "viewed": "a._unsafe_view(x, [4, 12])",
    "lifted": "a.lift_fresh_copy(x)",
    "safe": "t._safe_softmax(x.masked_fill(x[:, :1] > -9, float('-inf')), 1)",
    "batches": "t._native_batch_norm_legit(x, None, None, True, 0.1, 1e-5)[0]",
    "shapes": "t._shape_as_tensor(x)",
    "distinct": "t._unique2(t.tensor([3, 1, 3]), return_counts=True)[2]",
    "distances": "t._euclidean_dist(x[0], g[0])",
    "products": "t._int_mm(x[0].to(t.int8), g[0].mT.to(t.int8))",
    "cast": "t._cast_Float(x)",
    "chosen": "t._unsafe_masked_index(x, x[:, :, :1] > 0, [t.tensor([[0], [7]]), t.tensor([[-9, 1, 2, 3]])], 0.5)",
    "added": "t._unsafe_masked_index_put_accumulate(x, x > 0, [t.tensor([9, 1])[:, None, None], "
    "t.arange(4)[:, None], t.arange(6)], g)",
    "added to nothing": "t._unsafe_masked_index_put_accumulate(x[:0], x > 0, [t.arange(6)], g)",
    "chunks": "t._chunk_cat([x[0], g[0, :3], x[0, :, 0]], 0, 3)",
    "chunks of columns": "t._chunk_cat([x, g[..., :5]], -1, 2)",
    "activated": "t._addmm_activation(x[0, 0, :4], x[0], g[0].mT, beta=2, alpha=3)",
    "smoothly activated": "t._addmm_activation(x[0], x[0, :, :4], g[0, :, :], use_gelu=True)",
    "smoothed": "a._upsample_bilinear2d_aa(x[None], [2, 3], False)",
    "by other scales": "a.upsample_bilinear2d(x[None], [3, 3], False, 1.7, 0.9)",
    "smoothed by other scales": "a._upsample_bilinear2d_aa(x[None], [3, 3], False, scales_h=0.7, scales_w=1.9)",
    "bent": "a._upsample_bicubic2d_aa(x[None], [2, 3], True)",
    "updated": "a._batch_norm_with_update(x, None, None, g[0, 0, :4] * 1, g[0, 0, :4] ** 2, 0.1, 1e-5)[2]",
}


def given(of: Any) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return tuple(of.from_numpy(rng.standard_normal((2, 4, 6))) for _ in range(2))


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", CALLS)
def test_parts_are_those_of_pytorch(name):
    def run(of: Any) -> Any:
        x, g = given(of)
        names = {"t": of, "a": of.ops.aten, "f": of.nn.functional, "x": x, "g": g}
        return eval(CALLS[name], names)

    close(run(tj), run(torch), 1e-9)


def test_gradients_by_name_can_be_differentiated():
    found = []
    for of in (tj, torch):
        x, g = (v.requires_grad_() for v in given(of))
        slope = of.ops.aten.gelu_backward(g, x)
        found.append(of.autograd.grad(slope.square().sum(), (x, g)))
        assert not of.ops.aten.gelu_backward(g.detach(), x.detach()).requires_grad
    for ours, theirs in zip(*found, strict=True):
        close(ours, theirs)


def test_gradients_are_unscaled_in_place():
    for of in (tj, torch):
        grads, found = [of.tensor([2.0, 4.0]), of.tensor([float("inf")])], of.zeros(1)
        of._amp_foreach_non_finite_check_and_unscale_(grads[:1], found, of.tensor(0.5))
        assert found.item() == 0
        of._amp_foreach_non_finite_check_and_unscale_(grads, found, of.tensor(0.5))
        assert found.item() == 1
        assert grads[0].tolist() == [0.5, 1.0]


def test_rows_of_nothing_have_gradients_of_zero():
    found = []
    for of in (tj, torch):
        x = of.tensor([[1.0, 2.0, -np.inf], [-np.inf] * 3, [0.0, 1.0, 2.0]], requires_grad=True)
        found.append(of.autograd.grad(of._safe_softmax(x, 1).square().sum(), x)[0])
    close(*found, 1e-6)


@pytest.mark.parametrize(
    "call",
    [
        "t._chunk_cat([], 0, 1)",
        "t._chunk_cat([t.ones(2)], 0, 0)",
        "t._chunk_cat([t.ones(2, 3), t.ones(2)], -1, 1)",
        "t._chunk_cat([t.ones(2, 3), t.ones(3, 3)], 1, 1)",
        "t._chunk_cat([t.ones(0, 3)], 0, 1)",
        "t._chunk_cat([t.ones(2, 3)], 5, 1)",
        "t._chunk_cat([t.ones(2), t.ones(2).double()], 0, 1)",
    ],
)
def test_chunks_that_do_not_fit(call):
    told = []
    for of in (tj, torch):
        with pytest.raises((RuntimeError, IndexError)) as error:
            eval(call, {"t": of})
        told.append((isinstance(error.value, IndexError), str(error.value).split("\n")[0]))
    assert told[0] == told[1]
