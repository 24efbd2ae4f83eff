"""Backward passes that begin with a number eager code made of a compiled result: no walk where no tensor is read."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from test_leaf_passes import counted

import tracejit as tj
from compiled_tools import ready
from tracejit.trace.backward.leaf_pass import MOST_PASSES

Tail = Callable[[tj.Tensor], tj.Tensor]


def product(x, w):
    return x * w + w


def leaves(dtype: tj.dtype = tj.float32) -> tuple[tj.Tensor, tj.Tensor]:
    x = tj.tensor([[1.0, -2.0, 3.0], [0.5, 0.0, -1.0]], dtype=dtype, requires_grad=True)
    return x, tj.full((3,), 2.0, dtype=dtype, requires_grad=True)


def gradients(function: Any, tail: Tail, dtype: tj.dtype = tj.float32) -> list[Any]:
    x, w = leaves(dtype)
    tail(function(x, w)).backward()
    return [x.grad.tolist(), w.grad.tolist()]


TAILS: dict[str, Tail] = {
    "sum": lambda y: y.sum(),
    "mean": lambda y: y.mean(),
    "half of the sum": lambda y: 0.5 * y.sum(),
    "minus the mean": lambda y: -y.mean(),
    "rows first": lambda y: y.sum(1).sum(),
    "means of columns": lambda y: y.mean(0).mean(),
    "kept dimensions": lambda y: y.sum((0, 1), keepdim=True).view(()),
    "another shape": lambda y: y.reshape(-1).sum() + 1,
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", TAILS)
@pytest.mark.parametrize("dtype", [tj.float32, tj.float64, tj.bfloat16])
def test_steps_that_read_no_tensors(
    name: str, dtype: tj.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    tail, f = TAILS[name], ready(product, *leaves(dtype))
    expected = gradients(product, tail, dtype)
    assert gradients(f, tail, dtype) == expected
    walks = counted(monkeypatch)
    assert gradients(f, tail, dtype) == expected
    x, w = leaves(dtype)
    found = tj.autograd.grad(tail(f(x, w)), [x, w])
    assert [g.tolist() for g in found] == expected
    assert len(walks) == (2 if name == "kept dimensions" else 0)  # a view is walked


def test_steps_that_read_tensors_are_walked() -> None:
    f = ready(product, *leaves())
    tails: list[Tail] = [
        lambda y: (y * y).sum(),
        lambda y: y.sum() * y.sum(),
        lambda y: y.sum() + y.mean(),
        lambda y: y.sum().exp(),
        lambda y: (y * 2).sum(),  # as many numbers as the result has
        lambda y: y[0].sum(),
    ]
    for tail in tails:
        expected = gradients(product, tail)
        for _ in range(3):
            assert gradients(f, tail) == expected


def test_numbers_are_told_apart() -> None:
    f = ready(product, *leaves())
    for _ in range(2):
        for scale in (2.0, 3, True, 0.0, -0.0, math.inf, 0.5, 3.0):
            x, w = leaves()
            (f(x, w).sum() * scale).backward()
            assert [math.copysign(1, g) for g in x.grad.flatten().tolist()] == [
                math.copysign(1, scale)
            ] * 6
            assert x.grad.flatten().tolist() == [2.0 * scale] * 6
        x, w = leaves()
        (f(x, w).sum() * math.nan).backward()
        assert all(map(math.isnan, x.grad.flatten().tolist()))


def test_many_numbers_are_not_all_kept() -> None:
    f = ready(product, *leaves())
    for i in range(1, 3 * MOST_PASSES):
        x, w = leaves()
        y = f(x, w)
        (y.sum() * i).backward()
        assert x.grad.flatten().tolist() == [2.0 * i] * 6
        site = y.grad_fn.site
        assert len(site.passes) <= MOST_PASSES
        assert len(site.handed) <= MOST_PASSES


@pytest.mark.parametrize("where", ["step", "result", "tensor", "kept", "leaf"])
def test_hooks_run(where: str) -> None:
    for function in (product, ready(product, *leaves())):
        for _ in range(3):
            x, w = leaves()
            seen: list[Any] = []
            y = function(x, w)
            total = y.sum()
            if where == "step":
                total.grad_fn.register_hook(lambda *_, seen=seen: seen.append(1))
            elif where == "result":
                y.register_hook(lambda g, seen=seen: seen.append(g.tolist()))
            elif where == "tensor":
                total.register_hook(lambda g, seen=seen: seen.append(1))
            elif where == "kept":
                y.retain_grad()
            else:
                x.register_hook(lambda g, seen=seen: seen.append(g.tolist()))
            total.backward()
            assert x.grad.tolist() == [[2.0] * 3] * 2
            assert (y.grad.tolist() == [[1.0] * 3] * 2) if where == "kept" else len(seen) == 1


@pytest.mark.parametrize("name", ["sum", "mean"])
def test_second_passes_as_in_eager(name: str) -> None:
    """A product with a number keeps it; a sum of sums keeps nothing, and may run as often as one likes."""

    def outcome(total: tj.Tensor, again: Callable[[], Any]) -> str:
        total.backward()
        try:
            again()
        except RuntimeError as error:
            return str(error)
        return ""

    def tried(function: Any) -> list[str]:
        x, w = leaves()
        first, second = (TAILS[name](function(x, w)) for _ in range(2))
        return [
            outcome(first, first.backward),
            outcome(second, lambda: tj.autograd.grad(second, x)),
        ]

    f = ready(product, *leaves())
    gradients(f, TAILS[name])
    assert tried(f) == tried(product)


def test_tensors_changed_in_between_are_refused() -> None:
    f = ready(product, *leaves())
    gradients(f, TAILS["sum"])
    x, w = leaves()
    total = f(x, w).sum()
    with tj.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match="inplace"):
        total.backward()
    assert x.grad is None


def test_inside_a_compiled_function() -> None:
    f = ready(product, *leaves())
    gradients(f, TAILS["mean"])

    def step(x, w):
        x.grad = w.grad = None
        f(x, w).mean().backward()
        return x.grad * 2

    expected = [[4.0 / 6] * 3] * 2
    compiled = tj.compile(step)
    for _ in range(3):
        assert tj.allclose(compiled(*leaves()), tj.tensor(expected))


def test_anomalies_are_looked_for() -> None:
    f = ready(product, *leaves())
    x, w = leaves()
    for _ in range(2):
        f(x, w).sum().backward()
    bad = (w * math.nan).detach().requires_grad_()

    def run() -> None:
        with pytest.raises(RuntimeError, match="nan"):
            f(x, bad).sum().backward()

    with tj.autograd.detect_anomaly(), pytest.warns(UserWarning, match="bad"):
        run()
