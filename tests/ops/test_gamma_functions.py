"""lgamma, digamma and erfinv: what is special about them beyond the bounds and bits that all scalar functions have."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from test_scalar_math import REFERENCES, ulp_error, wide_long_double

import tracejit as tj
from scalar_tools import DTYPES, FLOATS, INF, NAN, rng_for, same_bits
from special_references import LONG, PI, long_digamma, long_erfc, long_lgamma, long_trigamma
from tracejit.runtime.eager.functions import LARGE_DEAR
from tracejit.scalar_math.library import ULP_BOUND, evaluate

Array = np.ndarray[Any, Any]


def below_zero(type_name: str) -> Array:
    """Numbers below zero of all sizes and beside poles, no poles."""
    rng = rng_for("below zero" + type_name)
    distance = rng.choice([-1.0, 1.0], 4000) * np.exp(rng.uniform(-30, -0.7, 4000))
    parts = [
        rng.uniform(-0.5, 0, 2000),
        rng.uniform(-12, 0, 4000),
        -np.exp(rng.uniform(-80, 11, 4000)),
        distance - rng.integers(1, 30, 4000),
        -np.abs(distance),
    ]
    x = np.concatenate(parts).astype(DTYPES[type_name])
    return x[(x < 0) & (x != np.round(x))]


def units_of(exact: Array, *parts: Array) -> Array:
    """The sizes of the largest of all, whose last place errors are measured in."""
    return np.max([np.abs(part) for part in (exact, *parts)], axis=0)


@wide_long_double
@pytest.mark.parametrize("type_name", FLOATS)
def test_lgamma_below_zero_errs_by_units_of_its_parts(type_name: str) -> None:
    x = below_zero(type_name)
    a = -x.astype(LONG)
    mirrored = np.log(PI / np.abs(np.sin(PI * (a - np.round(a)))) / a)
    exact = mirrored - long_lgamma(a)
    size = units_of(exact, np.where(a < 0.5, 0, mirrored), np.where(a < 0.5, 0, long_lgamma(a)))
    size = np.maximum(size, LONG(1))
    found = evaluate(f"lgamma_{type_name}", x)
    unit = np.ldexp(LONG(1), np.frexp(size)[1] - np.finfo(x.dtype).nmant - 1)
    error = np.abs(found.astype(LONG) - exact) / unit
    assert error.max() <= ULP_BOUND[f"lgamma_{type_name}"], x[error.argmax()]


@wide_long_double
@pytest.mark.parametrize("type_name", FLOATS)
def test_digamma_below_zero_errs_by_units_of_its_parts(type_name: str) -> None:
    x = below_zero(type_name)
    a = -x.astype(LONG)
    cotangent = PI / np.tan(PI * (a - np.round(a)))
    upper = long_digamma(a + 1)
    exact = upper + cotangent
    size = units_of(exact, upper, cotangent, np.ones_like(exact))
    found = evaluate(f"digamma_{type_name}", x)
    unit = np.ldexp(LONG(1), np.frexp(size)[1] - np.finfo(x.dtype).nmant - 1)
    inside = np.abs(exact) < np.finfo(x.dtype).max
    error = (np.abs(found.astype(LONG) - exact) / unit)[inside]
    assert error.max() <= ULP_BOUND[f"digamma_{type_name}"], x[inside][error.argmax()]


@wide_long_double
@pytest.mark.parametrize("type_name", FLOATS)
@pytest.mark.parametrize("name", ["lgamma", "digamma", "trigamma", "erfinv"])
def test_numbers_one_after_the_other(name: str, type_name: str) -> None:
    """All of a neighbourhood of every point where the way to the result changes, or where the result is zero."""
    dtype = DTYPES[type_name]
    points = [0.5, 1, 1.25, 1.4616321449683623, 1.5, 2, 2.5, 3, 2 / 3, 8 / 3, 4, 16 / 3, 8]
    points = [0.125, 0.5, 0.75, 1 - 2.0**-10, 1 - 2.0**-20] if name == "erfinv" else points
    near = np.arange(-150, 150)
    bits = np.array(points, dtype).view(f"i{dtype.itemsize}")
    x = (bits[:, None] + near).ravel().astype(bits.dtype).view(dtype)
    found = evaluate(f"{name}_{type_name}", x)
    with np.errstate(all="ignore"):  # beyond one
        exact = REFERENCES[name](x.astype(LONG))
        assert np.array_equal(np.isnan(found), np.isnan(exact))
        error = ulp_error(found, exact)
    assert error.max() <= ULP_BOUND[f"{name}_{type_name}"], x[error.argmax()]


# What PyTorch returns.
AT = [0.0, -0.0, 1.0, 2.0, -1.0, -2.0, -1e10, -1e30, INF, -INF, NAN]
LGAMMA = [INF, INF, 0.0, 0.0, INF, INF, INF, INF, INF, INF, NAN]
DIGAMMA = [-INF, INF, None, None, NAN, NAN, NAN, NAN, INF, NAN, NAN]
ERFINV = [0.0, -0.0, INF, NAN, -INF, NAN, NAN, NAN, NAN, NAN, NAN]
EXPECTED = {"lgamma": LGAMMA, "digamma": DIGAMMA, "erfinv": ERFINV}


@pytest.mark.parametrize("kind", ["eager", "large", "compiled"])
@pytest.mark.parametrize("type_name", FLOATS)
@pytest.mark.parametrize("name", EXPECTED)
def test_zeros_poles_and_infinities(name: str, type_name: str, kind: str) -> None:
    x = np.array(AT, DTYPES[type_name])
    count = 1 << 17 if kind == "large" else x.size
    function: Any = getattr(tj, name)
    if kind == "compiled":
        function = tj.compile(lambda x: getattr(tj, name)(x), strict=True)
        for _ in range(2):
            function(tj.from_numpy(x))
    found = function(tj.from_numpy(np.resize(x, count))).numpy()[: x.size]
    expected = EXPECTED[name]
    known = [i for i, value in enumerate(expected) if value is not None]
    assert same_bits(found[known], np.array([expected[i] for i in known], x.dtype))


@pytest.mark.parametrize("type_name", FLOATS)
def test_the_smallest_and_largest_numbers(type_name: str) -> None:
    info = np.finfo(DTYPES[type_name])
    tiny = np.array([info.smallest_subnormal, info.tiny], info.dtype)
    for x in (tiny, -tiny):
        found = evaluate(f"lgamma_{type_name}", x)
        np.testing.assert_allclose(found, -np.log(tiny.astype(LONG)), rtol=2 * info.eps)
        found = evaluate(f"digamma_{type_name}", x)
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(found, -1 / x, rtol=2 * info.eps)
    assert evaluate(f"lgamma_{type_name}", info.max) == INF
    assert evaluate(f"digamma_{type_name}", info.max) == info.dtype.type(math.log(info.max))
    last = np.nextafter(info.dtype.type(1), info.dtype.type(0))
    found = evaluate(f"erfinv_{type_name}", np.array([last, -last]))
    y = np.abs(found.astype(LONG))
    np.testing.assert_allclose(long_erfc(y).astype("f8"), float(1 - LONG(last)), rtol=60 * info.eps)
    assert found[0] == -found[1] > 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [tj.float32, tj.float64, tj.float16, tj.bfloat16])
@pytest.mark.parametrize("name", ["lgamma", "digamma", "erfinv"])
def test_small_eager_arrays_agree_with_kernels(name: str, dtype: tj.dtype) -> None:
    """SciPy computes those: beside poles, zeros and ends of the domain, too."""
    rng = rng_for(name)
    beside = rng.choice([-1.0, 1.0], 400) * np.exp(rng.uniform(-20, -0.7, 400))
    x = np.concatenate([rng.uniform(-6, 30, 600), beside + rng.integers(-6, 4, 400)])
    x = np.concatenate([rng.uniform(-1, 1, 600), 1 - np.abs(beside)]) if name == "erfinv" else x
    given = tj.from_numpy(x).to(dtype)
    function = tj.compile(lambda x: getattr(tj, name)(x), strict=True)
    for _ in range(3):
        found = function(given)
    want = getattr(tj, name)(given)
    assert found.dtype == want.dtype == dtype
    assert function.stats.compiled_calls == 2
    unit = {tj.float16: 1e-3, tj.bfloat16: 8e-3}.get(dtype) or 16 * tj.finfo(dtype).eps
    np.testing.assert_allclose(found.float().numpy(), want.float().numpy(), unit, unit)


def test_what_surrounds_them_is_one_kernel_with_them() -> None:
    @tj.compile(strict=True)
    def f(x: tj.Tensor, y: tj.Tensor) -> tj.Tensor:
        return x.lgamma() * 2 + y.digamma() - (x * 0.1).erfinv()

    x, y = tj.rand(1000) * 5 + 0.1, tj.rand(1000) * 5 + 0.1
    wants = f(x, y)
    for _ in range(2):
        tj.testing.assert_close(f(x, y), wants)
    assert len(f.kernels) == 1
    for name in ("lgamma", "digamma", "erfinv"):
        assert f"{name}_f32(" in f.kernels[0].source


TRIGAMMA = [INF, INF, math.pi**2 / 6, math.pi**2 / 6 - 1, INF, INF, INF, INF, 0.0, NAN, NAN]


@pytest.mark.parametrize("kind", ["eager", "large", "compiled"])
@pytest.mark.parametrize("dtype", [tj.float32, tj.float64])
def test_the_derivative_of_digamma(kind: str, dtype: tj.dtype) -> None:
    x = tj.tensor([*AT[:6], -1e4, -1e5, *AT[8:]], dtype=dtype)
    x = x.repeat(LARGE_DEAR // len(AT) + 1) if kind == "large" else x
    function = (
        tj.compile(lambda x: tj.polygamma(1, x))
        if kind == "compiled"
        else lambda x: tj.polygamma(1, x)
    )
    for _ in range(3):
        found = function(x)
    np.testing.assert_allclose(found[: len(AT)].numpy(), TRIGAMMA, rtol=8 * tj.finfo(dtype).eps)
    between = tj.tensor([-0.25, -0.5, -3.75, -10.5], dtype=dtype)
    distance = between.double().numpy() - np.rint(between.double().numpy())
    sine = np.sin(math.pi * distance)
    mirrored = (math.pi / sine) ** 2 - long_trigamma(
        1 - between.double().numpy().astype(LONG)
    ).astype("f8")
    between = between.repeat(LARGE_DEAR) if kind == "large" else between
    np.testing.assert_allclose(
        function(between)[:4].numpy(), mirrored, rtol=8 * tj.finfo(dtype).eps
    )


def test_slopes_of_digamma_are_part_of_the_kernel() -> None:
    f = tj.compile(lambda x: x.digamma().sum(), strict=True)
    for _ in range(3):
        x = (tj.rand(500) + 0.5).requires_grad_()
        f(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), tj.polygamma(1, x.detach()).numpy(), rtol=1e-5)
    assert any("trigamma_f32(" in kernel.source for kernel in f.kernels)


def test_upper_incomplete_gamma_of_small_arguments():
    """Many at once are a series of our own where the library's takes long: as one less the lower function says."""
    rng = np.random.default_rng(0)
    x, y = (tj.from_numpy(rng.random(3000) * 2) for _ in range(2))
    found = tj.igammac(x, y)
    large = (found > 0.1).numpy()
    rest = (1 - tj.special.gammainc(x, y)).numpy()
    np.testing.assert_allclose(found.numpy()[large], rest[large], 2e-14)
    one_by_one = [tj.igammac(a, b).item() for a, b in zip(x[:300], y[:300], strict=True)]
    np.testing.assert_allclose(found.numpy()[:300], one_by_one, 2e-12)
    edges = tj.tensor([0.0, -1.0, float("nan"), float("inf"), 0.5] * 20, dtype=tj.float64)
    both = tj.igammac(edges, edges.flip(0))
    each = [tj.igammac(a, b).item() for a, b in zip(edges, edges.flip(0), strict=True)]
    np.testing.assert_allclose(both.numpy(), each, 1e-14)
