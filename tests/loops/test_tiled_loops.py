"""Loops of pointwise kernels run tile by tile: the bits of round by round, and only where elements do not meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj
from tracejit.runtime.launcher import Loop
from tracejit.runtime.plan import loops as plan_loops
from tracejit.runtime.tiled import tiled_loops
from tracejit.runtime.tiled.tiled_loops import TiledLoop

SIZES = (0, 1, 5, 255, 1000, 70_001)


def pendulum(x: tj.Tensor, v: tj.Tensor, rounds: int) -> tuple[tj.Tensor, tj.Tensor]:
    for _ in range(rounds):
        a = 1.5 * (1.0 - x * x) * v - x
        x, v = x + 0.01 * v, v + 0.01 * a
    return x, v


def swapped(x: tj.Tensor, v: tj.Tensor, rounds: int) -> tuple[tj.Tensor, tj.Tensor]:
    for _ in range(rounds):
        x, v = v * 0.5 + 1.0, x.sin()
    return x, v


def pushed(x: tj.Tensor, v: tj.Tensor, rounds: int) -> tj.Tensor:
    for _ in range(rounds):
        x = x * 0.9 + v
    return x


def collecting(x: tj.Tensor, v: tj.Tensor, rounds: int) -> tj.Tensor:
    seen = []
    for _ in range(rounds):
        x = x * 0.5 + v
        seen.append(x)
    return tj.stack(seen)


def in_one_line(x: tj.Tensor, v: tj.Tensor, rounds: int) -> tj.Tensor:
    for _ in range(rounds): x = x * 0.5 + v  # noqa: E701  # fmt: skip
    return x


def items_of(f: Any) -> list[type]:
    """The kinds of loops in the programs of a compiled function."""
    items = [i for entry in f._all() for p in entry.programs() for i in p.plan.items]
    return [type(i) for i in items if isinstance(i, (Loop, TiledLoop))]


def results(f: Callable[..., Any], *arguments: Any) -> list[tj.Tensor]:
    found = f(*arguments)
    return [found] if isinstance(found, tj.Tensor) else list(found)


def inputs(size: int, dtype: tj.dtype) -> tuple[tj.Tensor, tj.Tensor]:
    return tj.linspace(-2, 2, size).to(dtype), tj.linspace(1, -3, size).to(dtype)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [tj.float32, tj.float64, tj.bfloat16], ids=str)
@pytest.mark.parametrize("function", [pendulum, swapped, pushed, in_one_line])
def test_the_bits_are_those_of_round_by_round(
    function: Callable[..., Any], dtype: tj.dtype, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, v = inputs(size, dtype)
    found = []
    for tiled in (True, False):
        if not tiled:
            monkeypatch.setattr(plan_loops, "goes_by_elements", lambda *_: False)
        f = tj.compile(function, strict=True)
        runs = [results(f, x, v, 25) for _ in range(3)]
        if size:
            assert items_of(f) == [TiledLoop if tiled else Loop]
        assert all(tj.equal(a, b) for a, b in zip(runs[1], runs[2], strict=True))
        found.append(runs[2])
    assert all(tj.equal(a, b) for a, b in zip(*found, strict=True))
    assert all(
        tj.allclose(a, b, 1e-2 if dtype is tj.bfloat16 else 1e-5, equal_nan=True)
        for a, b in zip(found[0], results(function, x, v, 25), strict=True)
    )


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_any_number_of_threads(threads: int) -> None:
    x, v = inputs(50_000, tj.float32)
    f, before = tj.compile(pendulum, strict=True), tj.get_num_threads()
    try:
        tj.set_num_threads(threads)
        found = [f(x, v, 40) for _ in range(3)][-1]
    finally:
        tj.set_num_threads(before)
    assert items_of(f) == [TiledLoop]
    for a, b in zip(found, pendulum(x, v, 40), strict=True):
        assert tj.allclose(a, b)


def test_special_values_stay_where_they_are() -> None:
    x, v = inputs(3000, tj.float32)
    for place, value in ((0, "nan"), (17, "inf"), (1500, "-inf"), (2999, "nan")):
        x[place] = float(value)
    f = tj.compile(swapped, strict=True)
    found, expected = [f(x, v, 9) for _ in range(3)][-1], swapped(x, v, 9)
    for a, b in zip(found, expected, strict=True):
        assert tj.allclose(a, b, equal_nan=True)
    assert 0 < sum(int(b.isnan().sum()) for b in expected) < 9


@pytest.mark.parametrize("rounds", [12, 13, 30])
def test_what_is_collected_and_gradients(rounds: int) -> None:
    x, v = (t.requires_grad_() for t in inputs(2000, tj.float64))
    f = tj.compile(collecting, strict=True)
    for _ in range(3):
        x.grad = v.grad = None
        found = f(x, v, rounds)
        (found * found).sum().backward()
        gradients = x.grad, v.grad
    assert TiledLoop in items_of(f)
    x.grad = v.grad = None
    expected = collecting(x, v, rounds)
    (expected * expected).sum().backward()
    assert tj.allclose(found, expected)
    assert tj.allclose(gradients[0], x.grad)
    assert tj.allclose(gradients[1], v.grad)


def turned(x: tj.Tensor, v: tj.Tensor, rounds: int) -> tj.Tensor:
    for _ in range(rounds):
        x = x.flip(0) * 0.5 + v
    return x


def shifted(x: tj.Tensor, v: tj.Tensor, rounds: int) -> tj.Tensor:
    for _ in range(rounds):
        x = tj.cat([x[1:], x[:1]]) * 0.5 + v
    return x


def centred(x: tj.Tensor, v: tj.Tensor, rounds: int) -> tj.Tensor:
    for _ in range(rounds):
        x = (x - x.mean()) * 0.5 + v
    return x


def spread(x: tj.Tensor, v: tj.Tensor, rounds: int) -> tj.Tensor:
    for _ in range(rounds):
        x = x[0] * 0.25 + x * 0.5 + v
    return x


def crossed(x: tj.Tensor, v: tj.Tensor, rounds: int) -> tj.Tensor:
    x, v = x.reshape(50, -1), v.reshape(50, -1)
    for _ in range(rounds):
        x = x.T * 0.5 + v
    return x


def leaning(x: tj.Tensor, v: tj.Tensor, rounds: int) -> tuple[tj.Tensor, tj.Tensor]:
    for _ in range(rounds):
        x = x * 0.5 + 1.0
        v = v * 0.5 + x.flip(0)  # of this round's x
    return x, v


@pytest.mark.parametrize("function", [turned, shifted, centred, spread, crossed, leaning])
def test_elements_that_meet_are_done_round_by_round(function: Callable[..., Any]) -> None:
    x, v = inputs(2500, tj.float64)
    f = tj.compile(function, strict=True)
    found = [results(f, x, v, 20) for _ in range(3)][-1]
    assert TiledLoop not in items_of(f)
    for a, b in zip(found, results(function, x, v, 20), strict=True):
        assert tj.allclose(a, b)


def scaled(x: tj.Tensor, v: tj.Tensor, rounds: int) -> tj.Tensor:
    rates = v[:1], v[1]
    for _ in range(rounds):
        x = x * rates[0] + rates[1]
    return x


def test_other_elements_of_what_stays_may_be_read() -> None:
    x, v = inputs(2500, tj.float64)
    f = tj.compile(scaled, strict=True)
    found = [f(x, v * 0.1, 20) for _ in range(3)][-1]
    assert tj.allclose(found, scaled(x, v * 0.1, 20))
    assert len(items_of(f)) == 1


def test_one_launch_and_one_thread_for_few_elements() -> None:
    x, v = inputs(2000, tj.float32)
    f = tj.compile(pendulum, strict=True)
    for _ in range(3):
        f(x, v, 50)
    (program,) = [p for entry in f._all() for p in entry.programs()]
    (loop,) = [i for i in program.plan.items if isinstance(i, TiledLoop)]
    assert program.bound([loop.rounds, loop.grain])[0] == 50
    assert tiled_loops.LEAST <= program.bound([loop.grain])[0] <= 1024
    assert program.plan.launches == 5
    with tj.profile() as profile:
        f(x, v, 50)
    assert "loop(k_" in str(profile)
