"""autograd.forward_ad, points of Sobol sequences and rounding to levels, as in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")
import torch.autograd.forward_ad as theirs  # noqa: E402

from tracejit.autograd import forward_ad as ours  # noqa: E402


def told(of: Any, ad: Any) -> list[Any]:
    """Tangents of functions, of modules, and through changes in place."""

    def f(x, w):
        return (x.sin() @ w).tanh().sum(0) + x.exp().mean()

    x, w = of.arange(6.0).reshape(2, 3) / 5, of.arange(12.0).reshape(3, 4) / 10
    tangents = of.ones(2, 3), of.arange(12.0).reshape(3, 4)
    found: list[Any] = []
    with ad.dual_level():
        found += ad.unpack_dual(f(ad.make_dual(x.clone(), tangents[0].clone()), w))
        duals = [ad.make_dual(a.clone(), t.clone()) for a, t in zip((x, w), tangents, strict=True)]
        found += ad.unpack_dual(f(*duals))
        found.append(ad.unpack_dual(f(x, w)).tangent)
        dual = ad.make_dual(x.clone(), tangents[0].clone())
        dual.mul_(3)
        found.append(ad.unpack_dual(dual).tangent)
        found.append(ad.unpack_dual(dual * 0 + 1).tangent)
        leaf = w.clone().requires_grad_()
        tangent = ad.unpack_dual(f(ad.make_dual(x.clone(), tangents[0].clone()), leaf)).tangent
        (tangent * tangent).sum().backward()
        found.append(leaf.grad)
        layer = of.nn.Linear(3, 2)
        with of.no_grad():
            layer.weight.copy_(of.arange(6.0).reshape(2, 3))
            layer.bias.fill_(1.0)
        for name, p in list(layer.named_parameters()):
            delattr(layer, name)
            setattr(layer, name, ad.make_dual(p, of.ones_like(p)))
        found += ad.unpack_dual(layer(x))
    return found


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tangents() -> None:
    for expected, found in zip(told(torch, theirs), told(tj, ours), strict=True):
        if expected is None:
            assert found is None
        else:
            a, b = expected.detach().numpy(), found.detach().numpy()
            np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


def test_refusals() -> None:
    x = tj.ones(3)
    with pytest.raises(RuntimeError, match="no level exists"):
        ours.make_dual(x, x)
    assert ours.unpack_dual(x) == (x, None)
    with pytest.raises(RuntimeError, match="exit"):
        ours.exit_dual_level()
    with tj.no_grad():
        with ours.dual_level():
            with pytest.raises(RuntimeError, match="Nested"):
                ours.enter_dual_level()
            with pytest.raises(ValueError, match="primal to be floating point"):
                ours.make_dual(tj.arange(3), x)
            with pytest.raises(RuntimeError, match="different size"):
                ours.make_dual(x, tj.ones(2))
            assert ours.unpack_dual(ours.make_dual(x, x) * 2).tangent.tolist() == [2.0] * 3
        assert not tj.is_grad_enabled()


def test_inside_a_compiled_function() -> None:
    @tj.compile
    def slope(x):
        with ours.dual_level():
            return ours.unpack_dual(ours.make_dual(x, tj.ones(2)).sin()).tangent

    for call in range(3):
        x = tj.ones(2) * call
        np.testing.assert_allclose(slope(x).numpy(), np.cos(x.numpy()), rtol=1e-6)
    assert slope.stats.compiled_calls == 0


@pytest.mark.parametrize("dimension", [1, 3, 20])
def test_sobol_points(dimension) -> None:
    a, b = (T.quasirandom.SobolEngine(dimension) for T in (torch, tj))
    for count in (1, 3, 4, 8):
        np.testing.assert_array_equal(b.draw(count).numpy(), a.draw(count).numpy())
    for engine in (a, b):
        engine.fast_forward(7)
    np.testing.assert_array_equal(
        b.draw(2, dtype=tj.float64).numpy(), a.draw(2, dtype=torch.float64).numpy()
    )
    assert a.num_generated == b.num_generated == 25
    with pytest.raises(ValueError, match="power of 2"):
        b.draw_base2(1)
    np.testing.assert_array_equal(b.reset().draw_base2(2).numpy(), a.reset().draw_base2(2).numpy())


def test_scrambled_sobol_points() -> None:
    points = [tj.quasirandom.SobolEngine(2, scramble=True, seed=s).draw(64) for s in (1, 1, 2)]
    assert points[0].equal(points[1])
    assert not points[0].equal(points[2])
    for half in (points[0] < 0.5).sum(0).tolist():
        assert half == 32
    engines = []
    for _ in range(2):
        tj.manual_seed(5)
        engines.append(tj.quasirandom.SobolEngine(2, scramble=True))
    assert engines[0].draw(4).equal(engines[1].draw(4))


def levels(of: Any, values: Any, scale: float, zero: int, how: str) -> tuple[Any, Any]:
    x = of.tensor(values, requires_grad=True)
    if how == "channels":
        scales = of.tensor([scale] * 3 + [0.5] * 4)
        zeros = of.tensor([zero] * 7, dtype=of.int32)
        y = of.fake_quantize_per_channel_affine(x, scales, zeros, 1, -8, 15)
    elif how == "tensors":
        one = of.tensor(scale), of.tensor(zero, dtype=of.int32)
        y = of.fake_quantize_per_tensor_affine(x, *one, -8, 15)
    else:
        y = of.fake_quantize_per_tensor_affine(x, scale, zero, -8, 15)
    (y * of.arange(7)).sum().backward()
    return y.detach().numpy(), x.grad.numpy()


@pytest.mark.parametrize("how", ["numbers", "tensors", "channels"])
@pytest.mark.parametrize(("scale", "zero"), [(0.1, 0), (0.037, 5), (1 / 3, -3)])
def test_levels(scale, zero, how) -> None:
    values = (np.random.default_rng(0).standard_normal((5, 7)) * 5).astype(np.float32)
    expected = levels(torch, values, scale, zero, how)
    compiled = tj.compile(lambda x: tj.fake_quantize_per_tensor_affine(x, scale, zero, -8, 15))
    for a, b in zip(levels(tj, values, scale, zero, how), expected, strict=True):
        np.testing.assert_array_equal(a, b)
    if how == "numbers":
        for _ in range(3):
            np.testing.assert_array_equal(compiled(tj.tensor(values)).numpy(), expected[0])
        assert compiled.stats.compiled_calls == 2


DERIVATIVES = {
    "strides inside strides": "f.hessian(lambda a: (t.as_strided(a, (2,), (2,)) ** 2).sum())(t.ones(4))",
    "strides of a view": "t.autograd.grad((v := x[1:4]).as_strided((2,), (1,), 2).sum(), v)[0]",
    "strides of a turned view": "t.autograd.grad((v := x.view(2, 3).t()).as_strided((2,), (2,), 0).sum(), v)[0]",
    "another dtype, forwards": "f.jacfwd(lambda a: a.bfloat16())(t.ones(2)).float()",
    "another dtype, backwards": "f.jacrev(lambda a: a.bfloat16(), chunk_size=2)(t.ones(2))",
    "complex results of real inputs": "t.autograd.functional.jacobian(lambda a: a + 1j * a * a, t.ones(2), "
    "strategy='forward-mode', vectorize=True)",
}


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives(name: str) -> None:
    found = []
    for of in (tj, torch):
        x = of.arange(6.0, requires_grad=True)
        found.append(eval(DERIVATIVES[name], {"t": of, "f": of.func, "x": x}).detach())
    assert found[0].dtype.name == str(found[1].dtype).removeprefix("torch.")
    assert found[0].tolist() == found[1].tolist()


@pytest.mark.parametrize("of", [torch, tj])
def test_powers_of_zero_have_tangents(of: Any) -> None:
    """What is left out of a gradient is left out of the derivative of that gradient as well."""
    x, y = of.tensor([0.0, 0.0, 2.0]), of.tensor([0.0, 2.0, 0.0])
    along = of.tensor([1.0, 1.0, 1.0])
    assert of.func.jvp(of.pow, (x, y), (along, along))[1].tolist() == pytest.approx(
        [0.0, 0.0, 0.6931472]
    )
    assert of.func.jvp(lambda y: 0.0**y, (y,), (along,))[1].tolist() == [0.0, 0.0, 0.0]
