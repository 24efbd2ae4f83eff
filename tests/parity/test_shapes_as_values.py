"""Shapes as Python values, as PyTorch has them: parts, sums and repetitions of shapes are shapes."""

from __future__ import annotations

import pytest

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")

EXPRESSIONS = """
x.shape[1:] ; x.shape[:-1].numel() ; x.size()[-2:] ; x.shape[::2] ; x.shape[-1] ; x.shape[:0] ; x.shape[True]
x.shape + (1,) ; (1,) + x.shape ; x.shape[:1] + x.shape[2:] ; x.shape * 2 ; 2 * x.shape ; x.mT.shape[-2:]
t.Size([2, 3])[1:] ; t.Size([]) + t.Size([4]) ; [*x.shape, 1] ; sum(x.shape) ; max(x.shape[1:]) ; x.shape[1:] == (3, 4)
hash(x.shape[1:]) == hash((3, 4)) ; x.shape + [1] ; [1] + x.shape ; x.shape * 2.0 ; x.shape[5] ; x.shape["a"]
"""


def outcome(t, expression):
    try:
        value = eval(expression, {"t": t, "x": t.ones(2, 3, 4)})
    except (TypeError, IndexError, AttributeError) as error:
        return type(error).__name__
    return type(value).__name__, value


@pytest.mark.parametrize(
    "expression", [e.strip() for line in EXPRESSIONS.strip().split("\n") for e in line.split(";")]
)
def test_as_in_pytorch(expression):
    assert outcome(tj, expression) == outcome(torch, expression)


def test_in_compiled_functions_for_every_size():
    def f(x):
        return x.reshape(x.shape[:-1].numel(), -1) * 2, x.shape[:-1] + x.shape[:1]

    compiled = tj.compile(f, strict=True)
    for n in (2, 2, 3, 5, 5):
        (rows, shape), (expected, same) = compiled(tj.ones(n, 3, 4)), f(tj.ones(n, 3, 4))
        assert rows.shape == expected.shape
        assert (type(shape), shape) == (type(same), same)
    assert compiled.stats.compiled_calls > 0
