"""Rows in several stages: each stage goes over a batch of rows, and no row notices how many others go with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

F = tj.nn.functional


def softmax(x: tj.Tensor) -> Any:
    return x.softmax(-1)


def row_results(x: tj.Tensor) -> Any:
    middle = x.mean(-1, keepdim=True)
    spread = (x - middle).square().mean(-1, keepdim=True)
    return (x - middle) * (spread + 1e-5).rsqrt(), middle, spread.squeeze(-1)


def truths(x: tj.Tensor) -> Any:
    high = x.amax(-1, keepdim=True) > 0.5
    return tj.where(high, x - x.mean(-1, keepdim=True), x).exp().sum(-1)


def totals(x: tj.Tensor) -> Any:
    y = x.softmax(-1)
    return (y * x).sum(), y.amax(-1).sum()


def chained(x: tj.Tensor) -> Any:
    y = x / x.abs().amax(-1, keepdim=True)
    y = y.softmax(-1)
    return y / y.square().sum(-1, keepdim=True).sqrt() + x.amin(-1, keepdim=True)


def picked(x: tj.Tensor) -> Any:
    targets = tj.arange(x.shape[0]) % x.shape[1]
    return F.cross_entropy(x, targets, reduction="none")


def whole_numbers(x: tj.Tensor) -> Any:
    y = (x * 100).to(tj.int64)
    y = y - y.amin(-1, keepdim=True)
    return y * 7 // (y.sum(-1, keepdim=True) + 1), y.argmax(-1)


def gates(x: tj.Tensor) -> Any:
    gate = x.sum(-1, keepdim=True).tanh()
    return x * gate, gate.exp().squeeze(-1), (gate.log1p() * x.amax(-1, keepdim=True)).sum()


PROGRAMS = [gates, softmax, row_results, truths, totals, chained, picked, whole_numbers]
ROWS = (1, 2, 15, 16, 17, 100)
LENGTHS = (11, 17, 64, 300, 3000)


def parts(found: Any) -> list[np.ndarray]:
    return [x.double().numpy() for x in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("dtype", [tj.float32, tj.float64, tj.float16])
def test_as_eager(program: Callable[[tj.Tensor], Any], dtype: tj.dtype) -> None:
    compiled = tj.compile(program, strict=True)
    rounding = 4e-3 if dtype is tj.float16 else 2e-5
    for length in LENGTHS:
        for rows in ROWS:
            x = tj.randn(rows, length).to(dtype)
            if rows > 2 and program is not whole_numbers:
                x[1, 3], x[2, 4] = float("nan"), -float("inf")
            for a, b in zip(parts(compiled(x)), parts(program(x)), strict=True):
                np.testing.assert_allclose(a, b, rounding, rounding * max(40, b.size))


@pytest.mark.parametrize("program", [softmax, row_results, truths, chained])
def test_a_row_does_not_depend_on_its_batch(program: Callable[[tj.Tensor], Any]) -> None:
    compiled = tj.compile(program, strict=True)
    x = tj.randn(40, 70)
    for _ in range(2):
        together = parts(compiled(x))
    for first in (0, 7, 15, 31, 38):
        for _ in range(2):
            alone = parts(compiled(x[first : first + 2]))
        for a, b in zip(together, alone, strict=True):
            np.testing.assert_array_equal(a[first : first + 2], b)


def test_rows_of_several_axes() -> None:
    compiled = tj.compile(row_results, strict=True)
    for shape in ((3, 5, 20), (2, 17, 3, 33), (1, 1, 40)):
        for layout in (lambda x: x, lambda x: x.transpose(0, 1)):
            x = layout(tj.randn(*shape))
            for _ in range(2):
                for a, b in zip(parts(compiled(x)), parts(row_results(x)), strict=True):
                    np.testing.assert_allclose(a, b, 2e-5, 2e-5)


def test_a_result_in_the_place_of_its_operand() -> None:
    def step(x: tj.Tensor) -> tj.Tensor:
        y = x * 2.0
        y = (y - y.amax(-1, keepdim=True)).exp()
        return y / y.sum(-1, keepdim=True) + y.sum(-1, keepdim=True).sqrt()

    compiled = tj.compile(step, strict=True)
    for rows in (3, 16, 50):
        x = tj.randn(rows, 21)
        for _ in range(3):
            np.testing.assert_allclose(parts(compiled(x))[0], parts(step(x))[0], 2e-5)


def sources(compiled: Any) -> list[str]:
    return [f.source for k in compiled.kernels for f in k.code.functions]


def test_one_stage_needs_no_batches() -> None:
    one, several = tj.compile(lambda x: (x * x).sum(-1)), tj.compile(softmax)
    for _ in range(2):
        one(tj.randn(30, 50))
        several(tj.randn(30, 50))
    assert not any("for batch in" in text for text in sources(one))
    assert [text.count("for batch in") for text in sources(several)] == [1]
    (text,) = sources(several)
    assert text.count("for row in together(batch, batch_end):") == 2
    assert text.count("for row in range(batch, batch_end):") == 1


def test_elementary_functions_of_rows_are_vector_code() -> None:
    compiled = tj.compile(lambda x: x.sum(-1).exp().log1p())
    for _ in range(2):
        compiled(tj.randn(300, 600))
    (text,) = sources(compiled)
    assert text.count("for row in range(batch, batch_end):") == 2
    loop = text[text.rindex("for row in") :]
    assert "exp_f32" in loop
    assert "log1p_f32" in loop
    assert "for i1" not in loop


def test_how_many_rows_go_together_is_no_part_of_the_text() -> None:
    compiled = tj.compile(softmax)
    for shape in ((30, 50), (3, 5000), (1000, 12)):
        for _ in range(2):
            compiled(tj.randn(*shape))
    assert len(set(sources(compiled))) == 1
