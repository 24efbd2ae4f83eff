"""Reductions of operands that lie otherwise than their dimensions say: the loops follow memory, the results stay."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tracejit as tj
from ir_graphs import assert_same_bits

PROGRAMS = {
    "sum": lambda x, d: x.sum(d),
    "mean_kept": lambda x, d: x.mean(d, keepdim=True) + x.amax(d, keepdim=True),
    "spread": lambda x, d: x.var(d),
    "softmax": lambda x, d: x.softmax(d),
    "several_results": lambda x, d: ((x * 2).exp(), (x * 2).exp().sum(d)),
    "with_others": lambda x, d: (x * x.new_ones(x.shape).cumsum(-1)).sum(d).tanh(),
    "of_halves": lambda x, d: (x[..., ::2] + x[..., :1]).amin(d),
    "cross_entropy": lambda x, d: tj.nn.functional.cross_entropy(
        x.reshape(len(x), -1), x.reshape(len(x), -1).argmax(1)
    ),
    "everything": lambda x, d: (x.sum(), x.amax(), (x.sum(d) * 0.5).sum()),
    "counted": lambda x, d: (tj.arange(x.shape[-1]) * x).sum(d),
    "two_dimensions": lambda x, d: x.sum((0, -1)) if x.ndim > 2 else x.sum((0, 1)),
}
SHAPES = ((6, 9), (1, 5), (40, 3), (4, 6, 10), (2, 1, 7), (2, 3, 4, 5))


def _lying(shape, order, dtype="float32"):
    """A tensor of this shape, its dimensions in memory in this order."""
    rng = np.random.default_rng(len(shape))
    lies = rng.standard_normal([shape[d] for d in order]) * 3
    back = sorted(range(len(shape)), key=order.__getitem__)
    return tj.from_numpy(lies).to(getattr(tj, dtype)).permute(*back)


@pytest.mark.filterwarnings("ignore:var.*degrees of freedom")  # single rows are among the shapes
@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_order_of_memory_has_the_same_results(name):
    function = PROGRAMS[name]
    compiled = tj.compile(function, strict=True)
    for shape in SHAPES:
        orders = list(itertools.permutations(range(len(shape))))
        for order in orders[:: len(orders) // 6 * 2 or 1]:
            x = _lying(shape, order)
            dim = order[0] if len(order) < 4 else order[-1]
            for _ in range(2):
                found = compiled(x, dim)
            expected = function(x, dim)
            if isinstance(found, tj.Tensor):
                found, expected = (found,), (expected,)
            for a, b in zip(found, expected, strict=True):
                assert a.spec == b.spec
                np.testing.assert_allclose(a.numpy(), b.numpy(), 2e-5, 2e-5)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "bool", "float64", "bfloat16"])
def test_exact_reductions_keep_their_bits(dtype):
    def f(x, dim):
        return x.sum(dim), x.amax(dim), (x == x.amax(dim, keepdim=True)).sum()

    compiled = tj.compile(f, strict=True)
    for order in itertools.permutations(range(3)):
        x = _lying((5, 18, 33), order, dtype)
        x = x.round() if x.dtype.is_floating_point else x
        for dim in range(3):
            for _ in range(2):
                found = compiled(x, dim)
            for a, b in zip(found, f(x, dim), strict=True):
                assert_same_bits(a.numpy(), b.numpy())


def test_gradients_through_operands_that_lie_transposed():
    def f(x, w):
        return ((x.softmax(0) * w).sum(1) ** 2).mean() + x.logsumexp(1).sum()

    compiled = tj.compile(f, strict=True)
    for _ in range(2):
        grads = []
        for function in (f, compiled):
            x = _lying((7, 12), (1, 0)).requires_grad_()
            w = _lying((7, 12), (0, 1)).requires_grad_()
            function(x, w).backward()
            grads.append((x.grad.numpy(), w.grad.numpy()))
        for a, b in zip(*grads, strict=True):
            np.testing.assert_allclose(a, b, 2e-5, 2e-5)


def test_draws_do_not_depend_on_how_operands_lie():
    def f(x):
        return (tj.rand_like(x) * x).sum(0)

    compiled = tj.compile(f, strict=True)
    x = _lying((8, 30), (1, 0))
    for _ in range(3):
        tj.manual_seed(4)
        expected = f(x)
        tj.manual_seed(4)
        np.testing.assert_allclose(compiled(x).numpy(), expected.numpy(), 1e-5, 1e-5)
