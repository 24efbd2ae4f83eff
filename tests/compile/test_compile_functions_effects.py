"""Functions whose backward does more than compute: they run eagerly, and trying them out leaves no trace."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj
from custom_functions import Rounded

W = tj.ones(4, dtype=tj.float64, requires_grad=True)
BOOK = tj.ones(6, dtype=tj.float64, requires_grad=True)
LOG: list[str] = []
COUNTS = {"calls": 0}


class Appends(Rounded):
    """Appends to a list."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        LOG.append("backward")
        return g


class Counts(Rounded):
    """Counts in a dictionary and on the class."""

    calls = 0

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        COUNTS["calls"] += 1
        Counts.calls += 1
        return g


class Prints(Rounded):
    """Prints."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        print("backward")
        return g


class Decides(Rounded):
    """Decides by a value."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g if g.sum() > 0 else -g


class Draws(Rounded):
    """Draws random numbers."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * tj.rand_like(g)


class Writes(Rounded):
    """Writes to a tensor from outside."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        with tj.no_grad():
            BOOK.add_(1)
        return g


class Turns(Rounded):
    """Gives a tensor that was saved another shape."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.kept = x.detach() * 2
        return x * 1.0

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        ctx.kept.unsqueeze_(0)
        return g * ctx.kept.shape[0]


class Accumulates(Rounded):
    """Adds to gradients of tensors."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        with tj.enable_grad():
            (W * 2).sum().backward()
        return g


class Fails(Rounded):
    """Raises."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        raise KeyError("no gradient")


EAGER = {
    Appends: "changes a list",
    Counts: "changes",
    Prints: "more than compute|print",
    Decides: "decides by the value",
    Draws: "draws random numbers",
    Writes: "writes to a tensor",
    Turns: r"unsqueeze_\(\) on a tensor that it did not make",
    Accumulates: "adds to the gradients of tensors",
    Fails: "fails",
}


@pytest.mark.parametrize("function", EAGER)
@pytest.mark.filterwarnings("ignore::tracejit.errors.CompileWarning")
def test_backward_with_effects_runs_eagerly_and_once(
    function: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(f: Callable[[Any], Any]) -> list[Any]:
        LOG.clear()
        COUNTS["calls"] = Counts.calls = 0
        with tj.no_grad():
            BOOK.fill_(1.0)
        W.grad = None
        tj.manual_seed(3)
        x = tj.linspace(-1, 2, 6, dtype=tj.float64).requires_grad_()
        error = None
        try:
            f(x).sum().backward()
        except KeyError as found:
            error = found.args
        effects = [len(LOG), COUNTS["calls"], Counts.calls, capsys.readouterr().out, error]
        tensors = (x.grad, BOOK, W.grad, tj.rand(2))
        return [effects, *(t if t is None else t.tolist() for t in tensors)]

    compiled = tj.compile(lambda x: function.apply(x))
    expected = run(compiled.function)
    for _ in range(3):
        assert run(compiled) == expected
    assert compiled.stats.compiled_calls == 0
    assert re.search(EAGER[function], str(compiled.explain()))
