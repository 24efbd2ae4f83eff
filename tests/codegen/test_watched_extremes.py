"""Extremes of elements that are added up, too: the sum tells of a nan, and then all is looked at again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from kernel_tools import is_widened, kernel


def both(x: tj.Tensor) -> Any:
    return x.sum(-1), x.amax(-1)


def three(x: tj.Tensor) -> Any:
    y = x * 0.5
    return y.mean(-1), y.amin(-1), y.amax(-1), y


def of_stages(x: tj.Tensor) -> Any:
    high = x.amax(-1, keepdim=True)
    y = (x - high).exp()
    return y / y.sum(-1, keepdim=True), y.amax(-1)


def outer_rows(x: tj.Tensor) -> Any:
    return x.sum((0, 2)), x.amin((0, 2))


def columns(x: tj.Tensor) -> Any:
    return x.sum(1), x.amax(1), x.amin(1)


def of_all_rows(x: tj.Tensor) -> Any:
    y = x.reshape(-1, x.shape[-1])
    return y.amax(0), y.mean(0)


PROGRAMS = [both, three, of_stages, outer_rows, columns, of_all_rows]


def _numbers(shape: tuple[int, ...], what: str) -> np.ndarray:
    rng = np.random.default_rng(len(what))
    found, some = rng.normal(size=shape), rng.random(shape) < 0.02
    special = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}
    if what in special:
        found[some] = special[what]
    elif what == "opposite":  # their sum is nan, though none of them is
        found[some] = np.where(rng.random(some.sum()) < 0.5, np.inf, -np.inf)
    elif what == "all":
        found[...] = np.nan
    elif what == "one":
        found.reshape(-1)[-1] = np.nan
    return found


@pytest.mark.parametrize("what", ["finite", "nan", "inf", "-inf", "opposite", "all", "one"])
@pytest.mark.parametrize("dtype", [tj.float32, tj.float64, tj.bfloat16], ids=str)
@pytest.mark.parametrize("length", [7, 33, 128, 1000])
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.sampled(126)
def test_results(f: Callable[..., Any], length: int, dtype: Any, what: str) -> None:
    x = tj.tensor(_numbers((3, 20, length), what)).to(dtype)
    compiled = tj.compile(f)
    tolerance = {tj.float32: 1e-5, tj.float64: 1e-12, tj.bfloat16: 4e-2}[dtype]
    with np.errstate(all="ignore"):
        for _ in range(2):
            for found, expected in zip(compiled(x), f(x), strict=True):
                a, b = (t.to(tj.float64).numpy() for t in (found, expected))
                np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * 20)


def _kernels(f: Callable[..., Any], *arguments: Any) -> str:
    compiled = tj.compile(f)
    for _ in range(2):
        compiled(*arguments)
    return str(compiled.source())


def alone(x: tj.Tensor) -> Any:
    return x.amax(-1)


def of_others(x: tj.Tensor) -> Any:
    return x.amax(-1), (x * 2).sum(-1)


def test_a_sum_beside_it_spares_the_extreme_its_look_for_nan() -> None:
    x = tj.randn(64, 200)
    text = _kernels(both, x)
    assert "acc1 = larger_f32(acc1, " in text
    assert "if acc0 != acc0:" in text
    for other in (_kernels(alone, x), _kernels(of_others, x), _kernels(both, x.to(tj.int64))):
        assert "larger" not in other
        assert "if " not in other.partition("def run(")[0]


def test_short_rows_are_looked_at_again_after_all_of_a_batch() -> None:
    text = _kernels(both, tj.randn(64, 128)).partition("def run(")[0]
    first, again, last = text.split("(batch, batch_end):")[1:]
    assert "acc1 = larger_f32(acc1, " in first
    assert "if " not in first + last
    assert again.count("if ") == 1
    assert "= maximum_f32(" in again
    assert "ask_for" not in text, "nothing is computed while memory is read"


@pytest.mark.parametrize("name", ["larger", "smaller"])
@pytest.mark.parametrize("bits", [256, 512])
def test_such_folds_are_vector_code(name: str, bits: int) -> None:
    body = f"""
m = x[lo]
for i in range(lo, hi):
    m = {name}_f32(m, x[i])
out[0] = m
return 0
"""
    assert is_widened(kernel('x: "f32*", out: "f32*"', body), bits)
