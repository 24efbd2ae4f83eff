"""What varying extents do to errors, Python state, threads, and to code that needs their numbers."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn

#: Two signatures are recorded as they are, the third one for all others.
RECORDED = 3


def rows(*shape: int) -> Any:
    """Random numbers, always the same for a shape."""
    return tj.tensor(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32))


def test_what_varies_is_shown() -> None:
    f = tj.compile(lambda x, y: x * y)
    for n in (3, 4, 5, 6):
        f(tj.ones(n, 2), tj.ones(n, 1))
    text = str(f.explain())
    assert "extents of the arguments changed again, and vary from here on" in text
    assert "x: f32[n0, 2], y: f32[n0, 1]" in text


def test_kernels_are_made_once() -> None:
    weight = rows(8, 8)
    f = tj.compile(lambda x: tj.tanh(x @ weight).softmax(-1))
    for n in (3, 4, 5, 6, 6):
        f(tj.ones(n, 8))
    before = len(list(f.kernels))
    made = f.plans.made
    for n in range(7, 40):
        f(tj.ones(n, 8))
    assert (len(list(f.kernels)), f.plans.made) == (before, made)


def test_extents_that_part_company() -> None:
    """Equal in three calls, two extents are one size until a call comes in which they differ."""
    f = tj.compile(lambda x, y: (x.sum() + y).tanh())
    for a, b in ((3, 3), (4, 4), (5, 5), (6, 6), (6, 7), (9, 5), (5, 9), (8, 8)):
        found = f(rows(a, 2), rows(b))
        np.testing.assert_allclose(found, f.function(rows(a, 2), rows(b)), rtol=1e-5, atol=1e-6)
    assert f.stats.recordings == RECORDED + 1, f.explain()


def test_zero_and_one_are_signatures_of_their_own() -> None:
    f = tj.compile(lambda x: (x + tj.ones(4, 3)[: x.shape[0]].sum(0)).sum(0))
    for n in (2, 3, 4, 0, 1, 4, 3, 0, 1, 2):
        np.testing.assert_allclose(f(rows(n, 3)), f.function(rows(n, 3)), rtol=1e-5, atol=1e-6)
    assert f.stats.recordings == RECORDED + 2, f.explain()


def test_extents_that_are_read_are_constants() -> None:
    """Python needs the number: one recording in vain, then one for each, as without extents that vary."""
    f = tj.compile(lambda x: x * len(f"{x.shape[0]}"))
    for n in (2, 3, 4, 5, 6, 4, 5, 6, 4):
        np.testing.assert_allclose(f(rows(n, 3)), f.function(rows(n, 3)), rtol=1e-5, atol=1e-6)
    assert f.stats.recordings == 6, f.explain()
    assert "x[0] is used as a plain number" in str(f.explain())


def test_where_python_loops_extents_are_constants() -> None:
    """Native loops that were found in a recording are made for its extents; they share their plans and kernels."""

    def total(x: Any) -> Any:
        found = x[0] * 0
        for i in range(x.shape[0]):
            found = (found + x[i]).tanh()
        return found

    f = tj.compile(total)
    for n in (7, 8, 9, 10, 11, 9, 10, 11, 9):
        np.testing.assert_allclose(f(rows(n, 3)), total(rows(n, 3)), rtol=1e-5, atol=1e-6)
    assert f.stats.recordings == 5, f.explain()
    assert f.plans.made == 1


def test_small_loops_of_as_many_rounds_are_no_reason_for_constants() -> None:
    """Two gradients are set to zero in two rounds of one operation."""
    layers, steps = [], []
    for _ in range(2):
        tj.manual_seed(1)
        layer = tj.nn.utils.parametrizations.weight_norm(tj.nn.Linear(3, 4))
        layers.append(layer)
        optimizer = tj.optim.SGD(layer.parameters(), lr=0.1)

        def step(x: Any, layer: Any = layer, optimizer: Any = optimizer) -> Any:
            loss = layer(x).square().mean()
            optimizer.zero_grad(set_to_none=False)
            loss.backward()
            optimizer.step()
            return loss.detach()

        steps.append(step)
    eager, f = steps[0], tj.compile(steps[1])
    for n in (4, 6, 5, 8, 7, 4, 9):
        np.testing.assert_allclose(f(rows(n, 3)), eager(rows(n, 3)), rtol=1e-5, atol=1e-6)
    for a, b in zip(*(layer.parameters() for layer in layers), strict=True):
        np.testing.assert_allclose(a.detach(), b.detach(), rtol=1e-5, atol=1e-6)
    assert f.stats.recordings == RECORDED, f.explain()


def test_decisions_about_extents_are_paths() -> None:
    f = tj.compile(lambda x: x * 2 if x.shape[0] > 6 else x - 1)
    for n in (2, 3, 4, 5, 8, 9, 5, 10, 3):
        np.testing.assert_allclose(f(rows(n)), f.function(rows(n)))
    assert f.stats.recordings == RECORDED + 1, f.explain()


def test_numbers_of_extents_reach_user_code() -> None:
    """What Python keeps of a size is a number when the call is over, recorded or not."""
    seen: list[Any] = []
    texts = {}

    def note(x: Any) -> Any:
        seen.append(x.shape[0])
        texts[x.shape[0] * 2] = True
        return x.mean() * x.shape[0]

    f = tj.compile(note)
    for n in (2, 3, 4, 5, 6):
        assert f(tj.ones(n)).item() == n
    assert seen == [2, 3, 4, 5, 6]
    assert list(texts) == [4, 6, 8, 10, 12]
    assert all(type(n) is int for n in (*seen, *texts))


def test_what_a_module_keeps_of_extents() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last: Any = None

        def forward(self, x: Any) -> Any:
            self.last = x.shape
            return x.sum(0) * self.last[0]

    net = Net()
    f = tj.compile(net)
    for n in (2, 3, 4, 5, 6, 7, 7, 8, 1, 9):
        assert f(tj.ones(n, 3)).tolist() == [n * n] * 3
        assert tuple(net.last) == (n, 3)
        assert type(net.last[0]) is int


def test_sizes_are_results() -> None:
    f = tj.compile(lambda x: (x * 2, x.shape[0], x.shape))
    for n in (2, 3, 4, 5, 6):
        _, count, shape = f(tj.ones(n, 3))
        assert (type(count), count, tuple(shape)) == (int, n, (n, 3))


def test_arguments_are_as_before_the_call() -> None:
    f = tj.compile(lambda x: x.sum())
    for n in (2, 3, 4, 5):
        x = tj.ones(n)
        f(x)
        assert type(x.shape[0]) is int
        assert x._run_time_type is None


def test_errors_are_those_of_eager_code() -> None:
    weight = tj.ones(3, 2)
    f = tj.compile(lambda x: x @ weight)
    for n in (2, 3, 4, 5):
        f(tj.ones(n, 3))
    for n in (2, 4, 5, 6):
        with pytest.raises(RuntimeError) as expected:
            f.function(tj.ones(2, n))
        with pytest.raises(RuntimeError) as found:
            f(tj.ones(2, n))
        assert str(found.value) == str(expected.value)


def test_errors_of_the_user_leave_extents_varying() -> None:
    def limited(x: Any) -> Any:
        assert x.shape[0] <= 8, f"too long: {x.shape[0]}"
        return x * 2

    f = tj.compile(limited)
    for n in (2, 3, 4, 5, 9, 6, 20, 7, 8, 9):
        if n > 8:
            with pytest.raises(AssertionError, match=f"too long: {n}"):
                f(tj.ones(n))
        else:
            assert f(tj.ones(n)).tolist() == [2.0] * n
    assert f.explain().constants == []
    assert f.stats.compiled_calls >= 4


def test_in_place_and_views_of_one_memory() -> None:
    memory = tj.zeros(40)

    def fill(x: Any) -> Any:
        x.add_(1)
        return x[1:]

    f = tj.compile(fill)
    for n in (3, 4, 5, 6, 7):
        part = f(memory[:n])
        assert part.shape == (n - 1,)
        part.mul_(2)
    expected = tj.zeros(40)
    for n in (3, 4, 5, 6, 7):
        fill(expected[:n]).mul_(2)
    np.testing.assert_array_equal(memory, expected)
    assert f.stats.recordings == RECORDED, f.explain()


@pytest.mark.parametrize("grown", ["arguments", "state"])
def test_caches_that_grow(grown: str) -> None:
    weight = tj.eye(8)

    class Model:
        cache = tj.zeros(2, 8)

        def step(self, x: Any) -> Any:
            self.cache = tj.cat([self.cache, x @ weight], 0)
            return ((x @ self.cache.T).softmax(-1) @ self.cache).tanh() + 0.1

    def step(x: Any, cache: Any) -> Any:
        kept = tj.cat([cache, x @ weight], 0)
        return ((x @ kept.T).softmax(-1) @ kept).tanh() + 0.1, kept

    model, other = Model(), Model()
    f = tj.compile(step if grown == "arguments" else model.step)
    x = y = tj.full((1, 8), 0.1)
    cache = tj.zeros(2, 8)
    for _ in range(30):
        y = other.step(y)
        if grown == "arguments":
            x, cache = f(x, cache)
        else:
            x = f(x)
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)
    assert f.stats.recordings <= RECORDED + 2, f.explain()
    assert f.stats.compiled_calls >= 25


def test_what_is_often_met_is_recorded_for_itself() -> None:
    """When that has cost as much as a recording, native code is to know the signature."""
    f = tj.compile(lambda x: x * 2)
    for n in (2, 3, 4, 5):
        f(tj.ones(n))
    seven, nine = tj.ones(7), tj.ones(9)
    calls = 0
    while not f.stats.served[0]:
        calls += 1
        assert f(seven).tolist() == [2.0] * 7
        f(nine)
        assert calls < 100_000
    assert calls > 30
    assert f.stats.recordings <= RECORDED + 2


def test_extents_beside_numbers_that_vary() -> None:
    f = tj.compile(lambda x, p, start: (x * p)[start:].sum() / x.shape[0])
    for step, n in enumerate((4, 4, 5, 6, 7, 8, 9, 5, 6)):
        found = f(rows(n), 0.5 + step, step % 3)
        np.testing.assert_allclose(found, f.function(rows(n), 0.5 + step, step % 3), rtol=1e-5)
    assert f.stats.recordings < 9


def test_strict_and_verified() -> None:
    for options in ({"strict": True}, {"verify": True}, {"mode": "background"}):
        f = tj.compile(lambda x: (x * 2).cumsum(0), **options)
        for n in (2, 3, 4, 5, 6, 4, 5, 6):
            np.testing.assert_allclose(f(rows(n)), f.function(rows(n)), rtol=1e-5)
        assert f.stats.recordings <= RECORDED


def test_not_where_they_are_asked_not_to() -> None:
    fixed = tj.compile(lambda x: x * 2, dynamic=False)
    soon = tj.compile(lambda x: x * 2, dynamic=True)
    for n in (2, 3, 4, 5, 6):
        fixed(tj.ones(n))
        soon(tj.ones(n))
    assert fixed.stats.recordings == 5
    assert soon.stats.recordings == 2


def test_threads_with_many_extents() -> None:
    weight = rows(8, 8)
    f = tj.compile(lambda x: tj.tanh(x @ weight).sum(0))
    failures: list[int] = []

    def work(seed: int) -> None:
        order = np.random.default_rng(seed).integers(2, 40, 60)
        for n in order.tolist():
            x = rows(n, 8)
            if not np.allclose(f(x), f.function(x), rtol=1e-4, atol=1e-5):
                failures.append(n)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert f.stats.compiled_calls > 100


def test_errors_happen_once() -> None:
    """What the run did before its error is not done again."""
    counts = {"calls": 0}

    def limited(x: Any) -> Any:
        counts["calls"] += 1
        if x.shape[0] > 8:
            raise ValueError(f"too long: {x.shape[0]}")
        return x * 2

    f = tj.compile(limited)
    lengths = (2, 3, 4, 5, 9, 6, 20, 7, 8, 9)
    for calls, n in enumerate(lengths, 1):
        if n > 8:
            with pytest.raises(ValueError, match=f"too long: {n}"):
                f(tj.ones(n))
        else:
            assert f(tj.ones(n)).tolist() == [2.0] * n
        assert counts["calls"] == calls


class OnlyNumbers:
    """Adds one to what is a true int."""

    def __add__(self, other: Any) -> Any:
        found: Any = int.__add__(1, other)
        return found


def test_code_that_needs_true_numbers_gets_them() -> None:
    one = OnlyNumbers()
    f = tj.compile(lambda x: x * (one + x.shape[0]))
    for n in (2, 3, 4, 5, 6):
        assert f(tj.ones(n)).tolist() == [n + 1.0] * n


@pytest.mark.parametrize("wanted", [False, True])
def test_gradients_are_differentiated_where_nothing_hangs_on_the_sizes(wanted: bool) -> None:
    """The second argument is of a size that no run tells, because nothing reads it."""
    f = tj.compile(lambda x, y: (x**3).sum())
    for n in (2, 3, 4, 5, 6):
        for _ in range(2):
            x = tj.tensor([1.0, -2.0], requires_grad=True)
            y = tj.ones(n, n, requires_grad=wanted)
            (first,) = tj.autograd.grad(f(x, y), x, create_graph=True)
            first.sum().backward()
            assert x.grad.tolist() == [6.0, -12.0]
            assert y.grad is None
    assert f.stats.compiled_calls >= 7
