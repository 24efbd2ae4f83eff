"""Running logarithms of sums of exponentials run in kernels: accurate, with PyTorch's special values."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from compiled_tools import host_ops, pool_of
from ir_graphs import assert_same_bits
from tracejit.ops.exponential_sums import sums_after, sums_before
from tracejit.runtime.machine_code.kernels import COUNTS

INF, NAN = float("inf"), float("nan")
SHAPES = ((1,), (7,), (256,), (257,), (2000,), (5, 4), (40, 300), (3, 5, 18), (2, 300, 40))


def _compiled(dim):
    return tj.compile(lambda x: tj.logcumsumexp(x, dim), strict=True)


def _numbers(shape, dtype, scale=3.0):
    rng = np.random.default_rng(len(shape) + shape[-1])
    return tj.from_numpy(rng.standard_normal(shape) * scale).to(getattr(tj, dtype))


def _layouts(x):
    yield x
    if x.ndim > 1:
        yield x.permute(*range(x.ndim)[::-1])
        yield x[:1].expand(3, *x.shape[1:])
    yield x[::3]


@pytest.mark.sampled(24)
@pytest.mark.filterwarnings("error::tracejit.errors.CompileWarning")
@pytest.mark.parametrize(
    ("dtype", "unit"), [("float32", 2**-24), ("float64", 2**-53), ("float16", 2**-11)]
)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_layout_is_accurate(shape, dtype, unit):
    """To a few places of the largest number that takes part; roundings of double precision add up."""
    for x in _layouts(_numbers(shape, dtype)):
        for dim in range(x.ndim):
            compiled = _compiled(dim)
            want = np.logaddexp.accumulate(x.numpy().astype(np.longdouble), axis=dim)
            scale = np.maximum.accumulate(np.abs(x.numpy().astype(np.float64)), axis=dim)
            roundings = 4 * np.sqrt(x.shape[dim]) if dtype == "float64" else 4
            bound = roundings * unit * (1 + scale + np.abs(want))
            for found in (tj.logcumsumexp(x, dim), compiled(x), compiled(x)):
                assert found.spec.dtype is x.dtype
                assert (np.abs(found.numpy().astype(np.longdouble) - want) <= bound).all()
            assert not host_ops(compiled)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("across", [False, True])
def test_special_values(dtype, across):
    """A row of each; the infinities and NaN of PyTorch, which are those of `numpy.logaddexp`."""
    rows = [
        [-0.0, -INF, -INF, -INF, 1.0],
        [-INF, -0.0, -INF, 0.0, -INF],
        [-INF, -INF, -INF, -INF, -INF],
        [INF, INF, 1.0, -INF, INF],
        [-INF, INF, -INF, 3.0, INF],
        [INF, -INF, NAN, 1.0, INF],
        [NAN, -INF, INF, 0.0, NAN],
        [0.0, 1000.0, -1000.0, 2000.0, 2000.0],
        [-800.0, 0.0, 700.0, 700.0, -INF],
        [1e-30, -1e-30, 60000.0, 60000.0, 0.0],
    ]
    x = tj.tensor(rows * 4, dtype=getattr(tj, dtype))  # enough for rows to be walked together
    x, dim = (x.T.contiguous(), 0) if across else (x, 1)
    compiled = _compiled(dim)
    with np.errstate(invalid="ignore"):
        want = np.logaddexp.accumulate(x.float().numpy().astype(np.float64), axis=dim)
    found = (tj.logcumsumexp(x, dim), compiled(x), compiled(x))
    for result in found:
        numbers = result.double().numpy()
        np.testing.assert_allclose(numbers, want, {2: 1e-2}.get(x.dtype.itemsize, 1e-6))
        np.testing.assert_array_equal(np.signbit(numbers[want == 0]), np.signbit(want[want == 0]))


@pytest.mark.parametrize("dim", [0, 1])
def test_results_do_not_depend_on_threads(dim):
    x, results = _numbers((300, 700), "float32"), []
    for threads in (1, 2, 3):
        with pool_of(threads):
            compiled = _compiled(dim)
            compiled(x)
            results.append(compiled(x).numpy())
    for other in results[1:]:
        assert_same_bits(other, results[0])


def test_long_rows_lose_nothing():
    """A million equal terms: the sum is counted in double precision."""
    x, compiled = tj.zeros(1_000_000), _compiled(0)
    want = np.log(np.arange(1, 1_000_001))
    for found in (tj.logcumsumexp(x, 0), compiled(x), compiled(x)):
        np.testing.assert_allclose(found.numpy(), want, 3e-7)


@pytest.mark.parametrize("dim", [0, 1])
def test_gradients(dim):
    def f(x):
        return (tj.logcumsumexp(x, dim) * x.cos()).sum()

    compiled, values = tj.compile(f, strict=True), _numbers((20, 30), "float32")
    for _ in range(2):
        grads = []
        for function in (f, compiled):
            x = values.clone().requires_grad_()
            function(x).backward()
            grads.append(x.grad.numpy())
        np.testing.assert_allclose(*grads, 1e-4, 1e-5)


def test_no_rows_and_no_dimension():
    compiled = _compiled(0)
    for x in (tj.zeros(0), tj.zeros(3, 0), tj.zeros(0, 3), tj.tensor(2.0)):
        for found in (tj.logcumsumexp(x, 0), compiled(x), compiled(x)):
            assert found.spec == x.spec
            assert found.tolist() == x.tolist()


def test_new_sizes_need_no_new_kernels():
    compiled = tj.compile(
        lambda x: (tj.logcumsumexp(x, 0), tj.logcumsumexp(x, 1)), strict=True, dynamic=True
    )
    for size in (50, 60):
        for _ in range(2):
            compiled(tj.ones(size, 7 * size))
    before = COUNTS.compiled + COUNTS.loaded
    for size in (70, 83):
        for _ in range(2):
            for found in compiled(tj.ones(size, 7 * size)):
                assert found[0, 0].item() == 1.0
    assert COUNTS.compiled + COUNTS.loaded == before


def test_inside_a_loop_that_is_rolled():
    def f(x):
        for _ in range(20):
            x = tj.logcumsumexp(x, 1) * 0.1 + x
        return x

    compiled, x = tj.compile(f, strict=True), _numbers((6, 40), "float32")
    for _ in range(3):
        found = compiled(x)
    np.testing.assert_allclose(found.numpy(), f(x).numpy(), 1e-5, 1e-5)
    assert not host_ops(compiled)


def _weighted(a, x, top, dim, after):
    """The sums by their definition, in long double precision: element by element, each with all others."""
    a, x, top = (np.moveaxis(v.double().numpy().astype(np.longdouble), dim, 0) for v in (a, x, top))
    found = np.zeros_like(x)
    for i in range(len(x)):
        for j in range(i, len(x)) if after else range(i + 1):
            low, high = (i, j) if after else (j, i)
            weight = np.where(x[low] == -INF, 0, np.exp(x[low] - top[high]))
            found[i] += weight * a[j]
    return np.moveaxis(found, 0, dim)


@pytest.mark.sampled(24)
@pytest.mark.filterwarnings("error::tracejit.errors.CompileWarning")
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("op", [sums_after, sums_before], ids=lambda op: op.name)
@pytest.mark.parametrize("shape", [(1,), (7,), (257,), (300, 3), (3, 5, 18)], ids=str)
def test_sums_weighted_by_exponentials(shape, op, dtype):
    """What gradients of running logarithms are made of: one kernel, in any layout."""
    tolerance = {"float32": 2e-5, "float64": 1e-12, "float16": 2e-2}[dtype]
    for x in _layouts(_numbers(shape, dtype)):
        a = _numbers(x.shape, dtype, 1.0)
        for dim in range(x.ndim):
            top = tj.logcumsumexp(x, dim)
            compiled = tj.compile(lambda a, x, top, dim=dim: op(a, x, top, dim=dim), strict=True)
            want = _weighted(a, x, top, dim, op is sums_after).astype(np.float64)
            scale = _weighted(a.abs(), x, top, dim, op is sums_after).astype(np.float64)
            for found in (op(a, x, top, dim=dim), compiled(a, x, top), compiled(a, x, top)):
                assert found.spec == x.spec
                assert (np.abs(found.double().numpy() - want) <= tolerance * (scale + 1)).all()
            assert not host_ops(compiled)


@pytest.mark.parametrize("op", [sums_after, sums_before], ids=lambda op: op.name)
def test_weighted_sums_of_special_values(op):
    rows = [
        [-INF, -INF, 0.0, 1.0, -INF],
        [-INF, -INF, -INF, -INF, -INF],
        [0.0, -1000.0, 1000.0, 2000.0, -INF],
        [0.0, 1.0, NAN, 1.0, 2.0],
        [1.0, INF, 0.0, INF, 2.0],
    ]
    x, a = tj.tensor(rows), tj.tensor([1.0, -0.0, NAN, INF, -2.0]).expand(5, 5)
    compiled = tj.compile(lambda a, x, top: op(a, x, top, dim=1), strict=True)
    for weights in (a, tj.ones(5, 5), -tj.ones(5, 5)):
        top = tj.logcumsumexp(x, 1)
        want = op(weights, x, top, dim=1)
        for _ in range(2):
            np.testing.assert_allclose(
                compiled(weights, x, top).numpy(), want.numpy(), 1e-6, equal_nan=True
            )
        double = op(weights.double(), x.double(), top.double(), dim=1)  # one element after another
        np.testing.assert_allclose(want.numpy(), double.numpy(), 1e-6, equal_nan=True)


def test_gradients_of_gradients():
    def f(x):
        y = tj.logcumsumexp(x, 0)
        (g,) = tj.autograd.grad((y * y).sum(), x, create_graph=True)
        return (g * g).sum()

    x = _numbers((9, 3), "float64").requires_grad_()
    assert tj.autograd.gradcheck(f, (x,))
    values, compiled = _numbers((40, 3), "float32"), tj.compile(f)
    for _ in range(3):
        grads = []
        for function in (f, compiled):
            x = values.clone().requires_grad_()
            function(x).backward()
            grads.append(x.grad.numpy())
        np.testing.assert_allclose(*grads, 1e-3, 1e-3)
