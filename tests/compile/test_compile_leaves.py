"""compile(): where the backward pass of compiled code ends in leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn


def test_a_leaf_never_shares_the_gradient_it_started_from() -> None:
    """backward() starts from ones that all passes share; gradients that pass through must be copies."""

    @tj.compile
    def f(a, b):
        return a + b

    for _ in range(3):
        a, b = tj.tensor(1.0, requires_grad=True), tj.tensor(2.0, requires_grad=True)
        f(a, b).backward()
        a.grad.mul_(5.0)
        assert (a.grad.item(), b.grad.item()) == (5.0, 1.0)


def test_hooks_see_what_the_short_way_to_leaves_would_skip() -> None:
    def f(a, b):
        return (a * b).sum()

    def run(function):
        a = tj.tensor([1.0, 2.0], requires_grad=True)
        b = tj.tensor([3.0, 4.0], requires_grad=True)
        seen: list[object] = []
        accumulated = seen.append
        for k in range(5):
            if k == 2:
                handle = a.register_hook(lambda g: g * 2)
                b.register_post_accumulate_grad_hook(lambda t: accumulated(t.grad.tolist()))
            if k == 4:
                handle.remove()
            loss = function(a, b)
            if k == 3:
                loss.register_hook(lambda g: g.mul_(3.0))
            loss.backward(retain_graph=True)
            loss.backward()
            seen += [a.grad.tolist(), b.grad.tolist()]
        return seen

    assert run(tj.compile(f)) == run(f)


def test_one_leaf_twice_gets_one_gradient() -> None:
    """The sum of both is added to what is there, as eagerly: not one after the other."""
    w = tj.tensor([0.1, 0.2, 0.3], requires_grad=True)

    @tj.compile
    def f(x):
        return (x * w * 1.7).sum() + (x * x).sum()

    for _ in range(3):
        f(tj.ones(3, requires_grad=True)).backward()
    w.grad = tj.tensor([1e-8, 1.0, 1e8])
    f(w).backward()
    expected = tj.tensor([1e-8, 1.0, 1e8]) + 2 * w.detach() * (1.7 + 1.0)
    np.testing.assert_allclose(w.grad.numpy(), expected.numpy(), rtol=1e-6)


# --- leaves made inside -----------------------------------------------------------------------------------------------


def slope(x):
    z = x.detach().requires_grad_()
    (g,) = tj.autograd.grad(tj.sin(z).sum(), z)
    return g * x


def constant(x):
    return tj.zeros(3, requires_grad=True) * x


def accumulated(x):
    z = x.detach().clone().requires_grad_()
    (z * z).sum().backward()
    return z.grad * x


def several(x):
    z = x.detach().clone().requires_grad_()
    return (z * x).sum(), (z * 2).detach(), z.exp() + x


def descent(x):
    z = x.detach().requires_grad_()
    for _ in range(3):
        (g,) = tj.autograd.grad((z**2).sum(), z, create_graph=True)
        z = (z - 0.1 * g).detach().requires_grad_()
    return z.detach() * x


def mixed(x):
    z = x.detach().requires_grad_()
    y = z * 3
    (g,) = tj.autograd.grad((y * x).sum(), z, create_graph=True)
    return g + y


def no_more(x):
    z = tj.rand(3).requires_grad_()
    y = z * x
    z.requires_grad_(False)
    return y + z


def alone(x):
    return tj.zeros(3, requires_grad=True) * 2 + x.detach()


def itself(x):
    return tj.zeros(3, requires_grad=True), x * 2


def used(x):
    z = x.detach().clone().requires_grad_()
    (z * z).sum().backward()
    return z


def shown(x):
    z = tj.rand(3, requires_grad=True)
    return z.view(3)[1:] * x[1:], z[:2]


def told(function, grad):
    """Values, flags and gradients of a few calls."""
    tj.manual_seed(0)
    facts, numbers = [], []
    for _ in range(4):
        x = tj.tensor([0.5, -1.0, 2.0], requires_grad=grad)
        result = function(x)
        results = result if isinstance(result, tuple) else (result,)
        for t in results:
            facts.append(
                (t.requires_grad, t.is_leaf, t.grad_fn is None, t.is_leaf and t.grad is None)
            )
            numbers.append(t.detach().numpy().copy())
        wanted = [t.sum() for t in results if t.requires_grad]
        if wanted:
            sum(wanted).backward()
        facts.append(x.grad is None)
        numbers += [
            t.grad.numpy().copy() for t in (x, *results) if t.is_leaf and t.grad is not None
        ]
    return facts, numbers


@pytest.mark.sampled(2)
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize(
    ("function", "compiles"),
    [
        *((f, True) for f in (slope, constant, accumulated, several, descent, mixed, no_more)),
        (itself, True),
        *((f, False) for f in (alone, used, shown)),
    ],
)
def test_leaves_made_inside(function, compiles, grad) -> None:
    """Recorded, unless a result hangs on such a leaf and nothing else: nobody else could ask for its gradient."""
    compiled = tj.compile(function)
    (facts, numbers), (found, others) = told(function, grad), told(compiled, grad)
    assert facts == found
    for a, b in zip(numbers, others, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6)
    if grad:
        assert compiled.stats.compiled_calls == (3 if compiles else 0), compiled.explain()
        reason = "together with its gradient" if function is used else "new leaf"
        assert compiles or reason in compiled.reasons[0]


def test_a_leaf_behind_compiled_results_and_views_is_reached_once() -> None:
    def f(x):
        return x.reshape(-1), x + 1, x[:1]

    compiled, seen = tj.compile(f), []
    for function in (f, compiled, compiled, compiled):
        x = tj.ones(3, requires_grad=True)
        x.register_hook(lambda grad: seen.append(grad.tolist()))
        sum(t.sum() for t in function(x)).backward()
        assert x.grad.tolist() == [3.0, 2.0, 2.0]
        x.grad = None
        (found,) = tj.autograd.grad(sum(t.sum() for t in reversed(function(x))), x)
        assert found.tolist() == [3.0, 2.0, 2.0]
    assert seen == [[3.0, 2.0, 2.0]] * 8


# --- leaves from outside that do not require grad for a while ---------------------------------------------------------


def rivals(stays_off: bool = False) -> tuple[Any, list[Any]]:
    """A step of two networks against each other: the second is left out of the first one's backward pass."""
    tj.manual_seed(0)
    maker, judge = nn.Sequential(nn.Linear(3, 4), nn.Tanh()), nn.Linear(4, 1)
    first, second = (tj.optim.SGD(net.parameters(), lr=0.1) for net in (maker, judge))

    def require(value: bool) -> None:
        for parameter in judge.parameters():
            parameter.requires_grad = value

    def step(z: Any, real: Any) -> Any:
        fake = maker(z)
        require(False)
        first.zero_grad()
        fooled = (judge(fake) - 1).square().mean() + judge(real).square().mean()
        fooled.backward()
        first.step()
        require(True)
        second.zero_grad()
        told = judge(fake.detach()).square().mean() + (judge(real) - 1).square().mean()
        told.backward()
        second.step()
        if stays_off:
            require(False)
        return fooled.detach(), told.detach()

    return step, [*maker.parameters(), *judge.parameters()]


def test_a_network_that_is_left_out_of_a_backward_pass() -> None:
    eager, expected = rivals()
    function, found = rivals()
    compiled = tj.compile(function, strict=True)
    for call in range(6):
        tj.manual_seed(call)
        z, real = tj.randn(5, 3), tj.randn(5, 4)
        for a, b in zip(compiled(z, real), eager(z, real), strict=True):
            assert a.item() == pytest.approx(b.item(), rel=1e-5)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.tolist(), b.tolist(), rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(a.grad.tolist(), b.grad.tolist(), rtol=1e-5, atol=1e-7)
        assert a.requires_grad
    assert compiled.stats.compiled_calls == 5


def test_what_was_read_meanwhile_has_no_gradient() -> None:
    w = tj.tensor([1.0, 2.0], requires_grad=True)

    @tj.compile(strict=True)
    def function(x: Any) -> Any:
        w.requires_grad_(False)
        apart = (w * x).sum()
        w.requires_grad_(True)
        return apart * 3 + (w * w * x).sum()

    for call in range(4):
        w.grad = None
        result = function(tj.tensor([1.0, call + 1.0]))
        result.backward()
        assert result.item() == 3 * (1 + 2 * (call + 1)) + 1 + 4 * (call + 1)
        assert w.grad.tolist() == [2.0, 4.0 * (call + 1)]
    assert function.stats.compiled_calls == 3


def test_leaves_that_stay_changed() -> None:
    eager, expected = rivals(stays_off=True)
    function, found = rivals(stays_off=True)
    compiled = tj.compile(function, strict=True)
    for _ in range(4):
        z, real = tj.ones(2, 3), tj.ones(2, 4)
        eager(z, real)
        compiled(z, real)
    assert compiled.stats.compiled_calls == 2
    assert [p.requires_grad for p in found] == [p.requires_grad for p in expected]
    assert not all(p.requires_grad for p in found)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.tolist(), b.tolist(), rtol=1e-5, atol=1e-7)


def test_losses_of_leaves_that_start_run_eagerly() -> None:
    w = tj.ones(2)
    made = tj.compile(lambda x: (w.requires_grad_() * x).sum())
    for _ in range(3):
        w.requires_grad_(False)
        made(tj.ones(2)).backward()
    assert "requires_grad_()" in str(made.explain())
    assert w.requires_grad
    assert w.grad.tolist() == [3.0, 3.0]
