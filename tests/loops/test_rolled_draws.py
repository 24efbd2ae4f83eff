"""Random numbers drawn in rolled loops: the same ones, in the same order, as eagerly."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from tracejit.nn import functional as F


def dropped(xs, w):
    h = xs[0] * 0
    for x in xs:
        h = F.dropout(tj.tanh(h @ w + x), 0.3)
    return h


def all_kinds(xs, w):
    h, seen = xs[0] * 0, []
    for x in xs:
        noise = tj.randn_like(h) * 0.1
        keep = tj.bernoulli(tj.full(h.shape, 0.7))
        h = (h @ w + x + noise) * keep
        seen.append(tj.rand(3, dtype=tj.float64))
    return h, tj.stack(seen)


def before_and_after(xs, w):
    h = tj.rand(xs[0].shape)
    for x in xs:
        h = tj.tanh(h @ w + x) + tj.rand(1)
    return h, tj.rand(4), F.dropout(h, 0.5)


def two_in_turn(xs, w):
    h = g = xs[0] * 0
    for x in xs:
        h = F.dropout(tj.tanh(h @ w + x), 0.2)
        g = F.dropout(tj.sigmoid(g @ w - h), 0.4) + tj.rand_like(g)
    return g


def not_carried(xs, w):
    return tj.stack([(x @ w * tj.rand(x.shape[0], 1)).sum() for x in xs])


FUNCTIONS = [dropped, all_kinds, before_and_after, two_in_turn, not_carried]


def arrays(rounds, dtype=np.float32):
    rng = np.random.default_rng(rounds)
    return rng.normal(size=(rounds, 5, 6)).astype(dtype), (rng.normal(size=(6, 6)) / 4).astype(
        dtype
    )


def results(f, given, seed):
    """What ``f`` returns, gradients, and what the generator draws next."""
    tj.manual_seed(seed)
    found = []
    for _ in range(2):
        xs, w = (tj.tensor(x, requires_grad=True) for x in given)
        out = f(xs, w)
        out = out if isinstance(out, tuple) else (out,)
        total = sum((r * r).sum() for r in out if r.requires_grad)
        found += [r.detach().numpy() for r in out]
        found += [g.numpy() for g in tj.autograd.grad(total, [xs, w])]
    return [*found, tj.rand(3).numpy(), tj.get_rng_state().numpy()]


def loops(compiled):
    return sum(str(graph).count("loop(f") for graph in compiled.graphs)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_the_stream_is_the_eager_one(f):
    compiled = tj.compile(f, dynamic=False)
    for rounds in (6, 11, 2, 6, 1):
        for seed in range(2):
            for x, y in zip(
                *(results(g, arrays(rounds), seed) for g in (compiled, f)), strict=True
            ):
                np.testing.assert_allclose(x, y, 1e-4, 1e-5)
    if f is not not_carried:
        assert loops(compiled) > 0, compiled.explain()
    assert compiled.stats.recordings <= 4


def test_numbers_are_the_same_bit_for_bit():
    def f(x):
        seen, h = [], x
        for _ in range(9):
            noise = tj.rand_like(x)
            seen.append(noise)
            h = h * 0.5 + noise
        return h, tj.stack(seen)

    compiled = tj.compile(f)
    for dtype in (tj.float32, tj.float64, tj.bfloat16, tj.float16):
        for shape in ((), (1,), (17,), (0,), (5, 33)):
            for again in range(2):
                found = []
                for g in (compiled, f):
                    tj.manual_seed(again)
                    found.append([r.numpy() for r in g(tj.ones(shape, dtype=dtype))])
                for x, y in zip(*found, strict=True):
                    np.testing.assert_array_equal(x, y)
    assert loops(compiled) > 0


def test_generators_of_their_own():
    first, second = tj.Generator(), tj.Generator()

    def f(x):
        for _ in range(8):
            x = x * 0.5 + tj.rand(x.shape, generator=first) - tj.rand(x.shape)
            x = x + tj.rand(x.shape, generator=second)
        return x

    compiled, found = tj.compile(f), []
    for g in (compiled, f):
        for n, generator in enumerate((first, second)):
            generator.manual_seed(n)
        tj.manual_seed(5)
        found.append([g(tj.ones(7)).numpy() for _ in range(4)])
    np.testing.assert_array_equal(*found)
    assert loops(compiled) > 0


def test_another_length_takes_the_same_kernels():
    compiled = tj.compile(dropped)
    for rounds in (6, 7):
        results(compiled, arrays(rounds), 0)
    kernels = {kernel.name for kernel in compiled.kernels}
    for rounds in (13, 30, 64):
        for x, y in zip(*(results(f, arrays(rounds), 1) for f in (compiled, dropped)), strict=True):
            np.testing.assert_allclose(x, y, 1e-4, 1e-5)
    assert {kernel.name for kernel in compiled.kernels} == kernels


def test_a_whole_step_of_training():
    tj.manual_seed(0)
    start = tj.randn(6, 6) / 4
    found = []
    for wrap in (lambda f: f, tj.compile):
        w = start.clone().requires_grad_()
        optimizer = tj.optim.SGD([w], lr=0.1)

        def step(xs, w=w, optimizer=optimizer):
            optimizer.zero_grad()
            loss = dropped(xs, w).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        run = wrap(step)
        tj.manual_seed(2)
        found.append([run(tj.tensor(arrays(8)[0])).item() for _ in range(5)] + [w.detach().numpy()])
    for x, y in zip(*found, strict=True):
        np.testing.assert_allclose(x, y, 1e-4)
