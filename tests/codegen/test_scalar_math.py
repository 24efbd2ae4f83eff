"""Elementary functions: the documented error bounds, and every exceptional value."""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

from scalar_tools import DTYPES, FLOATS, INF, NAN, any_bits, rng_for, same_bits, special_values
from special_references import (
    long_digamma,
    long_erf,
    long_erfc,
    long_erfinv,
    long_lgamma,
    long_trigamma,
)
from tracejit.scalar_math import library as scalar_math
from tracejit.scalar_math.library import ULP_BOUND, evaluate

LONG = np.longdouble
wide_long_double = pytest.mark.skipif(
    np.finfo(LONG).nmant < 63, reason="needs a long double wider than double as reference"
)


REFERENCES: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "logaddexp": np.logaddexp,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": long_erf,
    "erfc": long_erfc,
    "erfinv": long_erfinv,
    "lgamma": long_lgamma,
    "digamma": long_digamma,
    "trigamma": long_trigamma,
    "pow": np.power,
}
# Where the exponent range of the function ends; elsewhere all finite values are drawn.
RANGES: dict[str, tuple[float, float]] = {
    "exp": (-1.17, 1.03),
    "sigmoid": (-1.17, 1.03),
    "expm1": (-0.1, 1.03),
    "sinh": (-1.03, 1.03),
    "cosh": (-1.03, 1.03),
}


def finite_points(name: str, type_name: str) -> np.ndarray[Any, Any]:
    """All magnitudes, the neighbourhoods of 0 and 1, and the whole range where the result is finite."""
    rng, dtype = rng_for(name + type_name), DTYPES[type_name]
    edge = float(np.log(np.finfo(dtype).max))
    low, high = RANGES.get(name, (-1.0, 1.0))
    signs = rng.choice([-1.0, 1.0], 4000)
    near_one = 1 + signs * np.exp(rng.uniform(-36, -0.7, 4000))
    parts = [
        any_bits(rng, dtype, 6000),
        rng.uniform(-1, 1, 6000),
        rng.uniform(-12, 12, 6000),
        rng.uniform(low * edge, high * edge, 6000),
        signs * np.exp(rng.uniform(-60, 2, 4000)),
        near_one,
    ]
    if name in ("erf", "erfc"):
        parts = [
            rng.uniform(-5.9, 5.9, 8000),
            rng.uniform(0, 10 if type_name == "f32" else 26.5, 8000),
        ]
    if name == "erfinv":
        parts = [1 - np.exp(rng.uniform(-40, 0, 8000)), rng.uniform(-1.1, 1.1, 6000)]
        parts.append(signs * np.exp(rng.uniform(-100, 0, 4000)))
    if name in ("lgamma", "digamma", "trigamma"):
        far = rng.choice([1, 2, 1.4616321449683623], 4000)
        parts.append(far + signs * np.exp(rng.uniform(-36, -0.7, 4000)))
        # Two parts are added below zero: see test_gamma_functions.
        parts = [np.abs(part) for part in parts]
    if name in ("exp2",):
        parts.append(rng.uniform(low * edge, high * edge, 6000) / math.log(2) * 1.08)
    with np.errstate(all="ignore"):
        points = np.concatenate([np.asarray(part).astype(dtype) for part in parts])
    return points[np.isfinite(points)]


def operands(name: str, type_name: str) -> list[np.ndarray[Any, Any]]:
    x = finite_points(name, type_name)
    rng, dtype = rng_for(name), x.dtype
    if name == "pow":
        x = np.abs(x)
        edge = float(np.log(np.finfo(dtype).max))
        with np.errstate(all="ignore"):
            y = (rng.uniform(-1.05 * edge, edge, x.size) / np.log(x.astype(LONG))).astype(dtype)
        keep = np.isfinite(y) & (x > 0)
        return [x[keep], y[keep]]
    if name == "sigmoid":
        return [x[x > -np.log(np.finfo(dtype).max)]]  # below it is zero
    if name in ("atan2", "hypot"):
        return [x, rng.permutation(x)]
    if name == "logaddexp":
        return [rng.uniform(0, 40, 8000).astype(dtype), rng.uniform(0, 40, 8000).astype(dtype)]
    return [x]


def ulp_error(result: np.ndarray[Any, Any], exact: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """|result - exact| in units of the last place of `exact` in the result's type; overflow counts as 2^emax."""
    info = np.finfo(result.dtype)
    top = LONG(2) ** info.maxexp
    wide = np.where(np.isinf(result), np.sign(result.astype(LONG)) * top, result.astype(LONG))
    exact = np.clip(exact, -top, top)
    _, exponent = np.frexp(exact)
    unit = np.ldexp(LONG(1), np.maximum(exponent, info.minexp + 1) - info.nmant - 1)
    return np.where(np.isnan(exact), 0, np.abs(wide - exact) / unit)


@pytest.mark.sampled(24)
@wide_long_double
@pytest.mark.parametrize("name", sorted(ULP_BOUND))
def test_error_stays_within_the_documented_bound(name: str) -> None:
    stem, _, type_name = name.rpartition("_")
    points = operands(stem, type_name)
    result = evaluate(name, *points)
    with np.errstate(all="ignore"):
        exact = REFERENCES[stem](*(x.astype(LONG) for x in points))
        assert result.dtype == points[0].dtype
        assert np.array_equal(np.isnan(result), np.isnan(exact))
        sign_matters = ~np.isnan(exact)
        assert np.array_equal(np.signbit(result)[sign_matters], np.signbit(exact)[sign_matters])
        error = ulp_error(result, exact)
    worst = int(error.argmax())
    where = [float(x[worst]) for x in points]
    assert error[worst] <= ULP_BOUND[name], f"{name}{where}: {error[worst]} ULP"


def test_every_bound_names_a_function_and_every_inexact_function_has_a_bound() -> None:
    names = set(scalar_math.function_names())
    assert set(ULP_BOUND) <= names
    assert {f"{stem}_{t}" for stem in REFERENCES for t in FLOATS} == set(ULP_BOUND)


def agree(result: Any, expected: Any, ulps: int) -> bool:
    """Same infinities, nans and signs of zero, and finite values within a few units in the last place."""
    plain = np.isfinite(result) & np.isfinite(expected) & (expected != 0)
    with np.errstate(all="ignore"):
        error = np.abs(result.astype(LONG) - expected.astype(LONG)) / np.spacing(np.abs(expected))
    return bool(np.all(error[plain] <= ulps)) and same_bits(result[~plain], expected[~plain])


UNARY = [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
]
UNARY += ["atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"]


@pytest.mark.parametrize("type_name", FLOATS)
@pytest.mark.parametrize("stem", UNARY)
def test_special_values_of_one_argument(stem: str, type_name: str) -> None:
    x = special_values(DTYPES[type_name])
    with np.errstate(all="ignore"):
        expected = REFERENCES[stem](x.astype("f8")).astype(x.dtype)
    assert agree(evaluate(f"{stem}_{type_name}", x), expected, 4)


@pytest.mark.parametrize("type_name", FLOATS)
def test_special_values_of_erf_and_sigmoid(type_name: str) -> None:
    x = special_values(DTYPES[type_name])
    for stem, function in (("erf", scipy.special.erf), ("erfc", scipy.special.erfc)):
        with np.errstate(all="ignore"):
            expected = function(x.astype("f8")).astype(x.dtype)
        assert agree(evaluate(f"{stem}_{type_name}", x), expected, 6), stem
    edges = np.array([-INF, INF, 0.0, -0.0], x.dtype)
    assert evaluate(f"sigmoid_{type_name}", edges).tolist() == [0.0, 1.0, 0.5, 0.5]
    assert np.isnan(evaluate(f"sigmoid_{type_name}", x.dtype.type(NAN)))
    smallest = 1 / np.finfo(x.dtype).max  # smaller ones are zero
    last = np.log(smallest)
    found = evaluate(f"sigmoid_{type_name}", np.array([last * 0.9999, last * 1.0001], x.dtype))
    assert found[0] >= smallest
    assert found[1] == 0.0


@pytest.mark.parametrize("type_name", FLOATS)
def test_sigmoid_vanishes_where_the_exponential_overflows(type_name: str) -> None:
    last = np.array(-88.72283 if type_name == "f32" else -709.782712893384, DTYPES[type_name])
    x = np.array([last, np.nextafter(last, -np.inf), 1.1 * last, -1e30], last.dtype)
    with np.errstate(over="ignore"):
        assert np.isfinite(np.exp(-x)).tolist() == [True, False, False, False]
        expected = 1 / (1 + np.exp(-x))
    assert agree(evaluate(f"sigmoid_{type_name}", x), expected, 4)


def _remainder(x: Any, y: Any) -> Any:
    """NumPy's remainder, but zeros have the sign of x, as in PyTorch."""
    found = np.remainder(x, y)
    return np.where(found == 0, np.copysign(found, x), found)


BINARY = {
    "pow": (np.power, 4),
    "atan2": (np.arctan2, 4),
    "hypot": (np.hypot, 4),
    "logaddexp": (np.logaddexp, 4),
    "maximum": (np.maximum, 0),
    "minimum": (np.minimum, 0),
    "fmax": (np.fmax, 0),
    "fmin": (np.fmin, 0),
    "fmod": (np.fmod, 0),
    "remainder": (_remainder, 0),
    "floor_divide": (np.floor_divide, 0),
    "copysign": (np.copysign, 0),
}


@pytest.mark.parametrize("type_name", FLOATS)
@pytest.mark.parametrize("stem", BINARY)
def test_special_values_of_two_arguments(stem: str, type_name: str) -> None:
    function, ulps = BINARY[stem]
    values = special_values(DTYPES[type_name])
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        expected = function(x, y)
    if stem in ("maximum", "minimum", "fmax", "fmin"):
        # Which of two equal zeros NumPy returns depends on the machine; ours is always the second.
        zeros = (x == 0) & (y == 0)
        expected[zeros] = y[zeros]
    if stem == "logaddexp":
        # The bound is relative to the operands; a small result has lost what they cancelled.
        keep = ~(np.abs(expected) < 0.5)
        x, y, expected = x[keep], y[keep], expected[keep]
    assert agree(evaluate(f"{stem}_{type_name}", x, y), expected, ulps)


@pytest.mark.parametrize("module", scalar_math._MODULES, ids=lambda m: m.__name__)
def test_sources_are_those_of_the_syntax_tree(module):
    text = inspect.getsource(module)
    lines = text.splitlines(keepends=True)
    expected = {
        node.name: "".join(lines[node.lineno - 1 : node.end_lineno])
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
    }
    assert scalar_math._sources(module.__name__) == expected


@pytest.mark.parametrize("scalar", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["exp", "exp2", "sigmoid", "erfc", "expm1"])
def test_what_vanishes_is_not_scaled_down(name: str, scalar: type) -> None:
    """A vector with one number that becomes zero by underflow costs Intel CPUs a hundred cycles and more."""
    function = scalar_math.namespace()[f"{name}_{'f32' if scalar is np.float32 else 'f64'}"]
    low = np.array([-1.1e3, -1e4, -1e30, -np.inf], scalar)
    with np.errstate(under="raise", over="ignore", invalid="ignore"):
        found = function(-low if name == "erfc" else low)
    assert found.tolist() == [-1.0 if name == "expm1" else 0.0] * 4
