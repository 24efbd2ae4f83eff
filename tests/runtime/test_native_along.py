"""Positions of extremes and running totals run in kernels, with the bits of eager execution."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tracejit as tj
from compiled_tools import host_ops
from ir_graphs import assert_same_bits
from tracejit.runtime.threads import get_num_threads, set_num_threads

FLOATS = ("float32", "float64", "float16", "bfloat16")
DTYPES = (*FLOATS, "int8", "uint8", "int16", "int32", "int64", "bool")
FEW = ((7,), (5, 4), (257, 19))
SHAPES = (*FEW, (1000,), (3, 1), (4, 600), (3, 5, 18), (2, 300, 40), (2, 3, 2, 21))
OPS = {
    "argmax": lambda x, d: x.argmax(d),
    "argmin": lambda x, d: x.argmin(d, keepdim=True),
    "cumsum": lambda x, d: x.cumsum(d),
    "cumprod": lambda x, d: x.cumprod(d),
    "argcummax": lambda x, d: x.cummax(d)[1],
    "argcummin": lambda x, d: x.cummin(d)[1],
    "argtopk": lambda x, d: x.topk(min(3, x.shape[d]), d)[1],
    "arglast": lambda x, d: x.topk(min(50, x.shape[d]), d, largest=False)[1],
}


def _tensor(shape, dtype, seed):
    """Few different numbers, so that there are ties; special ones too."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-4, 5, shape) * 0.37
    if dtype in FLOATS:
        special = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-40]
        x = np.where(rng.random(shape) < 0.03, rng.choice(special, shape), x)
    return tj.from_numpy(np.asarray(x)).to(getattr(tj, dtype))


def _layouts(x):
    """The same extents as they lie and otherwise."""
    yield x
    if x.ndim > 1:
        yield x.permute(*range(x.ndim)[::-1])
        yield x[::2].transpose(-1, -2)
        yield x[:1].expand(3, *x.shape[1:])
    yield x[::3]


@pytest.mark.sampled(96)
@pytest.mark.filterwarnings("error::tracejit.errors.CompileWarning")
@pytest.mark.parametrize(
    ("name", "dtype"),
    [(n, d) for n in OPS for d in DTYPES if d != "bool" or not n.startswith("arg")],
)
def test_every_layout_has_the_bits_of_eager_execution(name, dtype):
    compiled = tj.compile(OPS[name], strict=True)
    for seed, shape in enumerate(SHAPES if dtype == "float32" else FEW):
        for x in _layouts(_tensor(shape, dtype, seed)):
            for dim in range(x.ndim):
                for _ in range(2):
                    found = compiled(x, dim)
                expected = OPS[name](x, dim)
                assert found.spec == expected.spec
                assert_same_bits(found.numpy(), expected.numpy())
    assert not host_ops(compiled)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_do_not_depend_on_threads(threads):
    def f(x):
        return [op(x, d) for op, d in itertools.product(OPS.values(), (0, 1))]

    x = _tensor((3000, 37), "float32", 1)
    before = get_num_threads()
    set_num_threads(threads)
    try:
        compiled = tj.compile(f, strict=True)
        for _ in range(2):
            found = compiled(x)
    finally:
        set_num_threads(before)
    for a, b in zip(found, f(x), strict=True):
        assert_same_bits(a.numpy(), b.numpy())


@pytest.mark.parametrize("dim", [0, 1])
def test_nan_and_equal_extremes_of_long_rows(dim):
    x = np.zeros((40, 1500), np.float32)
    x[1, [700, 1400]] = 1
    x[2, [300, 299, 1499]] = np.nan
    x[3] = -np.inf
    x[4] = np.nan
    x[5, 3] = np.inf
    x[6, ::2] = -0.0
    x = x if dim else np.ascontiguousarray(x.T)
    compiled = tj.compile(lambda x: (x.argmax(dim), x.argmin(dim), x.max(dim)[0]), strict=True)
    t = tj.from_numpy(x)
    for _ in range(2):
        found = compiled(t)
    np.testing.assert_array_equal(found[0].numpy(), x.argmax(dim))
    np.testing.assert_array_equal(found[1].numpy(), x.argmin(dim))
    np.testing.assert_array_equal(found[2].numpy(), x.max(dim))


def test_gradients_of_running_totals():
    def f(x):
        return (x.cumsum(0) * x.cumprod(1)).tanh().sum()

    compiled = tj.compile(f, strict=True)
    values = np.random.default_rng(0).standard_normal((30, 21)).astype(np.float32)
    for _ in range(2):
        grads = []
        for function in (f, compiled):
            x = tj.tensor(values, requires_grad=True)
            function(x).backward()
            grads.append(x.grad.numpy())
        np.testing.assert_allclose(*grads, 1e-4, 1e-5)


def test_in_a_loop_that_is_rolled():
    def f(x):
        for _ in range(20):
            x = (x.cumsum(0) * 0.01 + x.argmax(1, keepdim=True).float()).tanh()
        return x

    compiled = tj.compile(f, strict=True)
    x = _tensor((6, 40), "int32", 1).float()
    for _ in range(3):
        found = compiled(x)
    np.testing.assert_allclose(found.numpy(), f(x).numpy(), 1e-5, 1e-6)
    assert not host_ops(compiled)


def test_new_sizes_need_no_new_kernels():
    from tracejit.runtime.machine_code.kernels import COUNTS

    compiled = tj.compile(lambda x: (x.cumsum(1), x.argmax(0), x.cumsum(0)), strict=True)
    for size in (50, 60):
        compiled(tj.ones(size, 2 * size))
        compiled(tj.ones(size, 2 * size))
    before = COUNTS.compiled + COUNTS.loaded
    for size in (70, 83):
        for _ in range(2):
            for found in compiled(tj.ones(size, 2 * size)):
                assert int(found[..., 0].reshape(-1)[0]) in (0, 1)
    assert COUNTS.compiled + COUNTS.loaded == before
