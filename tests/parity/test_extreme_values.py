"""NaN, infinities, zeros of both signs, denormal and largest numbers: results and gradients as PyTorch has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")

CALLS = [
    "f.softshrink(x.detach())",
    "f.hardshrink(x.detach())",
    "f.elu(x, 0.7)",
    "f.selu(x)",
    "f.celu(x, 2.0)",
    "t.atan2(x * 1e-30, y * 1e-30)",
    "f.softsign(x)",
    "f.leaky_relu(x)",
    "f.smooth_l1_loss(x, y, reduction='none', beta=0.3)",
    "f.huber_loss(x, y, reduction='none', delta=2.0)",
    "f.l1_loss(x, y, reduction='none')",
    "t.frexp(x.clamp(-9.0, 9.0) * (x.detach().abs() > 1e-9))[0]",
    "t.angle(x)",
    "t.xlogy(x, y.detach().abs().clamp(0.1, 9.0))",
    "t.xlogy(x.detach().round(), y.abs() + 0.1)",
    "t.special.xlog1py(x, y.detach().abs().clamp(0.1, 9.0))",
    "t.heaviside(x.detach(), y.detach())",
    "t.isclose(x.detach(), y.detach())",
    "t.isclose(x.detach(), y.detach(), equal_nan=True)",
    "t.lgamma(x.detach()).round()",
    "t.clamp(x, -0.5, 0.5)",
    "t.nan_to_num(x)",
    "t.logaddexp(x.detach(), y.detach())",
    "t.sigmoid(x)",
    "t.tanh(x)",
    "t.rsqrt(x)",
    "t.sqrt(x)",
    "t.log1p(x)",
    "t.trunc(x) + t.floor(x) + t.ceil(x) + t.round(x)",
    "t.sign(x) + t.signbit(x)",
    "t.special.i1(x.clamp(-30.0, 30.0))",
    "t.special.i1e(x.clamp(-30.0, 30.0))",
    "t.polygamma(2, x.detach().abs() + 0.5)",
    "t.polygamma(3, x.detach().abs() + 0.5)",
]


def values(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Every special value beside every other one."""
    limits = np.finfo(kind)
    special = [
        np.nan,
        np.inf,
        -np.inf,
        0.0,
        -0.0,
        limits.max,
        limits.min,
        limits.tiny,
        -limits.tiny / 4,
    ]
    special += [1.0, -1.0, 0.5, -0.5, 2.0, -2.5, 1 - limits.epsneg, limits.eps, 30.0, -30.0, -80.0]
    x, y = np.meshgrid(np.array(special, kind), np.array(special, kind))
    return x.ravel(), y.ravel()


def run(t: Any, call: str, kind: str, compiled: bool = False) -> list[np.ndarray]:
    """The result, then the gradients where there are any."""
    x, y = (t.tensor(v, requires_grad=True) for v in values(kind))

    def function(x: Any, y: Any) -> Any:
        return eval(call, {"t": t, "f": t.nn.functional, "x": x, "y": y})

    if compiled:
        function = tj.compile(function)
        function(x, y), function(x, y)
    out = function(x, y)
    found = [out.detach().numpy()]
    if out.requires_grad:
        gradients = t.autograd.grad(out, (x, y), t.ones_like(out), allow_unused=True)
        found += [g.numpy() for g in gradients if g is not None]
    return found


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_values_and_gradients(call: str, kind: str) -> None:
    expected = run(torch, call, kind)
    small = np.finfo(kind).tiny  # PyTorch's vectors may round denormal numbers to zero
    for compiled in (False, True):
        for ours, theirs in zip(run(tj, call, kind, compiled), expected, strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(
                ours, theirs, rtol=1e-5 if kind == "float32" else 1e-9, atol=small
            )


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint8"])
@pytest.mark.parametrize("call", ["t.isclose(x, y)", "t.lcm(x, y)", "t.isclose(x, y, rtol=0.0)"])
def test_largest_integers(call: str, kind: str) -> None:
    limits = np.iinfo(kind)
    ends = np.array([limits.min + (limits.min < 0), limits.max, limits.max - 1, 0, 1, 2, 7], kind)
    x, y = (v.ravel() for v in np.meshgrid(ends, ends))
    results = []
    for t in (tj, torch):
        found = eval(call, {"t": t, "x": t.tensor(x), "y": t.tensor(y)})
        results.append(found.numpy())
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "bfloat16"])
def test_zeros_that_remain_have_the_sign_of_the_dividend(kind: str) -> None:
    numbers = [0.0, -0.0, 4.0, -4.0, 2.0, -2.0, np.inf, -np.inf]

    def signs(t: Any, call: Any) -> list[list[bool]]:
        x = t.tensor(numbers, dtype=getattr(t, kind))
        return [found.signbit().tolist() for found in call(x[:, None], x[None])]

    def call(x: Any, y: Any) -> Any:
        found = x % y, x % 2.0, x % -2.0
        return [r.masked_fill(r != r, 1.0) for r in found]

    compiled = tj.compile(call)
    assert [signs(tj, f) for f in (call, compiled, compiled)] == [signs(torch, call)] * 3


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "bfloat16"])
def test_certain_probabilities_have_slopes(kind: str) -> None:
    x, y = [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.5, 0.9], [0.0, 1.0, 0.5, 0.0, 1.0, 0.5, 0.3, 1.0]

    def slopes(t: Any) -> list[Any]:
        def call(*tensors: Any) -> Any:
            return t.nn.functional.binary_cross_entropy(*tensors, reduction="none")

        found: list[Any] = []
        for run in (call, *([tj.compile(call)] * 3 if t is tj else [])):
            p, q = (t.tensor(v, dtype=getattr(t, kind)).requires_grad_() for v in (x, y))
            loss = run(p, q)
            found.append(
                [v.double() for v in (loss.detach(), *t.autograd.grad(loss.sum(), (p, q)))]
            )
        return found

    (theirs,) = slopes(torch)
    for ours in slopes(tj):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-2 if "16" in kind else 1e-6)


@pytest.mark.parametrize(
    "call",
    ["f.multi_margin_loss(x, y[:, 0])", "f.multilabel_margin_loss(x, y)"],
)
def test_margins_that_are_just_kept_have_no_slope(call: str) -> None:
    def slope(t: Any) -> list[Any]:
        x = t.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, np.nan]], requires_grad=True)
        names = {"x": x, "y": t.tensor([[0, -1, 0], [1, 2, -1]]), "f": t.nn.functional}
        loss = eval(call, names)
        return [loss.item(), t.autograd.grad(loss, x)[0].tolist()]

    assert repr(slope(tj)) == repr(slope(torch))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", ["elu", "selu", "celu"])
def test_slopes_far_below_zero_are_not_rounded(name: str, compiled: bool) -> None:
    def slope(t: Any) -> Any:
        f = getattr(t.nn.functional, name)
        f = tj.compile(f) if compiled and t is tj else f
        for _ in range(2):
            x = t.tensor([-5.0, -12.0, -20.0, -60.0], requires_grad=True)
            found = t.autograd.grad(f(x).sum(), x)[0].tolist()
        return found

    assert slope(tj) == pytest.approx(slope(torch), rel=1e-5)


@pytest.mark.parametrize("scale", [1e-200, 1e-9, 3e-5, 1.0, 1e25, 0.0])
@pytest.mark.parametrize("call", ["f.cosine_similarity(x, y)", "f.cosine_embedding_loss(x, y, c)"])
@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_cosines_of_short_and_long_vectors(call: str, kind: str, scale: float) -> None:
    rows = np.array([[1.0, 2.0, -3.0], [4.0, 5.0, 0.5]])

    def found(t: Any, wrap: Any) -> list[Any]:
        run = wrap(lambda x, y, c: eval(call, {"f": t.nn.functional, "x": x, "y": y, "c": c}).sum())
        x, y = (
            t.tensor(v, dtype=getattr(t, kind), requires_grad=True)
            for v in (rows * scale, rows[::-1] + 0.5)
        )
        value = [run(x, y, t.tensor([1, -1])) for _ in range(3)][-1]
        return [value.item(), *(g.tolist() for g in t.autograd.grad(value, (x, y)))]

    expected = found(torch, lambda f: f)
    for wrap in (lambda f: f, tj.compile):
        for ours, theirs in zip(found(tj, wrap), expected, strict=True):
            exact = 1e-4 if kind == "float32" else 1e-9
            np.testing.assert_allclose(ours, theirs, rtol=exact, atol=exact * 1e-3 / max(scale, 1))


def test_cosines_of_halves_are_those_of_numbers_that_overflow() -> None:
    sides = []
    for t in (torch, tj):
        x = t.tensor([[9.0, 8.0, 9.0, 9.0]], dtype=t.float16).expand(3, 4)
        y = t.tensor([1, -1, 1])
        losses = t.nn.functional.cosine_embedding_loss(x, x, y, reduction="none")
        vectors = t.nn.functional.cosine_similarity(x * 1000, x * 1000)
        sides.append(losses.tolist() + vectors.tolist())
    assert sides[1] == pytest.approx(sides[0], rel=2e-3)


def test_powers_of_two_of_infinite_complex_numbers() -> None:
    ends = [np.inf, -np.inf, np.nan, 0.0, 1.0]
    sides = []
    for t in (torch, tj):
        x = t.tensor([complex(a, b) for a in ends for b in ends])
        sides.append(t.view_as_real(t.exp2(x)).numpy())
    np.testing.assert_allclose(sides[1], sides[0], rtol=1e-5)


@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_zeta_of_infinity(kind: str) -> None:
    sides = []
    for t in (torch, tj):
        x, q = t.tensor([[2.0, 5.0, 1.0, np.inf], [np.inf, np.inf, np.inf, 2.0]]).unbind(0)
        kinds = getattr(t, kind)
        sides.append(t.special.zeta(x.to(kinds), q.to(kinds)).numpy())
    np.testing.assert_array_equal(*sides)
