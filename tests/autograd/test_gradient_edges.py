"""Edges of the graph as where passes begin and end."""

from __future__ import annotations

import pytest

import tracejit as tj
from tracejit.autograd.graph import GradientEdge, get_gradient_edge


def leaf(*values):
    return tj.tensor([float(v) for v in values], requires_grad=True)


@pytest.mark.parametrize("make", [lambda x: x, lambda x: x * 2, lambda x: (x * 2).unbind()[0]])
def test_gradients_at_edges_are_those_of_the_tensors(make):
    x = make(leaf(1, 2))
    out = (x * 3).sum()
    expected = tj.autograd.grad(out, x, retain_graph=True)
    edge = get_gradient_edge(x)
    for inputs in (edge, (edge,), [GradientEdge(*edge)]):
        assert tj.autograd.grad(out, inputs, retain_graph=True)[0].tolist() == expected[0].tolist()


def test_an_edge_is_of_the_tensor_as_it_was():
    x = leaf(1, 2) * 1
    edge = get_gradient_edge(x)
    x *= 2
    old, new = tj.autograd.grad(x.sum(), (edge, x))
    assert (old.tolist(), new.tolist()) == ([2, 2], [1, 1])


def test_backward_takes_edges():
    a, b = leaf(1), leaf(2)
    x, y = a * 1, b * 1
    edge = get_gradient_edge(a)
    (x * y).sum().backward(inputs=(edge, y))
    assert (a.grad.item(), y.grad.item(), b.grad) == (2, 1, None)


def test_passes_in_two_steps():
    x = leaf(1, 2)

    def run(reduce=True):
        middle = x.sin().cos()
        middle = middle.sum() if reduce else middle
        return middle.exp().sin().sum(), get_gradient_edge(middle)

    out, edge = run()
    (upper,) = tj.autograd.grad(out, edge)
    (lower,) = tj.autograd.grad(edge, x, grad_outputs=upper)
    assert tj.allclose(lower, tj.autograd.grad(run()[0], x)[0])
    tj.autograd.backward(run()[1])
    assert tj.allclose(x.grad, tj.autograd.grad(x.sin().cos().sum(), x)[0])
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        tj.autograd.grad(run(False)[1], x)
    with pytest.raises(RuntimeError, match="Mismatch"):
        tj.autograd.grad(run()[1], x, grad_outputs=tj.ones(3))
    with pytest.raises(RuntimeError, match="Mismatch"):
        tj.autograd.grad(run()[1], x, grad_outputs=tj.ones((), dtype=tj.float64))


def test_edges_of_functions_know_their_results():
    class Summed(tj.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.sum()

        @staticmethod
        def backward(ctx, g):
            return g * tj.tensor([2.0, 3.0])

    x = leaf(1, 2)
    tj.autograd.backward(get_gradient_edge(Summed.apply(x)))
    assert x.grad.tolist() == [2, 3]


def test_edges_cannot_be_materialized():
    x, y = leaf(1) * 1, leaf(2) * 1
    out = x.sum()
    edge_x, edge_y = get_gradient_edge(x), get_gradient_edge(y)
    found = tj.autograd.grad(out, (edge_x, y), materialize_grads=True, retain_graph=True)
    assert [g.item() for g in found] == [1, 0]
    assert tj.autograd.grad(out, (x, edge_y), allow_unused=True, retain_graph=True)[1] is None
    with pytest.raises(RuntimeError, match="GradientEdge"):
        tj.autograd.grad(out, (x, edge_y), materialize_grads=True)


def test_zeros_that_stand_for_gradients_can_be_differentiated():
    x, a = leaf(0.5), leaf(1)
    first = tj.autograd.grad((x * a).sum(), x, create_graph=True)
    second = tj.autograd.grad(first, x, create_graph=True, materialize_grads=True)
    assert (second[0].item(), second[0].requires_grad) == (0, True)
    assert tj.autograd.grad(second, x, materialize_grads=True)[0].item() == 0
    with pytest.raises(ValueError, match="non-empty"):
        tj.autograd.grad(x.sum(), [])


def test_edges_in_compiled_code():
    def run(x):
        y = x * 2
        edge = get_gradient_edge(y)
        y = y * 3
        return tj.autograd.grad((y * y).sum(), (edge, x))

    x = leaf(1, 2)
    expected = [g.tolist() for g in run(x)]
    f = tj.compile(run)
    for _ in range(3):
        assert [g.tolist() for g in f(x)] == expected
