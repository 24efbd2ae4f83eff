"""Functions with a backward of their own compile: first and second derivatives, whole steps, loops; what must not."""

from __future__ import annotations

import warnings
from collections.abc import Callable, MutableMapping
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from custom_functions import (
    Again,
    Clipped,
    Codes,
    Exp,
    Linear,
    Named,
    OfItsClass,
    Once,
    Pair,
    Partly,
    Relu,
    Reversed,
    Rounded,
    Same,
    Scaled,
    Sin,
    Swish,
    Unrolled,
)

Run = Callable[..., Any]


def fresh(*shape: int) -> Any:
    return tj.randn(*shape, dtype=tj.float64)


tj.manual_seed(5)
W = fresh(4, 4).requires_grad_()
BOOK = fresh(6, 4).requires_grad_()
SCALE = fresh(1)


def many(x: Any) -> Any:
    for i in range(7):
        x = Swish.apply(Linear.apply(x, W)) * (0.5 + 0.1 * i)
    return x


def branches(x: Any) -> Any:
    if x.sum() > 0:
        return Swish.apply(x) * 2
    return Exp.apply(-x.abs())


def until(x: Any) -> Any:
    while x.abs().sum() > 0.5:
        x = Linear.apply(x, W * 0.1).sin()
    return x


PROGRAMS: dict[str, Run] = {
    "kept result": lambda x: Exp.apply(x * 2),
    "of an argument": lambda x: Exp.apply(x),
    "of its class": lambda x: OfItsClass.apply(x * 2).sin(),
    "named": lambda x: Named.apply(x * 2).sin(),
    "reversed": lambda x: Reversed.apply(x * 3, 0.5) * x,
    "argument reversed": lambda x: Reversed.apply(x, 0.5) * x,
    "rounded": lambda x: Rounded.apply(x * 3) * x,
    "same": lambda x: Same.apply(x * 2).sin(),
    "swish": lambda x: Swish.apply(x @ W),
    "linear": lambda x: Linear.apply(x, W).tanh(),
    "relu": lambda x: Relu.apply(x @ W),
    "both of a pair": lambda x: Pair.apply(x, x * 2)[0] * x + Pair.apply(x, x)[1].sin(),
    "one of a pair": lambda x: Pair.apply(x, x.sin())[0],
    "codes": lambda x: Codes.apply(x * 2, BOOK)[0] * x,
    "again": lambda x: Again.apply(x * 0.3),
    "sine": lambda x: Sin.apply(x),
    "partly": lambda x: Partly.apply(x * 2, x.sin()),
    "nested": lambda x: Exp.apply(Sin.apply(Swish.apply(x))),
    "loops inside": lambda x: Unrolled.apply(x),
    "many": many,
    "branches": branches,
    "until": until,
}


def values(tensors: Any) -> list[Any]:
    return [None if t is None else t.detach().numpy().copy() for t in tensors]


def assert_close(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def first(f: Run, start: Any) -> list[Any]:
    x = start.clone().requires_grad_()
    W.grad = BOOK.grad = None
    y = f(x)
    (y * y).sum().backward()
    return values((y, x.grad, W.grad, BOOK.grad))


def second(f: Run, start: Any) -> list[Any]:
    x = start.clone().requires_grad_()
    y = f(x)
    (g,) = tj.autograd.grad((y * x).sum(), x, create_graph=True)
    (h,) = tj.autograd.grad((g * g + g).sum(), x, allow_unused=True)
    return values((y, g, h))


def whole(f: Run) -> Run:
    def step(x: Any) -> Any:
        y = f(x)
        (y * y).sum().backward()
        return y.detach()

    return step


def stepped(f: Run, start: Any) -> list[Any]:
    x = start.clone().requires_grad_()
    W.grad = BOOK.grad = None
    return values((f(x), x.grad, W.grad, BOOK.grad))


@pytest.mark.sampled(36)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("how", ["first", "second", "step"])
def test_derivatives_are_those_of_eager_execution(name: str, how: str) -> None:
    f = whole(PROGRAMS[name]) if how == "step" else PROGRAMS[name]
    run = {"first": first, "second": second, "step": stepped}[how]
    compiled = tj.compile(f)
    for rows in (3, 3, 5, 1, 3):
        start = fresh(rows, 4)
        assert_close(run(compiled, start), run(f, start))
    assert compiled.stats.compiled_calls >= 2, compiled.explain()


def test_gradients_are_clipped_after_they_were_added_up() -> None:
    def twice(x: Any) -> Any:
        h = Clipped.apply(x)
        return h.sin() + h * 0.3

    compiled = tj.compile(twice)
    for _ in range(3):
        start = fresh(5, 2)
        assert_close(first(compiled, start), first(twice, start))
    assert compiled.stats.compiled_calls == 2


@pytest.mark.parametrize("run", [first, second])
def test_backward_gives_what_it_made_another_shape_in_place(run: Callable[..., Any]) -> None:
    def scaled(x: Any) -> Any:
        return Scaled.apply(x, SCALE * x.mean()).sin()

    compiled = tj.compile(scaled)
    for rows in (3, 3, 5):
        start = fresh(rows, 4)
        assert_close(run(compiled, start), run(scaled, start))
    assert compiled.stats.compiled_calls >= 1, compiled.explain()


def test_a_result_that_nothing_uses_has_zeros_or_nothing_for_a_gradient() -> None:
    compiled = tj.compile(lambda x: Pair.apply(x, x.sin()))
    for use in ((0,), (1,), (0, 1)):
        found = []
        for f in (compiled, compiled, compiled.function):
            x = tj.tensor([0.5, float("inf")], dtype=tj.float64, requires_grad=True)
            outputs = f(x)
            tj.autograd.backward([outputs[i] for i in use], [tj.ones_like(x) for _ in use])
            found.append(values([x.grad]))
        np.testing.assert_array_equal(found[1], found[2])


def test_a_gradient_that_may_be_taken_once_only() -> None:
    compiled = tj.compile(lambda x: Once.apply(x))
    for f in (compiled.function, compiled, compiled):
        assert_close(first(f, tj.ones(2, 2)), first(compiled.function, tj.ones(2, 2)))
        x = fresh(2, 2).requires_grad_()
        (g,) = tj.autograd.grad((f(x) * x).sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            g.sum().backward()
    assert compiled.stats.compiled_calls >= 2


def test_an_argument_that_forward_returns_is_a_result() -> None:
    """Of what shares its memory nobody else sees anything."""
    w = tj.ones(3, requires_grad=True)

    @tj.compile(strict=True)
    def step(x: Any) -> Any:
        w.grad = None
        loss = Same.apply((w * x).sum())
        loss.backward()
        return loss.detach(), Same.apply(x * w)

    for k in range(1, 4):
        loss, out = step(tj.full((3,), float(k)))
        assert loss.item() == 3.0 * k
        assert w.grad.tolist() == [0.5 * k] * 3
        (again,) = tj.autograd.grad(out.sum(), w)
        assert again.tolist() == [0.5 * k] * 3
    assert step.stats.compiled_calls == 2


def test_both_names_of_an_argument_that_forward_returns_as_results() -> None:
    @tj.compile
    def both(x: Any) -> Any:
        y = x * 2
        return y, Same.apply(y)

    for _ in range(3):
        y, same = both(tj.ones(3, requires_grad=True))
        y.data[0] = 5.0
        assert same.tolist() == [5.0, 2.0, 2.0]
    assert "a view that a custom function returned" in str(both.explain())


@pytest.mark.parametrize("compiled", [False, True])
def test_older_name_of_saved_tensors(compiled: bool) -> None:
    class Square(tj.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_variables
            return 2 * x * grad

    f = tj.compile(Square.apply, fullgraph=True) if compiled else Square.apply
    for number in range(4):
        x = tj.tensor([1.0 + number, 3.0], requires_grad=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            f(x).sum().backward()
        assert x.grad.tolist() == [2.0 + 2 * number, 6.0]
    if compiled:
        assert f.stats.compiled_calls == 3
        return
    y = Square.apply(tj.ones(1, requires_grad=True))
    with pytest.warns(DeprecationWarning, match="'saved_variables' is deprecated"):
        y.backward()


class Dropped(tj.autograd.Function):
    """Makes and drops enough tensors that those of backward get the identities of those of forward."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        for i in range(12):
            x = x * (1.0 + 0.01 * i)
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        for i in range(12):
            g = (g * 1.0).mul_(1.0 + 0.01 * i)
        return g


def test_backward_may_write_to_tensors_that_have_the_identity_of_one_that_is_gone() -> None:
    compiled = tj.compile(lambda x: Dropped.apply(x).sum())
    x = tj.randn(1 << 13).requires_grad_()
    for _ in range(3):
        x.grad = None
        compiled(x).backward()
        assert np.allclose(x.grad, np.prod(1.0 + 0.01 * np.arange(12)))
    assert compiled.stats.compiled_calls == 2, compiled.explain()


class Adjoint(tj.autograd.Function):
    """Steps of an equation whose backward takes gradients of single steps, with respect to parameters too."""

    @staticmethod
    def forward(ctx: Any, move: Any, y: Any, *weights: Any) -> Any:
        ctx.move = move
        with tj.no_grad():
            steps = [y]
            for _ in range(3):
                steps.append(steps[-1] + 0.1 * move(steps[-1]))
        ctx.save_for_backward(*steps[:-1], *weights)
        return steps[-1]

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        *steps, weight, bias = ctx.saved_tensors
        totals = [tj.zeros_like(weight), tj.zeros_like(bias)]
        for y in reversed(steps):
            with tj.enable_grad():
                y = y.detach().requires_grad_(True)
                after = y + 0.1 * ctx.move(y)
                g, *parts = tj.autograd.grad(after, (y, weight, bias), g)
            totals = [t + p for t, p in zip(totals, parts, strict=True)]
        return None, g, *totals


def test_backward_takes_gradients_of_parameters_that_it_saved() -> None:
    tj.manual_seed(0)
    move = tj.nn.Sequential(tj.nn.Linear(3, 3), tj.nn.Tanh())
    found = []

    def run(y: Any) -> Any:
        return Adjoint.apply(move, y, *move.parameters()).square().sum()

    compiled = tj.compile(run, strict=True)
    for f in (run, compiled, compiled, compiled):
        move.zero_grad()
        y = tj.linspace(-1, 1, 6).view(2, 3).requires_grad_()
        f(y).backward()
        found.append([y.grad, *(p.grad for p in move.parameters())])
    assert compiled.stats.compiled_calls == 2
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            tj.testing.assert_close(a, b)


def test_abstract_classes_that_a_library_has_put_a_function_into(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def hook(cls: type, other: type) -> Any:
        asked.append(other)
        return NotImplemented

    monkeypatch.setattr(MutableMapping, "__subclasshook__", classmethod(hook))
    f: Run = lambda x: Again.apply(x * 0.3)  # noqa: E731
    compiled = tj.compile(f, strict=True)
    for _ in range(3):
        start = fresh(3, 4)
        assert_close(first(compiled, start), first(f, start))

    class Own:
        pass

    seen = tj.compile(lambda x: x + isinstance(Own(), MutableMapping))
    assert seen(tj.zeros(1)).item() == 0
    assert asked
