"""compile(): leaves from outside whose requires_grad a function changes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tracejit as tj


def slope_of(x, w):
    x.requires_grad_(True)
    (g,) = tj.autograd.grad(tj.sin(x * w).sum(), x, create_graph=True)
    return (g * g).sum() + x.sum()


def attack(x, w):
    x.requires_grad = True
    (x * x * w).sum().backward()
    return x + 0.1 * x.grad.data.sign()


def read_before(x, w):
    y, part, plain = x * w, x[1:], x.detach()
    x.requires_grad_()
    return (x * y).sum() + (part * x[1:] ** 2).sum() + (plain * x).sum()


def on_and_off(x, w):
    x.requires_grad_(True)
    (g,) = tj.autograd.grad((x**3).sum(), x)
    x.requires_grad_(False)
    return g * x * w


def there_and_back(x, w):
    x.requires_grad_(True)
    y = x**3
    x.requires_grad_(False)
    z = x * w
    x.requires_grad_(True)
    return (x * y * z).sum()


def handed_out(x, w):
    x.requires_grad_()
    return x, x[1:], x.detach(), x * w


def kept_going(x, w):
    if x.sum() > 0:
        x.requires_grad_()
    return x * w


def changed_through_data(x, w):
    x.requires_grad_()
    (g,) = tj.autograd.grad((x * x).sum(), x)
    x.data.add_(g)
    return (x * w).detach()


def seen_outside(function, arguments):
    """What calls return and leave in their first argument, also after a backward pass outside."""
    w, seen = tj.tensor([1.0, 2.0, -1.0], requires_grad=True), []
    for call in range(6):
        x = arguments(call)
        given = x.requires_grad
        found = function(x, w)
        results = found if isinstance(found, tuple) else (found,)
        seen += [given, x.requires_grad, x.is_leaf, [r is x for r in results]]
        seen += [x.tolist(), x.grad if x.grad is None else x.grad.tolist()]
        total = sum((r * (k + 1)).sum() for k, r in enumerate(results))
        if total.requires_grad:
            total.backward()
        seen += [[r.tolist() for r in results], [r.requires_grad for r in results]]
        seen += [None if t.grad is None else t.grad.tolist() for t in (x, w)]
    return seen


BASE = tj.tensor([[0.5, -1.0, 2.0], [0.25, 1.5, -0.5]])
GIVEN = {
    "fresh": lambda call: tj.tensor([0.5, -1.0 + call, 2.0]),
    "flagged": lambda call: tj.tensor([0.5, -1.0 + call, 2.0], requires_grad=call % 2 == 0),
    "computed": lambda call: tj.tensor([0.5, call, 2.0], requires_grad=call % 2 == 0) * 2,
    "views": lambda call: BASE.clone()[call % 2],
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize(
    "function",
    [
        slope_of,
        attack,
        read_before,
        on_and_off,
        there_and_back,
        handed_out,
        kept_going,
        changed_through_data,
    ],
)
def test_arguments_start_to_require_grad(function, given) -> None:
    def run(function):
        try:
            with warnings.catch_warnings():  # of the .grad of what is no leaf
                warnings.simplefilter("ignore", UserWarning)
                return seen_outside(function, GIVEN[given])
        except (AttributeError, RuntimeError) as error:
            return type(error)

    compiled = tj.compile(function)
    expected, found = run(function), run(compiled)
    if isinstance(expected, type):
        assert found is expected
        return
    for a, b in zip(expected, found, strict=True):
        assert a == b or np.allclose(a, b, rtol=1e-5, atol=1e-6)
    if given == "fresh":
        assert compiled.stats.compiled_calls >= 4, compiled.explain()


def test_an_argument_that_is_given_again_requires_grad_already() -> None:
    def run(function):
        x, seen = tj.tensor([0.5, -1.0, 2.0]), []
        for call in range(9):
            if call % 3 == 2:
                x.grad = x.requires_grad_(False).grad = None
            function(x, tj.tensor([1.0, 2.0, call + 1.0]))
            seen += [x.requires_grad, x.grad.tolist()]
        return seen

    compiled = tj.compile(attack)
    assert run(compiled) == run(attack)
    assert compiled.stats.compiled_calls >= 6


def test_the_code_knows_the_argument_by_another_name() -> None:
    known = tj.tensor([0.5, -1.0, 2.0])

    def function(x):
        x.requires_grad_()
        return (x * known).sum()

    def run(function):
        seen = []
        for call in range(8):
            x = known if call in (2, 5) else tj.tensor([1.0, 2.0, call])
            function(x).backward()
            seen += [x.grad.tolist(), known.requires_grad, known.grad is None]
            known.grad = known.requires_grad_(False).grad = None
        return seen

    compiled = tj.compile(function)
    assert run(compiled) == run(function)
    assert compiled.stats.compiled_calls >= 4


def test_writes_to_what_was_read_before_run_eagerly() -> None:
    def function(x):
        y = x * 3
        x.requires_grad_(True)
        (x * x * y).sum().backward()
        with tj.no_grad():
            x -= 0.1 * x.grad
        return y

    compiled = tj.compile(function)
    for _ in range(3):
        x, other = tj.tensor([1.0, 2.0]), tj.tensor([1.0, 2.0])
        assert compiled(x).tolist() == function(other).tolist()
        assert x.tolist() == other.tolist()
    assert "before its flags or shape changed" in str(compiled.explain())


def test_views_made_before_a_leaf_stops_keep_their_gradient() -> None:
    def function(x):
        part = x[:2]
        x.requires_grad = False
        found = part * 2 + x[:2]
        x.requires_grad = True
        return found

    compiled = tj.compile(function, strict=True)
    for _ in range(3):
        x = tj.tensor([1.0, 2.0, 3.0], requires_grad=True)
        compiled(x).sum().backward()
        assert x.grad.tolist() == [2.0, 2.0, 0.0]
    assert compiled.stats.compiled_calls == 2


def test_results_that_show_memory_given_up_run_eagerly() -> None:
    def function(x):
        before = x.view(-1)
        x.data = x * 2
        return before

    compiled = tj.compile(function)
    for _ in range(3):
        assert compiled(tj.ones(3)).tolist() == [1.0, 1.0, 1.0]
    assert "a result shows a tensor from before" in str(compiled.explain())


def test_verification_looks_at_flags() -> None:
    compiled = tj.compile(slope_of, verify=True)
    w = tj.tensor([1.0, 2.0, -1.0], requires_grad=True)
    for _ in range(3):
        x = tj.tensor([0.5, -1.0, 2.0])
        compiled(x, w)
        assert x.requires_grad
    assert compiled.stats.compiled_calls == 2
