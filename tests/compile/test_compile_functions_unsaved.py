"""Functions whose backward reads tensors that forward left on ``ctx``, or that are no business of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj
from tracejit.autograd import Function


class Kept(Function):
    """A square that keeps its argument as an attribute."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.x = x
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * ctx.x * g


class Again(Function):
    """Computes in backward what forward computed, from arguments and parameters kept in lists."""

    @staticmethod
    def forward(ctx: Any, run: Any, count: int, *arguments: Any) -> Any:
        ctx.run = run
        ctx.arguments, ctx.parameters = list(arguments[:count]), list(arguments[count:])
        with tj.no_grad():
            return run(*ctx.arguments)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        arguments = [x.detach().requires_grad_(True) for x in ctx.arguments]
        with tj.enable_grad():
            results = ctx.run(*[x.view_as(x) for x in arguments])
        wanted = arguments + ctx.parameters
        found = tj.autograd.grad(results, wanted, grads, allow_unused=True)
        del ctx.arguments, ctx.parameters
        return (None, None, *found)


class Layers(tj.nn.Module):
    """Two layers, the second of which is computed again in backward."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = tj.nn.Linear(3, 4), tj.nn.Linear(4, 4)

    def part(self, x: Any) -> Any:
        return tj.tanh(self.second(x)) + x

    def forward(self, x: Any) -> Any:
        return Again.apply(self.part, 1, self.first(x), *self.second.parameters())


def gradients(f: Callable[..., Any], *parameters: Any) -> list[Any]:
    """What a backward pass from the sum of squares gives."""
    for p in parameters:
        p.grad = None
    f().square().sum().backward()
    return [p.grad.clone() for p in parameters]


def test_what_is_kept_as_an_attribute_is_read_by_compiled_backward() -> None:
    compiled = tj.compile(Kept.apply)
    for n in range(1, 5):
        x = tj.linspace(-1, n, 6, dtype=tj.float64).requires_grad_()
        expected, *_ = gradients(lambda x=x: Kept.apply(x), x)
        found, *_ = gradients(lambda x=x: compiled(x), x)
        assert found.tolist() == expected.tolist()
    assert (
        compiled.stats.compiled_calls >= 2
    )  # the first custom function of a process is recorded twice


def test_layers_computed_again_in_backward_are_compiled_and_read_parameters_anew() -> None:
    tj.manual_seed(0)
    model = Layers().double()
    compiled = tj.compile(model)
    x = tj.randn(5, 3, dtype=tj.float64)
    for _ in range(4):
        expected = gradients(lambda: model(x), *model.parameters())
        found = gradients(lambda: compiled(x), *model.parameters())
        for a, b in zip(found, expected, strict=True):
            assert tj.allclose(a, b, rtol=1e-12, atol=1e-12)
        with tj.no_grad():
            for p in model.parameters():
                p.add_(0.1)
    assert compiled.stats.compiled_calls == 3
    assert compiled.stats.recordings == 1


def test_gradients_of_gradients_lead_to_what_was_kept() -> None:
    def second(f: Any) -> list[float]:
        x = tj.linspace(-1, 2, 6, dtype=tj.float64).requires_grad_()
        (g,) = tj.autograd.grad(f(x).sin().sum(), x, create_graph=True)
        return tj.autograd.grad(g.sum(), x)[0].tolist()

    compiled = tj.compile(Kept.apply)
    for _ in range(3):
        assert second(compiled) == pytest.approx(second(Kept.apply), abs=1e-12)


def inside_and_shown(x: Any) -> Any:
    y = x * 2
    return Kept.apply(y), y, y[1:]


@pytest.mark.parametrize("function", [Kept.apply, inside_and_shown])
def test_a_change_after_the_call_of_what_backward_reads_is_refused(function: Any) -> None:
    compiled = tj.compile(function)
    for changed in (False, False, True, False):
        x = tj.linspace(-1, 2, 6).requires_grad_()
        results = compiled(x)
        loss = (results[0] if isinstance(results, tuple) else results).sum()
        if not changed:
            loss.backward()
            continue
        with tj.no_grad():
            (results[-1] if isinstance(results, tuple) else x).mul_(3)
        with pytest.raises(RuntimeError, match="or a custom function in its backward"):
            loss.backward()
    assert compiled.stats.compiled_calls == 3


@pytest.mark.filterwarnings("ignore::tracejit.errors.CompileWarning")
def test_a_change_by_the_run_itself_runs_eagerly() -> None:
    def inside(x: Any) -> Any:
        y = x * 2
        z = Kept.apply(y)
        with tj.no_grad():
            y.mul_(5)
        return z

    def outside(x: Any) -> Any:
        z = Kept.apply(x)
        with tj.no_grad():
            x.mul_(5)
        return z

    for function in (inside, outside):
        compiled = tj.compile(function)
        for _ in range(3):
            a, b = (tj.linspace(-1, 2, 6).requires_grad_() for _ in range(2))
            function(a).sum().backward()
            compiled(b).sum().backward()
            assert b.grad.tolist() == a.grad.tolist()
        assert compiled.stats.compiled_calls == 0
        assert "that the backward of a custom function reads" in str(compiled.explain())


def test_a_step_that_changes_the_parameters_after_its_own_backward_is_compiled() -> None:
    def trained(compile: Any) -> tuple[Any, list[Any]]:
        tj.manual_seed(0)
        model = Layers().double()
        optimizer = tj.optim.SGD(model.parameters(), lr=0.1)
        x = tj.randn(5, 3, dtype=tj.float64)

        def step() -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        step = compile(step)
        return step, [step().item() for _ in range(5)]

    step, found = trained(tj.compile)
    _, expected = trained(lambda f: f)
    assert found == pytest.approx(expected, rel=1e-12)
    assert step.stats.compiled_calls == 4
