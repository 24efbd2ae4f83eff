"""compile(): tensors whose shape or history a function changes in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj


def squeezed(x):
    return x.sum(1, keepdim=True).squeeze_()


def nothing_to_squeeze(x):
    return (x * 2).squeeze_()


def widened(x):
    return x.sum(1).unsqueeze_(1) * x


def turned(x):
    return (x * 2).t_()


def turned_back(x):
    return (x * 2).t_().t_()


def turned_often(x):
    return (x * 2).unsqueeze_(0).transpose_(1, 2).squeeze_(0).swapaxes_(0, 1).swapdims_(1, 0)


def written_after(x):
    y = (x * 2).t_()
    y.mul_(3)
    y[0].add_(1)
    return y, y.sum()


def made_of_nothing(x):
    y, z = tj.zeros(3, 4, 1), tj.zeros(4, 3)
    y.squeeze_()
    y.add_(x)
    z.t_()
    z += x * 2
    return y, z


def equal_ones(x):
    y, z = x + 1, x + 1
    z.t_()
    return y, z


def view_of_the_argument(x):
    y = x[0]
    y.unsqueeze_(1)
    return y, y.expand(4, 4).sum()


def detached(x):
    y = x.detach()
    y.unsqueeze_(0)
    return y, x * y


def view_turned_unseen(x):
    with tj.no_grad():
        y = x.detach()[0].unsqueeze_(0)
        y.t_()
    return x + y.T


def kept_for_backward(x):
    y = x * 2
    z = (y * y).sum()
    y.unsqueeze_(0)
    return z * y


def in_a_loop(x):
    for _ in range(4):
        norm = x.norm(dim=1, keepdim=True)
        norm.squeeze_(1)
        x = x / norm.unsqueeze(1) + 0.1
    return x


def forgotten(x):
    y = x * 2
    y.detach_()
    return y * x, y


def forgotten_in_a_loop(x):
    h = x
    for _ in range(3):
        h = (h * 1.5).sin()
        h.detach_()
    return h + x


def leaf_again(x):
    y = x * 2
    z = y * 3
    y.detach_().requires_grad_()
    (g,) = tj.autograd.grad((y * y).sum(), y)
    return z + g


def branching(x):
    y = x * 2
    if y.sum() > 0:
        y.t_()
    return y.sum(0)


FUNCTIONS = [
    *(squeezed, nothing_to_squeeze, widened, turned, turned_back, turned_often, written_after),
    *(made_of_nothing, equal_ones, view_of_the_argument, detached, kept_for_backward, in_a_loop),
    *(view_turned_unseen, forgotten, forgotten_in_a_loop, leaf_again, branching),
]


def told(function: Any, grad: bool) -> tuple[list[Any], list[Any]]:
    """Facts and numbers of a few calls, and of writes and backward passes after them."""
    facts, numbers = [], []
    for call in range(8):
        x = (tj.arange(12).view(3, 4) * 0.7 + call).cos().requires_grad_(grad)
        found = function(x)
        results = found if isinstance(found, tuple) else (found,)
        for y in results:
            facts.append([y.shape, y.stride(), y.requires_grad, y.is_leaf, y._version])
            facts.append([y._base is None, y.grad_fn is None])
            numbers.append(y.tolist())
        losses = [y.square().sum() for y in results if y.requires_grad]
        if losses:
            sum(losses).backward()
        for y in results:
            if y._base is None and not y.requires_grad:
                y.detach_().add_(1)
        numbers += [x.tolist(), [] if x.grad is None else x.grad.tolist()]
    return facts, numbers


@pytest.mark.sampled(4)
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_is_turned_in_place(function, grad) -> None:
    compiled = tj.compile(function)
    if grad and function in (view_of_the_argument, kept_for_backward):
        for f in (function, compiled):  # a view of a leaf; a tensor that a backward pass needs
            with pytest.raises(RuntimeError, match=r"in-place operation|inplace operation"):
                told(f, grad)
        return
    (facts, numbers), (found, others) = told(function, grad), told(compiled, grad)
    assert found == facts
    for a, b in zip(numbers, others, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=2e-5)
    assert compiled.stats.compiled_calls >= 5, compiled.explain()


def argument(x):
    x.unsqueeze_(0)
    return x * 2


def view_before_is_a_result(x):
    y = x * 2
    part = y[0]
    y.unsqueeze_(0)
    return y, part


def view_before_is_written(x):
    y = x * 2
    part = y[0]
    y.unsqueeze_(0)
    part.mul_(2)
    return y + 1


def written_beside_a_view(x):
    y = x * 2
    part = y[0]
    y.unsqueeze_(0)
    y.mul_(2)
    return part + 1


def view_of_what_was_turned(x):
    y = (x * 2).t_()
    return y, y[0]


@pytest.mark.parametrize(
    "function",
    [
        *(argument, view_before_is_a_result, view_before_is_written, written_beside_a_view),
        view_of_what_was_turned,
    ],
)
def test_what_runs_eagerly(function) -> None:
    compiled = tj.compile(function)
    (facts, numbers), (found, others) = told(function, False), told(compiled, False)
    assert found == facts
    for a, b in zip(numbers, others, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    assert compiled.stats.compiled_calls == 0


def test_views_of_views_are_written_through() -> None:
    def function(x):
        y = (x * 2).detach()
        part = y[0]
        inner = part[1:]
        part.unsqueeze_(1)
        inner.mul_(2)
        y.add_(1)
        return y, inner * 1, part * 1

    compiled = tj.compile(function, strict=True)
    for call in range(4):
        x = tj.arange(6).view(2, 3) + float(call)
        for a, b in zip(compiled(x), function(x), strict=True):
            assert a.tolist() == b.tolist()
    assert compiled.stats.compiled_calls == 3


def test_a_tensor_without_history_has_nothing_to_forget() -> None:
    """As loops do that clear gradients by hand."""

    def function(x):
        (x * x).sum().backward()
        x.grad.detach_()
        x.grad.mul_(0.5)
        return x * 1

    compiled = tj.compile(function, strict=True)
    for call in range(4):
        x = tj.tensor([1.0, call + 1.0], requires_grad=True)
        x.grad = tj.ones(2)
        compiled(x)
        assert x.grad.tolist() == [1.5, call + 1.5]
    assert compiled.stats.compiled_calls == 3
