"""Checks against finite differences, Jacobians and Hessians."""

from __future__ import annotations

import pytest

import tracejit as tj
from tracejit.autograd import functional as F
from tracejit.autograd import gradcheck, gradgradcheck


def double(*values):
    return tj.tensor([float(v) for v in values], dtype=tj.float64, requires_grad=True)


class Wrong(tj.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x


def test_gradcheck_accepts_right_gradients():
    x, y = double(0.5, -1.5), double(2, 3)
    assert gradcheck(lambda a, b: (a * b.exp(), a.tanh() / b), (x, y))
    assert gradcheck(lambda a: a.exp(), x)
    assert x.tolist() == [0.5, -1.5]


def test_gradcheck_finds_wrong_gradients():
    x = double(0.5, -1.5)
    with pytest.raises(
        RuntimeError, match="Jacobian mismatch for output 0 with respect to input 0"
    ):
        gradcheck(Wrong.apply, (x,))
    assert gradcheck(Wrong.apply, (x,), raise_exception=False) is False


def test_gradcheck_needs_an_input_that_requires_grad():
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(lambda a: a, (tj.tensor([1.0]),))


def test_gradcheck_warns_about_precision():
    x = tj.tensor([0.5], requires_grad=True)
    with pytest.warns(UserWarning, match="not a double precision"):
        gradcheck(lambda a: a * 2, (x,), eps=1e-2, atol=1e-2)


def test_gradgradcheck():
    x, y = double(0.5, -1.5), double(2, 3)
    assert gradgradcheck(lambda a, b: a * a * b.exp(), (x, y))

    class WrongSecond(tj.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return Wrong.apply(x) / x * 2 * grad

    assert gradcheck(WrongSecond.apply, (x,))
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        gradgradcheck(WrongSecond.apply, (x,))


def test_jacobian_and_hessian():
    x = tj.tensor([1.0, 2.0])
    y = tj.tensor([3.0, 4.0])
    assert F.jacobian(lambda a: a * a, x).tolist() == [[2, 0], [0, 4]]
    blocks = F.jacobian(lambda a, b: (a * b).sum(), (x, y))
    assert [b.tolist() for b in blocks] == [[3, 4], [1, 2]]
    assert F.hessian(lambda a: (a * a * a).sum(), x).tolist() == [[6, 0], [0, 12]]
    cross = F.hessian(lambda a, b: (a * b).sum(), (x, y))
    assert cross[0][1].tolist() == [[1, 0], [0, 1]]
    assert cross[0][0].tolist() == [[0, 0], [0, 0]]


def test_products():
    x, v = tj.tensor([1.0, 2.0]), tj.tensor([1.0, 10.0])
    value, product = F.vjp(lambda a: a * a, x, v)
    assert (value.tolist(), product.tolist()) == ([1, 4], [2, 40])
    assert F.jvp(lambda a: a * a, x, v)[1].tolist() == [2, 40]
    assert F.vhp(lambda a: (a * a * a).sum(), x, v)[1].tolist() == [6, 120]
    assert F.hvp(lambda a: (a * a * a).sum(), x, v)[1].tolist() == [6, 120]
    with pytest.raises(RuntimeError, match="can only be None"):
        F.vjp(lambda a: a * a, x)
    with pytest.raises(RuntimeError, match="v has"):
        F.vjp(lambda a: a * a, x, tj.tensor([1.0]))


def test_strict_and_create_graph():
    x = tj.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="strict"):
        F.jacobian(lambda a: tj.tensor([1.0]), x, strict=True)
    assert F.jacobian(lambda a: tj.tensor([1.0]), x).tolist() == [[0, 0]]
    jacobian = F.jacobian(lambda a: a * a * a, x, create_graph=True)
    jacobian.sum().backward()
    assert x.grad.tolist() == [6, 12]


def test_gradients_from_a_batch_of_gradients():
    x = tj.tensor([1.0, 2.0, 3.0], requires_grad=True)
    w = tj.ones(2, requires_grad=True)
    grad = tj.autograd.grad

    (rows,) = grad(x * x, x, tj.eye(3), is_grads_batched=True)
    assert rows.tolist() == tj.diag(2 * x.detach()).tolist()
    a, b = grad(
        [x * x, x.sum() * w.sum()], [x, w], [tj.eye(3), tj.arange(3.0)], is_grads_batched=True
    )
    assert a.tolist() == [[2.0, 0.0, 0.0], [2.0, 6.0, 2.0], [4.0, 4.0, 10.0]]
    assert b.tolist() == [[0.0, 0.0], [6.0, 6.0], [12.0, 12.0]]
    (first,) = grad(x**3, x, tj.eye(3), is_grads_batched=True, create_graph=True)
    assert grad(first.sum(), x)[0].tolist() == [6.0, 12.0, 18.0]


def test_a_batch_of_gradients_is_one_pass_to_the_graph():
    x, w = tj.ones(2, requires_grad=True), tj.ones(3, requires_grad=True)
    grad, eye = tj.autograd.grad, tj.eye(2)
    with pytest.raises(RuntimeError, match="not have been used"):
        grad(x * 2, [x, w], eye, is_grads_batched=True)
    assert grad(x * 2, [x, w], eye, allow_unused=True, is_grads_batched=True)[1] is None
    zeros = grad(x * 2, [x, w], eye, materialize_grads=True, is_grads_batched=True)[1]
    assert zeros.tolist() == [0.0, 0.0, 0.0]
    y = x * x
    grad(y, x, eye, retain_graph=True, is_grads_batched=True)
    grad(y, x, eye, is_grads_batched=True)
    with pytest.raises(RuntimeError, match="second time"):
        grad(y, x, eye, is_grads_batched=True)
    for wrong, error, words in (
        (tj.ones(2), RuntimeError, "interpret the first dimension"),
        (tj.ones(2, 3), RuntimeError, "interpret the first dimension"),
        (None, RuntimeError, "needs a gradient"),
        (tj.ones(0, 2), ValueError, "batch size"),
        ([eye, tj.ones(3, 2)], ValueError, "batch size"),
        ([eye], RuntimeError, "numbers must agree"),
    ):
        outputs = [x * 2, x * 3] if isinstance(wrong, list) else x * 2
        with pytest.raises(error, match=words):
            grad(outputs, x, wrong, is_grads_batched=True)


def test_a_batch_of_gradients_in_compiled_code():
    def rows(x):
        x = x.detach().requires_grad_()
        return tj.autograd.grad(x.sin() * x.sum(), x, tj.eye(3), is_grads_batched=True)[0]

    compiled = tj.compile(rows)
    for number in range(4):
        x = tj.arange(3.0) + number
        assert tj.allclose(compiled(x), rows(x))
    assert compiled.stats.compiled_calls == 3, compiled.explain()


@pytest.mark.parametrize("name", ["jvp", "vjp", "jacobian", "hessian", "hvp", "vhp"])
def test_only_tensors_are_differentiated(name):
    call = getattr(tj.autograd.functional, name)
    x = tj.ones(2)
    for function, inputs in (
        (lambda x, n: x.sum(), (x, 2)),
        (lambda x: (x.sum(), "bar"), x),
        (lambda x: x.sum(), 3.0),
    ):
        with pytest.raises((TypeError, RuntimeError)) as caught:
            call(function, inputs)
        assert caught.type is not AttributeError
        if not isinstance(inputs, tj.Tensor):
            assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize("name", ["jvp", "vjp", "hvp", "vhp"])
def test_a_vector_for_every_input(name):
    x = tj.ones(1)
    with pytest.raises(RuntimeError, match="v should have 1 tensors"):
        getattr(tj.autograd.functional, name)(lambda x: x.sum(), x, (tj.ones(1), tj.ones(1)))
