"""Numbers read from tensors only to be compared: the outcome is the guard, and loops that they end are loops."""

from __future__ import annotations

import math
import types

import numpy as np
import pytest
from test_while_loops import STARTS, loops, same

import tracejit as tj

LIMIT = 1.0


def while_greater(x):
    while x.max().item() > 1:
        x = x / 2
    return x


def of_a_local(x, limit=1.5):
    rounds = 0
    while x.max().item() > limit and rounds < 40:
        x = x / 2
        rounds += 1
    return x


def of_a_global(x):
    for _ in range(50):
        if x.max().item() <= LIMIT:
            break
        x = x / 2
    return x * 3


def settled(x):
    before = x + 1
    while True:
        change = (x - before).abs().max()
        before, x = x, x * 0.5
        if change.item() < 1e-3:
            return before


@pytest.mark.parametrize("f", [while_greater, of_a_local, of_a_global, settled])
def test_loops(f):
    compiled = tj.compile(f)
    same(compiled, f, STARTS)
    assert loops(compiled) > 0, compiled.explain()
    assert compiled.stats.recordings <= 5, compiled.explain()


def test_gradients():
    compiled = tj.compile(of_a_local)
    for (start,) in STARTS:
        x, y = (start.detach().requires_grad_() for _ in range(2))
        of_a_local(x).sum().backward()
        compiled(y).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), y.grad.numpy())
    assert loops(compiled) > 0


DTYPES = [tj.float32, tj.float64, tj.bfloat16, tj.float16, tj.int64, tj.int8, tj.uint8]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("limit", [2, 0.1, 1 << 60, -3, float("inf"), float("nan")])
def test_outcomes_are_those_of_python(dtype, limit):
    def f(x, y):
        found = []
        for t in (x, y):
            number = t.sum()
            found.append(1 if number.item() < limit else 0)
            found.append(1 if number.item() >= limit else 0)
            found.append(2 if number.item() == limit else 0)
            found.append(number.item() != limit)
            found.append(number.item() > limit)
        return x + 1, tuple(found)

    compiled = tj.compile(f)
    values = [0, 1, 2, 3] + ([0.1, math.nan, -0.0] if dtype.is_floating_point else [])
    for _ in range(2):
        for value in values:
            x, y = tj.tensor(value).to(dtype), tj.tensor([value]).to(dtype) * 0
            assert compiled(x, y)[1] == f(x, y)[1]


def test_numbers_that_are_used_again_stay_numbers():
    def f(x):
        if (number := x.sum().item()) > 2:
            return x * number
        return x + x.max().item() * (x.min().item() > 0)

    compiled = tj.compile(f)
    for start in (1.0, 3.0, -2.0, 5.5, 0.25, 1.0, 4.0):
        x = tj.tensor([start, 0.5])
        np.testing.assert_array_equal(compiled(x).numpy(), f(x).numpy())


def test_chained_comparisons():
    def f(x):
        return x * 2 if 0 < x.sum().item() < 4 < x.max().item() + 5 else x - 1

    compiled = tj.compile(f)
    for start in (1.0, 3.0, -2.0, 5.5, 0.25, float("nan"), 4.0):
        x = tj.tensor([start, 0.5])
        np.testing.assert_array_equal(compiled(x).numpy(), f(x).numpy())


def test_an_item_of_another_class():
    class Doubled:
        def __init__(self, x):
            self.x = x

        def item(self):
            return 2 * self.x.item()

    def f(x):
        return x + 1 if Doubled(x.sum()).item() > 2 else x - 1

    compiled = tj.compile(f)
    for start in (0.5, 0.9, 1.1, 3.0, 0.5, 2.0):
        x = tj.tensor([start])
        np.testing.assert_array_equal(compiled(x).numpy(), f(x).numpy())


def kept_for_the_test(x):
    error = 10.0
    while error > 1:
        x = x / 2
        error = x.max().item()
    return x


def kept_beside_a_counter(x, tolerance=1e-3):
    for _ in range(200):
        y = x * 0.5
        change = (y - x).abs().max().item()
        x = y
        if change < tolerance:
            break
    return x


def compared_twice(x):
    error = math.inf
    while error > 1:
        x = x / 2
        error = x.max().item()
    return x if error > 1 else x + 1


def made_a_float(x):
    error = 10.0
    while error > 1 and float(x.sum()) > 0.75:
        x = x / 2
        error = float(x[0] + (x[1] if True else x[2]))
    return x


def float_compared(x):
    while float(x.max()) > 1:
        x = x / 2
    return x


def written_in_place(x):
    x, count, size = x.clone(), tj.zeros(1), 10.0
    while size >= 0.5:
        x *= 0.5
        count[0] += 1
        size = x.norm().item()
    return x, count


@pytest.mark.parametrize(
    "f",
    [kept_for_the_test, kept_beside_a_counter, compared_twice, written_in_place, float_compared],
)
def test_loops_of_kept_numbers(f):
    compiled = tj.compile(f)
    same(compiled, f, STARTS)
    assert loops(compiled) > 0, compiled.explain()
    assert compiled.stats.recordings <= 5, compiled.explain()


def returned_too(x):
    error = 10.0
    while error > 1:
        x = x / 2
        error = x.max().item()
    return x, error


def returned_alone(x):
    error = x.max().item()
    return error  # noqa: RET504  (nothing comes after what is named)


def compared_with_two(x):
    size = x.max().item()
    if size > 3:
        x = x + 1
    return x * 2 if size > 100 else x


def compared_with_what_changes(x):
    limit, error = 1.0, 10.0
    while error > limit:
        x = x / 2
        error = x.max().item()
        limit = limit * 1.5
    return x


def compared_with_the_best(x):
    best = math.inf
    for k in range(6):
        size = (x - 4.0 * k).abs().max().item()
        if size < best:
            best = size
    return x * best


def computed_with(x):
    error = x.max().item()
    share = error / 2
    return x + 1 if error > 2 else x * share


def seen_by_others(x):
    error = x.max().item()
    return x + 1 if error > 2 else x * len(locals())


def of_a_nested_function(x):
    error = x.max().item()

    def more():
        return error

    return x + 1 if error > 2 else x * more()


def in_a_handler(x):
    error = 0.0
    try:
        error = x.max().item()
        if error > 2:
            raise ValueError
    except ValueError:
        return x * error
    return x + 1


def deleted(x):
    error = x.max().item()
    found = error > 2
    del error
    return x + 1 if found else x


class Doubling:
    """Takes the place of ``float``."""

    def __new__(cls, x):
        return x.item() * 2


another_float = types.FunctionType(
    (lambda x: x + 1 if float(x.max()) > 5 else x).__code__,
    {"float": Doubling, "__name__": __name__},
    "another_float",
)


def half_of_a_float(x):
    return x + 1 if math.sqrt(x.abs().max()) > 2 else x - 1


def of_whole_numbers(x):
    k = x.nan_to_num(1.0).to(tj.int64).max()
    return x + 1 if float(k) > 2 else x - 1


def swapped(x):
    low, high = x.min().item(), x.max().item()
    return x + 1 if low > 0.05 else x - high


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "f",
    [
        returned_too,
        returned_alone,
        compared_with_two,
        compared_with_what_changes,
        compared_with_the_best,
        computed_with,
        seen_by_others,
        of_a_nested_function,
        in_a_handler,
        deleted,
        another_float,
        half_of_a_float,
        of_whole_numbers,
        made_a_float,
        swapped,
    ],
)
def test_kept_numbers_that_are_used_otherwise(f):
    compiled = tj.compile(f)
    for start in (3.0, 500.0, 1e-3, 40.0, 7.0, 2.5, 1.01, float("nan"), 3.0, 2.0) * 2:
        x = tj.tensor([start, 1.0, 0.1])
        for found, wanted in zip(_all(compiled(x)), _all(f(x)), strict=True):
            np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))


def _all(result):
    return result if isinstance(result, tuple) else (result,)
