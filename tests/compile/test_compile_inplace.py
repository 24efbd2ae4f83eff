"""compile(): changes in place, aliasing, and state that is written back."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import numpy as np
import pytest

import tracejit as tj

nn = tj.nn


def test_local_tensors() -> None:
    def f(x):
        y = x * 2
        y[0] = 7
        y[1:].mul_(3)
        z = y.view(2, 2)
        z[:, 1] += x[:2]
        y.add_(1)
        return y, z.sum()

    g = tj.compile(f)
    for grad in (True, False):
        for _ in range(3):
            a = tj.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=grad)
            b = tj.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=grad)
            (y, s), (y2, s2) = g(a), f(b)
            assert (y.tolist(), s.item()) == (y2.tolist(), s2.item())
            if grad:
                (y.sum() + s).backward()
                (y2.sum() + s2).backward()
                assert a.grad.tolist() == b.grad.tolist()
    assert g.stats.compiled_calls == 4


def test_inputs_are_written_back_once() -> None:
    def f(x, y):
        x.add_(1)
        z = x * y
        x.mul_(2)
        return z, x

    g = tj.compile(f)
    for _ in range(3):
        a, b = tj.ones(3), tj.ones(3)
        version = a._version
        z, same = g(a, tj.ones(3) * 5)
        z2, _ = f(b, tj.ones(3) * 5)
        assert same is a
        assert a.tolist() == b.tolist() == [4, 4, 4]
        assert z.tolist() == z2.tolist()
        assert a._version > version
    assert g.stats.compiled_calls == 2


def test_views_of_inputs_and_captured_state() -> None:
    count = tj.zeros(2, 2)

    def f(x):
        count[0].add_(x)
        x[1:] = 0
        return count.sum() + x.sum()

    g = tj.compile(f)
    results = [g(tj.ones(2)).item() for _ in range(4)]
    assert results == [3, 5, 7, 9]
    assert count.tolist() == [[4, 4], [0, 0]]
    assert g.stats.compiled_calls == 3


def test_arguments_that_overlap() -> None:
    f = tj.compile(lambda x, y: (x.add_(1), y * 2)[1])
    for _ in range(3):
        assert f(tj.ones(2), tj.ones(2)).tolist() == [2, 2]
    base = tj.ones(4)
    for k in range(1, 4):
        assert f(base[:2], base[1:3]).tolist() == [2 + 2 * k, 2]
    for _ in range(3):
        base = tj.ones(4)
        assert f(base[1:3], base[1:3]).tolist() == [4, 4]
        assert f(base, base).tolist() == [4, 6, 6, 4]


def test_reading_a_captured_view_of_what_is_written() -> None:
    base = tj.zeros(4)
    view = base[:2]
    f = tj.compile(lambda x: (base.add_(x), view * 1)[1])
    for k in range(1, 5):
        assert f(tj.ones(4)).tolist() == [k, k]


def test_what_eager_refuses() -> None:
    f = tj.compile(lambda x: x.add_(1))
    for _ in range(3):
        f(tj.ones(2))
    leaf = tj.ones(2, requires_grad=True)
    with tj.no_grad():
        untracked = leaf[:]
    for x in (leaf, leaf[:], untracked, tj.zeros(1).expand(2)):
        messages = []
        for function in (f.function, f):
            with pytest.raises(RuntimeError) as found:
                function(x)
            messages.append((type(found.value), str(found.value).splitlines()[0]))
        assert messages[0] == messages[1]
    assert leaf.tolist() == [1, 1]


def test_parameters_under_no_grad() -> None:
    w = tj.ones(2, requires_grad=True)

    @tj.compile
    @tj.no_grad()
    def inner(g):
        w.sub_(g * 0.5)

    @tj.compile
    def outer(g):
        w.mul_(g)

    for k in range(1, 4):
        inner(tj.ones(2))
        assert w.tolist() == [1 - 0.5 * k] * 2
    with tj.no_grad():
        for _ in range(3):
            outer(tj.ones(2) * 2)
    assert w.tolist() == [-4, -4]
    assert outer.stats.compiled_calls == 2
    assert w.is_leaf
    assert w.requires_grad
    (w * 2).sum().backward()
    assert w.grad.tolist() == [2, 2]


def test_a_buffer_that_gains_a_history() -> None:
    def f(buffer, w):
        buffer.mul_(w)
        return buffer.sum()

    g = tj.compile(f)
    for _ in range(3):
        w = tj.full((2,), 3.0, requires_grad=True)
        buffer = tj.ones(2)
        y = g(buffer, w)
        assert buffer.requires_grad
        (y + buffer.sum()).backward()
        assert w.grad.tolist() == [2, 2]


def test_an_optimizer_step_inside() -> None:
    def train(compiled: bool) -> list[float]:
        tj.manual_seed(0)
        model = nn.Linear(3, 1)
        optimizer = tj.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        x, y = tj.rand(8, 3), tj.rand(8, 1)

        def step():
            optimizer.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = tj.compile(step) if compiled else step
        return [run().item() for _ in range(6)]

    assert np.allclose(train(True), train(False), rtol=1e-6)


def test_an_optimizer_step_alone() -> None:
    w = tj.ones(2, requires_grad=True)
    optimizer = tj.optim.SGD([w], lr=1.0)
    f = tj.compile(lambda: optimizer.step())
    for k in range(1, 5):
        w.grad = tj.full((2,), float(k))
        f()
    assert w.tolist() == [-9, -9]


def test_batch_statistics() -> None:
    mean = tj.zeros(3)

    def f(x, w):
        m = x.mean(0)
        with tj.no_grad():
            mean.mul_(0.9).add_(m, alpha=0.1)
        return ((x - m) * w).sum()

    def run(function):
        mean.zero_()
        w = tj.ones(3, requires_grad=True)
        for k in range(4):
            function(tj.arange(12.0).reshape(4, 3) * k, w).backward()
        return mean.tolist(), w.grad.tolist()

    g = tj.compile(f)
    expected, found = run(f), run(g)
    assert np.allclose(expected[0], found[0])
    assert np.allclose(expected[1], found[1], atol=1e-4)
    assert g.stats.compiled_calls == 3, g.explain()


def test_versions_count_every_write() -> None:
    def f(x):
        x.add_(1)
        x[0].zero_()
        x.view(-1).mul_(2)

    g = tj.compile(f)
    for _ in range(3):
        a, b = tj.ones(2, 2), tj.ones(2, 2)
        f(a)
        g(b)
        assert a.tolist() == b.tolist()
        assert a._version == b._version


@pytest.mark.parametrize("straight", [True, False])
def test_differentiating_twice_reads_an_overwritten_input_as_it_was(
    monkeypatch: pytest.MonkeyPatch, straight: bool
) -> None:
    """Eager saved what it computed from the old value; the compiled call recomputes that, so it keeps a copy."""
    if not straight:  # walk the tree instead of generated lines
        monkeypatch.setattr(
            importlib.import_module("tracejit.trace.replay.replay"), "MAX_SEGMENTS", 0
        )

    def f(x, w):
        before = x * 3.0
        x.mul_(2.0)
        centred = x - x.mean() + before.tanh()
        return (centred * w).sum() ** 2

    def run(function):
        found = []
        for k in range(4):
            w = tj.tensor([0.5, 0.25, 2.0], requires_grad=True)
            x = tj.tensor([1.0, 2.0, 3.0 + k])
            (first,) = tj.autograd.grad(function(x, w), w, create_graph=True)
            (second,) = tj.autograd.grad((first * first).sum(), w)
            found += [first, second, x]
        return [t.tolist() for t in found]

    g = tj.compile(f)
    for expected, got in zip(run(f), run(g), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5)
    assert g.stats.compiled_calls == 3, g.explain()


def test_what_was_saved_changes_through_data_without_notice() -> None:
    """The tape keeps a buffer that was overwritten before; ``.data`` changes it under the tape."""
    results = []
    for wrap in (lambda f: f, tj.compile):
        buffer = tj.full((3,), 2.0)

        def f(x, y, buffer=buffer):
            buffer[:] = y
            z = buffer * x
            buffer.data.mul_(0.5)
            return z

        call = wrap(f)
        for k in (1.0, 2.0, 3.0):
            x = tj.ones(3, requires_grad=True)
            call(x, tj.full((3,), k)).sum().backward()
            results.append((x.grad.tolist(), buffer.tolist()))
    assert results[:3] == results[3:] == [([k / 2] * 3, [k / 2] * 3) for k in (1.0, 2.0, 3.0)]


def _views_of_one(x, y, w):
    x.sub_(0.25)
    return (w * y).sum()


def _used_first(x, y, w):
    product = w * y
    x.sub_(0.25)
    return product.sum()


def _both_written(x, y, w):
    y.mul_(2.0)
    x.sub_(0.25)
    return (w * y).sum()


def _written_is_used(x, y, w):
    y.mul_(2.0)
    x.sub_(0.25)
    return (w * x).sum()


def _backward_inside(x, y, w):
    product = w * y
    x.sub_(0.25)
    (slopes,) = tj.autograd.grad(product.sum(), w)
    return slopes.sum()


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "body", [_views_of_one, _used_first, _both_written, _written_is_used, _backward_inside]
)
@pytest.mark.parametrize("captured", ["none", "x", "y", "both"])
@pytest.mark.parametrize("order", ["kin apart kin apart", "apart kin apart kin"])
@pytest.mark.parametrize("straight", [True, False])
def test_views_of_one_base_have_one_version(
    monkeypatch, body: Callable[..., tj.Tensor], captured: str, order: str, straight: bool
) -> None:
    """Writing to one view counts for what the tape saved of the other: refused only where the use came first."""
    if not straight:
        monkeypatch.setattr(
            importlib.import_module("tracejit.trace.replay.replay"), "MAX_SEGMENTS", 0
        )
    results = []
    for wrap in (lambda f: f, tj.compile):
        w = tj.tensor([0.5, 0.25, 2.0], requires_grad=True)
        base = tj.arange(6.0).reshape(2, 3)
        outside = {"x": base[0], "y": base[1]}

        def f(x, y, w=w, outside=outside):
            x = outside["x"] if captured in ("x", "both") else x
            y = outside["y"] if captured in ("y", "both") else y
            return body(x, y, w)

        call, found = wrap(f), []
        for kind in order.split() * 2:
            x, y = (base[0], base[1]) if kind == "kin" else (base[0].clone(), base[1].clone())
            for changed in (None, x, y):
                try:
                    loss = call(x, y)
                    if changed is not None:
                        changed.add_(1.0)
                    slopes = tj.autograd.grad(loss, w) if loss.requires_grad else ()
                    found += [loss.item(), *(g.tolist() for g in slopes)]
                except RuntimeError as error:
                    found.append(str(error).split(":")[0])
            found += [x.tolist(), y.tolist(), x._version, y._version]
        results.append(found)
    assert results[0] == results[1]
    refused = [r for r in results[0] if isinstance(r, str)]
    assert all("modified by an inplace operation" in r for r in refused), refused


@pytest.mark.parametrize("straight", [True, False])
def test_views_of_one_base_beside_numbers_that_vary(monkeypatch, straight: bool) -> None:
    """Numbers are inputs of the program too, and have no version."""
    if not straight:
        monkeypatch.setattr(
            importlib.import_module("tracejit.trace.replay.replay"), "MAX_SEGMENTS", 0
        )
    buffer, w = tj.zeros(3), tj.ones(3, requires_grad=True)

    def f(y, rate):
        buffer.add_(y * rate)
        return (w * y * rate + buffer).sum()

    g = tj.compile(f)
    for k in range(6):
        (slopes,) = tj.autograd.grad(g(tj.ones(3), 0.5 + k), w)
        assert slopes.tolist() == [0.5 + k] * 3
    assert buffer.tolist() == [18.0] * 3
    assert g.stats.compiled_calls >= 3, g.explain()
