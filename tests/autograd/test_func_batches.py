"""vmap, Jacobians as functions, and stacked modules, against loops over samples."""

from __future__ import annotations

import pytest

import tracejit as tj
from tracejit.func import functional_call, hessian, jacfwd, jacrev, stack_module_state, vmap


def test_vmap_is_a_loop_over_samples():
    x, w = tj.randn(5, 3), tj.randn(3)
    assert tj.equal(vmap(tj.dot, (0, None))(x, w), tj.stack([tj.dot(row, w) for row in x]))
    y = tj.randn(3, 5)
    assert vmap(lambda a, b: a + b, in_dims=(0, 1), out_dims=1)(x, y).shape == (3, 5)
    found = vmap(lambda d: {"s": d["a"].sum(), "t": (d["b"], d["a"] * 2)}, ({"a": 0, "b": None},))(
        {"a": x, "b": w}
    )
    assert found["s"].shape == (5,)
    assert found["t"][0].shape == (5, 3)
    nested = vmap(vmap(lambda a, b: a * b, (0, None)), (0, 0))(x, tj.arange(5.0))
    assert tj.equal(nested, x * tj.arange(5.0)[:, None])


def test_gradients_of_every_sample():
    model = tj.nn.Linear(3, 1)
    params = {k: v.detach() for k, v in model.named_parameters()}

    def loss(params, x, t):
        return ((functional_call(model, params, (x,)) - t) ** 2).sum()

    x, t = tj.randn(4, 3), tj.randn(4, 1)
    each = vmap(tj.grad(loss), in_dims=(None, 0, 0))(params, x, t)
    assert each["weight"].shape == (4, 1, 3)
    for i in range(4):
        alone = tj.grad(loss)(params, x[i], t[i])
        assert tj.allclose(each["weight"][i], alone["weight"])


def test_vmap_compiles():
    def f(x, w):
        return vmap(lambda row: (row * w).tanh().sum())(x)

    x, w = tj.randn(6, 3), tj.randn(3, requires_grad=True)
    compiled = tj.compile(f, strict=True)
    for _ in range(3):
        (a,), (b,) = (tj.autograd.grad(g(x, w).sum(), w) for g in (f, compiled))
        assert tj.allclose(a, b)


def test_what_vmap_refuses():
    for call, match in (
        (lambda: vmap(lambda x: x, (0, 0))(tj.ones(1)), "in_dims"),
        (lambda: vmap(lambda x, y: x)(tj.ones(2), tj.ones(3)), "same size"),
        (lambda: vmap(lambda x: x)(3), "at least one Tensor"),
        (lambda: vmap(lambda x: 3)(tj.ones(2)), "only return Tensors"),
        (lambda: vmap(lambda x: x, 1)(tj.ones(2)), "in_dim=1"),
        (lambda: vmap(lambda x: x, randomness="never"), "randomness"),
    ):
        with pytest.raises(ValueError, match=match):
            call()


def test_jacobians():
    x = tj.tensor([1.0, 2.0, 3.0])
    for jacobian in (jacrev, jacfwd):
        assert tj.equal(jacobian(lambda x: x * x)(x), tj.diag(2 * x))
        found, aux = jacobian(lambda x: (x.sum(), "more"), has_aux=True)(x)
        assert (found.tolist(), aux) == ([1.0, 1.0, 1.0], "more")
    one, two = jacrev(lambda a, b: a * b, argnums=(0, 1))(x, x + 1)
    assert tj.equal(one, tj.diag(x + 1))
    assert tj.equal(two, tj.diag(x))
    assert tj.allclose(hessian(lambda x: (x**3).sum())(x), tj.diag(6 * x))


def test_stacked_modules_are_called_by_vmap():
    models = [tj.nn.Sequential(tj.nn.Linear(3, 2), tj.nn.BatchNorm1d(2)).eval() for _ in range(3)]
    params, buffers = stack_module_state(models)
    assert params["0.weight"].requires_grad
    x = tj.randn(4, 3)
    call = vmap(lambda p, b: functional_call(models[0], (p, b), (x,)))
    assert tj.allclose(call(params, buffers), tj.stack([m(x) for m in models]))
    for bad, match in (([], "at least one"), ([tj.nn.Linear(1, 1), tj.nn.ReLU()], "same class")):
        with pytest.raises(RuntimeError, match=match):
            stack_module_state(bad)
