"""Edges of the graph as where passes begin and end, and inputs whose gradient is nothing but zeros."""

from __future__ import annotations

from collections import OrderedDict

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
    with pytest.raises(RuntimeError, match="cannot be empty"):
        tj.autograd.grad(x.sum(), [])


@pytest.mark.parametrize("compiled", [False, True])
def test_inputs_may_be_a_dict(compiled):
    def run(a, b):
        wanted = {"a": a, "b": b}
        loss = (a.square() * 3).sum()
        (a * b).sum().backward(inputs={"b": b})
        return tj.autograd.grad(loss, wanted, allow_unused=True)

    if compiled:
        run = tj.compile(run)
    for _ in range(3):
        a, b = leaf(0.5), leaf(2.0)
        found = run(a, b)
        assert list(found) == ["a", "b"]
        assert (found["a"].item(), found["b"], a.grad, b.grad.item()) == (3.0, None, None, 0.5)
    assert tj.autograd.grad(a.sum(), {"b": b}, materialize_grads=True)["b"].item() == 0
    with pytest.raises(TypeError, match="must be a dict, not OrderedDict"):
        tj.autograd.grad(a.sum(), OrderedDict(a=a))
    for empty in ({}, ()):
        with pytest.raises(RuntimeError, match="cannot be empty"):
            a.sum().backward(inputs=empty)


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


def test_vectors_of_nothing_that_are_joined_have_gradients() -> None:
    def joined(x, *others):
        return tj.cat([x, *others], dim=1), tj.cat([*others, x])

    nothing, matrix = leaf(), tj.ones(2, 3, requires_grad=True)
    compiled = tj.compile(joined)
    for function in (joined, compiled, compiled, compiled):
        for result in function(nothing, matrix):
            assert result.tolist() == matrix.tolist()
            empty, full = tj.autograd.grad(result, (nothing, matrix), tj.full((2, 3), 2.0))
            assert empty.shape == (0,)
            assert full.tolist() == [[2.0] * 3] * 2


@pytest.mark.parametrize("size", [(4, 5), (3, 4, 5)])
def test_positions_of_nearest_pixels_have_a_gradient_of_zero(size: tuple[int, ...]) -> None:
    def sampled(image, grid):
        return tj.nn.functional.grid_sample(image, grid, mode="nearest", align_corners=False)

    image = tj.rand(2, 3, *size, requires_grad=True)
    grid = (tj.rand(2, *size, len(size)) * 3 - 1.5).requires_grad_()
    compiled = tj.compile(sampled)
    expected = sampled(image, grid.detach())
    for function in (sampled, compiled, compiled, compiled):
        result = function(image, grid)
        assert tj.equal(result, expected)
        of_image, of_grid = tj.autograd.grad(result.sum(), (image, grid))
        assert of_grid.shape == grid.shape
        assert not of_grid.any()
        assert of_image.sum() > 0
    (alone,) = tj.autograd.grad(sampled(image.detach(), grid).sum(), grid)
    assert not alone.any()
