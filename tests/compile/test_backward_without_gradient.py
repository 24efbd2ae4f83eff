"""Passes from some results, along ways on which nothing flows too: refused as in eager code, or with its values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn

LAYER = nn.Linear(3, 3)


def _cleared(x: tj.Tensor) -> Any:
    y = LAYER(x)
    y.zero_()
    return y.sum(), x * 1


def _cleared_after_use(x: tj.Tensor) -> Any:
    y = LAYER(x)
    z = y * 2
    y.zero_()
    return y.sum(), z.sum()


def _copied_over(x: tj.Tensor) -> Any:
    y = x.exp()
    z = y * 2
    z.copy_(x)
    return z, y


def _assigned(x: tj.Tensor) -> Any:
    y = x * x
    z = y * 3
    z[:] = 0.0
    return z, y


def _filled(x: tj.Tensor) -> Any:
    y = x * x
    z = y * 3
    z.fill_(1.0)
    return z, y + 1


def _rounds(x: tj.Tensor) -> Any:
    y = x
    for _ in range(9):
        y = (y * 0.5).floor() + y * x
    return y, x * 2


BODIES: dict[str, Callable[[tj.Tensor], Any]] = {
    "cleared": _cleared,
    "cleared after use": _cleared_after_use,
    "copied over": _copied_over,
    "assigned": _assigned,
    "filled": _filled,
    "rounds": _rounds,
    "masked": lambda x: ((x.sin() * x).masked_fill(x > -100, 0.0), x * 2),
    "detached": lambda x: ((x * x).detach() * x, x * x),
    "truncated": lambda x: ((x * x).trunc(), (x * 3).sin()),
    "floored": lambda x: ((x * x).floor() + x.sin() * 0, x.cos()),
    "chosen": lambda x: (tj.where(x * x > -1, x.exp(), (x * x).log()), x.sqrt()),
    "nothing of it": lambda x: ((x * x)[0:0].sum() + x[0].sum(), x * x),
    "signs": lambda x: (x.sin().sign(), (x * x).sign() * x),
    "to the power of zero": lambda x: ((x * x) ** 0, x + 1),
    "sign of another": lambda x: (tj.copysign(x * 2, x * x), x.tanh()),
    "sums of rounded": lambda x: ((x * x).round().sum(0), (x * x).ceil().double(), x + 3),
}


def _outcome(
    function: Callable[[tj.Tensor], Any], number: int, everything: bool, change: bool
) -> Any:
    """What a pass from result ``number`` gives after ``x`` may have been changed."""
    x = tj.tensor([[1.0, math.inf, 0.25], [0.0, -2.0, math.nan]], requires_grad=True)
    out = function(x)[number]
    if change:
        with tj.no_grad():
            x.add_(1.0)
    leaves = [x, *LAYER.parameters()] if everything else [x]
    try:
        found = tj.autograd.grad([out], leaves, [tj.ones_like(out)], allow_unused=True)
    except RuntimeError as error:
        return str(error).split(":")[0]
    return [None if g is None else g.numpy() for g in found]


def _agree(found: Any, expected: Any) -> bool:
    """The same error, or the same values but for rounding."""
    if isinstance(expected, str) or isinstance(found, str):
        return isinstance(found, str) and found == expected
    return all(
        np.allclose(a, b, rtol=2e-6, equal_nan=True) if a is not None and b is not None else a is b
        for a, b in zip(found, expected, strict=True)
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("change", [False, True], ids=["as it was", "changed"])
@pytest.mark.parametrize("name", BODIES)
def test_a_pass_is_refused_and_has_values_as_in_eager_code(name: str, change: bool) -> None:
    """From each result alone, to all leaves and to one, with what was saved changed in between or not."""
    body = BODIES[name]
    compiled = tj.compile(body)
    results = len(body(tj.ones(2, 3, requires_grad=True)))
    for number, everything in itertools.product(range(results), (False, True)):
        expected = _outcome(body, number, everything, change)
        for _ in range(3):
            found = _outcome(compiled, number, everything, change)
            assert _agree(found, expected), (found, expected)
    assert compiled.stats.compiled_calls > 0


class Doubled(tj.autograd.Function):
    """Saves its argument, and its backward may not ask for it."""

    @staticmethod
    def forward(ctx: Any, x: tj.Tensor, asks: bool) -> tj.Tensor:
        """Twice the argument."""
        ctx.save_for_backward(x)
        ctx.asks_for_it = asks
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: tj.Tensor) -> tuple[tj.Tensor, None]:
        """Twice the gradient."""
        if ctx.asks_for_it:
            (x,) = ctx.saved_tensors
            return grad * 2 + x * 0, None
        return grad * 2, None


@pytest.mark.parametrize("asks", [False, True])
def test_what_a_custom_backward_does_not_ask_for_may_change(asks: bool) -> None:
    def body(x: tj.Tensor) -> tj.Tensor:
        return Doubled.apply(x * 1.5, asks) + Doubled.apply(x, asks)

    compiled = tj.compile(body, strict=True)
    found = []
    for call in (body, compiled, compiled, compiled):
        x = tj.ones(3, requires_grad=True)
        y = call(x)
        with tj.no_grad():
            x.add_(1.0)
        try:
            found.append(tj.autograd.grad(y.sum(), x)[0].tolist())
        except RuntimeError as error:
            found.append(str(error).split(":")[0])
    assert found == [found[0]] * 4
    assert ("modified by an inplace" in found[0]) if asks else found[0] == [5.0] * 3
    assert compiled.stats.compiled_calls == 2
