"""Floats that Python makes of sizes known only at run time: computed anew at every call, exactly as Python does."""

from __future__ import annotations

import json
import math
import threading

import numpy as np
import pytest

import tracejit as tj


def mean_by_hand(x):
    y = x[x > 0]
    return y.sum() * (1.0 / (y.shape[0] + 1)), y / (len(y) + 1) ** 0.5


def of_two_sizes(x):
    y, z = x[x > 0], x[x < -0.5]
    n, m = y.shape[0], z.shape[0]
    share = 1.0 / (n + 1) + 0.5 * m
    return (y * share).sum() + (z * (m / (n + 1))).sum(), share


def compared(x):
    y = x[x > 0]
    n = y.shape[0]
    if 1.0 / (n + 1) > 0.2:
        return y * 2
    return y * (n**-0.5) * (2.0 ** (n % 3))


def through_math(x):
    y = x[x > 0]
    n = y.shape[0]
    root = math.sqrt(n + 1) + math.log(n + 1) + float(n)
    return y * root, root, round(n / 7, 2), int(n / 2)


def of_the_positions(x):
    rows = (x > 0).nonzero()
    return x[rows[:, 0]].sum() / (0.5 + rows.shape[0] * 0.25), rows.numel() / 3


def kinds(x):
    n = x[x > 0].shape[0]
    return x * (n * 2) * (n * 2.0), n * 2, n * 2.0, n + 1, n + 1.0, n / 1, n // 1, n**1, n**1.0


FUNCTIONS = [mean_by_hand, of_two_sizes, compared, through_math, of_the_positions, kinds]


def data(seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(9, 9, 9, 14)[seed % 4]).astype(np.float32) + (seed % 5 - 2) * 0.3


def results(f, x):
    leaf = tj.tensor(x, requires_grad=True)
    found = f(leaf)
    found = list(found) if isinstance(found, tuple) else [found]
    sum(r.sum() for r in found if isinstance(r, tj.Tensor)).backward()
    return [*found, leaf.grad]


def same(found, wanted):
    for x, y in zip(found, wanted, strict=True):
        assert type(x) is type(y)
        if isinstance(y, tj.Tensor):
            np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), 1e-5, 1e-6)
        else:
            assert x == y


@pytest.mark.sampled(4)
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_one_recording_serves_all_sizes(f):
    compiled = tj.compile(f)
    for seed in range(48):
        same(results(compiled, data(seed)), results(f, data(seed)))
    assert compiled.stats.recordings <= (5 if f is compared else 2), compiled.explain()


def test_a_division_by_none():
    def f(x):
        return x * (1.0 / x[x > 0].shape[0])

    compiled = tj.compile(f)
    for x in ([1.0, 2.0], [3.0, -1.0], [-1.0, -2.0], [5.0, 1.0], [-3.0, -3.0]):
        given = tj.tensor(x)
        if max(x) < 0:
            with pytest.raises(ZeroDivisionError):
                compiled(given)
        else:
            np.testing.assert_array_equal(compiled(given).numpy(), f(given).numpy())


def test_what_needs_true_numbers_gets_them():
    def f(x):
        n = x[x > 0].shape[0]
        share = n / 4
        return x * share, type(share) is float, json.dumps([share])

    compiled = tj.compile(f)
    for seed in range(16):
        same(results(compiled, data(seed)), results(f, data(seed)))


def test_text_is_that_of_the_call():
    def f(x):
        n = x[x > 0].shape[0]
        return x + 1, f"{n / 4:.2f} {100 * n}", {n / 2: 1}

    compiled = tj.compile(f)
    for seed in range(16):
        same(results(compiled, data(seed)), results(f, data(seed)))


def test_state_holds_plain_numbers():
    state = {"share": 0.0}

    def f(x):
        state["share"] = 1 / (x[x > 0].shape[0] + 1)
        return x * state["share"]

    compiled = tj.compile(f)
    for seed in range(8):
        found, now = compiled(tj.tensor(data(seed))).numpy(), state["share"]
        assert type(now) is float
        np.testing.assert_array_equal(found, f(tj.tensor(data(seed))).numpy())
        assert now == state["share"]


def test_counts_from_a_list():
    def f(x, counts):
        parts = x.split(counts.tolist())
        return sum((p * (1.0 / (p.shape[0] + 0.5))).sum() for p in parts)

    compiled = tj.compile(f)
    x = tj.arange(12, dtype=tj.float64)
    for first in (2, 3, 5, 7, 1, 0, 12, 4):
        counts = tj.tensor([first, 12 - first])
        np.testing.assert_allclose(compiled(x, counts).item(), f(x, counts).item(), 1e-12)
    assert compiled.stats.recordings <= 2, compiled.explain()


def test_threads_have_their_own_sizes():
    compiled, failed = tj.compile(of_two_sizes), []
    expected = [results(of_two_sizes, data(seed)) for seed in range(8)]

    def work(seed):
        try:
            for _ in range(15):
                same(results(compiled, data(seed)), expected[seed])
        except Exception as error:  # noqa: BLE001
            failed.append(error)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failed
