"""NumPy's numbers, and its functions of numbers, in compiled functions: they vary as Python's do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn, optim
from tracejit.numpy_numbers import FUNCTIONS, PREDICATES
from tracejit.varying import OPERATIONS


class Count:
    """State of a program that moves on at every call."""

    def __init__(self) -> None:
        self.n = 0
        self.scale = np.float64(0.5)


def counted(f: Callable[[Any, Count], Any]) -> Callable[[Any], Any]:
    count = Count()

    def step(x: Any) -> Any:
        count.n += 1
        return f(x, count)

    return step


def moved(x: Any, count: Count) -> Any:
    count.scale *= 0.9
    return x * count.scale


def compared(x: Any, count: Count) -> Any:
    return x * count.scale if count.n * count.scale < np.float64(100) else x


def asked(x: Any, count: Count) -> Any:
    value = (x.sum() * count.n).item()
    return x * np.sqrt(value) if np.isfinite(value) and not np.isnan(value) else None


PROGRAMS: dict[str, Callable[[Any, Count], Any]] = {
    "a function": lambda x, c: x * np.cos(np.pi * c.n / 30),
    "two operands": lambda x, c: x * np.minimum(1.0, c.n / 5),
    "of an int": lambda x, c: x + np.log1p(c.n),
    "a returned number": lambda x, c: np.exp(-c.n / 7),
    "on the right": lambda x, c: x * (np.float64(2) * c.n),
    "rounded": lambda x, c: x * int(np.ceil(np.log(c.n + 1) * 0.01)),
    "a float again": lambda x, c: x * math.sin(float(c.scale * c.n)),
    "a power": lambda x, c: x * c.scale**c.n,
    "state": moved,
    "a comparison": compared,
    "a question": asked,
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_of_numpy_that_vary(name: str) -> None:
    x = tj.tensor([1.0, 2.0])
    eager, compiled = counted(PROGRAMS[name]), tj.compile(counted(PROGRAMS[name]))
    for _ in range(7):
        expected, found = eager(x), compiled(x)
        assert type(found) is type(expected)
        if isinstance(found, tj.Tensor):
            assert found.dtype is tj.float32
            tj.testing.assert_close(found, expected)
        else:
            assert found == expected
    assert compiled.stats.compiled_calls >= 4


@pytest.mark.parametrize("kind", [float, np.float64])
def test_arguments(kind: Any) -> None:
    f = tj.compile(lambda x, rate: (x * rate, rate / 2))
    for i in range(6):
        scaled, half = f(tj.ones(2), kind(i))
        assert scaled.tolist() == [i, i]
        assert type(half) is kind
        assert half == i / 2
    assert f.stats.compiled_calls == 4


def test_a_rate_that_a_step_computes_with_numpy() -> None:
    def trained(compiled: bool) -> tuple[list[float], Any]:
        tj.manual_seed(0)
        model, count = nn.Linear(3, 2), Count()
        optimizer = optim.AdamW(model.parameters(), lr=1e-2)

        def step(x: Any) -> Any:
            rate = 0.5 * (1 + np.cos(np.pi * count.n / 30)) * 1e-2
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            optimizer.step()
            count.n += 1
            return loss.detach(), rate

        f = tj.compile(step) if compiled else step
        found = [f(tj.ones(2, 3)) for _ in range(8)]
        assert all(type(rate) is np.float64 for _, rate in found)
        return [x for loss, rate in found for x in (loss.item(), float(rate))], f

    expected, _ = trained(False)
    found, f = trained(True)
    assert found == pytest.approx(expected, rel=1e-5)
    assert f.stats.compiled_calls >= 5


def test_whole_numbers_stay_what_they_are_to_numpy() -> None:
    f = tj.compile(lambda x, n: (x + n, np.maximum(n, 2)))
    for n in range(5):
        _, found = f(tj.ones(2), n)
        assert type(found) is np.int64
        assert found == max(n, 2)


def test_other_uses_see_the_values() -> None:
    f = tj.compile(lambda x, a: (x * a, np.add(a, [1.0, 2.0]), np.multiply.outer(a, a)))
    for a in (0.5, 1.5, 2.5, 3.5):
        _, added, outer = f(tj.ones(1), a)
        assert added.tolist() == [a + 1, a + 2]
        assert outer == a * a


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions_are_those_of_numpy(name: str) -> None:
    function = FUNCTIONS[name]
    given = (1.0, 0.25)[: function.nin]
    assert OPERATIONS[name] is function is getattr(np, name.removeprefix("np."))
    with np.errstate(divide="ignore"):
        assert type(function(*given)) is (np.bool_ if name in PREDICATES else np.float64)
