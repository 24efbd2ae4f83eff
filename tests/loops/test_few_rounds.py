"""Sequences of every length, one and two included, are equal to eager ones by the kernels of the first few lengths."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn
from tracejit.extents import Extents
from tracejit.ir.graph import Value
from tracejit.sizes import Computed, largest, smallest
from tracejit.trace.rolling.forms import Again

BATCH, INPUT, HIDDEN = 3, 5, 6

tj.manual_seed(0)
LSTM, ABOVE, BACK = (
    nn.LSTMCell(INPUT, HIDDEN),
    nn.LSTMCell(HIDDEN, HIDDEN),
    nn.LSTMCell(INPUT, HIDDEN),
)
GRU, RNN = nn.GRUCell(INPUT, HIDDEN), nn.RNNCell(INPUT, HIDDEN)
GATES, OUT = nn.Linear(INPUT + HIDDEN, 4 * HIDDEN), nn.Linear(HIDDEN, 4)
BOTH, INTO = nn.Linear(2 * HIDDEN, 4), nn.Linear(4, INPUT)
LAYERS = nn.LSTM(INPUT, HIDDEN, 2), nn.GRU(INPUT, HIDDEN, bidirectional=True), nn.RNN(INPUT, HIDDEN)


def nothing(xs):
    return tj.zeros(xs.shape[1], HIDDEN)


def last_state(xs):
    h = c = nothing(xs)
    for t in range(xs.shape[0]):
        h, c = LSTM(xs[t], (h, c))
    return OUT(h).square().mean()


def gates_by_hand(xs):
    h = c = nothing(xs)
    for x in xs.unbind(0):
        i, f, g, o = GATES(tj.cat([x, h], 1)).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
    return h.sum()


def all_states(xs):
    h, outs = nothing(xs), []
    for x in xs:
        h = GRU(x, h)
        outs.append(h)
    return OUT(tj.stack(outs, 1)).square().mean() + h.sum()


def two_layers(xs):
    h = c = h2 = c2 = nothing(xs)
    for x in xs:
        h, c = LSTM(x, (h, c))
        h2, c2 = ABOVE(h, (h2, c2))
    return OUT(h2).square().mean()


def both_directions(xs):
    h = c = back = back_c = nothing(xs)
    there, again = [], []
    for t in range(len(xs)):
        h, c = LSTM(xs[t], (h, c))
        there.append(h)
    for t in reversed(range(len(xs))):
        back, back_c = BACK(xs[t], (back, back_c))
        again.append(back)
    return BOTH(tj.cat([tj.stack(there), tj.stack(again[::-1])], -1)).square().mean()


def sum_of_losses(xs):
    h, loss = nothing(xs), 0
    for x in xs:
        h = RNN(x, h)
        loss = loss + OUT(h).square().mean()
    return loss / len(xs)


def into_a_sequence(xs):
    h = c = nothing(xs)
    for x in xs:
        h, c = LSTM(x, (h, c))
    y, ys = tj.zeros(xs.shape[1], 4), []
    for _ in range(len(xs)):
        h, c = BACK(INTO(y), (h, c))
        y = OUT(h)
        ys.append(y)
    return tj.stack(ys).square().mean()


def short_rounds(xs):
    total = tj.zeros(xs.shape[1], INPUT)
    for x in xs:
        total = (total + x).tanh() * 0.5
    return total.sum()


def padded(xs):
    lengths = tj.arange(xs.shape[1]) % len(xs) + 1
    h, loss = nothing(xs), 0
    for t in range(len(xs)):
        alive = (lengths > t)[:, None]
        h = tj.where(alive, RNN(xs[t], h), h)
        loss = loss + h.mean() * (len(xs) - t)
    return loss / len(xs)


def lstm_layers(xs):
    out, (h, _) = LAYERS[0](xs)
    return out.square().mean() + h.sum()


def gru_layer(xs):
    return LAYERS[1](xs)[0].square().mean()


def rnn_layer(xs):
    return LAYERS[2](xs)[0].square().mean()


PROGRAMS = (
    last_state,
    gates_by_hand,
    all_states,
    two_layers,
    both_directions,
    sum_of_losses,
    into_a_sequence,
    short_rounds,
    padded,
    lstm_layers,
    gru_layer,
    rnn_layer,
)
MODULES = nn.ModuleList([LSTM, ABOVE, BACK, GRU, RNN, GATES, OUT, BOTH, INTO, *LAYERS])


def outcome(function, xs):
    MODULES.zero_grad()
    start = xs.clone().requires_grad_()
    result = function(start)
    result.backward()
    grads = [p.grad.numpy().copy() for p in MODULES.parameters() if p.grad is not None]
    return [result.detach().numpy().copy(), start.grad.numpy(), *grads]


def kernels(compiled):
    return len({key for kernel in compiled.kernels for key in kernel.keys})


def counts(function, sizes):
    """How many kernels there are after each length and batch size; everything is compared with eager execution."""
    compiled = tj.compile(function, strict=True, dynamic=False)
    found = []
    for length, batch in sizes:
        xs = tj.randn(length, batch, INPUT)
        expected = outcome(function, xs)
        for _ in range(2):
            for a, b in zip(outcome(compiled, xs), expected, strict=True):
                np.testing.assert_allclose(a, b, 2e-4, 2e-6)
        found.append(kernels(compiled))
    return found


ORDERS = ((24, 9, 13), (1, 2, 3), (2, 1, 17), (19, 1, 2))


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    ("function", "first"),
    [
        *((function, ORDERS[i % 4]) for i, function in enumerate(PROGRAMS)),
        *((function, ORDERS[1]) for function in PROGRAMS[2::4]),
        *((PROGRAMS[0], first) for first in ORDERS[1:]),
    ],
)
def test_no_kernel_after_three_lengths(function, first):
    lengths = [n for n in (1, 2, 3, 4, 30) if n not in first]
    if function is padded and BATCH in lengths:
        lengths.remove(
            BATCH
        )  # then the numbers of rounds and sequences are one value, and read together
    random.Random(len(function.__name__)).shuffle(lengths)
    found = counts(function, [(n, BATCH) for n in (*first, *lengths)])
    assert found[2:] == found[2:3] * (len(lengths) + 1)


@pytest.mark.parametrize("lengths", [30, pytest.param(100, marks=pytest.mark.thorough)])
def test_many_lengths_and_batches(lengths: int):
    sizes = [(n, 2 + n * 7 % 5) for n in range(1, lengths + 1)]
    random.Random(1).shuffle(sizes)
    found = counts(last_state, sizes)
    assert found[2:] == found[2:3] * (lengths - 2)


def test_whole_steps_need_no_kernel_for_few_rounds():
    """Of a backward pass inside, the first and the last round are others; so there are loops from three rounds on."""
    module = nn.LSTMCell(INPUT, HIDDEN)
    optimizer = tj.optim.Adam(module.parameters(), 1e-3)

    def step(xs):
        optimizer.zero_grad()
        h = c = nothing(xs)
        for x in xs:
            h, c = module(x, (h, c))
        loss = h.square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    compiled = tj.compile(step, strict=True)
    found = []
    for length in (24, 9, 13, 3, 30, 4, 5, 6, 11, 3):
        for _ in range(2):
            compiled(tj.randn(length, BATCH, INPUT))
        found.append(kernels(compiled))
    assert found == found[:1] * len(found)


def test_twice_the_same_is_no_loop_because_something_else_on_the_line_varies():
    """All of a backward pass is recorded on one line; what grows with the length there tells nothing about the rest."""
    w = tj.randn(INPUT, requires_grad=True)
    positions = tj.randn(9, requires_grad=True)

    def step(xs):
        w.grad = positions.grad = None
        y = xs + positions[: len(xs), None]
        for scale in (w, w * 2):
            y = y - y.mean(1, keepdim=True)
            y = y * (y.square().mean(1, keepdim=True) + 1).rsqrt() * scale
        loss = y.square().sum()
        if len(xs) % 2:
            loss = loss + y.sin().sum()
        loss.backward()
        return loss.detach()

    compiled = tj.compile(step, strict=True)
    for length in (9, 8, 7, 9, 6):
        for _ in range(3):
            xs = tj.randn(length, INPUT)
            expected = step(xs), w.grad, positions.grad
            for a, b in zip(expected, (compiled(xs), w.grad, positions.grad), strict=True):
                np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-5, 3e-6)
    assert not any("loop(" in str(graph) for graph in compiled.graphs)


def test_rounds_that_are_not_the_form_stay_apart():
    """A recording that looks like the form of longer ones, but for a number in the only round it has."""

    def function(xs):
        h = tj.zeros(xs.shape[1], INPUT)
        for x in xs:
            h = (h + x).tanh() * (0.25 if len(xs) == 1 else 0.5)
        return h.sum()

    counts(function, [(n, BATCH) for n in (12, 7, 9, 1, 2, 1)])


def test_which_size_is_smaller_is_open_where_sizes_may_be_few():
    scope = Extents()
    scope.few = True
    n = scope.symbol(7)
    assert Computed(scope, [smallest(n, 2), largest(n, 1), n == 2])({0: 1}) == (1, 1, False)


def test_an_interrupt_leaves_no_form_without_an_example(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes are guessed from examples: a form that has none would fail every later recording."""

    def function(xs):
        return sum((xs * k).sin() for k in range(60)).sum()

    compiled, struck = tj.compile(function), []

    def strike(self: Again, value: Value) -> Value:
        struck.append(value)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Again, "statement", strike)
        with pytest.raises(KeyboardInterrupt):
            for n in range(1, 5):
                compiled(tj.ones(n))
    assert struck
    for n in range(1, 5):
        for _ in range(3):
            x = tj.ones(n)
            assert tj.allclose(compiled(x), function(x))
    assert compiled.stats.compiled_calls >= 8
