"""What functions with a backward of their own are told of their arguments."""

from __future__ import annotations

import tracejit as tj
from tracejit.autograd import Function


def test_setup_context_is_told_of_arguments_that_were_left_out():
    class Times(Function):
        @staticmethod
        def forward(x, by=3):
            return x * by

        @staticmethod
        def setup_context(ctx, inputs, output):
            _, ctx.by = inputs

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.by, None

    x = tj.tensor([2.0], requires_grad=True)
    (Times.apply(x) + Times.apply(x, by=4)).sum().backward()
    assert x.grad.tolist() == [7]


def test_zeros_that_stand_for_a_gradient_have_one_of_zeros():
    x, y = (tj.tensor([2.0], requires_grad=True) for _ in range(2))
    (zeros,) = tj.autograd.grad(x * 2, y, tj.ones(1), create_graph=True, materialize_grads=True)
    assert zeros.requires_grad
    (again,) = tj.autograd.grad(zeros.sum(), x, materialize_grads=True)
    assert again.tolist() == [0]
    (plain,) = tj.autograd.grad(x * 2, y, tj.ones(1), materialize_grads=True)
    assert not plain.requires_grad
