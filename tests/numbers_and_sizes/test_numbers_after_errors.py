"""Numbers that vary, left in what other code sees: plain ones after the recorded run, which may end in an error."""

from __future__ import annotations

from collections import deque
from contextvars import ContextVar
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
