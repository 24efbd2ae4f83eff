"""Sigmoids of numbers so far below zero that exp(-x) overflows: zero in small, large and compiled calculations."""

from __future__ import annotations

import pytest

import tracejit as tj
from tracejit.nn import functional as F

PROGRAMS = {
    "sigmoid": tj.sigmoid,
    "silu": F.silu,
    "log": lambda x: tj.log(tj.sigmoid(x)),
    "odds": lambda x: tj.logit(tj.sigmoid(x)),
    "slope": lambda x: tj.func.grad(lambda y: tj.sigmoid(y).sum())(x),
}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
@pytest.mark.parametrize("dtype", [tj.float32, tj.float64, tj.bfloat16])
def test_compiled_code_has_the_zeros_of_eager_code(name, dtype):
    program = PROGRAMS[name]
    edge = 88.0 if dtype != tj.float64 else 708.0
    x = -edge * tj.tensor([0.9, 1.02, 1.1, 1.5, 1e20], dtype=dtype)
    compiled = tj.compile(program, strict=True)
    eager = program(x)
    for _ in range(3):
        assert tj.equal(compiled(x).isinf(), eager.isinf())
        assert tj.equal(compiled(x) == 0, eager == 0)


def test_large_tensors_have_the_zeros_of_small_ones():
    x = tj.full((300_000,), -100.0)
    assert tj.sigmoid(x[:3]).tolist() == [0.0, 0.0, 0.0]
    assert tj.sigmoid(x).count_nonzero() == 0
