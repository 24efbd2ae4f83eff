"""Checks of types that look at an item picked at random leave functions compiled, and the generator as it would be."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj

#: What a checker of types writes around a function.
CHECKED = """
def checked(items, *, draw=draw, function=function):
    picked = draw(BITS)
    if not isinstance(items[picked % len(items)], Tensor):
        raise TypeError("not a tensor")
    return function(items)
"""
FILE = "<@beartype(tests.added) at 0x7f0000000000>"


def checked(function: Callable[..., Any], file: str = FILE, bits: int = 32) -> Callable[..., Any]:
    space = {"draw": random.getrandbits, "function": function, "Tensor": tj.Tensor}
    exec(compile(CHECKED.replace("BITS", str(bits)), file, "exec"), space)
    made: Callable[..., Any] = space["checked"]
    return made


def added(items: list[tj.Tensor]) -> tj.Tensor:
    return items[0] * 2 + items[1]


def sequence(function: Callable[..., Any]) -> tuple[list[Any], float]:
    """Results of some calls, and what Python draws after them."""
    random.seed(3)
    found = [function([tj.full((2,), float(k)), tj.ones(2)]).tolist() for k in range(6)]
    return found, random.random()


def test_calls_draw_as_often_as_eager_ones() -> None:
    function = checked(added)
    compiled = tj.compile(function)
    assert sequence(compiled) == sequence(function)
    assert compiled.stats.compiled_calls >= 4, compiled.explain()
    assert sequence(compiled) == sequence(function)


def test_checks_of_layers_draw_in_compiled_steps() -> None:
    class Checked(tj.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = tj.nn.Linear(2, 2)

        def forward(self, x: tj.Tensor) -> tj.Tensor:
            return once([self.inner(x), x])

    once = checked(added)
    ends = []
    for wrap in (lambda f: f, lambda f: tj.compile(f, strict=True)):
        tj.manual_seed(0)
        model = Checked()
        optimizer = tj.optim.SGD(model.parameters(), lr=0.1)

        def step(x: tj.Tensor, model: Any = model, optimizer: Any = optimizer) -> float:
            optimizer.zero_grad()
            loss = model(x).square().mean() + model(x).mean()  # two draws
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = wrap(step)
        random.seed(1)
        losses = [round(float(run(tj.ones(1, 2))), 5) for _ in range(5)]
        ends.append((losses, random.random()))
    assert ends[0] == ends[1]


def test_calls_that_are_verified_draw_once() -> None:
    function = checked(added)
    assert sequence(tj.compile(function, verify=True)) == sequence(function)


@pytest.mark.parametrize(("file", "bits"), [("<string>", 32), (FILE, 64)])
def test_other_draws_are_reasons(file: str, bits: int) -> None:
    function = checked(added, file, bits)
    compiled = tj.compile(function)
    assert sequence(compiled) == sequence(function)
    assert compiled.stats.compiled_calls == 0
    assert "random numbers decide among too many ways" in str(compiled.explain())


def test_items_of_other_kinds_are_refused_by_every_call() -> None:
    compiled = tj.compile(checked(lambda items: items[0]))
    for _ in range(4):
        compiled([tj.ones(2), tj.ones(2)])
    with pytest.raises(TypeError, match="not a tensor"):
        compiled([1.0, 2.0])
