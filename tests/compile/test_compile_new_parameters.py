"""Leaves that a compiled function makes and hands out, and parameters that it puts in place of those of modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn
from tracejit.nn import functional as F


def parameter(x: Any) -> Any:
    return nn.Parameter(x * 2)


def leaf(x: Any) -> Any:
    return (x.detach() * 4).requires_grad_()


def beside_its_source(x: Any) -> Any:
    y = x * 3
    return y, nn.Parameter(y)


def constant(x: Any) -> Any:
    return nn.Parameter(x.detach() * 2, requires_grad=False), x * 3


def twice(x: Any) -> Any:
    p = nn.Parameter(x.detach() + 1)
    return {"a": p, "b": [p]}


def leaves_in(result: Any) -> list[Any]:
    if isinstance(result, dict):
        result = result.values()
    if isinstance(result, tj.Tensor):
        return [result]
    return [t for x in result for t in leaves_in(x)]


@pytest.mark.parametrize("wanted", [True, False], ids=["of a leaf", "of a constant"])
@pytest.mark.parametrize(
    "function", [parameter, leaf, beside_its_source, constant, twice], ids=lambda f: f.__name__
)
def test_new_leaves_are_results(function: Callable[[Any], Any], wanted: bool) -> None:
    compiled = tj.compile(function)
    for k in range(4):
        found = []
        for f in (function, compiled):
            x = tj.tensor([0.5, -1.0, k], requires_grad=wanted)
            results = leaves_in(f(x))
            facts = [(type(t), t.requires_grad, t.is_leaf, t._grad) for t in results]
            values = [t.tolist() for t in results]
            losses = [(t * t).sum() for t in results if t.requires_grad]
            if losses:
                sum(losses).backward()
            gradients = [t.grad.tolist() for t in (x, *results) if t.is_leaf and t.grad is not None]
            with tj.no_grad():
                results[-1].zero_()
            zeroed = [t.tolist() for t in results]  # those that share its memory, too
            found.append((facts, values, gradients, zeroed, results[0] is results[-1]))
        assert found[0] == found[1]
    assert compiled.stats.compiled_calls == 3, compiled.explain()


class Book(nn.Module):
    """A codebook that follows what it is given, as a parameter that is made anew."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(tj.ones(3))
        self.average = nn.Parameter(tj.ones(4, 3))
        self.codes = nn.Embedding(4, 3)
        self.register_buffer("size", tj.ones(4))

    def forward(self, x: Any) -> Any:
        x = x * self.first
        index = tj.cdist(x, self.codes.weight).argmin(1)
        found = self.codes(index)
        if self.training:
            hits = F.one_hot(index, 4).to(x.dtype)
            self.size = self.size * 0.9 + 0.1 * hits.sum(0)
            self.average = nn.Parameter(self.average * 0.9 + 0.1 * hits.t() @ x)
            self.codes.weight = nn.Parameter(self.average / self.size.unsqueeze(1))
        return x + (found - x).detach(), F.mse_loss(found, x)


def facts_of(book: Any) -> list[Any]:
    named = [(n, type(p), p.requires_grad, p.is_leaf, p.grad) for n, p in book.named_parameters()]
    return [
        *named[1:],
        list(book.state_dict()),
        *[v.numpy().copy() for v in book.state_dict().values()],
    ]


def assert_same(found: list[Any], expected: list[Any]) -> None:
    for a, b in zip(found, expected, strict=True):
        if isinstance(a, np.ndarray):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        else:
            assert a == b


def followed(compile: bool, whole: bool) -> tuple[list[Any], Any]:
    tj.manual_seed(0)
    book = Book()
    optimizer = tj.optim.SGD([book.first], lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        y, loss = book(x)
        (y.square().mean() + loss).backward()
        optimizer.step()
        return loss.detach()

    run: Any = step if whole else book
    run = tj.compile(run) if compile else run
    found: list[Any] = []
    for number in range(8):
        book.train(number != 5)
        before = book.codes.weight
        result = run(tj.randn(6, 3))
        if whole:
            found.append(result.numpy().copy())
        else:
            (result[0].square().mean() + result[1]).backward()
            found.append(book.first.grad.numpy().copy())
            book.first.grad = None
        found += (
            [before.grad.numpy().copy(), *facts_of(book)] if number != 5 else facts_of(book)[4:]
        )
    return found, run


@pytest.mark.parametrize("whole", [False, True], ids=["forward", "whole step"])
def test_parameters_are_replaced_at_every_call(whole: bool) -> None:
    expected, _ = followed(False, whole)
    found, run = followed(True, whole)
    assert_same(found, expected)
    assert run.stats.compiled_calls >= 3, run.explain()


def test_what_hangs_on_a_new_leaf_runs_eagerly() -> None:
    @tj.compile
    def both(x: Any) -> Any:
        p = nn.Parameter(x.detach() * 1)
        return p, (p * x).sum()

    for _ in range(3):
        x = tj.ones(2, requires_grad=True)
        p, y = both(x)
        y.backward()
        assert p.grad.tolist() == x.grad.tolist() == [1.0, 1.0]
    assert both.stats.compiled_calls == 0
    assert "new leaf" in both.reasons[0]


class Scaled(nn.Parameter):
    """A class that compiled calls make no objects of."""


@pytest.mark.parametrize("kind", [Scaled, nn.Buffer])
def test_tensors_of_other_classes_are_made_eagerly(kind: Any) -> None:
    compiled = tj.compile(lambda x: kind(x * 2))
    for _ in range(3):
        assert type(compiled(tj.ones(2))) is kind
    assert compiled.stats.compiled_calls == 0
    assert f"a new {kind.__name__}" in compiled.reasons[0]
