"""Loops that tensors end and that write in place: equal to eager ones, in what they return and in what they changed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tracejit as tj

STARTS = (3.0, 500.0, 1e-3, 40.0, 1e6, 7.0, 2.5, 1.01, 1e9)


def relaxed(u):
    """The elements between the ends become the mean of their neighbours."""
    e = tj.tensor(1.0)
    while e > 1e-2:
        v = u.clone()
        v[1:-1] = 0.5 * (u[:-2] + u[2:])
        e = (v - u).abs().max() / u.abs().max()
        u = v
    return u


def counted(u):
    """A tensor of its own keeps how often."""
    count, kept = tj.zeros(2), tj.zeros(3, 4)
    while u.sum() > 1:
        count += 1
        kept[1, 1:3] = u[:2]
        kept[2] += count[0]
        u = u / 2
    return count, kept


def halved_in_place(u):
    """The argument itself is changed."""
    while u.sum() > 1:
        u.mul_(0.5)
        u[0] += 0.125
    return u


def swapped(u):
    """Two buffers take turns."""
    a, b = u.clone(), tj.zeros_like(u)
    while a.sum() > 1:
        b.copy_(a / 3)
        b[0] = b[0] * 0.75
        a, b = b, a
    return a, b


def seen_through_a_view(u):
    """A view from before the loop shows what rounds write."""
    x = u.clone()
    first, total = x[0], tj.zeros(())
    while x.sum() > 1:
        total = total + first
        x *= 0.5
        x[0] = x[1] + first * 0.75
    return x, first * 2, total


def written_once(u):
    """The first round alone writes to the argument."""
    while u.sum() > 1:
        u += 0.25
        u = u * 0.25
    return u


def at_positions(u):
    """Elements where something holds are written to."""
    x = u.clone()
    while x.sum() > 1:
        x[x > 2] = 2.0
        x.masked_fill_(x < 0.01, 0.0)
        x *= 0.75
    return x


def left_in_rounds(u):
    """What a round made and wrote is what is read after the loop."""
    last = u
    while u.sum() > 1:
        last = tj.zeros_like(u)
        last[::2] = u[::2]
        last[1:].add_(1)
        u = u * 0.5
    return last, u


def without_gradients(u):
    """Steps of a descent on a tensor that requires no grad."""
    w = u.clone()
    with tj.no_grad():
        while (w * w).sum() > 1:
            w.sub_(w, alpha=0.25)
            w.clamp_(min=-5)
    return w


def nested(u):
    """A loop in a loop, both write."""
    x = u.clone()
    while x.sum() > 1:
        y = x.clone()
        while y.max() > 1:
            y[1:] *= 0.5
            y[0] *= 0.25
        x *= 0.125
        x[2] = y[2] / 64
    return x


def flagged(u):
    """A truth that is kept in memory decides."""
    going = tj.tensor([True])
    while going:
        u = u / 2
        going[0] = u.sum() > 1
    return u


ROLLED = [
    relaxed,
    counted,
    halved_in_place,
    swapped,
    seen_through_a_view,
    at_positions,
    left_in_rounds,
    without_gradients,
    flagged,
]
STRAIGHT = [written_once, nested]


def _loops(compiled):
    return sum(str(graph).count("until=") for graph in compiled.graphs)


def _run(f, start, extra=1.0):
    u = tj.tensor([start, extra, 0.1, 0.2, 0.3])
    result = f(u)
    parts = result if isinstance(result, tuple) else (result,)
    return [u, *parts], [x is u for x in parts]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("turn", [0, 3, 5])
@pytest.mark.parametrize("f", [*ROLLED, *STRAIGHT], ids=lambda f: f.__name__)
def test_every_number_of_rounds(f, turn):
    compiled = tj.compile(f)
    for start in (*STARTS[turn:], *STARTS[:turn]) * 2:
        (expected, same), (found, alike) = _run(f, start), _run(compiled, start)
        assert same == alike
        for x, y in zip(expected, found, strict=True):
            np.testing.assert_array_equal(x.numpy(), y.numpy(), strict=True)
    assert f in STRAIGHT or _loops(compiled) > 0, compiled.explain()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("f", ROLLED, ids=lambda f: f.__name__)
def test_few_recordings_serve_all_numbers_of_rounds(f):
    compiled = tj.compile(f)
    for start in STARTS:
        _run(compiled, start)
    recordings = compiled.stats.recordings
    for power in range(3, 40):
        expected, found = _run(f, 2.0**power)[0], _run(compiled, 2.0**power)[0]
        assert all(map(tj.equal, expected, found))
    assert compiled.stats.recordings == recordings <= 4


class Counter(tj.nn.Module):
    """Keeps a buffer that its calls change."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", tj.zeros(1))
        self.register_buffer("largest", tj.zeros(2, 2))

    def forward(self, u):
        """Halve, and count."""
        while u.sum() > 1:
            self.steps += 1
            self.largest[0, 1] = tj.maximum(self.largest[0, 1], u.max())
            u = u / 2
        return u


def test_buffers_that_rounds_change():
    eager, compiled = Counter(), Counter()
    call = tj.compile(compiled)
    for start in (*STARTS, *STARTS):
        u = tj.tensor([start, 1.0])
        np.testing.assert_array_equal(eager(u).numpy(), call(u).numpy())
        for x, y in zip(eager.buffers(), compiled.buffers(), strict=True):
            np.testing.assert_array_equal(x.numpy(), y.numpy())


def test_what_is_written_is_refused_to_a_backward_pass_all_the_same():
    def f(w, u):
        loss = (w * u).sum()
        while u.sum() > 1:
            u *= 0.5
        return loss

    for function in (f, tj.compile(f)):
        for start in STARTS[:3]:
            w = tj.ones(2).requires_grad_()
            loss = function(w, tj.tensor([start, 3.0]))
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                loss.backward()


def test_weights_that_require_grad_are_written_to_without_it():
    def f(w, x):
        loss = ((x @ w) ** 2).mean()
        while loss > 1e-2:
            (g,) = tj.autograd.grad(loss, w)
            with tj.no_grad():
                w -= 0.1 * g
            loss = ((x @ w) ** 2).mean()
        return loss.detach()

    x = tj.tensor(np.random.default_rng(0).standard_normal((8, 3)).astype("f4"))
    compiled = tj.compile(f)
    for scale in (1.0, 3.0, 0.5, 10.0):
        weights = [tj.full((3,), scale).requires_grad_() for _ in range(2)]
        losses = [function(w, x) for function, w in zip((f, compiled), weights, strict=True)]
        np.testing.assert_allclose(losses[0].numpy(), losses[1].numpy(), 1e-5)
        np.testing.assert_allclose(weights[0].detach().numpy(), weights[1].detach().numpy(), 1e-5)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("rows", "steps"), list(itertools.product((1, 4), (1, 2, 30))))
def test_rounds_that_a_counter_ends_too(rows, steps):
    def f(u):
        x = u.clone()
        for _ in range(steps):
            x[:, 1:] *= 0.5
            if x.sum() < 1:
                break
        return x

    compiled = tj.compile(f)
    for start in STARTS:
        u = tj.full((rows, 3), start)
        u[:, 0] = 0.0
        np.testing.assert_array_equal(f(u).numpy(), compiled(u).numpy())


def test_writes_are_counted_as_in_eager_code() -> None:
    """``x[i] += y`` writes twice: what it adds to, and that to where it lies."""

    def added(x, go):
        count = 0
        while count < 4 and bool(go.all()):
            x[1] += x[1] * 2
            count += 1

    compiled = tj.compile(added)
    eager, found, go = tj.ones(3), tj.ones(3), tj.ones(2)
    for _ in range(4):
        added(eager, go)
        compiled(found, go)
        assert found.tolist() == eager.tolist()
        assert found._version == eager._version
    assert compiled.stats.compiled_calls > 1
