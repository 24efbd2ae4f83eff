"""Leaves, views and shapes that change after the graph was recorded, as in PyTorch."""

from __future__ import annotations

import pytest

import tracejit as tj


def test_a_leaf_that_stops_requiring_grad_before_the_pass() -> None:
    """It gets no gradient any more; its hooks are called."""
    x, w = (tj.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    seen = []
    x.register_hook(lambda g: seen.append(g.tolist()))
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad))
    total = (x * w).sum()
    x.requires_grad_(False)
    total.backward(retain_graph=True)
    assert x.grad is None
    assert w.grad.tolist() == [1.0, 2.0]
    assert seen == [[1.0, 2.0], None]
    x.requires_grad_()
    total.backward(retain_graph=True)
    assert x.grad.tolist() == [1.0, 2.0]
    total = (x * 2).sum()
    x.requires_grad_(False).mul_(w)
    with pytest.raises(RuntimeError, match="moved into the graph interior"):
        total.backward()


@pytest.mark.parametrize("turn", ["unsqueeze_", "squeeze_", "t_", "transpose_", "as_strided_"])
def test_views_from_before_a_turn_are_written_through(turn) -> None:
    arguments = {"unsqueeze_": (0,), "transpose_": (0, 1), "as_strided_": ((6,), (1,))}
    x = tj.arange(6.0).view(1, 6).requires_grad_()
    y = x * 1
    part = y[0, 1:3]
    getattr(y, turn)(*arguments.get(turn, ()))
    assert y._version == part._version == 1
    y.mul_(2)
    if turn == "as_strided_":  # there is no way back from what shows some elements
        with pytest.raises(RuntimeError, match="has no history"):
            part.sum()
        return
    (part * part).sum().backward()
    assert x.grad.tolist() == [[0.0, 8.0, 16.0, 0.0, 0.0, 0.0]]


def test_views_of_what_starts_to_require_grad() -> None:
    x = tj.ones(2, 2)
    row = x[0]
    x.requires_grad_()
    assert row.requires_grad
    assert row.is_leaf
    product = row * 2
    assert product.requires_grad
    assert product.grad_fn.next_functions == ((None, 0), (None, 0))
    product.sum().backward()
    assert x.grad is None
    assert row.grad is None
    with tj.no_grad():
        x.mul_(3)
    assert not row.is_leaf  # its history is looked up again where memory was written to
    row.sum().backward()
    assert x.grad.tolist() == [[1.0, 1.0], [0.0, 0.0]]
    with tj.no_grad():
        unseen = x[0]
        x.mul_(3)
    assert unseen.requires_grad
    with pytest.raises(RuntimeError, match="created in no_grad mode"):
        unseen * 2
    assert repr(unseen) == "tensor([9., 9.], grad_fn=<Invalid>)"


def test_retained_gradients_add_up() -> None:
    x = tj.ones(2, requires_grad=True)
    y = x * 2
    y.retain_grad()
    total = y.sum()
    total.backward(retain_graph=True)
    total.backward()
    assert y.grad.tolist() == [2.0, 2.0]
    z = x * 3
    z.sum().backward(inputs=[z])
    assert z.retains_grad
    assert z.grad.tolist() == [1.0, 1.0]


def test_a_view_retains_the_gradient_of_what_it_has_become() -> None:
    x = tj.ones(2, 1, requires_grad=True)
    y = x + 1
    row = y[0]
    row.retain_grad()
    row[0].mul_(3)
    row.backward(tj.ones(1))
    assert row.grad.tolist() == [1.0]
    assert x.grad.tolist() == [[3.0], [0.0]]


def test_copies_are_steps_of_their_own() -> None:
    x = tj.ones(2, requires_grad=True)
    y, z = x * 2, tj.zeros(2)
    z.copy_(y)
    z.register_hook(lambda g: g * 100)
    (y.sum() + z.sum()).backward()
    assert x.grad.tolist() == [202.0, 202.0]


def detached_later(x):
    y = x * 2
    z = y.sin()
    y.detach_()
    return z.sum() + y.sum()


def detached_result(x):
    y = (x * 2).exp()
    z = y * 3
    y.detach_()
    return z.sum() + (y * x).sum()


@pytest.mark.parametrize("compiled", [False, True])
def test_what_a_pass_needs_must_not_forget_its_history(compiled):
    """As in PyTorch; a result that its own step keeps, and what no step keeps, may."""
    for function, fails in ((detached_later, True), (detached_result, False)):
        f = tj.compile(function) if compiled else function
        for _ in range(3):
            x = tj.tensor([0.5, -1.0], requires_grad=True)
            out = f(x)
            if fails:
                with pytest.raises(RuntimeError, match="detached in-place"):
                    out.backward()
            else:
                (g,) = tj.autograd.grad(out, x)
                expected = 6 * (2 * x).exp() + (2 * x).exp()
                assert tj.allclose(g, expected)
    x = tj.ones(2, requires_grad=True)
    y = x.sin()
    x.detach_()  # a leaf has no history to forget
    y.sum().backward()
