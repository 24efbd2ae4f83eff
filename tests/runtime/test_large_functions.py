"""Special functions of large arrays in eager code are computed by kernels, whose bits are those of compiled code."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracejit as tj
from tracejit.ops.namespace import special
from tracejit.runtime.eager import functions

NAMES = {"erf": "erf", "erfc": "erfc", "sigmoid": "expit"}
#: Those a kernel computes from more elements on.
DEAR = ("lgamma", "digamma", "erfinv")
EDGES = [
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    1e-42,
    -1e-42,
    3e38,
    -3e38,
    1e-8,
    5.9,
    -5.9,
    88.7,
    -104.0,
]


def inputs(count, dtype=np.float32, seed=0):
    draws = np.random.default_rng(seed).normal(0.0, 4.0, count).astype(dtype)
    draws[: len(EDGES)] = np.array(EDGES[:count], dtype)
    return draws


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("count", [functions.LARGE - 1, functions.LARGE, functions.LARGE + 13])
def test_values(name, dtype, count):
    x = inputs(count, dtype)
    have = getattr(tj, name)(tj.from_numpy(x)).numpy()
    want = special(NAMES[name], x)(x.astype(np.float64))
    assert have.dtype == dtype
    tolerance = 4e-7 if dtype == np.float32 else 4e-15
    np.testing.assert_allclose(have, want, rtol=16 * tolerance, atol=tolerance / 4)
    assert np.array_equal(np.signbit(have[:2]), np.signbit(want[:2]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", DEAR)
def test_values_are_those_of_small_arrays(name, dtype):
    """Of which SciPy computes each element; also at zeros, poles and where they are out of the domain."""
    function, count = getattr(tj, name), functions.LARGE_DEAR
    x = inputs(count + 13, dtype)
    x[100:120] = np.arange(-10, 10)
    x[count // 2 :] /= 30
    have = function(tj.from_numpy(x)).numpy()
    halves = [x[: count // 2], x[count // 2 :]]
    want = np.concatenate([function(tj.from_numpy(half.astype("f8"))).numpy() for half in halves])
    assert have.dtype == dtype
    unit = np.finfo(dtype).eps
    with np.errstate(over="ignore"):
        want = want.astype(dtype)
    np.testing.assert_allclose(have, want, rtol=4 * unit, atol=16 * unit)
    assert np.array_equal(np.signbit(have[:2]), np.signbit(want[:2]))
    assert functions._apply("gammaln", x[: count - 1]) is None


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [tj.float32, tj.float64, tj.float16, tj.bfloat16])
@pytest.mark.parametrize("name", [*NAMES, *DEAR])
def test_bits_of_compiled_code(name, dtype):
    function = getattr(tj, name)
    x = tj.from_numpy(inputs(max(functions.LARGE, functions.LARGE_DEAR) + 5)).to(dtype)
    f = tj.compile(lambda x: function(x), strict=True)
    want = function(x)
    for _ in range(3):
        assert np.array_equal(f(x).float().numpy(), want.float().numpy(), equal_nan=True)
    assert f.stats.compiled_calls == 2


@given(
    name=st.sampled_from([*NAMES, *DEAR]),
    rows=st.integers(1, 9),
    columns=st.integers(1, 40),
    turn=st.booleans(),
    step=st.sampled_from([1, 2, -1]),
)
@settings(max_examples=40, deadline=None)
def test_shapes_and_strides(name, rows, columns, turn, step):
    """As if every array were large: each element is that of a contiguous array, and the input stays as it was."""
    array = inputs(2 * rows * columns).reshape(2 * rows, columns)[::2]
    array = (array.T if turn else array)[:, ::step]
    kept = array.copy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(functions, "LARGE", 0)
        patch.setattr(functions, "LARGE_DEAR", 0)
        have = getattr(tj, name)(tj.from_numpy(array)).numpy()
        flat = getattr(tj, name)(tj.from_numpy(kept.ravel())).numpy()
    assert have.shape == array.shape
    assert np.array_equal(have.ravel(), flat, equal_nan=True)
    assert np.array_equal(array, kept, equal_nan=True)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,)])
def test_next_to_nothing(shape, monkeypatch):
    monkeypatch.setattr(functions, "LARGE", 0)
    assert tj.sigmoid(tj.zeros(*shape)).tolist() == np.full(shape, 0.5).tolist()


def test_gradients():
    x = tj.from_numpy(inputs(functions.LARGE)[len(EDGES) :].copy()).requires_grad_()
    y = tj.cat([x, x]).sigmoid()
    y.sum().backward()
    s = 1 / (1 + np.exp(-x.detach().numpy().astype(np.float64)))
    np.testing.assert_allclose(x.grad.numpy(), 2 * s * (1 - s), 1e-5, 5e-7)


def test_without_compilation_scipy_serves(monkeypatch):
    monkeypatch.setattr(functions.config, "disabled", True)
    x = inputs(functions.LARGE)
    assert functions._apply("erf", x) is None
    have = tj.erf(tj.from_numpy(x)).numpy()
    assert np.array_equal(have, special("erf", x)(x), equal_nan=True)
