"""Pooling written out: the same bits as eager execution, in kernels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tracejit as tj
import tracejit.nn.functional as F
from tracejit import dtypes
from tracejit.ir import run, verify
from tracejit.ir.builder import Builder
from tracejit.ops.table import lookup
from tracejit.ops.windows import Windows
from tracejit.passes.windows.pooling import ALL_RULES, pooling
from tracejit.runtime.plan.plan import HostCall, make_plan
from tracejit.runtime.program import Program
from tracejit.types import TensorType

DTYPES = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8")


def numbers_of(rng, shape, dtype, special):
    """Few different numbers, so that there are ties; now and then zeros of both signs, nan and infinities."""
    array = rng.integers(0 if dtype == "uint8" else -3, 4, shape)
    array = array.astype(getattr(dtypes, dtype).np)
    if special and getattr(dtypes, dtype).is_floating_point and array.size:
        places = rng.integers(0, array.size, 6)
        array.reshape(-1)[places] = [np.nan, -0.0, np.inf, -np.inf, np.nan, 0.0]
    return array


def graph_of(name, windows, size, lead, dtype):
    kind, counts = getattr(dtypes, dtype), windows.counts(size)
    builder = Builder("f")
    over, pooled = TensorType((*lead, *size), kind), TensorType((*lead, *counts), kind)
    laid = TensorType((*lead, *windows.kernel, *counts), kind)
    number = TensorType(
        pooled.shape, dtypes.uint8 if np.prod(windows.kernel) <= 256 else dtypes.int32
    )
    kinds = {
        "pick_windows": (over, number),
        "put_windows": (pooled, number),
        "spread_windows": (pooled,),
        "fold_windows": (laid,),
    }.get(name, (over,))
    inputs = [builder.input(n, k) for n, k in zip("xy", kinds, strict=False)]
    attributes = windows._asdict()
    if name in ("put_windows", "spread_windows", "fold_windows"):
        attributes["size"] = size
    return builder.finish([builder.emit(lookup(name), tuple(inputs), attributes)])


def arrays_of(graph, windows, rng, dtype, special):
    found = [numbers_of(rng, graph.inputs[0].spec.shape, dtype, special)]
    for value in graph.inputs[1:]:
        numbers = rng.integers(0, int(np.prod(windows.kernel)), value.spec.shape)
        found.append(numbers.astype(value.spec.dtype.np))
    return found


def same(a, b):
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    nan = (a != a) & (b != b)
    bits = f"u{a.dtype.itemsize}"
    assert (nan | (a.view(bits) == b.view(bits))).all()


def check(name, windows, size, lead, dtype, special, seed=0):
    """The pass's graph, interpreted and compiled, against the op's own body."""
    graph = graph_of(name, windows, size, lead, dtype)
    found = verify(pooling(graph))
    assert not any(v.op.name in ALL_RULES for v in found.values)
    arrays = arrays_of(graph, windows, np.random.default_rng(seed), dtype, special)
    with np.errstate(all="ignore"):
        (want,), (have,) = run(graph, arrays), run(found, arrays)
    same(np.asarray(have), np.asarray(want))
    plan = make_plan(found, [v.spec.contiguous_strides() for v in found.inputs])
    assert not any(isinstance(i, HostCall) for i in plan.items)
    (block,) = Program(plan).run(*map(tj.from_numpy, arrays))
    same(np.ndarray(want.shape, want.dtype, block.array), np.asarray(want))


@st.composite
def layouts(draw):
    rank = draw(st.integers(1, 2))
    kernel, stride, dilation = (
        tuple(draw(st.lists(st.integers(1, high), min_size=rank, max_size=rank)))
        for high in (3, 3, 2)
    )
    pads = st.tuples(st.integers(0, 2), st.integers(-1, 2))
    padding = tuple(draw(st.lists(pads, min_size=rank, max_size=rank)))
    windows = Windows(kernel, stride, padding, dilation)
    fit = [max(1, n) for n in windows.sizes(tuple(draw(st.integers(1, 4)) for _ in range(rank)))]
    size = tuple(n + draw(st.integers(0, s - 1)) for n, s in zip(fit, stride, strict=True))
    assume(all(n > 0 for n in windows.counts(size)))
    return windows, size


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", sorted(ALL_RULES))
@settings(max_examples=12, deadline=None)
@given(
    layout=layouts(), dtype=st.sampled_from(DTYPES), special=st.booleans(), seed=st.integers(0, 9)
)
def test_the_same_bits(name, layout, dtype, special, seed):
    windows, size = layout
    check(name, windows, size, (2,), dtype, special, seed)


SOLID = Windows((2, 1, 3), (2, 1, 2), ((0, 0), (0, 0), (1, 1)), (1, 1, 1))
LARGE = Windows((5, 7), (5, 7), ((0, 0), (0, 0)), (1, 1))
WIDE = Windows((6, 6), (1, 2), ((2, 2), (3, 3)), (1, 1))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", sorted(ALL_RULES))
@pytest.mark.parametrize(
    ("windows", "size"), [(SOLID, (5, 3, 8)), (LARGE, (10, 15)), (WIDE, (9, 20))]
)
def test_three_dimensions_and_large_kernels(name, windows, size):
    check(name, windows, size, (1, 2), "float32", True)


POOLS = {
    "max": lambda x: F.max_pool2d(x, 2),
    "max_overlapping": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max_ceil": lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True),
    "max_dilated": lambda x: F.max_pool1d(x.flatten(1), 2, 3, 1, 2),
    "indices": lambda x: F.max_pool2d(x, 2, return_indices=True)[0] * 1.5,
    "mean": lambda x: F.avg_pool2d(x, 2),
    "mean_overlapping": lambda x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False),
    "mean_ceil": lambda x: F.avg_pool2d(x, 2, 2, ceil_mode=True),
    "power": lambda x: F.lp_pool2d(x.abs() + 0.5, 2, 2),
    "everything": lambda x: F.adaptive_max_pool2d(x, 1),
    "space": lambda x: F.max_pool3d(x, (1, 2, 2)),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", POOLS)
def test_compiled_with_gradients_at_several_sizes(name):
    pool = POOLS[name]
    compiled = tj.compile(pool, strict=True)
    rng = np.random.default_rng(0)
    for size in (6, 7, 9, 12, 6):
        array = rng.integers(-4, 5, (2, 3, size, size + 1)).astype(np.float32)
        results, seed = [], None
        for function in (pool, compiled, compiled):
            x = tj.from_numpy(array.copy()).requires_grad_()
            result = function(x)
            if seed is None:
                seed = rng.standard_normal(result.shape).astype(np.float32)
            result.backward(tj.from_numpy(seed))
            results.append((result.detach().numpy(), x.grad.numpy()))
        for have in results[1:]:
            for a, b in zip(have, results[0], strict=True):
                np.testing.assert_allclose(a, b, 1e-6, 1e-6)
    programs = [p for entry in compiled._all() for p in entry.programs()]
    called = {i.op.name for p in programs for i in p.plan.items if isinstance(i, HostCall)}
    assert not any(name.endswith("_windows") for name in called)


def test_positions_are_found_in_kernels():
    def function(x):
        return F.max_pool2d(x, (3, 2), 2, 1, return_indices=True)

    compiled = tj.compile(function, strict=True)
    for size in (8, 9):
        x = tj.randn(2, 3, size, size)
        for _ in range(2):
            for a, b in zip(compiled(x), function(x), strict=True):
                assert np.array_equal(a.numpy(), b.numpy())
    programs = [p for entry in compiled._all() for p in entry.programs()]
    assert not any(isinstance(i, HostCall) for p in programs for i in p.plan.items)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("name", ["max_windows", "argmax_windows", "put_windows"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [(9, 15), (300,)])
def test_windows_that_are_everything(name, dtype, size, special):
    rank = len(size)
    windows = Windows(size, size, ((0, 0),) * rank, (1,) * rank)
    for seed in range(2):
        check(name, windows, size, (2, 3), dtype, special, seed)
