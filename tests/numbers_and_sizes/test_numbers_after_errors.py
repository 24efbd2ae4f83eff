"""Numbers that vary, left in what other code sees: plain ones after the recorded run, which may end in an error."""

from __future__ import annotations

import fractions
import math
import statistics
import struct
import time
from collections import deque
from contextvars import ContextVar
from statistics import mean
from types import SimpleNamespace

import pytest

import tracejit as tj


def test_numbers_left_before_an_error_are_plain() -> None:
    rows, table, met, queue, space = [], {}, set(), deque(), SimpleNamespace()

    @tj.compile
    def step(x, i):
        rows.append(i)
        table[i] = (i, [i + 1])
        met.add(i)
        queue.append({"n": i})
        space.n = i
        if x[0] > 0:
            raise ValueError(i)
        return x * i

    for i in range(6):
        if i in (2, 3, 5):
            with pytest.raises(ValueError, match=str(i)) as found:
                step(tj.ones(2), i)
            assert type(found.value.args[0]) is int
        else:
            assert tj.equal(step(-tj.ones(2), i), tj.full((2,), -float(i)))
        kept = [*rows, *table, *met, space.n, *(q["n"] for q in queue)]
        kept += [n for first, rest in table.values() for n in (first, *rest)]
        assert {*map(type, kept)} == {int}
    assert rows == list(range(6))


def test_numbers_in_slices_and_context_variables_are_plain() -> None:
    now, pair = ContextVar("now"), ContextVar("pair")
    space = SimpleNamespace()

    @tj.compile
    def step(x, i):
        now.set(i)
        pair.set((i, [i]))
        space.part = slice(i, None, i + 1)
        space.parts = (slice(i), {"part": slice(None, i)})
        return x[: i + 1] * i

    for i in range(5):
        assert tj.equal(step(tj.ones(9), i), tj.full((i + 1,), float(i)))
        first, (second,) = pair.get()
        whole, rest = space.parts
        found = (now.get(), first, second, space.part.start, space.part.step, whole.stop)
        assert found == (i, i, i, i, i + 1, i)
        assert {*map(type, (*found, rest["part"].stop))} == {int}


class Steps:
    """What a function changes before it fails."""

    def __init__(self) -> None:
        self.count, self.rows, self.last = 0, [], None
        self.source = iter(range(100))


def _added(steps, rows, i):
    steps.rows.append(i)


def _counted(steps, rows, i):
    steps.count += 1


def _kept(steps, rows, i):
    steps.last = i, steps.last


def _taken(steps, rows, i):
    next(steps.source)


def _given(steps, rows, i):
    rows.append(i)


@pytest.mark.parametrize("change", [_added, _counted, _kept, _taken, _given])
@pytest.mark.parametrize("fail", [lambda i: len(i), lambda i: _raise(i)], ids=["in C", "by raise"])
def test_what_a_run_did_before_a_type_error_is_done_once(change, fail) -> None:
    def step(x, i, steps, rows):
        change(steps, rows, i)
        return x * i, fail(i)

    compiled, a, b = tj.compile(step), Steps(), Steps()
    for i in (2, 3, 4, 5, 3):
        lists, errors = ([], []), []
        for function, steps, rows in ((step, a, lists[0]), (compiled, b, lists[1])):
            with pytest.raises(TypeError) as found:
                function(tj.ones(2), i, steps, rows)
            errors.append(str(found.value))
        assert errors[0] == errors[1]
        assert lists[0] == lists[1]
        assert (a.count, a.rows, a.last) == (b.count, b.rows, b.last)
        assert a.source.__length_hint__() == b.source.__length_hint__()


def _raise(i):
    raise TypeError(f"not {i}")


@pytest.mark.parametrize(
    "fail",
    [
        lambda n: n[0],
        lambda n: n + "a",
        lambda n: "a" + n,
        lambda n: n @ n,
        lambda n: range(n + 0.5),
        lambda n: n % (n - n),
        lambda n: divmod(n, n - n),
        lambda n: setattr(n, "name", 1),
    ],
)
def test_errors_name_the_classes_of_plain_numbers(fail) -> None:
    def caught(x, n):
        try:
            return fail(n)
        except (TypeError, AttributeError, ZeroDivisionError) as error:
            return x * n, str(error)

    by_number, by_size = tj.compile(caught), tj.compile(lambda x: caught(x, x.shape[0]))
    for n in (2, 3, 4, 5, 6):
        x = tj.ones(n)
        assert by_number(x, n)[1] == by_size(x)[1] == caught(x, n)[1]
    for n in (2.5, 3.5, 4.5):
        assert by_number(x, n)[1] == caught(x, n)[1]


def test_clocks_get_true_numbers() -> None:
    @tj.compile
    def step(x, pause):
        time.sleep(pause)
        return x * pause

    for pause in (0.001, 0.002, 0.003):
        assert tj.equal(step(tj.ones(2), pause), tj.full((2,), pause))


def _exponent(n):
    return math.ldexp(1.0, n)


def _mean(n):
    return statistics.mean([n, 1, 2]), mean([n, 5])


def _seconds(n):
    return fractions.Fraction(n), struct.pack("i", n)


@pytest.mark.parametrize("use", [_exponent, _mean, _seconds])
def test_code_that_takes_nothing_but_true_numbers_gets_them_after_effects(use) -> None:
    def step(x, n, steps, total):
        _counted(steps, None, n)
        _kept(steps, None, n)
        total.add_(1)
        return x * n, use(n)

    compiled, a, b = tj.compile(step), Steps(), Steps()
    totals = tj.zeros(2), tj.zeros(2)
    for n in (1, 2, 3, 4, 2):
        expected = step(tj.ones(2), n, a, totals[0])[1]
        assert compiled(tj.ones(2), n, b, totals[1])[1] == expected
        assert (a.count, a.last) == (b.count, b.last)
    assert tj.equal(*totals)


@pytest.mark.parametrize("use", ["float.hex(k)", "float.is_integer(k)", "float.__add__(k, 1.0)"])
def test_methods_that_are_taken_from_classes_get_true_numbers(use: str) -> None:
    state = tj.zeros(2)
    space: dict[str, object] = {"state": state}
    exec(f"def f(x, k):\n    state.add_(x * k)\n    return {use}\n", space)
    f, plain = tj.compile(space["f"]), space["f"]
    for k in range(6):
        number = k * 0.5
        before = state.clone()
        found = f(tj.ones(2), number)
        assert (state - before).tolist() == [number, number]
        assert found == plain(tj.ones(2), number)  # type: ignore[operator]
