"""Calls from PyTorch's own samples of its operators: values, dtypes and gradients, eager and compiled."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from parity_tools import close, torch

import tracejit as tj

CALLS = {
    "cut quotients": "t.div(x.half(), (x * (x > 0)).half(), rounding_mode='trunc').float().nan_to_num(9, 8, 7)",
    "a copy in another shape": "t.view_copy(x.mT, (2, 12))",
    "inverse cosine left of one": "t.acosh(t.view_as_complex(x.reshape(3, 4, 2)))",
    "correlations of complex numbers": "t.corrcoef(t.view_as_complex(x.reshape(3, 4, 2)))",
    "responses of integers": "f.local_response_norm(t.arange(24).reshape(2, 3, 4), 2)",
    "nothing in half precision": "t.logsumexp(t.ones(0, dtype=t.bfloat16), 0).float()",
    "copies of coefficients": "t.triangular_solve(x[0, 0, :, None], x[0].T @ x[0] + t.eye(4)).cloned_coefficient",
    "strides of a bilinear form": "t.tensor(f.bilinear(x[0], x[1], x.reshape(6, 4)[:, None].expand(6, 4, 4)).stride())",
    "alignments": "f.ctc_loss(x.log_softmax(2), t.tensor([[1, 2], [3, 3], [2, 1]]), (2, 2, 1), (1, 1, 1))",
    "strides of a layout": "t.tensor(t.empty_permuted((2, 3, 4), (0, 2, 1)).stride())",
    "strides of a tensor like another": "t.tensor(x.new_empty_strided((2, 3), (1, 2)).stride())",
    "layers with statistics": "t.native_layer_norm(x, (3, 4), x[0].detach(), x[1].detach(), 1e-3)[0]",
    "means of layers": "t.native_layer_norm(x, (4,), None, None, 1e-3)[1]",
    "deviations of layers": "t.native_layer_norm(x, (4,), None, None, 1e-3)[2]",
    "groups with statistics": "t.native_group_norm(x.mT.contiguous(), x[0, 0].detach(), None, 2, 4, 3, 2, 1e-3)[0]",
    "deviations of groups": "t.native_group_norm(x.detach(), None, None, 2, 3, 4, 3, 1e-3)[2]",
    "batches with statistics": "t.native_batch_norm(x, None, x[0, :, 0].detach(), None, None, True, 0.1, 1e-3)[0]",
    "deviations of batches": "t.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-3)[2]",
    "no statistics": "t.native_batch_norm(x, None, None, *x.detach().exp()[0, :, :2].T, False, 0.1, 1e-3)[1]",
    "nothing dropped": "t.native_dropout(x, 0.5, False)[0]",
    "a grid by numbers": "t.grid_sampler(x[None], x[:1, :, :2][None].tanh(), 0, 1, True)",
    "a planar grid by numbers": "t.grid_sampler_2d(x[None], x[:1, :, :2][None].tanh(), 2, 2, False)",
    "a grid in space by numbers": "t.grid_sampler_3d(x[None, None], x[None, :, :1, None, :3].tanh(), 1, 0, False)",
    "a grid of affine maps": "t.affine_grid_generator(x[:, :2, :3], (2, 1, 3, 4), False)",
    "norms except along": "t.norm_except_dim(x, 2, 1)",
    "time first": "t.conv_tbc(x, x.reshape(2, 4, 3), x[0, :, 0], 1)",
    "a convolution": "t.convolution(x, x.reshape(4, 3, 2), None, [2], [1], [1], False, [0], 1)",
    "a transposed convolution": "t.convolution(x, x.reshape(3, 4, 2), None, [2], [1], [1], True, [1], 1)",
    "a matrix of complex numbers turned": "t.tensor(t.view_as_complex(x.detach().reshape(3, 2, 2, 2)).mT.stride())",
    "products of several dtypes": "t.addcmul(x, x.detach().bfloat16(), x.detach().float(), value=-3.14)",
    "quotients of several dtypes": "t.addcdiv(x, x.detach().bfloat16(), x.detach().float(), value=-3.14)",
    "products in half precision": "t.addcmul(*[x.detach().to(t.bfloat16)] * 3, value=0.3).float()",
    "a slice filled twice": "t.index_fill(x, 1, t.tensor([0, 2, 0]), x[0, 0, 0])",
    "filled": "t.fill(x, 3.0)",
    "hard steps in half precision": "f.hardsigmoid((x * 3).bfloat16()).double()",
    "hard swishes in half precision": "f.hardswish((x * 3).bfloat16()).double()",
    "a norm that one zero decides": "t.linalg.vector_norm(x * (x > -1), -2.0, (0, 2))",
    "a norm of zeros": "t.linalg.vector_norm(x * 0, -1.5, 1, True)",
    "one class in a vector": "f.multi_margin_loss(x[0, 0], t.tensor([2]), reduction='none')",
    "reflected quotient": "x.__rdiv__(2)",
    "eigenvalues as another shape": "t.linalg.eigh(x[:, :, :3] + x[:, :, :3].mT)[0].view(-1)",
    "strides of eigenvalues": "t.tensor(t.linalg.eigvals(x[:, :, :3].detach()).stride())",
    "strides of singular values": "t.tensor(t.linalg.svd(x.detach()).S.stride())",
    "strides of what is ravelled": "t.tensor(x[..., ::2].ravel().stride())",
    "the power of nothing": "t.linalg.matrix_power(x[..., :3], 0)",
    "the largest singular value of nothing": "t.linalg.matrix_norm(x.detach()[:, :, :0], 2)",
    "the largest row of nothing": "t.linalg.matrix_norm(x.detach()[:, :0], float('inf'), keepdim=True)",
    "the largest column of nothing": "t.linalg.norm(x.detach()[0, :, :0], 1)",
    "pieces": "x.unsafe_split(2, 2)[1]",
    "sums of complex exponentials": "(lambda z: t.logaddexp(z, z[0]))(t.view_as_complex(x.reshape(3, 4, 2)))",
    "complex exponentials of nothing": "t.logaddexp(t.complex(x[0], x[1]), t.tensor(complex(-math.inf, 1.0)))",
    "complex logarithms of zero": "t.logaddexp(*[t.full((2,), complex(-math.inf, 1.0))] * 2)",
    "filled with an infinite complex number": "t.full((2,), complex(math.inf, 1.0))",
    "filled in with one": "t.zeros(2, dtype=t.complex64).fill_(complex(1.0, -math.inf))",
    "masked by one": "t.zeros(2, dtype=t.complex64).masked_fill(t.tensor([True, False]), complex(math.inf, 2.0))",
    "like another one": "t.full_like(t.ones(2, dtype=t.complex128), complex(math.nan, math.inf))",
    "twice what is true": "t.add(t.arange(3, dtype=t.uint8), t.tensor([True, False, True]), alpha=2)",
    "twice the truth": "t.add(t.tensor([False, False]), t.tensor([True, False]), alpha=2)",
    "a third of whole numbers": "t.sub(x, t.arange(4), alpha=0.3)",
    "whole exponents of halves": "t.ldexp(x.detach().bfloat16(), t.arange(4, dtype=t.uint8)).float()",
    "twice true": "t.add(t.tensor([True, False]), True, alpha=2)",
    "shares of a wider dtype": "t.lerp(t.tensor(1.0), t.tensor(2.0), t.tensor(0.3, dtype=t.float64))",
    "true shares": "t.lerp(x.detach(), x[0].detach(), t.tensor(True))",
    "a complex number for real ones": "t.full((2,), 2 + 0j, dtype=t.float64)",
    "a complex number for the truth": "t.full_like(t.ones(2, dtype=t.bool), 2j)",
    "running sums of complex exponentials": "t.logcumsumexp(t.view_as_complex(x.reshape(3, 4, 2) * 3), 1)",
}
X = np.random.default_rng(7).standard_normal((2, 3, 4)) * 1.5


def _run(of: Any, call: str, compiled: bool) -> tuple[Any, Any]:
    def run(x: Any) -> Any:
        return eval(call, {"t": of, "f": of.nn.functional, "x": x, "math": math})

    function = tj.compile(run) if compiled else run
    for _ in range(1 + compiled):
        x = of.tensor(X, requires_grad=True)
        out = function(x)
        parts = of.view_as_real(out) if out.dtype.is_complex else out
        grad = None
        if parts.requires_grad:
            (grad,) = of.autograd.grad((parts * parts).sum(), x)
    return parts, grad


@pytest.mark.filterwarnings("ignore:torch.triangular_solve")
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("compiled", [False, True])
def test_sample(name: str, compiled: bool) -> None:
    theirs, slope = _run(torch, CALLS[name], False)
    ours, own = _run(tj, CALLS[name], compiled)
    close(ours, theirs)
    assert (own is None) == (slope is None)
    if slope is not None:
        close(own, slope)


@pytest.mark.parametrize("compiled", [False, True])
def test_log_probabilities_as_leaf(compiled: bool) -> None:
    """The gradient is that of logits, as in the example of PyTorch's documentation."""
    found = []
    for of in (torch, tj):
        leaf = of.tensor(X.transpose(2, 0, 1)).log_softmax(2).detach().requires_grad_()

        def run(scores: Any, of: Any = of) -> Any:
            targets = of.tensor([[1, 2], [2, 1]])
            return of.nn.functional.ctc_loss(scores, targets, (4, 3), (2, 1), reduction="sum")

        function = tj.compile(run) if compiled and of is tj else run
        for _ in range(2):
            (grad,) = of.autograd.grad(function(leaf), leaf)
        found.append(grad)
    close(found[1], found[0])


@pytest.mark.parametrize("compiled", [False, True])
def test_instance_norm_updates_running_statistics(compiled: bool) -> None:
    found = []
    for of in (torch, tj):
        mean, variance = of.zeros(3, dtype=of.float64), of.ones(3, dtype=of.float64)

        def run(x: Any, of: Any = of, mean: Any = mean, variance: Any = variance) -> Any:
            return of.nn.functional.instance_norm(x, mean, variance, momentum=0.3)

        function = tj.compile(run) if compiled and of is tj else run
        for _ in range(3):
            out = function(of.tensor(X))
        found.append((out, mean, variance))
    for ours, theirs in zip(found[1], found[0], strict=True):
        close(ours, theirs)


def test_random_factories_take_a_place() -> None:
    drawn = tj.normal(1.0, 0.5, (2, 3), dtype=tj.float64, device="cpu", requires_grad=True)
    assert drawn.requires_grad
    assert drawn.is_leaf
    assert drawn.dtype is tj.float64
    assert tj.randint_like(drawn, 3, dtype=tj.int32, device="cpu").dtype is tj.int32


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("out_features", [(), (2,)])
def test_linear_cross_entropy_layer(compiled: bool, out_features: tuple[int, ...]) -> None:
    sides = []
    for of in (torch, tj):
        layer = of.nn.LinearCrossEntropyLoss(
            4, 3, out_features=out_features, bias=True, label_smoothing=0.1, dtype=of.float64
        )
        rows = np.arange(12 * (2 if out_features else 1)).reshape(-1, 4)
        layer.load_state_dict(
            {"linear.weight": of.tensor(np.sin(rows)), "linear.bias": of.tensor(np.cos(rows[:, 0]))}
        )
        function = tj.compile(layer) if compiled and of is tj else layer
        for _ in range(2):
            x = of.tensor(X[0], requires_grad=True)
            target = of.tensor([0, 2, 1] if not out_features else [[0, 2], [1, 1], [2, 0]])
            loss = function(x, target)
            grads = of.autograd.grad(loss, [x, *layer.parameters()])
        sides.append((loss, *grads))
    for theirs, ours in zip(*sides, strict=True):
        close(ours, theirs)


WAYS: list[dict[str, Any]] = [
    {"batch_chunk_size": 2},
    {"acc_policy": "accurate", "chunking_method": "aspect_ratio:3"},
    {"acc_policy": "exact"},
    {"batch_chunk_size": 0},
    {"chunking_method": "aspect_ratio:0"},
    {"chunking_method": "rows:2"},
]


@pytest.mark.parametrize("way", WAYS)
def test_linear_cross_entropy_options(way: dict[str, Any]) -> None:
    sides: list[Any] = []
    for of in (torch, tj):
        try:
            options = of.nn.LinearCrossEntropyOptions(**way)
        except ValueError as error:
            sides.append(str(error))
            continue
        x, w = (of.tensor(np.sin(np.arange(12.0) + k).reshape(-1, 4)) for k in range(2))
        x.requires_grad_()
        loss = of.nn.functional.linear_cross_entropy(x, w, of.tensor([0, 2, 1]), options=options)
        sides.append([repr(options), loss.item(), *of.autograd.grad(loss, x)[0].flatten().tolist()])
    assert sides[1] == pytest.approx(sides[0]) if way in WAYS[:2] else sides[1] == sides[0]
