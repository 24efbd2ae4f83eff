"""The memory of a recorded run: what nobody can reach any more is let go, and nothing else changes."""

from __future__ import annotations

import tracemalloc
import weakref

import numpy as np
import pytest

import tracejit as tj
from tracejit.runtime.allocator import allocate, memory_stats
from tracejit.trace.recording import kept_alive


def peak_of(function, *arguments):
    tracemalloc.start()
    try:
        function(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def stencil(x):
    for _ in range(60):
        x = x + (x[1:-1].sum() * 1e-9 - x) * 0.1
    return x


def test_a_loop_needs_the_memory_of_a_few_rounds():
    x = tj.ones(1 << 20)  # 4 MiB; three new ones in every round
    with tj.no_grad():
        peak = peak_of(tj.compile(stencil, strict=True), x)
    assert peak < 80 << 20


@pytest.mark.parametrize(
    ("shape", "most"), [((512, 1024), 16 << 20), ((64, 128), 512 << 10)]
)  # 2 MiB; 32 KiB
def test_large_temporaries_take_each_others_place(shape, most):
    def chain(x):
        y = x
        for k in range(12):
            y = (y * 0.5 + k).t().t()
        return y

    x = tj.ones(*shape)
    with tj.no_grad():
        f = tj.compile(chain, strict=True)
        f(tj.ones(2, 3))  # code objects and caches of a first recording
        peak = peak_of(f, x)
        assert f.stats.recordings == 2
        assert f(x).tolist() == chain(x).tolist()
    assert peak < most  # of 24 temporaries


def test_temporaries_of_long_expressions_take_each_others_place():
    def steps(x):
        for _ in range(40):
            k1 = x * 0.5 + 1.0
            k2 = (x + 0.1 * k1) * 0.5
            k3 = (x + 0.1 * k2) * 0.5
            x = x + (k1 + 2.0 * k2 + 2.0 * k3) * 0.1
        return x

    x = tj.ones(10_000)  # 39 KiB, 15 new ones in every round
    with tj.no_grad():
        f = tj.compile(steps, strict=True)
        f(tj.ones(3))
        peak = peak_of(f, x)
    assert peak < 24 * x.nbytes + (3 << 20)  # 600 are made; statements need memory too


@pytest.mark.parametrize("size", [1024, 4])  # 4 MiB, of which a recording lets many go; a few bytes
def test_what_a_recording_of_large_tensors_freed_goes_back_to_the_system(size):
    """Compiled code asks for other sizes: what operations one by one went through served nobody any more."""

    def different(x):
        for op in (tj.sin, tj.cos, tj.tanh, tj.sigmoid, tj.square, tj.abs, tj.exp, tj.neg, tj.atan):
            x = op(x)
        return x

    f = tj.compile(different, strict=True)
    x = tj.ones(size, size)
    allocate(40 << 20)  # as an operation might: nobody has it, and it is kept
    with tj.no_grad():
        f(x)
        f(x)
    assert f.stats.compiled_calls == 1
    assert (memory_stats().cached < 32 << 20) == (size > 4)


def test_latest_tensors_in_use_stay():
    gone = []
    kept = kept_alive.KeptAlive(lambda: gone.append, most_bytes=1 << 30)
    held = []
    for k in range(20):
        large = tj.ones(1 << 18)
        kept.append(large)
        if k % 5 == 0:
            held += [large, large[:9], tj.ones(3)]
            kept.append(held[-2])
            kept.append(held[-1])
        del large
    assert {*map(id, kept.tensors)} >= {*map(id, held)}
    assert [id(x) for x in kept.tensors if any(x is h for h in held)] == [*map(id, held)]
    assert len(gone) >= 15


def test_a_loop_that_tensors_end_needs_the_memory_of_a_few_rounds():
    def settle(x):
        count = x * 0.0
        while x.max() > 1.0:
            inside = x * x > 0.5
            x = tj.where(inside, x * 0.9, x) + count * 1e-9
            count = count + tj.where(inside, 1.0, 0.0)
        return x, count

    x = tj.full((1 << 18,), 500.0)  # 1 MiB; eight new ones in each of 60 rounds
    with tj.no_grad():
        f = tj.compile(settle, strict=True)
        f(tj.full((3,), 2.0))
        peak = peak_of(f, x)
        assert f.stats.recordings == 2
        assert [t.tolist() for t in f(x)] == [t.tolist() for t in settle(x)]
    assert "until=" in str(f.graphs[0])  # its rounds were compared
    assert peak < 24 * x.nbytes


def test_variables_of_an_earlier_round_are_let_go():
    def rounds(x):
        a = b = c = d = e = f = x
        while a.amax() < 60.0:
            a = x + a
            b = a * 2.0
            c = b * 3.0
            d = c - 4.0
            e = d * 0.5
            f = e + f
        return b, c, d, e, f

    x = tj.ones(1 << 18)  # 1 MiB
    with tj.no_grad():
        compiled = tj.compile(rounds, strict=True)
        compiled(tj.ones(3))
        peak = peak_of(compiled, x)
        assert compiled.stats.recordings == 2
        assert [t.tolist() for t in compiled(x)] == [t.tolist() for t in rounds(x)]
    assert "until=" in str(compiled.graphs[0])
    # Six variables, operands, results; those of the round before would be five more.
    assert peak < 13 * x.nbytes


def test_what_locals_gave_stays_as_it_was():
    def rounds(x):
        kept = []
        while x.amax() < 60.0:
            given = locals()
            before = x
            x = x * 2.0
            y = x + 1.0
            kept.append((given["x"] is before, "y" in given and given["y"] is y))
        return kept

    x = tj.ones(1 << 18)
    with tj.no_grad():
        found, expected = tj.compile(rounds)(x), rounds(x)
    assert found == expected


@pytest.fixture
def at_once(monkeypatch):
    """Everything goes as soon as it can."""
    monkeypatch.setattr(kept_alive, "FEW_BYTES", -1)
    wanted = kept_alive.KeptAlive.__init__
    monkeypatch.setattr(
        kept_alive.KeptAlive, "__init__", lambda self, forget: wanted(self, forget, most_bytes=0)
    )


def views_and_writes(x):
    y = (x * 2).t()[1:]
    y[0] += 1.0
    z = y.clone()
    for i in range(4):
        z = z + y.sum(0) * i
        w = z[:1]
        w.mul_(0.5)
    return z, y, w


def trained(x):
    weight = (x * 0.5).detach().requires_grad_()
    for _ in range(3):
        loss = ((weight @ x.t()).tanh() ** 2).mean()
        loss.backward()
        with tj.no_grad():
            weight -= weight.grad
        weight.grad = None
    return weight.detach(), loss.detach()


LEFT = []


def remembered(x, look):
    """What rounds leave in containers, closures, weak references and arrays can be read later."""
    parts, weak, arrays, ask = (), [], [], []
    while x.abs().max() > 0.1 and len(parts) < 12:
        y = x * 0.9
        z = y.t()
        parts = (*parts, y)
        whole = tj.cat(parts)
        weak.append(weakref.ref(whole))
        if look:
            arrays.append((y + 1.0).numpy())
        ask.append(lambda y=y, z=z: (y + z, z[0]))
        x = y - whole[:3] * 0.05
        del whole
    LEFT.append(x)
    late = [(r(), i) for i, r in enumerate(weak) if r() is not None]
    assert all(tj.equal(t, tj.cat(parts[: i + 1])) for t, i in late)
    found = [*parts, *(a for f in ask for a in f()), *map(tj.from_numpy, arrays), LEFT.pop()]
    return tuple(found)


def escaped(x):
    """The same tensor as operand twice, a round that hands on what it was given, and a view of it."""
    before, first, rounds = x, x[:1], 0
    while (x * x).sum() > 1e-2 and rounds < 9:
        before, first, x = x, before[:1], tj.where(x > 0, x * x * 0.1, x * 0.5)
        rounds += 1
    return x, before, first


@pytest.mark.parametrize("function", [views_and_writes, trained, escaped])
def test_the_same_results(at_once, function):
    compiled = tj.compile(function, strict=True)
    for seed in range(3):
        x = tj.from_numpy(np.random.default_rng(seed).standard_normal((3, 3)).astype(np.float32))
        for have, want in zip(compiled(x.clone()), function(x.clone()), strict=True):
            np.testing.assert_allclose(have.numpy(), want.numpy(), 1e-5, 1e-6)


@pytest.mark.parametrize("arrays", [True, False])
def test_what_rounds_leave_elsewhere_can_be_read(at_once, arrays):
    compiled = tj.compile(remembered)
    for seed in range(3):
        x = tj.from_numpy(np.random.default_rng(seed).standard_normal((3, 3)).astype(np.float32))
        found, wanted = compiled(x.clone(), arrays), remembered(x.clone(), arrays)
        assert len(found) == len(wanted) > 20
        for have, want in zip(found, wanted, strict=True):
            np.testing.assert_allclose(have.numpy(), want.numpy(), 1e-5, 1e-6)
