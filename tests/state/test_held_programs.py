"""Random functions that keep tensors, numbers and containers in Python state: compiled calls do what eager ones do."""

from __future__ import annotations

import linecache
import random
from typing import Any

import pytest

import tracejit as tj
from held_helpers import same

PLACES = ("self.a", "self.b", "self.items[0]", "self.items[1]", "self.table['k']", "self.slot.v")


class Slot:
    """One attribute without a dict."""

    __slots__ = ("v",)


class State:
    """What the functions change."""

    def __init__(self) -> None:
        self.a, self.b = tj.zeros(3), tj.ones(3)
        self.items = [tj.zeros(3), tj.full((3,), 2.0)]
        self.table: dict[str, Any] = {"k": tj.ones(3), "n": None}
        self.slot = Slot()
        self.slot.v = tj.zeros(3)
        self.maybe = None
        self.pair = (tj.zeros(3), 1.0)
        self.outs: list[Any] = []
        self.pos, self.count = 0, 0
        self.rate = 0.5
        self.long = tj.arange(12.0)


class ModuleState(tj.nn.Module):
    """The same in a module, one of them in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        State.__init__(self)  # type: ignore[arg-type]
        del self.b
        self.register_buffer("b", tj.ones(3))


NAMES = ("a", "b", "items", "table", "maybe", "pair", "outs", "pos", "count", "rate", "long", "new")


def all_of(state: Any) -> dict[str, Any]:
    """Everything in a state."""
    return {"slot": state.slot.v} | {name: getattr(state, name, "none") for name in NAMES}


class Writer:
    """Writes the source of one function."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.lines = ["def step(self, x, n):"]

    def value(self) -> str:
        """An expression for a tensor of three elements."""
        first = self.choose.choice([*PLACES, "x", "y", "self.pair[0]"])
        second = self.choose.choice([*PLACES, "x", "y", "self.rate", "0.5"])
        return self.choose.choice(
            [
                f"({first} * 0.5 + {second})",
                f"({first} + {second}).tanh()",
                f"{first}.flip(0)",
                f"{first}",
                f"{first}.detach().clamp(-2, 2)",
                "self.long[self.pos : self.pos + 3] * 0.1",
            ]
        )

    def statement(self, depth: int) -> list[str]:
        """One statement, on one or more lines."""
        place = self.choose.choice(PLACES)
        simple = [
            f"{place} = {self.value()}",
            f"{place} = {self.value()}",
            f"y = y + {self.value()}",
            f"y = {self.value()}",
            "self.pos = (self.pos + 1) % 7",
            "self.count += 1",
            "self.rate = self.rate * 0.9",
            f"self.pair = ({self.value()}, self.rate)",
            f"self.maybe = {self.value()}",
            "self.maybe = None",
            "self.table['n'] = self.maybe",
            f"self.outs = [y, {self.value()}]",
            "self.outs = []",
            f"self.outs.append({self.value()})",
            f"{place}.mul_(0.5)",
            "self.a, self.b = self.b, self.a",
            "self.new = y * 2",
            "y = y * self.count",
        ]
        if depth or self.choose.random() < 0.75:
            return [self.choose.choice(simple)]
        condition = self.choose.choice(
            ["x.sum() > 0", "self.maybe is None", "n > 1", "y.sum() > 1", "self.pos > 3"]
        )
        body = [f"    {line}" for _ in range(2) for line in self.statement(1)]
        other = [f"    {line}" for line in self.statement(1)]
        return [f"if {condition}:", *body, "else:", *other]

    def source(self) -> str:
        """The whole function."""
        lines = ["y = x * 1.5", "self.outs = []"]
        for _ in range(self.choose.randint(2, 7)):
            lines += self.statement(0)
        lines.append(self.choose.choice(["return y", "return y, self.a", "return [y, self.outs]"]))
        return "\n".join([*self.lines, *(f"    {line}" for line in lines)]) + "\n"


def function_of(seed: int) -> Any:
    """The function that a seed stands for."""
    text, name = Writer(seed).source(), f"<held {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    found: dict[str, Any] = {}
    exec(compile(text, name, "exec"), found)
    return found["step"]


def outcome(call: Any, *arguments: Any) -> Any:
    """What a call returns or raises."""
    try:
        return call(*arguments)
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"


def gradient(x: Any, result: Any) -> Any:
    """What a backward pass from a result leaves in an argument."""
    y = result if isinstance(result, tj.Tensor) else result[0]
    if isinstance(y, tj.Tensor) and y.requires_grad:
        y.sum().backward()
    return x.grad


def run(seed: int, verify: bool = False) -> Any:
    """Run one function eagerly and compiled, with changes of the state between the calls."""
    function = function_of(seed)
    compiled = tj.compile(function_of(seed), verify=verify)
    draw = random.Random(seed)
    kind = ModuleState if seed % 2 else State
    states = kind(), kind()
    for step in range(14):
        values, number = [draw.uniform(-1, 1) for _ in range(3)], draw.choice([1, 1, 2])
        wanted = seed % 3 == 0
        given = [tj.tensor(values, requires_grad=wanted) for _ in range(2)]
        results = [
            outcome(call, state, x, number)
            for call, state, x in zip((function, compiled), states, given, strict=True)
        ]
        assert same(*given), step
        backward = [outcome(gradient, x, result) for x, result in zip(given, results, strict=True)]
        assert same(*backward), (step, backward)
        assert same(*results), (step, results)
        now = [all_of(state) for state in states]
        for name, value in now[0].items():
            assert same(value, now[1][name]), (step, name, value, now[1][name])
        for state in states if draw.random() < 0.15 else ():
            what = random.Random(seed + step).randrange(4)
            if what == 0:
                state.maybe = None
            elif what == 1:
                state.a = tj.full((3,), 0.25)
            elif what == 2:
                state.pos = 0
            else:
                state.b = state.items[0]
    return compiled.stats


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", range(0, 40, 20))
def test_programs(first: int) -> None:
    served = sum(run(seed).compiled_calls for seed in range(first, first + 20))
    assert served >= 60


def test_programs_that_are_verified() -> None:
    for seed in range(500, 508):
        run(seed, verify=True)
