"""``cond`` and ``while_loop``: values, gradients and refusals, eagerly and in compiled functions."""

from __future__ import annotations

import pytest

import tracejit as tj


def test_a_branch_of_a_tensor() -> None:
    def f(x):
        return tj.cond(x.sum() > 0, lambda x: x.sin() * x, lambda x: (x - 1) * 2, (x,))

    g = tj.compile(f)
    for _ in range(3):
        for values in ([1.0, 2.0], [-1.0, -2.0], [float("nan"), 1.0], [0.0, 0.0]):
            a, b = (tj.tensor(values, requires_grad=True) for _ in range(2))
            ours, theirs = g(a), f(b)
            ours.sum().backward()
            theirs.sum().backward()
            assert str(ours.tolist()) == str(theirs.tolist())
            assert str(a.grad.tolist()) == str(b.grad.tolist())
    assert f(tj.tensor([-1.0, -2.0])).tolist() == [-4.0, -6.0]
    assert g.stats.compiled_calls >= 8


def test_predicates() -> None:
    x = tj.arange(3.0)
    more, less = (lambda x: x + 1), (lambda x: x - 1)
    for pred in (True, 1, 0.5, tj.tensor([True]), x.sum(), tj.tensor(2)):
        assert tj.cond(pred, more, less, (x,)).tolist() == [1.0, 2.0, 3.0]
    for pred in (False, 0, tj.tensor(False), tj.tensor([[0.0]])):
        assert tj.cond(pred, more, less, [x]).tolist() == [-1.0, 0.0, 1.0]
    assert tj.cond(True, more, less, (1,)) == 2
    assert tj.cond(x.sum() > 1, lambda: 3, lambda: 4) == 3
    nested = tj.cond(x[1] > 0, lambda d: {"a": d["a"] * 2}, lambda d: d, ({"a": x},))
    assert nested["a"].tolist() == [0.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("a", abs, abs, ()), "Expected pred to be bool or tensor, but got a."),
        ((tj.ones(2) > 1, abs, abs, ()), "bool or single-element tensor"),
        ((tj.ones(0), abs, abs, ()), "bool or single-element tensor"),
        ((tj.tensor(True), 1, abs, ()), "both branches to be callable"),
        ((tj.tensor(True), abs, abs, (1.5,)), "only consists of tensor leaves"),
        ((tj.tensor(True), abs, abs, tj.ones(2)), "only consists of tensor leaves"),
    ],
)
def test_refused_branches(args, words) -> None:
    with pytest.raises(RuntimeError, match=words):
        tj.cond(*args)


def test_a_loop_that_a_tensor_ends() -> None:
    def f(x):
        return tj.while_loop(
            lambda i, x: x.sum() < 50, lambda i, x: (i + 1, x * 2 + 1), (tj.tensor(0), x)
        )

    g = tj.compile(f)
    for _ in range(3):
        for k in (0.0, 1.0, 7.0, 100.0, 20.0):
            a, b = (tj.tensor([k, 1.0], requires_grad=True) for _ in range(2))
            (count, ours), (rounds, theirs) = g(a), f(b)
            ours.sum().backward()
            theirs.sum().backward()
            assert (count.item(), ours.tolist()) == (rounds.item(), theirs.tolist())
            assert a.grad.tolist() == b.grad.tolist()
    assert f(tj.tensor([20.0, 1.0]))[1].tolist() == [83.0, 7.0]


def test_what_loops_carry() -> None:
    count = tj.tensor(0)
    assert tj.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (0, 1)) == (3, 8)
    assert tj.while_loop(lambda i: i < 3, lambda i: i + 1, (count,)).item() == 3
    assert [x.item() for x in tj.while_loop(lambda i: i < 3, lambda i: [i + 1], [count])] == [3]
    carried = (count,)
    assert tj.while_loop(lambda i: False, lambda i: (i + 1,), carried) is carried
    (found,) = tj.while_loop(
        lambda d: (d["i"] < 3).reshape(1), lambda d: ({"i": d["i"] + 1},), ({"i": count},)
    )
    assert found["i"].item() == 3


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((1, abs, (tj.tensor(0),)), "to be callable"),
        ((lambda i: i < 3, 1, (tj.tensor(0),)), "to be callable"),
        ((lambda i: i < 3, lambda i: (i + 1,), tj.tensor(0)), "tensor or int leaves"),
        ((lambda i: i < 3, lambda i: (i + 1.5,), (tj.tensor(0),)), "same metadata"),
        ((lambda i: i < 3, lambda i: (i + 1, i * 1), (tj.tensor(0),)), "same metadata"),
        ((lambda x: x.sum() < 3, lambda x: (x[:1] + 1,), (tj.ones(2),)), "same metadata"),
        ((lambda x: x < 3, lambda x: (x + 1,), (tj.ones(2),)), "must return a boolean scalar"),
    ],
)
def test_refused_loops(args, words) -> None:
    with pytest.raises(RuntimeError, match=words):
        tj.while_loop(*args)
