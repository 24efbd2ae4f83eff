"""compile(): numbers that ``random`` and ``numpy.random`` draw are drawn in every call, as in eager code."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from random import random as drawn
from random import uniform
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn

F = nn.functional
CASES: dict[str, tuple[Callable[[], Callable[..., Any]], int]] = {}
CALLS = 30


def case(compiled: int) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """A function that makes one to be compiled, and how many calls at least must be compiled ones."""

    def add(make: Callable[[], Any]) -> Callable[[], Any]:
        CASES[make.__name__] = make, compiled
        return make

    return add


@case(CALLS - 1)
def scaled() -> Any:
    return lambda x: x * random.random() + drawn() - uniform(0.5, 2) * np.random.rand()


@case(CALLS - 2)
def a_branch() -> Any:
    return lambda x: x * 2 if random.random() < 0.5 else x * 3


@case(15)
def teacher_forcing() -> Any:
    cell = nn.RNNCell(3, 3)

    def f(x: Any) -> Any:
        state, given, out = tj.zeros(1, 3), x[:1], []
        for t in range(3):
            state = cell(given, state)
            out.append(state)
            given = x[t : t + 1] if random.random() < 0.5 else state
        return tj.cat(out)

    return f


@case(CALLS - 1)
def mixing_up() -> Any:
    model = nn.Linear(3, 2)
    optimizer = tj.optim.SGD(model.parameters(), lr=0.1)

    def f(x: Any) -> Any:
        share, order = np.random.beta(0.4, 0.4), tj.randperm(3)
        optimizer.zero_grad()
        loss = model(share * x + (1 - share) * x[order]).square().mean() * share
        loss.backward()
        optimizer.step()
        return loss.detach(), share

    return f


@case(CALLS - 4)
def exploring() -> Any:
    model = nn.Linear(3, 3)

    def f(x: Any) -> Any:
        return random.randint(0, 2) if random.random() < 0.3 else int(model(x[0]).argmax())

    return f


@case(CALLS - 3)
def cropped() -> Any:
    def f(x: Any) -> Any:
        at = random.randrange(2)
        return x[:, at : at + 2] * 2

    return f


@case(CALLS - 3)
def one_of_some_functions() -> Any:
    functions = [tj.sin, tj.cos, tj.exp]
    return lambda x: random.choice(functions)(x)


@case(CALLS - 1)
def places() -> Any:
    return lambda x: x[tj.tensor([random.randrange(3) for _ in range(5)])]


@case(CALLS - 1)
def rounds() -> Any:
    def f(x: Any) -> Any:
        for _ in range(12):
            x = x * random.uniform(0.9, 1.1) + random.gauss(0, 1)
        return x

    return f


@case(CALLS - 1)
def nobody_reads_it() -> Any:
    def f(x: Any) -> Any:
        random.random()
        return x * random.random()

    return f


@case(15)
def errors() -> Any:
    def f(x: Any) -> Any:
        number = random.random()
        if number < 0.2:
            raise ValueError("low")
        return x * number

    return f


@case(10)
def more_on_one_way() -> Any:
    def f(x: Any) -> Any:
        number = random.random()
        if x.sum() > 0:
            return x * number
        return x * number + np.random.uniform(-1, 1) if drawn() < 0.5 else x

    return f


@case(CALLS - 1)
def generators_of_its_own() -> Any:
    one, other, third = random.Random(5), np.random.default_rng(3), np.random.RandomState(4)
    return lambda x: x * one.random() + other.random() + third.uniform(1, 2)


@case(CALLS - 3)
def an_attribute() -> Any:
    class Sampler:
        def __init__(self) -> None:
            self.generator, self.count, self.last = random.Random(7), 0, 0.0

        def draw(self) -> float:
            self.count += 1
            self.last = self.generator.uniform(0, 1)
            return self.last

    sampler = Sampler()
    return lambda x: x * sampler.draw() + sampler.count * sampler.last


@case(CALLS - 2)
def functions_of_numbers() -> Any:
    return lambda x: x * math.sin(random.random()) + max(0.5, float(np.sqrt(np.random.rand())))


@case(0)
def order_of_a_list() -> Any:
    def f(x: Any) -> Any:
        order = [0, 1, 2]
        random.shuffle(order)
        return x[order] * random.random()

    return f


@case(28)
def an_array() -> Any:
    return lambda x: x + tj.from_numpy(np.random.randn(3)).float() * np.random.rand()


@case(0)
def a_seed() -> Any:
    def f(x: Any) -> Any:
        random.seed(3)
        return x * random.random()

    return f


@case(0)
def a_checkpointed_part() -> Any:
    model = nn.Linear(3, 3)

    def f(x: Any) -> Any:
        def part(x: Any) -> Any:
            return model(x) * random.random()

        model.zero_grad()
        loss = tj.utils.checkpoint.checkpoint(part, x, use_reentrant=False).sum()
        loss.backward()
        return loss.detach(), model.weight.grad.clone()

    return f


@case(0)
def text() -> Any:
    return lambda x: (x, f"{random.random():.5f}")


def plain(x: Any) -> Any:
    if isinstance(x, tj.Tensor):
        return x.tolist()
    return [plain(v) for v in x] if isinstance(x, (list, tuple)) else x


def close(a: Any, b: Any) -> bool:
    if isinstance(a, list):
        return len(a) == len(b) and all(map(close, a, b))
    if isinstance(a, float):
        return b == pytest.approx(a, rel=1e-4, abs=1e-5)
    return type(a) is type(b) and bool(a == b)


def states() -> list[Any]:
    return [hash(random.getstate()), str(np.random.get_state(legacy=False))]


def seen(make: Callable[[], Any], way: str) -> tuple[list[Any], Any]:
    tj.manual_seed(1)
    random.seed(2)
    np.random.seed(3)
    f = make()
    if way != "eager":
        f = tj.compile(f, verify=way == "verified")
    found = []
    for call in range(CALLS):
        if call == CALLS // 2:
            random.seed(4)
        try:
            made = plain(f(tj.randn(3, 3)))
        except ValueError as error:
            made = str(error).partition("\n")[0]
        found.append([made, *states()])
    return found, f


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", CASES)
def test_numbers_are_drawn_as_in_eager_code(name: str) -> None:
    make, least = CASES[name]
    expected, _ = seen(make, "eager")
    found, f = seen(make, "compiled")
    assert close(expected, found)
    if least:
        assert f.stats.compiled_calls >= least, f.explain()
    else:
        assert f.stats.compiled_calls == 0
        assert any(reason for reason in f.reasons)


@pytest.mark.parametrize("name", ["scaled", "a_branch", "exploring", "more_on_one_way"])
def test_checked_calls_draw_once(name: str) -> None:
    make, _ = CASES[name]
    assert close(seen(make, "eager")[0], seen(make, "verified")[0])


def test_a_number_from_many_that_decides_is_no_path() -> None:
    for f in (lambda x: x[random.randint(0, 199)], lambda x: x * np.clip(drawn(), 0.1, 0.9)):
        compiled = tj.compile(f)
        for _ in range(10):
            compiled(tj.ones(200))
        assert compiled.stats.recordings == 1
        assert "random numbers decide" in compiled.reasons[0]


def test_replaced_functions_are_called() -> None:
    before = random.random
    try:
        f = tj.compile(lambda x: x * random.random())
        f(tj.ones(1)), f(tj.ones(1))
        random.random = lambda: 0.25
        assert [f(tj.ones(1)).item() for _ in range(3)] == [0.25] * 3
    finally:
        random.random = before
