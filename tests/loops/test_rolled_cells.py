"""Recurrent cells and layers as users write them: what becomes a loop, what backward computes, what is copied."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from compiled_tools import host_ops, loops
from tracejit import nn

BATCH, SIZE = 4, 6


def cell_over(gates):
    def lstm(x):
        h = c = tj.zeros(BATCH, SIZE)
        for t in x.unbind(1):
            i, f, g, o = gates(tj.cat([t, h], 1)).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        return (h * h).sum()

    return lstm


@pytest.mark.parametrize("steps", [12, 40])
def test_a_cell_that_joins_its_inputs_is_one_loop_each_way(steps):
    """Forward keeps what backward reads, so backward has no loop but its own."""
    gates = nn.Linear(2 * SIZE, 4 * SIZE)
    function = cell_over(gates)
    compiled = tj.compile(function, strict=True)
    for _ in range(3):
        x = tj.rand(BATCH, steps, SIZE)
        results = []
        for f in (function, compiled):
            gates.zero_grad()
            start = x.clone().requires_grad_()
            result = f(start)
            result.backward()
            grads = (gates.weight.grad, gates.bias.grad, start.grad)
            results.append([result.detach().numpy(), *(g.numpy().copy() for g in grads)])
        for a, b in zip(*results, strict=True):
            np.testing.assert_allclose(a, b, 2e-4, 1e-5)
    assert [len(found) for found in loops(compiled)] == [1, 1]
    assert host_ops(compiled) == set()


def test_a_whole_step_is_two_loops_and_new_lengths_need_no_kernel():
    """The backward pass that the function runs itself repeats its rounds too, writes into slices included."""
    gates = nn.Linear(2 * SIZE, 4 * SIZE)
    loss = cell_over(gates)

    def step(x):
        gates.zero_grad()
        result = loss(x)
        result.backward()
        return result

    compiled = tj.compile(step, strict=True)
    kernels = []
    for length in (14, 20, 33):
        x = tj.rand(BATCH, length, SIZE)

        def results(f, x=x):
            return [f(x).detach().numpy(), *(p.grad.numpy().copy() for p in gates.parameters())]

        found = [results(f) for f in (step, compiled, compiled)]
        for other in found[1:]:
            for a, b in zip(found[0], other, strict=True):
                np.testing.assert_allclose(a, b, 2e-4, 1e-5)
        assert [len(each) for each in loops(compiled)][-1] == 2
        kernels.append(len(compiled.kernels))
    assert kernels == kernels[:1] * 3


@pytest.mark.parametrize(("width", "rolled"), [(8, True), (64, False)])
def test_parameters_of_a_few_large_layers_are_not_copied_for_a_loop(width, rolled):
    layers = [nn.Linear(width, width) for _ in range(8)]

    def network(x):
        for layer in layers:
            x = x + ((layer(x).tanh() * 0.5).sin().exp() * 0.1).cos()
        return x

    compiled = tj.compile(network, strict=True)
    x = tj.rand(3, width)
    for _ in range(2):
        found, expected = compiled(x).detach(), network(x).detach()
        np.testing.assert_allclose(found.numpy(), expected.numpy(), 1e-5, 1e-5)
    assert any(loops(compiled)) == rolled


def layer_over(kind, **options):
    layer = kind(SIZE, SIZE, **options)
    return layer, lambda x: layer(x)[0].square().mean()


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    ("kind", "options"),
    [(nn.RNN, {}), (nn.GRU, {"bidirectional": True}), (nn.LSTM, {"num_layers": 2})],
)
@pytest.mark.parametrize(("dynamic", "expected"), [(False, [1] * 4), (None, [1, 1, 2, 2])])
def test_a_layer_has_one_plan_for_many_lengths(kind, options, dynamic, expected):
    """A sequence cut into its steps by halves is one stack again; the third length has a plan for all others."""
    layer, loss = layer_over(kind, **options)
    compiled = tj.compile(loss, strict=True, dynamic=dynamic)
    plans = []
    for length in (29, 9, 13, 41):
        x = tj.rand(length, BATCH, SIZE)
        found = []
        for f in (loss, compiled, compiled):
            layer.zero_grad()
            result = f(x)
            result.backward()
            found.append(
                [result.detach().numpy(), *(p.grad.numpy().copy() for p in layer.parameters())]
            )
        for other in found[1:]:
            for a, b in zip(found[0], other, strict=True):
                np.testing.assert_allclose(a, b, 1e-3, 1e-5)
        plans.append(compiled.plans.made)
    assert plans == expected
    assert compiled.stats.recordings == (4 if dynamic is False else 3)


COUNTED = (
    "x + h * t",
    "h - (t - 7) * x",
    "tj.where(x > 2 * t, h, x)",
    "h * (100 - 3 * t) / 50",
    "tj.where(steps <= t, h, x + h)",
    "h + (steps * t).sum() + (steps != t).sum()",
    "(h + x) / (t + 1)",
    "(16777300 + t) * x - h",
    "h.clamp(max=t) + x ** (t % 3)",
)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", [tj.float32, tj.float64, tj.float16])
@pytest.mark.parametrize("text", COUNTED)
def test_numbers_that_count_the_rounds_are_items(text, dtype):
    """Bit for bit; what is no operator, or not exact in the type it counts as, stays as it was."""
    steps = tj.arange(SIZE) + 3
    space = {"tj": tj, "steps": steps}
    lines = (
        "h = xs[0]",
        "for t in range(len(xs)):",
        "    x = xs[t]",
        f"    h = {text}",
        "return h",
    )
    source = "\n    ".join(("def f(xs):", *lines))
    exec(source, space)
    compiled = tj.compile(space["f"], strict=True)
    for length in (12, 9, 5, 2, 1, 30):
        xs = (tj.rand(length, BATCH, SIZE) * 0.5).to(dtype)
        for _ in range(2):
            expected, found = space["f"](xs).numpy(), compiled(xs).numpy()
            assert expected.dtype == found.dtype
            np.testing.assert_allclose(found, expected, 1e-6 if dtype is not tj.float16 else 2e-2)


def test_a_mask_that_counts_is_one_plan():
    gates = nn.Linear(2 * SIZE, SIZE)

    def walk(x, order):
        lengths, h = tj.arange(BATCH) * 3 + 1, tj.zeros(BATCH, SIZE)
        for t in order:
            h = tj.where((lengths > t)[:, None], gates(tj.cat([x[:, t], h], 1)).tanh(), h)
        return h.sum()

    def masked(x):
        return walk(x, range(x.shape[1])) - walk(x, reversed(range(x.shape[1])))

    compiled = tj.compile(masked, strict=True)
    for length in (29, 9, 13, 41):
        x = tj.rand(BATCH, length, SIZE)
        for _ in range(2):
            np.testing.assert_allclose(compiled(x).item(), masked(x).item(), 1e-5, 1e-5)
    assert compiled.plans.made == 1
