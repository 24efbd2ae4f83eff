"""Numbers in what a function puts into its state anew: ``self.state = State(self.state.step + 1, ...)``."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

import tracejit as tj
from trap_tools import Stage, check

Named = namedtuple("Named", "count rate total")


@dataclass(frozen=True)
class Frozen:
    count: int
    rate: float
    total: Any


@dataclass(slots=True)
class Slotted:
    count: int
    rate: float
    total: Any


class Plain:
    def __init__(self, count: int, rate: float, total: Any) -> None:
        self.count, self.rate, self.total = count, rate, total


def as_list(*parts: Any) -> Any:
    return [*parts]


def as_tuple(*parts: Any) -> Any:
    return parts


def as_dict(*parts: Any) -> Any:
    return {"inner": (parts[:1], [parts[1]]), "total": parts[2]}


def parts_of(value: Any) -> Any:
    if isinstance(value, dict):
        return value["inner"][0][0], value["inner"][1][0], value["total"]
    return value if isinstance(value, (tuple, list)) else (value.count, value.rate, value.total)


class Holder:
    state: Any


MAKERS = [as_list, as_tuple, as_dict, Named, Frozen, Slotted, Plain]


@pytest.mark.parametrize("make", MAKERS)
def test_counters_and_rates(make: Callable[..., Any]) -> None:
    """The program replaces the state now and then, and keeps what was there."""

    def scenario(stage: Stage) -> None:
        holder, kept = Holder(), []
        holder.state = make(0, 1.0, tj.zeros(2))

        def step(x: Any) -> Any:
            count, rate, total = parts_of(holder.state)
            holder.state = make(count + 1, rate * 0.5, total + x * count)
            return total * rate + count

        compiled = stage.compile(step)
        for i in range(16):
            kept.append(holder.state)
            stage.call(compiled, tj.ones(2) * i)
            stage.note("state", parts_of(holder.state))
            stage.note("types", [type(x).__name__ for x in parts_of(holder.state)])
            if i == 9:
                holder.state = make(-3, 0.25, tj.ones(2))
        stage.note("kept", [parts_of(x)[:2] for x in kept])

    compiled = check(scenario)
    assert compiled.stats.recordings <= 4
    assert compiled.stats.compiled_calls >= 12


def test_beside_numbers_among_the_arguments() -> None:
    def scenario(stage: Stage) -> None:
        holder = Holder()
        holder.state = (0, 0.5)

        def step(x: Any, k: int, options: Any, rate: float = 0.5) -> Any:
            count, total = holder.state
            holder.state = (count + k, total + rate * options[0])
            return x * count + total * k - rate + options[1]

        compiled = stage.compile(step)
        for i in range(14):
            stage.call(compiled, tj.ones(2), 3 * i, [i, -i], rate=0.1 * i)
            stage.note("state", holder.state)

    assert check(scenario).stats.compiled_calls >= 8


def test_positions_in_a_buffer() -> None:
    def scenario(stage: Stage) -> None:
        holder = Holder()
        holder.state = (0, tj.zeros(20))

        def step(x: Any) -> Any:
            at, buffer = holder.state
            buffer = buffer.clone()
            buffer[at] = x
            holder.state = (at + 1, buffer)
            return buffer[: at + 1].sum()

        compiled = stage.compile(step)
        for i in range(16):
            stage.call(compiled, tj.ones(()) * i)
            stage.note("state", holder.state)

    assert check(scenario).stats.compiled_calls >= 10


def test_numbers_that_decide() -> None:
    """Each way is recorded once."""

    def scenario(stage: Stage) -> None:
        holder = Holder()
        holder.state = (0, 1.0)

        def step(x: Any) -> Any:
            count, rate = holder.state
            for _ in range(count % 5):
                x = x * rate
            holder.state = (count + 1, rate * 0.9 if count % 3 == 2 else rate)
            return x

        compiled = stage.compile(step)
        for _ in range(30):
            stage.call(compiled, tj.ones(2))
            stage.note("state", holder.state)

    assert check(scenario).stats.compiled_calls >= 10


def test_what_is_one() -> None:
    """Two places hold one list, and an argument is what lies in a place."""

    def scenario(stage: Stage) -> None:
        first, second = Holder(), Holder()
        first.state = second.state = [0, 5]

        def step(x: Any, given: Any) -> Any:
            n = first.state[0] + second.state[0]
            first.state = [n + 1, given[0]]
            second.state = first.state if n < 40 else [n, 1]
            return x * n + given[1]

        compiled = stage.compile(step)
        for i in range(24):
            stage.call(compiled, tj.ones(2), first.state if i % 3 else [i, 2 * i])
            stage.note("state", (first.state, second.state, first.state is second.state))

    check(scenario, reason="it changes Python state")


def test_errors_leave_true_numbers() -> None:
    def scenario(stage: Stage) -> None:
        holder = Holder()
        holder.state = Frozen(0, 0.5, [1, 2])

        def step(x: Any) -> Any:
            old = holder.state
            holder.state = replace(old, count=old.count + 1, total=[old.total[0] + 1, old.count])
            if x.sum() > 5:
                raise ValueError(f"at {old.count}")
            return x * old.count

        compiled = stage.compile(step)
        for i in range(16):
            stage.call(compiled, tj.ones(2) * (i % 4))
            stage.note("state", parts_of(holder.state))
            stage.note("types", [type(x).__name__ for x in holder.state.total])

    check(scenario)


def test_passes_backward() -> None:
    def scenario(stage: Stage) -> None:
        holder, weight = Holder(), tj.ones(2, requires_grad=True)
        holder.state = (1, tj.ones(2))

        def step(x: Any) -> Any:
            count, hidden = holder.state
            hidden = (hidden * weight + x).tanh() / count
            holder.state = (count + 1, hidden.detach())
            return hidden.sum()

        compiled = stage.compile(step)
        for _ in range(10):
            stage.call(compiled, tj.ones(2), wrt=[weight])
            stage.note("state", holder.state)

    assert check(scenario).stats.compiled_calls >= 6
