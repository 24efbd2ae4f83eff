"""Races, arguments changed during a call, generators and tensors that several use: an error, or eager with a reason."""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.generated import define
from tracejit.retired import retire


@pytest.fixture
def often() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(work: Callable[[], None], count: int = 1) -> list[threading.Thread]:
    """Threads that do this, started."""
    found = [threading.Thread(target=work) for _ in range(count)]
    for thread in found:
        thread.start()
    return found


def finish(threads: list[threading.Thread]) -> None:
    """Wait for them."""
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


# --- memory ---------------------------------------------------------------------------------------------------------


def test_weights_replaced_while_another_thread_computes_with_them() -> None:
    """Every call sees the old weights or the new ones, and memory that is still there."""
    count = 1 << 20  # the system takes memory of this size back at once
    weight = tj.ones(count)
    f = tj.compile(lambda x: (weight * x).exp().log().sum())
    x = tj.ones(count)
    for _ in range(3):
        f(x)
    end, seen = time.monotonic() + 0.8, set()

    def work() -> None:
        while time.monotonic() < end:
            seen.add(round(float(f(x)) / count, 2))

    threads = in_threads(work)
    turn = 0
    while time.monotonic() < end:
        turn += 1
        weight.data = tj.full((count,), 1.0 + turn % 2)
    finish(threads)
    assert seen <= {1.0, 2.0}
    assert seen
    assert f.stats.recordings == 1


def test_replaced_memory_is_kept_only_while_somebody_reads_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading, done = threading.Event(), threading.Event()
    frames, strangers = sys._current_frames, {t.ident for t in threading.enumerate()}
    strangers |= set(frames())  # threads of the test runner, wherever they wait
    strangers.discard(threading.get_ident())
    monkeypatch.setattr(
        sys,
        "_current_frames",
        lambda: {ident: frame for ident, frame in frames().items() if ident not in strangers},
    )

    def wait() -> None:
        reading.set()
        assert done.wait(20)

    run = define("def run():\n    wait()\n", "program x", "run", {"wait": wait})
    tensor = tj.ones(8)
    threads = in_threads(run)
    assert reading.wait(20)
    gone = weakref.ref(tensor.array)
    tensor.data = tj.zeros(8)
    assert gone() is not None
    done.set()
    finish(threads)
    tensor.data = tj.ones(8)
    assert gone() is None
    retire(np.ones(3))


def test_modules_converted_while_another_thread_calls_them() -> None:
    net = tj.nn.Linear(64, 64)
    f = tj.compile(net)
    x = tj.ones(8, 64)
    end, failed = time.monotonic() + 0.6, []

    def work() -> None:
        with tj.no_grad():
            while time.monotonic() < end:
                try:
                    f(x)
                except (
                    RuntimeError
                ) as error:  # one parameter was converted already, another was not
                    failed.append(str(error))

    threads = in_threads(work)
    while time.monotonic() < end:
        net.double()
        net.float()
    finish(threads)
    assert all("dtype" in text for text in failed), failed[:3]
    assert np.allclose(f(x).detach().numpy(), net(x).detach().numpy(), atol=1e-6)


# --- arguments --------------------------------------------------------------------------------------------------------


def test_a_list_that_another_thread_changes_during_the_call() -> None:
    entered, changed, given = [False], [False], [tj.ones(2)]

    def f(items: list[tj.Tensor]) -> tj.Tensor:
        entered[0] = True
        while not changed[0]:
            pass
        return items[0] * len(items)

    compiled = tj.compile(f)

    def change() -> None:
        while not entered[0]:
            pass
        given.append(tj.ones(2))
        changed[0] = True

    threads = in_threads(change)
    assert compiled(given).tolist() == [2.0, 2.0]
    finish(threads)
    assert compiled(given).tolist() == [2.0, 2.0]
    given.pop()
    assert compiled(given).tolist() == [1.0, 1.0]


def test_an_argument_written_by_a_hook_during_backward() -> None:
    def told(f: Callable[[tj.Tensor], tj.Tensor]) -> Any:
        found = []
        for _ in range(4):
            x = tj.ones(3, requires_grad=True)
            x.register_hook(lambda grad: grad.mul_(2))
            y = f(x)
            y.register_hook(lambda grad, x=x: x.data.add_(1))
            y.sum().backward()
            found += [x.tolist(), x.grad.tolist()]
        return found

    assert told(lambda x: x * x + x) == told(tj.compile(lambda x: x * x + x))


# --- generators -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "branch", "write", "sizes", "default"])
def test_threads_that_share_a_generator_draw_different_numbers(kind: str, often: None) -> None:
    generator = tj.Generator().manual_seed(3)
    tj.manual_seed(3)
    bank = tj.zeros(4)

    def plain(x: tj.Tensor) -> tj.Tensor:
        return x + tj.rand(4, generator=generator)

    def branch(x: tj.Tensor) -> tj.Tensor:
        y = x + tj.rand(4, generator=generator)
        return y * 1 if y.sum() > 2 else y + tj.rand(4, generator=generator)

    def write(x: tj.Tensor) -> tj.Tensor:
        y = x + tj.rand(4, generator=generator)
        bank.copy_(y)
        return y

    def sizes(x: tj.Tensor) -> tj.Tensor:
        return x + tj.rand(4, generator=generator)[x[x == 0].shape[0] - 4 :]

    def default(x: tj.Tensor) -> tj.Tensor:
        return x + tj.rand(4)

    bodies = {"plain": plain, "branch": branch, "write": write, "sizes": sizes, "default": default}
    f, x = tj.compile(bodies[kind]), tj.zeros(4)
    for _ in range(12):
        f(x)
    seen: list[Any] = []

    def work() -> None:
        seen.extend(tuple(f(x).tolist()) for _ in range(120))

    finish(in_threads(work, 4))
    assert len(seen) == len(set(seen)) == 480
    assert f.stats.compiled_calls > 100, f.explain()


def test_a_call_that_fails_gives_its_draws_back() -> None:
    def told(f: Callable[[Any, Any], tj.Tensor]) -> Any:
        found = []
        tj.manual_seed(5)
        for at in (0, 1, 2, 7, 1, 9, 0):
            try:
                found.append(f(tj.ones(3), tj.tensor([at])).tolist())
            except IndexError as error:
                found.append(type(error).__name__)
            found.append(tj.get_rng_state().tolist())
        return found

    def f(x: tj.Tensor, at: tj.Tensor) -> tj.Tensor:
        return (x * tj.rand(3))[at] + tj.rand(1)

    compiled = tj.compile(f)
    assert told(f) == told(compiled)
    assert compiled.stats.compiled_calls >= 3


def test_one_generator_given_twice_and_as_a_global() -> None:
    shared = tj.Generator()

    def f(x: tj.Tensor, a: Any, b: Any) -> tj.Tensor:
        return x + tj.rand(3, generator=a) - tj.rand(3, generator=b) * tj.rand(3, generator=shared)

    def told(function: Callable[..., tj.Tensor]) -> Any:
        shared.manual_seed(1)
        other = tj.Generator().manual_seed(2)
        pairs = [(shared, other), (shared, shared), (other, shared), (other, other)] * 3
        found = [function(tj.zeros(3), a, b).tolist() for a, b in pairs]
        return found, shared.get_state().tolist(), other.get_state().tolist()

    assert told(f) == told(tj.compile(f))


def test_an_iterator_given_again() -> None:
    """A generator function's iterator is used up by the first call, compiled or not."""

    def f(x: tj.Tensor, parts: Iterator[tj.Tensor]) -> tj.Tensor:
        for part in parts:
            x = x + part
        return x

    compiled = tj.compile(f)
    for function in (f, compiled):
        parts = (tj.ones(2) for _ in range(3))
        assert function(tj.zeros(2), parts).tolist() == [3.0, 3.0]
        assert function(tj.zeros(2), parts).tolist() == [0.0, 0.0]
    assert compiled.stats.compiled_calls == 0
    assert compiled.reasons


# --- tensors from elsewhere -------------------------------------------------------------------------------------------


def test_a_tensor_that_another_thread_is_recording() -> None:
    """Its sizes are symbols for the thread that records, and plain numbers for all others."""
    held: list[tj.Tensor] = []
    go_on = [False]

    def f(x: tj.Tensor) -> tj.Tensor:
        y = x[x > 0]
        held.append(y)
        while not go_on[0]:
            pass
        return y * y.shape[0]

    compiled = tj.compile(f)
    results: list[Any] = []
    threads = in_threads(lambda: results.append(compiled(tj.tensor([1.0, -2.0, 3.0])).tolist()))
    while not held:
        time.sleep(0.001)
    y = held[0]
    g = tj.compile(lambda v: v * v.shape[0] + len(v))
    assert type(y.shape[0]) is int
    for _ in range(3):
        assert g(y).tolist() == [4.0, 8.0]
    assert (y * 2).reshape(2, -1).shape == (2, 1)
    go_on[0] = True
    finish(threads)
    assert results == [[2.0, 6.0]]
    assert g(y).tolist() == [4.0, 8.0]
    assert g.stats.compiled_calls == 3
    assert not g.reasons


def test_a_tensor_that_another_thread_made_during_the_recording() -> None:
    asked, made = [False], []

    def f(x: tj.Tensor) -> tj.Tensor:
        asked[0] = True
        while not made:
            pass
        return x * made[0]

    compiled = tj.compile(f)

    def make() -> None:
        while not asked[0]:
            pass
        made.append(tj.ones(2) * 3)

    threads = in_threads(make)
    assert compiled(tj.ones(2)).tolist() == [3.0, 3.0]
    finish(threads)
    made[0] = tj.ones(2) * 4
    for _ in range(3):
        assert compiled(tj.ones(2)).tolist() == [4.0, 4.0]


def test_degrees_of_polynomials_beyond_reason_are_refused() -> None:
    with pytest.raises(ValueError, match="chebyshev_t: the degree 1,048,577 is more than"):
        tj.special.chebyshev_polynomial_t(tj.tensor([0.5, 2.0]), (1 << 20) + 1)
