"""Functions of two tensors whose loops are rolled though gradients flow through them."""

from __future__ import annotations

import tracejit as tj


def newton(x, w):
    while (x * x - w).abs().max() > 1e-5:
        x = x - (x * x - w) / (2 * x)
    return x


def momentum(x, w):
    v = tj.zeros_like(x)
    rounds = 0
    while (x * x).sum() > 1e-2 and rounds < 40:
        v = 0.5 * v + (w * x + x)
        x = x - 0.3 * v
        rounds += 1
    return x


def late_momentum(x, w):
    v, m = tj.zeros_like(x), tj.zeros_like(w)
    while (x * x).sum() > 1e-2:
        g = w * x + x
        m, v, x = 0.9 * m + 0.1 * v, 0.9 * v + g, x - 0.1 * v - 0.1 * g
    return x, m


def thinking(x, w):
    h = tj.tanh(x * w)
    halt, found = tj.zeros(x.shape), h * 0
    for _ in range(12):
        p = tj.sigmoid(h * w)
        found, halt = found + p * h, halt + p
        if (halt.detach() > 2.0).all():
            break
        h = tj.tanh(h * w + x)
    return found, halt


def settled(x, w):
    z = tj.zeros_like(x)
    while True:
        after = tj.tanh(z * w + x)
        with tj.no_grad():
            done = (after - z).abs().max() < 1e-4
        z = after
        if done:
            break
    return z


def settled_before(x, w):
    z = tj.zeros_like(x)
    for _ in range(100):
        after = tj.tanh(z * w + x)
        if (after.detach() - z.detach()).abs().max() < 1e-4:
            break
        z = after
    return z.sum() + (w * x).sum()


def twice(x, w):
    while x.abs().max() > 1:
        x = x / 2 + w * 0.01
    y = x * w + 3
    while y.abs().max() > 0.5:
        y = y * 0.5 + x * 0.01
    return x, y


def stopped(x, w):
    with tj.no_grad():
        scale = w * 0.5
    kept = x * 0
    while x.abs().max() > 1:
        kept = x.detach()
        with tj.no_grad():
            step = kept * 0.25
        x = x * 0.5 + step * w * scale
    return x, kept


def equal_terms(x, w):
    while x.abs().max() > 1:
        x = (x * w) * 0.3 + (x * w) * 0.2 + (x * w) * 0.1
    return x * w + x * w


def of_one(x, w):
    w = w * x
    while w.abs().max() > 1:
        w = w * 0.5
    return x * w, x * 3


ROLLED = [
    newton,
    momentum,
    late_momentum,
    thinking,
    settled,
    settled_before,
    twice,
    stopped,
    equal_terms,
    of_one,
]
