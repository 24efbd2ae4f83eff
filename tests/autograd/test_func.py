"""tj.grad, tj.value_and_grad and tj.func: eager, inside compiled functions, and of compiled functions."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn

Pair = namedtuple("Pair", "w b")


def loss(params: Any, x: Any, y: Any) -> Any:
    hidden = (x @ params["w"][0] + params["b"]).tanh()
    return ((hidden @ params["w"][1] - y) ** 2).mean()


def problem() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)

    def tensor(*shape: int) -> Any:
        return tj.from_numpy(rng.standard_normal(shape))

    return {"w": [tensor(3, 4), tensor(4, 2)], "b": tensor(4)}, tensor(5, 3), tensor(5, 2)


def by_hand(params: Any, x: Any, y: Any) -> tuple[float, list[Any]]:
    leaves = [params["w"][0], params["w"][1], params["b"]]
    leaves = [t.detach().requires_grad_() for t in leaves]
    value = loss({"w": leaves[:2], "b": leaves[2]}, x, y)
    value.backward()
    return value.item(), [t.grad.numpy() for t in leaves]


def assert_gradients(found: Any, expected: list[Any]) -> None:
    assert list(found) == ["w", "b"]
    assert type(found["w"]) is list
    for a, b in zip([*found["w"], found["b"]], expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-10)
        assert not a.requires_grad


@pytest.mark.parametrize("wrap", ["eager", "inside", "around", "both"])
def test_gradients_of_nested_arguments(wrap: str) -> None:
    params, x, y = problem()
    value, expected = by_hand(params, x, y)
    inner = tj.compile(loss, strict=True) if wrap in ("around", "both") else loss
    f = tj.value_and_grad(inner)
    f = tj.compile(f, strict=True) if wrap in ("inside", "both") else f
    for _ in range(4):
        found, gradients = f(params, x, y)
        assert found.item() == pytest.approx(value, rel=1e-12)
        assert not found.requires_grad
        assert_gradients(gradients, expected)
    if wrap != "eager":
        assert (f if wrap != "around" else inner).stats.compiled_calls == 3
    assert all(t.grad is None for t in [*params["w"], params["b"]])


def test_positions_aux_and_structures() -> None:
    def f(pair: Any, x: Any, *, scale: float = 1.0) -> Any:
        out = pair.w * x + pair.b
        return (out * scale).sum(), {"out": out, "scale": scale}

    pair, x = Pair(tj.tensor([1.0, 2.0]), tj.tensor([0.5, 0.5])), tj.tensor([3.0, 4.0])
    (value, aux), (g, h) = tj.value_and_grad(f, argnums=(0, -1), has_aux=True)(pair, x, scale=2.0)
    assert value.item() == 24
    assert aux["out"].tolist() == [3.5, 8.5]
    assert not aux["out"].requires_grad
    assert type(g) is Pair
    assert (g.w.tolist(), g.b.tolist(), h.tolist()) == ([6, 8], [2, 2], [2, 4])
    g, aux = tj.func.grad(f, has_aux=True)(pair, x)
    assert (g.w.tolist(), aux["scale"]) == ([3, 4], 1.0)
    g, value = tj.func.grad_and_value(lambda a, b: (a * 2).sum())(x, x)
    assert (g.tolist(), value.item()) == ([2, 2], 14)
    assert tj.grad(lambda a, b: (a * 2).sum(), argnums=1)(x, x).tolist() == [0, 0]


def test_derivatives_of_derivatives() -> None:
    def cube(x: Any) -> Any:
        return x * x * x

    x = tj.tensor(2.0, dtype=tj.float64)
    third = tj.grad(tj.grad(tj.grad(cube)))
    assert third(x).item() == 6
    f = tj.compile(third)
    assert [f(x).item() for _ in range(3)] == [6, 6, 6]
    of_compiled = tj.grad(tj.grad(tj.compile(cube)))
    assert [of_compiled(x).item() for _ in range(3)] == [12, 12, 12]
    x = tj.tensor(2.0, requires_grad=True)
    slope = tj.grad(cube)(x)
    assert slope.requires_grad
    slope.backward()
    assert x.grad.item() == 12
    with tj.no_grad():
        assert not tj.grad(cube)(x).requires_grad


def test_what_the_function_reads_from_outside() -> None:
    w = tj.tensor([1.0, 2.0], requires_grad=True)

    def f(x: Any) -> Any:
        return (w * x * x).sum()

    for function in (f, tj.compile(f)):
        for _ in range(3):
            w.grad = None
            value, g = tj.value_and_grad(function)(tj.tensor([3.0, 4.0]))
            assert g.tolist() == [6, 16]
            (g.sum() + value).backward()
            assert w.grad.tolist() == [6 + 9, 8 + 16]


def test_products() -> None:
    x = tj.tensor([1.0, 2.0, 3.0], dtype=tj.float64)

    def f(x: Any, scale: Any) -> Any:
        return {"a": x * x * scale, "b": x.sum()}

    scale = tj.tensor(2.0, dtype=tj.float64)
    (value, pull) = tj.func.vjp(f, x, scale)
    assert value["a"].tolist() == [2, 8, 18]
    for weight in (1.0, 2.0):
        v = {"a": tj.ones(3, dtype=tj.float64) * weight, "b": tj.tensor(0.5, dtype=tj.float64)}
        gx, gs = pull(v)
        assert gx.tolist() == [4 * k * weight + 0.5 for k in (1, 2, 3)]
        assert gs.item() == 14 * weight
    tangents = (tj.tensor([1.0, 0.0, 1.0], dtype=tj.float64), tj.tensor(1.0, dtype=tj.float64))
    value, product = tj.func.jvp(f, (x, scale), tangents)
    assert product["a"].tolist() == [4 + 1, 4, 12 + 9]
    assert product["b"].item() == 2
    assert not product["a"].requires_grad

    def inside(x: Any, scale: Any, t: Any) -> Any:
        _, pull = tj.func.vjp(f, x, scale)
        _, product = tj.func.jvp(f, (x, scale), (t, scale))
        return pull({"a": t, "b": scale})[0], product["a"]

    g = tj.compile(inside, strict=True)
    expected = [t.tolist() for t in inside(x, scale, tangents[0])]
    for _ in range(4):
        assert [t.tolist() for t in g(x, scale, tangents[0])] == expected
    assert g.stats.compiled_calls == 3


def test_a_functional_training_loop() -> None:
    params, x, y = problem()
    flat = {"w": params["w"][0], "v": params["w"][1], "b": params["b"]}

    def step(params: Any, x: Any, y: Any) -> Any:
        def objective(p: Any) -> Any:
            return loss({"w": [p["w"], p["v"]], "b": p["b"]}, x, y)

        value, g = tj.value_and_grad(objective)(params)
        return value, {name: p - 0.1 * g[name] for name, p in params.items()}

    f = tj.compile(step, strict=True)
    ours, theirs = flat, flat
    for _ in range(20):
        a, ours = f(ours, x, y)
        b, theirs = step(theirs, x, y)
        assert a.item() == pytest.approx(b.item(), rel=1e-10)
    assert f.stats.recordings == 1


def test_refusals() -> None:
    x = tj.ones(2)
    with pytest.raises(RuntimeError, match="one element"):
        tj.grad(lambda x: x * 2)(x)
    with pytest.raises(RuntimeError, match="one element"):
        tj.grad(lambda x: 3.0)(x)
    with pytest.raises(ValueError, match="argnums=2"):
        tj.grad(lambda x: x.sum(), argnums=2)(x)
    with pytest.raises(ValueError, match="different positions"):
        tj.grad(lambda x: x.sum(), argnums=(0, -1))(x)
    with pytest.raises(TypeError, match="no tensor"):
        tj.grad(lambda x: x)(1.0)
    with pytest.raises(RuntimeError, match="floating point"):
        tj.grad(lambda x: x.sum())(tj.tensor([1, 2]))
    with pytest.raises(RuntimeError, match="pair"):
        tj.grad(lambda x: x.sum(), has_aux=True)(x)
    _, pull = tj.func.vjp(lambda x: x * 2, x)
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        pull(tj.ones(3))
    with pytest.raises(RuntimeError, match="tangents of type"):
        tj.func.jvp(lambda x: x * 2, (x,), (tj.ones(3),))
    with pytest.raises(RuntimeError, match="For complex Tensors"):
        pull(x * 1j)
    with pytest.raises(RuntimeError, match="structure"):
        pull([x])
    with pytest.raises(TypeError, match="tuples"):
        tj.func.jvp(lambda x: x, x, x)


@pytest.mark.parametrize("dtype", [tj.float64, tj.bfloat16, tj.int64])
@pytest.mark.parametrize("compiled", [False, True])
def test_cotangents_of_other_real_dtypes(dtype: Any, compiled: bool) -> None:
    """They are cast to the dtype of the output, as gradients given to ``backward`` are."""

    def pulled(x: Any, v: Any) -> Any:
        return tj.func.vjp(lambda t: t * t, x)[1](v)[0]

    pulled = tj.compile(pulled) if compiled else pulled
    for _ in range(3):
        found = pulled(tj.tensor([1.0, 3.0]), tj.tensor([2, 1], dtype=dtype))
        assert found.dtype is tj.float32
        assert found.tolist() == [4.0, 6.0]


def nested(params: Any, x: Any) -> Any:
    return {"h": (x @ params["w"]).tanh() + params["b"], "n": params["b"].square().sum()}


@pytest.mark.parametrize("compiled", [False, True])
def test_jacobians_are_nested_like_the_result_and_the_argument(compiled: bool) -> None:
    def of(params: Any, x: Any) -> Any:
        return tj.func.jacrev(nested)(params, x)

    run = tj.compile(of) if compiled else of
    params = {"w": tj.tensor([[1.0, -2.0], [0.5, 0.25]]), "b": tj.tensor([3.0, 4.0])}
    x = tj.tensor([0.1, 0.2])
    for _ in range(3):
        found = run(params, x)
    slope = 1 - (x @ params["w"]).tanh() ** 2
    expected = tj.zeros(2, 2, 2)
    for k in range(2):
        expected[k, :, k] = x * slope[k]
    assert list(found) == ["h", "n"]
    assert list(found["h"]) == ["w", "b"]
    assert tj.allclose(found["h"]["w"], expected)
    assert found["h"]["b"].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert found["n"]["w"].tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert found["n"]["b"].tolist() == [6.0, 8.0]


@pytest.mark.parametrize("compiled", [False, True])
def test_hessian_of_a_result_of_many_elements(compiled: bool) -> None:
    def of(x: Any, y: Any) -> Any:
        return tj.func.hessian(lambda x, y: x * x * y, argnums=(0, 1))(x, y)

    run = tj.compile(of) if compiled else of
    for _ in range(3):
        (xx, xy), (yx, yy) = run(tj.tensor([1.0, 2.0]), tj.tensor([3.0, 4.0]))
    for found, values in [(xx, [6.0, 8.0]), (xy, [2.0, 4.0]), (yx, [2.0, 4.0]), (yy, [0.0, 0.0])]:
        expected = tj.zeros(2, 2, 2)
        for k in range(2):
            expected[k, k, k] = values[k]
        assert found.tolist() == expected.tolist()


def test_a_jacobian_has_a_history_where_the_function_depends_on_a_parameter() -> None:
    layer = nn.Linear(2, 2, bias=False)
    found = tj.func.jacrev(lambda x: layer(x).square())(tj.tensor([1.0, 2.0]))
    found.sum().backward()
    assert layer.weight.grad is not None
    assert not tj.func.jacrev(lambda x: x * x)(tj.tensor([1.0, 2.0])).requires_grad


@pytest.mark.parametrize("compiling", [False, True])
def test_derivatives_inside_inference_mode(compiling: bool):
    def derivatives(x):
        def f(v):
            return (v * v * v).sum()

        _, pull = tj.func.vjp(f, x)
        return (
            tj.func.grad(f)(x),
            *pull(tj.tensor(1.0)),
            tj.func.jvp(f, (x,), (x,))[1],
            tj.func.hessian(f)(x),
            tj.func.grad(f)(x * 2),
        )

    run = tj.compile(derivatives) if compiling else derivatives
    x = tj.tensor([1.0, 2.0])
    expected = [t.tolist() for t in derivatives(x)]
    for _ in range(3):
        with tj.inference_mode():
            found = run(x)
        assert [t.tolist() for t in found] == expected
    assert expected[0] == [3.0, 12.0]
    assert not found[0].requires_grad


def test_pullbacks_are_differentiated_by_their_cotangents() -> None:
    x, y = tj.tensor(0.3), tj.tensor(0.7)
    _, pull = tj.func.vjp(tj.sin, x)
    assert tj.allclose(tj.func.grad(lambda v: pull(v)[0])(y), x.cos())
    seed = tj.tensor(2.0, requires_grad=True)
    pull(seed)[0].backward()
    assert tj.allclose(seed.grad, x.cos())
    assert not pull(y)[0].requires_grad
    with tj.no_grad():
        assert not pull(seed)[0].requires_grad


@pytest.mark.parametrize("compiled", [False, True])
def test_values_and_what_comes_with_them_keep_the_history_outside(compiled):
    def pulled(x, w):
        value, pull = tj.func.vjp(lambda v: v**2, x)
        return (value + pull(w)[0]).sum()  # x**2 + 2 * x * w

    def beside(x, w):
        inner = x.detach()
        slope, aux = tj.func.grad(lambda v: ((v**2).sum(), v**2 * w), has_aux=True)(inner)
        assert (slope.requires_grad, aux.requires_grad) == (False, True)
        return (slope + aux).sum()  # 2 * x + x**2 * w, with nothing to x

    def pushed(x, w):
        value, product = tj.func.jvp(lambda v: v**2, (x.detach(),), (w,))
        assert (value.requires_grad, product.requires_grad) == (False, True)
        return (value + product + tj.func.linearize(lambda v: v**3, x.detach())[1](w)).sum()

    for function, to_x, to_w in (
        (pulled, [8.0, 14.0], [2.0, 4.0]),
        (beside, None, [1.0, 4.0]),
        (pushed, None, [5.0, 16.0]),
    ):
        run = tj.compile(function) if compiled else function
        for _ in range(3):
            x = tj.tensor([1.0, 2.0], requires_grad=True)
            w = tj.tensor([3.0, 5.0], requires_grad=True)
            run(x, w).backward()
            assert (x.grad if to_x is None else x.grad.tolist()) == to_x
            assert w.grad.tolist() == to_w
