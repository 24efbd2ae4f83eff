"""What functions of samples draw, are given by name and return besides tensors; derivatives of what ``vjp`` gave."""

from __future__ import annotations

from typing import Any

import pytest

import tracejit as tj
from tracejit.func import grad, jvp, vjp, vmap

DRAWS = {
    "rand": lambda row: row + tj.rand(4),
    "randn_like": tj.randn_like,
    "dropout": tj.nn.functional.dropout,
    "two": lambda row: tj.rand(4) * 2 + tj.rand(4),
    "permutation": lambda row: tj.ones(4)[tj.randperm(4)] * tj.randperm(4),
    "in place": lambda row: row.clone().uniform_(),
    "within": lambda row: vmap(lambda x: x * 0 + tj.rand(()), randomness="different")(row),
}


@pytest.mark.sampled(16)
@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
@pytest.mark.parametrize("compiled", [False, True])
def test_the_same_draws_for_all_samples(draw: Any, compiled: bool) -> None:
    def run(x: tj.Tensor) -> Any:
        return vmap(draw, randomness="same")(x), tj.rand(2)

    f = tj.compile(run) if compiled else run
    for n in (3, 3, 5, 6, 6, 3):
        x = tj.ones(n, 4)
        tj.manual_seed(n)
        found, after = f(x)
        assert tj.equal(found, found[:1].expand(n, -1))
        tj.manual_seed(n)
        once = vmap(draw, randomness="different")(x[:1])
        assert tj.equal(found[:1], once)
        assert tj.equal(after, tj.rand(2))  # the draws count once


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_draws_differ_or_are_refused(draw: Any) -> None:
    x = tj.ones(16, 4)
    found = vmap(draw, randomness="different")(x)
    assert not tj.equal(found, found[:1].expand(16, -1))
    for f in (vmap(draw), tj.compile(vmap(draw))):
        with pytest.raises(RuntimeError, match="randomness"):
            f(x)
    tj.rand(2)  # which is not inside


def test_arguments_by_name_are_not_sliced() -> None:
    x, b = tj.arange(6.0).reshape(3, 2), tj.tensor([10.0, 20.0])
    assert tj.equal(vmap(lambda row, *, b: row + b)(x, b=b), x + b)
    found = vmap(lambda row, *, b: row.sum() + b["all"].sum())(x, b={"all": x})
    assert tj.equal(found, x.sum(1) + x.sum())


def test_results_that_are_the_same_for_all() -> None:
    x = tj.ones(3, 2)
    assert vmap(lambda row: (row.sum(), 3, "text"), out_dims=(0, None, None))(x)[1:] == (3, "text")
    with pytest.raises(ValueError, match="chunk_size"):
        vmap(lambda row: row, chunk_size=0)


def test_a_batch_without_samples() -> None:
    w = tj.ones(3, requires_grad=True)
    for f in (vmap(lambda row: row * w), tj.compile(vmap(lambda row: row * w))):
        assert f(tj.ones(0, 3)).shape == (0, 3)
    assert vmap(lambda a, b: {"n": a @ b}, (1, None), 1)(tj.ones(3, 0), tj.ones(3, 5))[
        "n"
    ].shape == (5, 0)


@pytest.mark.parametrize("compiled", [False, True])
def test_derivatives_of_a_pullback_have_no_history(compiled: bool) -> None:
    def run(x: tj.Tensor) -> Any:
        value, pull = vjp(lambda a: (a**3).sum(), x)
        return value, grad(lambda c: pull(c)[0].sum())(tj.ones(()))

    f = tj.compile(run) if compiled else run
    for n in (3, 4, 5, 5):
        x = tj.arange(1.0, n)
        value, slope = f(x)
        assert (value.requires_grad, slope.requires_grad) == (False, False)
        assert tj.allclose(slope, (3 * x**2).sum())
        w = x.clone().requires_grad_()
        f(w)[1].backward()
        assert tj.allclose(w.grad, 6 * x)
    twice = grad(lambda a: vjp(tj.sin, a)[1](tj.tensor(1.0))[0])(tj.tensor(0.5))
    assert tj.allclose(twice, -tj.tensor(0.5).sin())
    assert not twice.requires_grad


def test_strict_products() -> None:
    x = tj.tensor([1.0, 2.0])
    found = jvp(lambda a: (a.sum(), tj.ones(2)), (x,), (x,))[1]
    assert tj.equal(found[1], tj.zeros(2))
    assert jvp(lambda a: a * 2, (x,), (x,), strict=True)[1].tolist() == [2.0, 4.0]
    for f in (jvp, tj.compile(jvp)):
        with pytest.raises(RuntimeError, match="independent"):
            f(lambda a: (a.sum(), tj.ones(2)), (x,), (x,), strict=True)
