"""Short lists of numbers that a compiled function reads from tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from trap_tools import Stage, check


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [tj.float32, tj.float64, tj.bfloat16])
@pytest.mark.parametrize("shape", [(3,), (2, 2), (1,), (0,), (2, 0), ()])
def test_lists_of_numbers(shape: tuple[int, ...], dtype: Any) -> None:
    """Read one by one: returned, computed with and compared."""

    def scenario(stage: Stage) -> None:
        def f(x: Any, y: Any) -> Any:
            values = (x * 2).tolist()
            flat = (x + 1).reshape(-1).tolist()
            total = sum(flat)
            return values, y * total, total / 3, max(flat, default=0.0) > 2

        compiled = stage.compile(f)
        rng = np.random.default_rng(3)
        for k in range(8):
            values = (
                rng.standard_normal(shape) if k < 6 else np.full(shape, (np.nan, -np.inf)[k - 6])
            )
            x = tj.tensor(values.tolist(), dtype=dtype).reshape(shape)
            stage.call(compiled, x, tj.ones(2, dtype=tj.float64))

    compiled = check(scenario)
    assert compiled.stats.compiled_calls >= (2 if np.prod(shape) else 6)


def test_lists_that_are_too_long() -> None:
    f = tj.compile(lambda x: x.tolist())
    for k in range(3):
        assert f(tj.full((40,), float(k))) == [float(k)] * 40
    assert f.stats.compiled_calls == 0
    assert "tolist()" in f.reasons[0]


def chosen(x, ints):
    return [x, x * 2, x * 3][ints.tolist()[0]] + 1


def looked_up(x, ints):
    rates = {0: 0.5, 1: 1.0, 2: 2.0}
    return sum(x * rates[k] for k in ints.tolist())


def counted(x, ints):
    for _ in range(ints.tolist()[0]):
        x = x * 1.1
    return x * len(set(ints.tolist()))


def followed_back(x, ints):
    best = ints.tolist()
    path = [best[-1]]
    for k in reversed(best):
        path.append(k if k != path[-1] else 0)
    return x * 2, tj.tensor(path), path


def below_zero(x, ints):
    values = (ints - 3).tolist()
    return x * values[0] if values[1] < -1 else x - values[1]


def in_rows(x, ints):
    rows = ints.reshape(1, -1).tolist()
    return x * rows[0][0] + len(rows)


def true_or_not(x, ints):
    some = (ints > 0).tolist()
    return (x * 2 if some[0] else x * 3), some


def sizes_too(x, ints):
    return [x[:n].sum() * [1.0, 2.0, 3.0][n] for n in ints.tolist()]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "function",
    [chosen, looked_up, counted, followed_back, below_zero, in_rows, true_or_not, sizes_too],
)
def test_lists_of_ints_that_are_no_sizes(function: Any) -> None:
    """Read one by one, once it is known that they are no sizes."""

    def scenario(stage: Stage) -> None:
        compiled = stage.compile(function)
        rng = np.random.default_rng(1)
        for _ in range(40):
            ints = tj.tensor(rng.integers(0, 3, 2).tolist())
            stage.call(compiled, tj.tensor(rng.standard_normal(4).tolist()), ints)

    compiled = check(scenario)
    assert compiled.stats.compiled_calls >= 20, compiled.explain()


def test_lists_of_bools_that_are_too_long() -> None:
    f = tj.compile(lambda x: (x > 0).tolist())
    for k in range(3):
        assert f(tj.full((9,), float(k))) == [k > 0] * 9
    assert f.stats.compiled_calls == 0


def counted(x, bins):
    """What is in each of the bins, where there is anything; as long as the list of counts is as it was asked for."""
    counts = tj.bincount(bins, minlength=3).tolist()
    y = tj.zeros_like(x)
    for i, count in enumerate(counts):
        if count == 0:
            continue
        (rows,) = tj.where(bins == i)
        y[rows] += x[rows] * (i + 1)
    return y


def test_lists_as_long_as_the_data_say() -> None:
    compiled = tj.compile(counted)
    rng = np.random.default_rng(5)
    for k in range(16):
        bins = tj.tensor(rng.permutation([0, 1, 2, 2, 1, 1 if k % 4 < 3 else 3]))
        x = tj.tensor(rng.standard_normal((6, 2)))
        np.testing.assert_array_equal(compiled(x, bins).numpy(), counted(x, bins).numpy())
    assert compiled.stats.compiled_calls >= 9, compiled.explain()
    assert all("tolist()" in reason for reason in compiled.reasons)
