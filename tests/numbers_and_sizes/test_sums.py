"""Sums of numbers that vary: ``sum`` rounds as that of the running Python does, and not as additions in a row."""

from __future__ import annotations

import collections
import functools
import math
import random
from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj
from tracejit.trace.numbers import sums
from trap_tools import user_module

add_up = sum


WAYS = [sum, lambda *values: sum(values)]
PART = functools.partial(sum, [0.1, 1e17, -1e17])


class Kept:
    total = sum


def applied(function: Any, x: Any, values: Any) -> Any:
    return x * function(values)


def halves(x: Any, n: int) -> Any:
    for i in range(n):
        yield x[i].item() * 0.1


def listed(x, a, b):
    return x * sum([a, b, 1.0, -b])


def with_start(x, a, b):
    return x * sum((b, 0.1, a, -b), start=a) + sum([0.1] * 3, a)


def of_items(x, a, b):
    return x * sum([v.item() for v in x]) * a + sum(v.item() for v in x * b)


def of_a_generator(x, a, b):
    return x * a + sum(halves(x * b, 5))


def of_ints_and_floats(x, a, b):
    n = int(b * 10)
    return x * sum([n, True, a, n, b, 2**40, -a, 0.1])


def of_tensors_between(x, a, b):
    return sum([a, b, x, a, 0.1, b]) + sum([x, a, b])


def under_another_name(x, a, b):
    return x * add_up([a, b, 1.0, -b])


def in_a_nested_function(x, a, b):
    def total(values):
        return sum(values) / len(values)

    return x * total([a, b, a, -b])


def handed_on(x, a, b):
    return x * max(map(sum, [[a, b, -b], [a, -b, b]]))


def as_a_default(x, a, b, total=sum):
    return x * total([a, b, -b, 0.3])


def in_a_list(x, a, b):
    return x * WAYS[0]([a, b, -b, 0.3]) + WAYS[1](a, b, -b)


def partly(x, a, b):
    return x * PART(start=a) + x * b


def as_an_attribute(x, a, b):
    return x * Kept.total([a, b, -b, 0.3])


def given_at_once(x, a, b):
    return applied(sum, x * b, [a, b, -b, 0.3])


def as_text(x, a, b):
    return x * a, f"{sum([a, b, -b]):.3f}", sum([a, b, 0.1, -b]) > 0.5


def sums_of_sizes(x, a, b):
    found = x[x > 0]
    return found * sum([len(found), a, 0.1, len(found) / 3, b, x.shape[0] * 0.7, -b])


def of_counters(x, a, b):
    return x * collections.Counter(first=a, second=b, third=1.0, fourth=-b).total()


def exactly(x, a, b):
    return x * math.fsum([a, b, 1.0, -b]) + math.fsum(v.item() for v in x)


def of_products(x, a, b):
    sumprod = getattr(math, "sumprod", lambda p, q: math.fsum(map(float.__mul__, p, q)))
    return x * sumprod([a, b, 0.1], [b, a, -b])


def of_products_with_sizes(x, a, b):
    if hasattr(math, "sumprod"):
        return x * math.sumprod((a, b, len(x)), (b, -a, 0.1))
    return x * math.fsum((a * b, -b * a, len(x)))


def fused(x, a, b):
    return x * math.fma(a, b, 0.1) if hasattr(math, "fma") else x * math.fsum([a * b, 0.1])


PROGRAMS = [
    *(listed, with_start, of_items, of_a_generator, of_ints_and_floats, of_tensors_between),
    *(under_another_name, in_a_nested_function, handed_on, as_a_default, as_text, sums_of_sizes),
    *(
        in_a_list,
        partly,
        as_an_attribute,
        given_at_once,
        of_counters,
        exactly,
        of_products,
        of_products_with_sizes,
        fused,
    ),
]


def _values(found: Any) -> list[Any]:
    if isinstance(found, tuple):
        return [x for part in found for x in _values(part)]
    return [found.dtype, found.tolist()] if isinstance(found, tj.Tensor) else [found]


def _given(seed: int) -> tuple[Any, float, float]:
    rng = random.Random(seed)
    x = tj.tensor([rng.uniform(-1.0, 1.0) for _ in range(5 + seed % 3)], dtype=tj.float64)
    return x, rng.random(), rng.choice([rng.random(), 1e17 * rng.random()])


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_sums_are_those_of_python(program: Callable[..., Any]) -> None:
    compiled = tj.compile(program)
    for seed in range(16):
        given = _given(seed)
        assert _values(compiled(*given)) == _values(program(*given))


FOLLOWED = [
    *(listed, with_start, of_ints_and_floats, of_tensors_between, in_a_nested_function),
    *(under_another_name, of_products_with_sizes, fused, of_counters),
]


@pytest.mark.parametrize("program", FOLLOWED, ids=lambda program: program.__name__)
def test_two_recordings_are_enough(program: Callable[..., Any]) -> None:
    compiled = tj.compile(program)
    for seed in range(0, 24, 3):
        compiled(*_given(seed))
    assert (compiled.stats.recordings, compiled.stats.compiled_calls) == (2, 6)


ONLY_CALLED = """
import tracejit as tj

def step(x, a):
    return x * sum([a, 1e17, 0.3, -1e17])
"""


def test_the_name_leads_to_the_builtin_again() -> None:
    module = user_module(ONLY_CALLED)
    compiled = tj.compile(module.step)
    for a in (0.5, 0.25, 2.0):
        assert compiled(tj.ones(2), a).tolist() == module.step(tj.ones(2), a).tolist()
        assert "sum" not in vars(module)


def test_counters_find_the_builtin_again() -> None:
    compiled = tj.compile(of_counters)
    for a in (0.5, 0.25, 2.0):
        assert compiled(tj.ones(2), a, 1.0).tolist() == of_counters(tj.ones(2), a, 1.0).tolist()
        assert "sum" not in vars(collections)


def test_what_stands_for_it_does_what_it_does() -> None:
    for given, named in (
        ((), {}),
        ((1,), {}),
        ((["a"],), {}),
        ((["a"], ""), {}),
        (([1], 2, 3), {}),
        (([1],), {"begin": 2}),
        (([[1], [2]], []), {}),
        (([1, 2.5, 1e17, -1e17],), {"start": True}),
        (([0.1] * 10,), {}),
        (([2**63, 0.1, 0.2, 0.3],), {}),
        (([float("inf"), 1.0, float("-inf")],), {}),
        (([0.1, 0.2, 0.3, 1j, 0.1, 0.2, 0.3],), {}),
    ):
        outcomes = []
        for function in (sum, sums.summed):
            try:
                outcomes.append(repr(function(*given, **named)))
            except TypeError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]
