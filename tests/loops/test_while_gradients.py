"""Gradients through loops that tensors end: as eagerly, from one recording for any number of rounds."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from test_while_programs import SHAPES, program

import tracejit as tj
from while_gradients import ROLLED, newton


def given(seed, shape=(3,), scale=1.0):
    """Leaves: x of some size, and w between 0.2 and 0.9."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.5, 1.5, shape) * scale
    return [
        tj.tensor(a, dtype=tj.float64, requires_grad=True)
        for a in (x, rng.uniform(0.2, 0.9, shape))
    ]


def gradients(f, leaves, order=1):
    """The results of ``f`` and their gradients up to an order, None where there is none."""
    results = f(*leaves)
    results = list(results) if isinstance(results, tuple) else [results]
    found = [[r.detach().numpy() for r in results], [r.requires_grad for r in results]]
    for number in range(order):
        total = sum((r * r).sum() for r in results if r is not None and r.requires_grad)
        results = tj.autograd.grad(
            total, leaves, create_graph=number + 1 < order, allow_unused=True
        )
        found.append([None if r is None else r.detach().numpy() for r in results])
    return found


def same(found, wanted):
    """All is equal but for roundings."""
    for xs, ys in zip(found, wanted, strict=True):
        for x, y in zip(xs, ys, strict=True):
            if y is None or isinstance(y, bool):
                assert x is y
            else:
                most = np.abs(y[np.isfinite(y)]).max(initial=1)
                np.testing.assert_allclose(x, y, 1e-7, 1e-9 * most)


def loops(compiled):
    return sum(str(graph).count("until=") for graph in compiled.graphs)


SCALES = (1.0, 40.0, 1e-2, 300.0, 0.3, 7.0, 1e4, 2.5)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("f", ROLLED, ids=lambda f: f.__name__)
def test_gradients_for_every_number_of_rounds(f):
    compiled, turn = tj.compile(f), ROLLED.index(f) % len(SCALES)
    for seed, scale in enumerate([*SCALES[turn:], *SCALES[:turn], *SCALES]):
        order = 1 + (seed % 5 == 1)
        found, wanted = (gradients(g, given(seed, scale=scale), order) for g in (compiled, f))
        same(found, wanted)
    assert loops(compiled) > 0, compiled.explain()


def test_three_recordings_serve_all_numbers_of_rounds():
    def halved(x, w):
        while x.max() > 1:
            x = x * w
        return x

    compiled = tj.compile(halved)
    for power in range(1, 61):
        leaves = [
            [tj.tensor([2.0**power, 1.0], requires_grad=True), tj.tensor(0.5, requires_grad=True)]
            for _ in range(2)
        ]
        for f, (x, w) in zip((compiled, halved), leaves, strict=True):
            f(x, w).sum().backward()
        (x, w), (y, v) = leaves
        np.testing.assert_array_equal(x.grad.numpy(), y.grad.numpy())
        np.testing.assert_allclose(w.grad.numpy(), v.grad.numpy(), 1e-6)
    assert compiled.stats.recordings <= 4
    assert compiled.stats.compiled_calls >= 56


@pytest.mark.sampled(8)
@pytest.mark.parametrize("shape", [(), (1,), (17,), (5, 3), (33, 2)])
@pytest.mark.parametrize("dtype", [tj.float32, tj.float64, tj.bfloat16])
def test_types_and_shapes(shape, dtype):
    def f(x, w):
        while (x.abs() < 100).all():
            x = x * 1.5 + w
        return x

    compiled = tj.compile(f)
    for scale in (1.0, 20.0, 0.1):
        leaves = [
            [leaf.detach().to(dtype).requires_grad_() for leaf in given(1, shape, scale)]
            for _ in range(2)
        ]
        found, wanted = (gradients(g, x) for g, x in zip((compiled, f), leaves, strict=True))
        for x, y in zip(found[0] + found[2], wanted[0] + wanted[2], strict=True):
            assert x.dtype == y.dtype
            x, y = x.astype(np.float64), y.astype(np.float64)
            np.testing.assert_allclose(x, y, 1e-5 if dtype is not tj.bfloat16 else 0.1)


def test_matrix_products_and_a_module():
    tj.manual_seed(3)
    layer = tj.nn.Linear(4, 4)

    def f(x):
        z = tj.zeros_like(x)
        for _ in range(60):
            after = tj.tanh(layer(z) * 0.5 + x)
            if (after - z).detach().norm() < 1e-4:
                break
            z = after
        return z

    compiled = tj.compile(f)
    for scale in (1.0, 0.1, 3.0, 0.5, 0.01):
        found = []
        for g in (compiled, f):
            layer.zero_grad()
            x = given(2, (5, 4), scale)[0].detach().float().requires_grad_()
            g(x).square().sum().backward()
            found.append([x.grad.numpy(), *(p.grad.numpy() for p in layer.parameters())])
        for x, y in zip(*found, strict=True):
            np.testing.assert_allclose(x, y, 1e-3, 1e-5)
    assert loops(compiled) > 0, compiled.explain()


def test_what_a_pass_frees_does_not_depend_on_the_rounds():
    compiled = tj.compile(newton)
    for scale in (1.0, 40.0, 300.0, 1e-2):
        for again in range(2):
            x, w = given(again, scale=scale)
            out = compiled(x, w)
            (first,) = tj.autograd.grad(out.sum(), [x], retain_graph=True)
            (second,) = tj.autograd.grad(out.sum(), [x])
            np.testing.assert_array_equal(first.numpy(), second.numpy())
            with pytest.raises(RuntimeError, match="second time"):
                tj.autograd.grad(out.sum(), [w])


def turned(x, w):
    while x.abs().max() < 100:
        x, w = w * 1.5, x * 1.25
    return x


def test_inputs_that_take_turns_get_gradients_in_turn():
    compiled = tj.compile(turned)
    for seed, scale in enumerate(SCALES):
        found, wanted = (gradients(g, given(seed, scale=scale)) for g in (compiled, turned))
        same(found, wanted)


def test_not_a_number():
    def f(x, w):
        rounds = 0
        while rounds < 9 and not x.max() < 1:
            x = x * w
            rounds += 1
        return x

    compiled = tj.compile(f)
    for value in (3.0, float("nan"), 50.0, float("inf"), float("nan")):
        found = []
        for g in (compiled, f):
            x, w = given(0)
            x = (x.detach() * value).requires_grad_()
            found.append(gradients(g, [x, w]))
        same(*found)
    assert loops(compiled) > 0


def test_threads_have_their_own_rounds():
    compiled, failed = tj.compile(newton), []
    expected = {
        scale: gradients(newton, given(0, scale=scale)) for scale in (1.0, 40.0, 300.0, 1e4)
    }

    def work(scale):
        try:
            for _ in range(20):
                same(gradients(compiled, given(0, scale=scale)), expected[scale])
        except Exception as error:  # noqa: BLE001
            failed.append(error)

    workers = [threading.Thread(target=work, args=(scale,)) for scale in expected]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failed


@pytest.mark.sampled(2)
@pytest.mark.parametrize("part", range(2))
def test_random_loops(part):
    def run(f, x):
        leaf = tj.tensor(x, requires_grad=True)
        results = [r for r in f(leaf) if isinstance(r, tj.Tensor)]
        found = [r.detach().numpy() for r in results]
        total = sum((r * (n + 1)).sum() for n, r in enumerate(results) if r.requires_grad)
        if isinstance(total, tj.Tensor):
            total.backward()
        return [*found, None if leaf.grad is None else leaf.grad.numpy()]

    rolled = 0
    for seed in range(1000 + part * 15, 1015 + part * 15):
        f, source = program(seed)
        compiled = tj.compile(f)
        rng = np.random.default_rng(seed)
        shape = SHAPES[seed % len(SHAPES)]
        scales = [0.01, 3.0, 0.3, 1e3, float("nan"), 0.1, float("inf"), 0.0, 1.0]
        calls = [(rng.uniform(0, 1, shape) * scale).astype(np.float32) for scale in scales]
        with np.errstate(all="ignore"):
            for x in [*calls, *calls]:
                for found, wanted in zip(run(compiled, x), run(f, x), strict=True):
                    if wanted is None:
                        assert found is None, source
                    else:
                        np.testing.assert_allclose(found, wanted, 2e-5, 1e-6, err_msg=source)
        rolled += any("until=" in str(graph) for graph in compiled.graphs)
    assert rolled >= 1
